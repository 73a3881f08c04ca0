"""Attention of a block of tree rows over a long cache, split over the cache's length, in Triton.

A few rows over thousands of cells: one program a head would leave a GPU idle, so the cells are divided among programs and
their partial results put together afterwards (Flash-Decoding, Dao et al. 2023). The heads that share keys and values are
rows of one product, so that the cache is read once. Where the block begins is read from memory, not given as a number: a
captured graph stays right while the conversation grows.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Programs that the cells of one head are divided among.
SPLITS: Final = 16


@triton.jit
def _partial(
    q_ptr,
    k_ptr,
    v_ptr,
    mask_ptr,
    start_ptr,
    depths_ptr,
    out_ptr,
    peak_ptr,
    total_ptr,
    scale,
    softcap,
    window,
    n_rows,
    n_stacked,
    kv_stride,
    heads: tl.constexpr,
    groups: tl.constexpr,
    head: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    splits: tl.constexpr,
):
    """One kv head, some of its stacked rows, one share of the cells: unnormalised output, peak and total of each row.

    Stacked row r is head r // n_rows of the group in row r % n_rows of the block.
    """
    kv_head, split = tl.program_id(0), tl.program_id(1)
    r = tl.program_id(2) * block_m + tl.arange(0, block_m)
    is_row = r < n_stacked
    row, query_head = r % n_rows, kv_head * groups + r // n_rows
    d = tl.arange(0, head)
    start = tl.load(start_ptr)
    n_cells = start + n_rows
    q = tl.load(q_ptr + (row * heads + query_head)[:, None] * head + d[None, :], mask=is_row[:, None], other=0.0)
    position = start + tl.load(depths_ptr + row, mask=is_row, other=0)
    peak = tl.full((block_m,), float("-inf"), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    acc = tl.zeros((block_m, head), tl.float32)
    share = tl.cdiv(tl.cdiv(n_cells, splits), block_n) * block_n
    begin = split * share
    # Only the way to a head of the cache needs 64 bits.
    k_ptr += kv_head.to(tl.int64) * kv_stride
    v_ptr += kv_head.to(tl.int64) * kv_stride
    for first in range(begin, tl.minimum(begin + share, n_cells), block_n):
        cell = first + tl.arange(0, block_n)
        is_cell = cell < n_cells
        at = cell[:, None] * head + d[None, :]
        k = tl.load(k_ptr + at, mask=is_cell[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if softcap > 0.0:
            bent = tl.exp(2.0 * scores / softcap)
            scores = softcap * (1.0 - 2.0 / (bent + 1.0))
        inside = cell - start
        in_block = (inside >= 0) & is_cell
        own = tl.load(
            mask_ptr + row[:, None] * n_rows + inside[None, :], mask=is_row[:, None] & in_block[None, :], other=0
        )
        sees = is_cell[None, :] & ((inside < 0)[None, :] | (own != 0))
        if window > 0:
            behind = tl.load(depths_ptr + inside, mask=in_block, other=0)
            cell_position = tl.where(inside < 0, cell, start + behind)
            sees = sees & (position[:, None] - cell_position[None, :] < window)
        scores = tl.where(sees, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        # A row that has seen nothing yet has no peak to compare with.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp(scores - base[:, None])
        shrink = tl.exp(peak - base)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + at, mask=is_cell[:, None], other=0.0)
        acc = acc * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        peak = higher
    place = (kv_head * splits + split) * n_stacked + r
    tl.store(out_ptr + place[:, None] * head + d[None, :], acc, mask=is_row[:, None])
    tl.store(peak_ptr + place, peak, mask=is_row)
    tl.store(total_ptr + place, total, mask=is_row)


@triton.jit
def _together(
    part_ptr,
    peak_ptr,
    total_ptr,
    out_ptr,
    n_rows,
    n_stacked,
    heads: tl.constexpr,
    groups: tl.constexpr,
    head: tl.constexpr,
    splits: tl.constexpr,
):
    """One row of one query head: its shares, weighted by what each saw."""
    kv_head, r = tl.program_id(0), tl.program_id(1)
    s, d = tl.arange(0, splits), tl.arange(0, head)
    place = (kv_head * splits + s) * n_stacked + r
    peak = tl.load(peak_ptr + place)
    weight = tl.exp(peak - tl.max(peak, axis=0))
    parts = tl.load(part_ptr + place[:, None] * head + d[None, :])
    total = tl.sum(tl.load(total_ptr + place) * weight, axis=0)
    row = tl.sum(parts * weight[:, None], axis=0) / total
    out = out_ptr + ((r % n_rows) * heads + kv_head * groups + r // n_rows) * head + d
    tl.store(out, row.to(out_ptr.dtype.element_ty))


def constants(stacked: int, head: int) -> dict[str, int]:
    """Rows and cells that a program looks at together, and its warps: as many as fit into registers.

    stacked: rows of the block times heads of a group. head: values of a head. The tensor cores take 16 rows at least.
    """
    block_m = min(64, max(16, triton.next_power_of_2(stacked)))
    return {
        "block_m": block_m,
        "block_n": 64 if head <= 64 else 32,
        "num_warps": 8 if block_m == 64 else 4,
        "num_stages": 2,
    }


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    start: Tensor,
    depths: Tensor,
    scale: float,
    *,
    softcap: float = 0.0,
    window: int = 0,
) -> Tensor:
    """Attention of a block with grouped heads, [rows, heads, head], as `reference.attend` with `reference.visible`.

    q: [rows, heads, head]. k, v: a slot's part of the cache, [kv_heads, cells, head], the block's own cells written.
    mask: which of the block's rows each row sees, uint8 [rows, rows]. start: cells before the block, int32 [1], on the device.
    depths: of each row behind cell `start`, int32 [rows].
    """
    rows, heads, head = q.shape
    kv_heads = k.shape[0]
    groups = heads // kv_heads
    stacked = rows * groups
    chosen = constants(stacked, head)
    part = torch.empty(kv_heads, SPLITS, stacked, head, dtype=torch.float32, device=q.device)
    peak = torch.empty(kv_heads, SPLITS, stacked, dtype=torch.float32, device=q.device)
    total = torch.empty_like(peak)
    out = torch.empty(rows, heads, head, dtype=q.dtype, device=q.device)
    shape = {"heads": heads, "groups": groups, "head": head, "splits": SPLITS}
    _partial[(kv_heads, SPLITS, triton.cdiv(stacked, chosen["block_m"]))](
        q.contiguous(),
        k,
        v,
        mask,
        start,
        depths,
        part,
        peak,
        total,
        scale,
        softcap,
        window,
        rows,
        stacked,
        k.stride(0),
        **shape,
        **chosen,
    )
    _together[(kv_heads, stacked)](part, peak, total, out, rows, stacked, **shape, num_warps=2)
    return out
