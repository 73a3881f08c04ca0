"""Moves the accepted rows of a block to its front, in every layer at once, in Triton: one launch for the whole cache.

Each program owns some values of one head of one layer and moves the rows one after the other, in the order of the text. Rows
only move to the front and ascend, so no row is overwritten before it is read.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _kernel(cache_ptr, rows_ptr, n_kept_ptr, start_ptr, slot, slots, kv_heads, cells, head: tl.constexpr):
    """cache [layers * 2, slots, kv_heads, cells, head]; one program a head."""
    one, kv_head = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, head)
    base = ((one.to(tl.int64) * slots + slot) * kv_heads + kv_head) * cells + tl.load(start_ptr)
    for to in range(tl.load(n_kept_ptr)):
        row = tl.load(rows_ptr + to)
        value = tl.load(cache_ptr + (base + row) * head + d)
        tl.store(cache_ptr + (base + to) * head + d, value)


def compact(cache: Tensor, slot: int, start: Tensor, rows: Tensor, n_kept: Tensor) -> None:
    """As `reference.compact`, with everything that a step decides on the device, so that the host need not know it.

    cache: [layers, 2, slots, kv_heads, cells, head], contiguous, head a power of two. start, n_kept: int32 [1]. rows: int32,
    ascending, of which the first `n_kept` count.
    """
    layers, two, slots, kv_heads, cells, head = cache.shape
    assert cache.is_contiguous()
    assert rows.dtype == start.dtype == n_kept.dtype == torch.int32
    _kernel[(layers * two, kv_heads)](cache, rows, n_kept, start, slot, slots, kv_heads, cells, head=head, num_warps=1)
