"""Rows of activations times a matrix that stays in the block formats of GGUF files, in Triton.

Decoding reads each weight once a pass, so what counts is bytes: a program takes a few rows of the matrix, unpacks a block of
each into registers, and multiplies it with up to 32 rows of activations at once on the tensor cores. One row and eight rows
read the same bytes, which is why checking a draft costs little more than a single step.
"""

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

#: ggml's number of each format → (values of a step, bytes of a step): what the inner loop takes at once.
STEPS: Final = {2: (32, 18), 8: (32, 34), 12: (256, 144), 13: (256, 176), 14: (256, 210)}


@triton.jit
def _half(ptr, mask):
    """A little-endian 16-bit float from two bytes: blocks lie at any even address."""
    low = tl.load(ptr, mask=mask, other=0).to(tl.uint16)
    high = tl.load(ptr + 1, mask=mask, other=0).to(tl.uint16)
    return (low | (high << 8)).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _scale_and_least(scales, j: tl.constexpr, mask):
    """The j-th 6-bit scale and minimum of a K block, from its 12 bytes."""
    if j < 4:
        scale = tl.load(scales + j, mask=mask, other=0) & 63
        least = tl.load(scales + j + 4, mask=mask, other=0) & 63
    else:
        both = tl.load(scales + j + 4, mask=mask, other=0)
        scale = (both & 15) | ((tl.load(scales + j - 4, mask=mask, other=0) >> 6) << 4)
        least = (both >> 4) | ((tl.load(scales + j, mask=mask, other=0) >> 6) << 4)
    return scale.to(tl.float32), least.to(tl.float32)


@triton.jit
def _product(acc, x_ptr, rows, x_mask, columns, weights):
    """acc [M, N] + x [M, K] times weights [N, K], for the K columns of x that begin at `columns`."""
    x = tl.load(x_ptr + rows[:, None] + columns[None, :], mask=x_mask[:, None], other=0.0)
    return acc + tl.dot(x, tl.trans(weights.to(x.dtype)), input_precision="ieee")


@triton.jit
def _kernel(
    raw_ptr,
    x_ptr,
    out_ptr,
    n_rows,
    n_x,
    n_columns,
    row_bytes,
    kind: tl.constexpr,
    values: tl.constexpr,
    size: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
):
    """out [M, N] = x [M, K] @ W.T, W being [N, row_bytes] in blocks; one program for `block_n` rows of W."""
    n = tl.program_id(0) * block_n + tl.arange(0, block_n)
    m = tl.program_id(1) * block_m + tl.arange(0, block_m)
    is_row, is_x = n < n_rows, m < n_x
    rows = m.to(tl.int64) * n_columns
    acc = tl.zeros((block_m, block_n), tl.float32)
    lane = tl.arange(0, 32)
    short = tl.arange(0, 16)
    for step in range(n_columns // values):
        block = raw_ptr + n.to(tl.int64) * row_bytes + step * size
        at = step * values
        if kind == 2:  # Q4_0: a scale, and 16 bytes of two values each, 16 apart
            d = _half(block, is_row)
            packed = tl.load(block[:, None] + 2 + short[None, :], mask=is_row[:, None], other=0)
            low = ((packed & 15).to(tl.float32) - 8.0) * d[:, None]
            high = ((packed >> 4).to(tl.float32) - 8.0) * d[:, None]
            acc = _product(acc, x_ptr, rows, is_x, at + short, low)
            acc = _product(acc, x_ptr, rows, is_x, at + 16 + short, high)
        elif kind == 8:  # Q8_0: a scale, and 32 signed bytes
            d = _half(block, is_row)
            packed = tl.load(block[:, None] + 2 + lane[None, :], mask=is_row[:, None], other=0)
            signed = packed.to(tl.int8, bitcast=True).to(tl.float32)
            acc = _product(acc, x_ptr, rows, is_x, at + lane, signed * d[:, None])
        elif kind == 14:  # Q6_K: 4 low bits, 2 high bits, 16 signed scales, one scale of scales
            d = _half(block + 208, is_row)
            for part in tl.static_range(8):
                lows = block + (part // 4) * 64 + (part % 2) * 32
                low = tl.load(lows[:, None] + lane[None, :], mask=is_row[:, None], other=0)
                highs = block + 128 + (part // 4) * 32
                high = tl.load(highs[:, None] + lane[None, :], mask=is_row[:, None], other=0)
                four = (low >> (4 * (part % 4 // 2))) & 15
                value = (four | (((high >> (2 * (part % 4))) & 3) << 4)).to(tl.float32) - 32.0
                scales = block[:, None] + 192 + part * 2 + (lane // 16)[None, :]
                scale = tl.load(scales, mask=is_row[:, None], other=0).to(tl.int8, bitcast=True).to(tl.float32)
                acc = _product(acc, x_ptr, rows, is_x, at + part * 32 + lane, value * scale * d[:, None])
        else:  # Q4_K and Q5_K: two scales of scales, 8 scales and minima, and for Q5_K a plane of high bits
            d, least_of_all = _half(block, is_row), _half(block + 2, is_row)
            for part in tl.static_range(8):
                scale, least = _scale_and_least(block + 4, part, is_row)
                lows = block + (size - 128 + (part // 2) * 32)
                packed = tl.load(lows[:, None] + lane[None, :], mask=is_row[:, None], other=0)
                value = (packed >> (4 * (part % 2))) & 15
                if kind == 13:
                    plane = tl.load(block[:, None] + 16 + lane[None, :], mask=is_row[:, None], other=0)
                    value = value | (((plane >> part) & 1) << 4)
                weights = value.to(tl.float32) * (scale * d)[:, None] - (least * least_of_all)[:, None]
                acc = _product(acc, x_ptr, rows, is_x, at + part * 32 + lane, weights)
    out = out_ptr + m.to(tl.int64)[:, None] * n_rows + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=is_x[:, None] & is_row[None, :])


def constants(kind: int, n_x: int) -> dict[str, Any]:
    """Compile-time values and launch options for a format and a number of activation rows."""
    values, size = STEPS[kind]
    # The tensor cores take 16 rows at least; more rows of the matrix a program would leave processors without work.
    # With a third stage Q6_K runs out of registers.
    return {
        "kind": kind,
        "values": values,
        "size": size,
        "block_m": 16 if n_x <= 16 else 32,
        "block_n": 16,
        "num_warps": 4,
        "num_stages": 2 if kind == 14 else 3,
    }


def matmul(kind: int, raw: Tensor, x: Tensor) -> Tensor:
    """x [M, K] times the transposed matrix, in the dtype of `x`: [M, N].

    raw: the matrix in blocks of ggml's type `kind`, uint8 [N, bytes of a row]. Raises KeyError for a type without a kernel.
    """
    chosen = constants(kind, len(x))
    n_x, n_columns = x.shape
    out = torch.empty(n_x, len(raw), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(len(raw), chosen["block_n"]), triton.cdiv(n_x, chosen["block_m"]))
    _kernel[grid](raw, x.contiguous(), out, len(raw), n_x, n_columns, raw.shape[1], **chosen)
    return out
