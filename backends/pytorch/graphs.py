"""Forward passes of one slot as CUDA graphs: one for each number of rows, captured when it is first needed.

A captured graph reads where the block begins, who sees whom and which ids there are from the same memory each time, so a step
copies a few hundred bytes, launches once, and reads the rows of logits back: the one synchronisation of the step. Numbers of
rows are rounded up to `SIZES`; rows that are only there for that see nothing but themselves, and what they write into cells
behind the block counts for nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from pardec_chat.backends.base import MAX_NODES, MAX_PROBES, depths
from pardec_chat.backends.pytorch.cache import Cache
from pardec_chat.backends.pytorch.decoder import Decoder
from pardec_chat.kernels.tree_attention.reference import ancestors

#: Rows that a graph is captured for.
SIZES: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 33, 48, 64, 96, 1 + MAX_NODES + MAX_PROBES)


@dataclass(frozen=True, slots=True)
class DeviceBlock:
    """A block whose place is known to the device alone; stands for `cache.Block` in a captured pass.

    start: int32 [1]. mask: uint8 [rows, rows], who sees whom. depths: int32 [rows], of each row behind cell `start`.
    """

    slot: int
    rows: slice
    start: Tensor
    mask: Tensor
    depths: Tensor
    window: int

    def attend(
        self, layer: int, cache: Cache, q: Tensor, kv: Tensor, scale: float, softcap: float, *, windowed: bool
    ) -> Tensor:
        """See `cache.Block`."""
        from pardec_chat.kernels.tree_attention import triton as kernel

        place = cache.data[layer, :, self.slot]
        cells = self.start + torch.arange(len(q), device=q.device)
        place.index_copy_(2, cells, kv.permute(1, 2, 0, 3))
        keys, values = place.unbind(0)
        window = self.window if windowed else 0
        return kernel.attend(q, keys, values, self.mask, self.start, self.depths, scale, softcap=softcap, window=window)


class _Pass:
    """The inputs of a pass of so many rows in one slot, in memory that stays, and the pass itself."""

    def __init__(self, decoder: Decoder, cache: Cache, slot: int, rows: int, *, capture: bool) -> None:
        device = decoder.device
        self._tokens = torch.zeros(rows, dtype=torch.int64, device=device)
        self._positions = torch.zeros(rows, dtype=torch.int64, device=device)
        self._block = DeviceBlock(
            slot=slot,
            rows=slice(0, rows),
            start=torch.zeros(1, dtype=torch.int32, device=device),
            mask=torch.eye(rows, dtype=torch.uint8, device=device),
            depths=torch.zeros(rows, dtype=torch.int32, device=device),
            window=decoder.spec.window,
        )
        self._wanted = torch.arange(rows, device=device)
        self._decoder, self._cache = decoder, cache
        self._graph: Any = None
        if capture:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # kernels are compiled and chosen before the capture
                for _ in range(2):
                    self._run()
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._logits = self._run()

    def _run(self) -> Tensor:
        blocks = [self._block]
        return self._decoder.forward(self._tokens, self._positions, blocks, self._cache, self._wanted)[0]

    def __call__(self, tokens: Sequence[int], parents: Sequence[int], start: int) -> Tensor:
        n, rows = len(tokens), len(self._tokens)
        behind = [0, *depths(parents)]
        # One small copy each; they are queued and nobody waits for them.
        self._tokens[:n].copy_(torch.tensor(tokens), non_blocking=True)
        depth = torch.tensor([*behind, *[0] * (rows - n)], dtype=torch.int32)
        self._block.depths.copy_(depth, non_blocking=True)
        self._positions.copy_(start + depth.long(), non_blocking=True)
        mask = torch.eye(rows, dtype=torch.uint8)
        mask[:n, :n] = ancestors(parents).to(torch.uint8)
        self._block.mask.copy_(mask, non_blocking=True)
        self._block.start.fill_(start)
        if self._graph is None:
            return self._run()[:n]
        self._graph.replay()
        return self._logits[:n]


class Graphs:
    """Passes by slot and number of rows. capture: False runs them kernel by kernel, for tests."""

    def __init__(self, decoder: Decoder, cache: Cache, *, capture: bool = True) -> None:
        self._decoder, self._cache, self._capture = decoder, cache, capture
        self._passes: dict[tuple[int, int], _Pass] = {}

    def run(self, slot: int, tokens: Sequence[int], parents: Sequence[int], start: int) -> Tensor:
        """Logits of the last committed token and of the nodes behind it, [rows, V]; valid until the next run.

        tokens: of those rows; parents: of the nodes alone. Their cells are written.
        """
        size = SIZES[bisect_left(SIZES, len(tokens))]
        key = (slot, size)
        if key not in self._passes:
            self._passes[key] = _Pass(self._decoder, self._cache, slot, size, capture=self._capture)
        return self._passes[key](tokens, parents, start)


def suits(decoder: Decoder) -> bool:
    """Whether the kernels take the model's heads: powers of two, from 16 values on."""
    head = decoder.spec.head
    return head >= 16 and head & (head - 1) == 0
