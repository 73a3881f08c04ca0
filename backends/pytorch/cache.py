"""Keys and values of all slots, in one tensor that is made once: cells are written in place and never move by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pardec_chat.backends.base import Draft, depths
from pardec_chat.backends.pytorch.spec import Spec
from pardec_chat.kernels.kv_compact.reference import compact
from pardec_chat.kernels.tree_attention.reference import ancestors, attend, visible


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one slot in a forward pass, which go into its cells from `start` on.

    rows: which of the pass's rows they are. mask: what each row sees of cache and block, bool [rows, start + rows]; None for
    all of it. windowed_mask: the same for layers that look back `window` positions, from cell `first_seen` on.
    """

    slot: int
    start: int
    rows: slice
    mask: Tensor | None
    windowed_mask: Tensor | None
    first_seen: int = 0

    def attend(
        self, layer: int, cache: Cache, q: Tensor, k: Tensor, v: Tensor, scale: float, softcap: float, *, windowed: bool
    ) -> Tensor:
        """Write the block's keys and values [rows, kv_heads, head] into its cells and attend with q [rows, heads, head]."""
        keys, values = cache.write(layer, self, k, v)
        mask, first = (self.windowed_mask, self.first_seen) if windowed else (self.mask, 0)
        return attend(q, keys[:, first:], values[:, first:], mask, scale, softcap)


class Cache:
    """Shape [layers, 2, slots, kv_heads, cells, head]. cells: of each slot, rows of the largest block included."""

    def __init__(self, spec: Spec, slots: int, cells: int, dtype: torch.dtype, device: torch.device) -> None:
        shape = (spec.layers, 2, slots, spec.kv_heads, cells, spec.head)
        self.data = torch.zeros(shape, dtype=dtype, device=device)
        self._window = spec.window if any(spec.windowed) else 0

    def write(self, layer: int, block: Block, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Put a block's keys and values [rows, kv_heads, head] in place; gives those of cache and block together."""
        end = block.start + len(k)
        keys, values = self.data[layer, 0, block.slot], self.data[layer, 1, block.slot]
        keys[:, block.start : end] = k.transpose(0, 1)
        values[:, block.start : end] = v.transpose(0, 1)
        return keys[:, :end], values[:, :end]

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
        mask = visible(start, among, behind)
        windowed, seen = None, 0
        if self._window:
            seen = max(0, start + 1 - self._window)
            windowed = visible(start, among, behind, self._window)[:, seen:]
        return Block(slot, start + before, slice(first_row, first_row + rows), mask, windowed, seen)

    def keep(self, slot: int, start: int, rows: Sequence[int]) -> None:
        """Of the block at `start` keep `rows`, ascending."""
        compact(self.data, slot, start, rows)

    def copy(self, source: int, to: int, cells: int) -> None:
        """The first `cells` of one slot into another."""
        self.data[:, :, to, :, :cells] = self.data[:, :, source, :, :cells]
