"""Keys and values of all slots, in one tensor that is made once: cells are written in place and never move by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pardec_chat.backends.base import Draft, depths
from pardec_chat.backends.pytorch.spec import Spec
from pardec_chat.kernels.kv_compact.reference import compact
from pardec_chat.kernels.tree_attention.reference import ancestors, attend_by_head, bars, visible


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one slot in a forward pass, which go into its cells from `start` on.

    rows: which of the pass's rows they are. barred: of cache and block what rows do not see, [groups * rows, start + rows] as
    `bars` gives it; None for nothing. windowed_barred: the same for layers that look back `window` positions, from cell
    `first_seen` on.
    """

    slot: int
    start: int
    rows: slice
    barred: Tensor | None
    windowed_barred: Tensor | None
    first_seen: int = 0

    def attend(
        self, layer: int, cache: Cache, q: Tensor, kv: Tensor, scale: float, softcap: float, *, windowed: bool
    ) -> Tensor:
        """Attend with q [rows, heads, head] once the block's cells hold its keys and values [rows, 2, kv_heads, head]."""
        cells = cache.cells(layer, self.slot, self.start, len(kv))
        cells.copy_(kv.permute(1, 2, 0, 3))
        return self.look(layer, cache, q.transpose(0, 1), scale, softcap, windowed=windowed)

    def look(self, layer: int, cache: Cache, q: Tensor, scale: float, softcap: float, *, windowed: bool) -> Tensor:
        """Attend with q [heads, rows, head]; the block's cells hold its keys and values already. Gives [rows, heads, head]."""
        barred, first = (self.windowed_barred, self.first_seen) if windowed else (self.barred, 0)
        n = self.start + q.shape[1] - first
        keys, values = cache.cells(layer, self.slot, first, n).unbind(0)
        return attend_by_head(q, keys, values, barred, scale, softcap)


class Cache:
    """Shape [layers, 2, slots, kv_heads, cells, head]. cells: of each slot, rows of the largest block included."""

    def __init__(self, spec: Spec, slots: int, cells: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (spec.layers, 2, slots, spec.kv_heads, cells, spec.head)
        self.data = torch.zeros(shape, dtype=dtype, device=device)
        # Views [2, kv_heads, cells, head], by layer and slot.
        self._places = [layer.unbind(1) for layer in self.data]
        self._groups = spec.heads // spec.kv_heads
        self._window = spec.window if any(spec.windowed) else 0

    def cells(self, layer: int, slot: int, start: int, n: int) -> Tensor:
        """Keys and values of `n` cells from `start` on, [2, kv_heads, n, head], to read or to write."""
        found: Tensor = self._places[layer][slot].narrow(2, start, n)
        return found

    def chain(self, slot: int, start: int, first_row: int, n: int) -> Block:
        """A block of `n` rows that follow one another."""
        if n == 1:
            seen = max(0, start + 1 - self._window) if self._window else 0
            return Block(slot, start, slice(first_row, first_row + 1), None, None, seen)
        return self._block(slot, start, first_row, range(-1, n - 2))

    def tree(self, slot: int, start: int, first_row: int, draft: Draft) -> Block:
        """A block of the last committed token, the draft and its probes."""
        if draft.is_chain and not draft.probes:
            return self.chain(slot, start, first_row, len(draft) + 1)
        return self._block(slot, start, first_row, draft.all_parents)

    def _block(self, slot: int, start: int, first_row: int, parents: Sequence[int]) -> Block:
        device = self.data.device
        n = len(parents) + 1
        is_chain = all(parent == node - 1 for node, parent in enumerate(parents))
        among = torch.ones(n, n, dtype=torch.bool, device=device).tril() if is_chain else ancestors(parents, device)
        return self._masked(slot, start, first_row, among, [0, *depths(parents)])

    def level(self, slot: int, start: int, parents: Sequence[int], n: int) -> Block:
        """The last `n` nodes of a tree that is evaluated a level at a time, behind the cells 0…start.

        parents: of all nodes so far, -1 for the cell before `start`; the others are in their cells already.
        """
        among = ancestors(parents, self.data.device)[1:, 1:]
        return self._masked(slot, start, 0, among[-n:], [depth - 1 for depth in depths(parents)])

    def _masked(self, slot: int, start: int, first_row: int, among: Tensor, depth: Sequence[int]) -> Block:
        """Rows that see all cells before `start`, and of the nodes behind it what `among` says."""
        rows, before = len(among), among.shape[1] - len(among)
        behind = torch.tensor(depth, device=self.data.device)
        barred = bars(visible(start, among, behind), self._groups, self.data.dtype)
        windowed, seen = None, 0
        if self._window:
            seen = max(0, start + 1 - self._window)
            windowed = bars(visible(start, among, behind, self._window)[:, seen:], self._groups, self.data.dtype)
        return Block(slot, start + before, slice(first_row, first_row + rows), barred, windowed, seen)

    def keep(self, slot: int, start: int, rows: Sequence[int]) -> None:
        """Of the block at `start` keep `rows`, ascending."""
        compact(self.data, slot, start, rows)

    def copy(self, source: int, to: int, cells: int) -> None:
        """The first `cells` of one slot into another."""
        self.data[:, :, to, :, :cells] = self.data[:, :, source, :, :cells]
