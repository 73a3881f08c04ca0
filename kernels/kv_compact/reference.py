"""Moves the accepted rows of a block to the front of it, in every layer of a cache at once: plain torch, any device.

before    … cells │ last  a  b  c  d       a and d were accepted: rows 0 (the last committed token), 1 and 4
after     … cells │ last  a  d  c  d       the cache ends behind the third; what is behind it counts for nothing
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def compact(cache: Tensor, slot: int, start: int, rows: Sequence[int]) -> None:
    """Let cells start, start + 1, … of a slot hold what the block's `rows` hold now; in place.

    cache: [layers, 2, slots, kv_heads, cells, head]. rows: ascending, so that nothing is overwritten before it is read.
    """
    for to, row in enumerate(rows):
        if row != to:
            cache[:, :, slot, :, start + to] = cache[:, :, slot, :, start + row]
