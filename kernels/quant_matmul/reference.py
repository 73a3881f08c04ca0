"""Products of block-quantised weights with rows of activations, in numpy: what every native kernel must equal to the bit.

Activations are quantised to 8 bits, row by row, as llama.cpp does for the same block type. The products are exact
integers, the scales of sub-blocks are applied to integer sums, and an output is a chain of single-precision additions
over the blocks of its row, first to last. So it is the same number whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Integers = NDArray[np.int32]


class BlockType(IntEnum):
    """GGUF's numbers of the block types."""

    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q8_0 = 8
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14


#: Weights and bytes of a block.
SIZES = {
    BlockType.Q4_0: (32, 18),
    BlockType.Q4_1: (32, 20),
    BlockType.Q5_0: (32, 22),
    BlockType.Q8_0: (32, 34),
    BlockType.Q4_K: (256, 144),
    BlockType.Q5_K: (256, 176),
    BlockType.Q6_K: (256, 210),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """Rows of unpacked blocks: weight = d · scale · q - dmin · minimum (+ m for Q4_1).

    q: integers, shape [n, blocks, size of a block]. d: [n, blocks]. scales: integers of each sub-block, [n, blocks, s].
    minima: the same for blocks that have them. dmin: [n, blocks]. m: [n, blocks], what a block of Q4_1 adds.
    """

    q: Integers
    d: Floats
    scales: Integers
    minima: Integers | None = None
    dmin: Floats | None = None
    m: Floats | None = None


@dataclass(frozen=True, slots=True)
class Activations:
    """Quantised rows: q [m, blocks, size of a block] in -128…127, d [m, blocks], s [m, blocks]: d times the sum, in 16 bits."""

    q: Integers
    d: Floats
    s: Floats


def matmul(blocks: Bytes, block_type: BlockType, rows: Floats) -> Floats:
    """rows [m, k] times the transpose of the weights [n, k], whose blocks are bytes [n, k / size · bytes]; gives [m, n].

    Raises ValueError for shapes that do not belong together.
    """
    check(blocks, block_type, rows)
    weights = unpack(blocks, block_type)
    x = quantise(rows, block_type)
    n_blocks = weights.q.shape[1]
    out = np.zeros((rows.shape[0], weights.q.shape[0]), np.float32)
    for b in range(n_blocks):
        out += _term(weights, x, b)
    return out


def check(blocks: Bytes, block_type: BlockType, rows: Floats) -> None:
    """Raises ValueError where shapes do not belong together."""
    size, n_bytes = SIZES[block_type]
    if blocks.ndim != 2 or rows.ndim != 2:
        raise ValueError("blocks and rows are matrices")
    if rows.shape[1] == 0 or rows.shape[1] % size:
        raise ValueError(f"{rows.shape[1]} weights a row do not fill blocks of {size}")
    if blocks.shape[1] != rows.shape[1] // size * n_bytes:
        raise ValueError(f"{blocks.shape[1]} bytes a row are not {rows.shape[1]} weights of {block_type.name}")


def _term(weights: Weights, x: Activations, b: int) -> Floats:
    """What block `b` adds to each output, [m, n]."""
    n, _, size = weights.q.shape
    n_sub = weights.scales.shape[2]
    q = weights.q[:, b].reshape(n, n_sub, size // n_sub)
    a = x.q[:, b].reshape(-1, n_sub, size // n_sub)
    # Integers below 2^53 are exact in double precision, whose products BLAS computes.
    sums = np.einsum("nsj,msj->mns", q.astype(np.float64), a.astype(np.float64), optimize=True)
    products = (sums * weights.scales[None, :, b]).sum(axis=2).astype(np.int32)
    term: Floats = products.astype(np.float32) * (weights.d[None, :, b] * x.d[:, b, None])
    if weights.minima is not None and weights.dmin is not None:
        sums_of_x = a.sum(axis=2)
        minima = (sums_of_x[:, None, :] * weights.minima[None, :, b]).sum(axis=2, dtype=np.int32)
        term = term - minima.astype(np.float32) * (weights.dmin[None, :, b] * x.d[:, b, None])
    if weights.m is not None:
        term = term + weights.m[None, :, b] * x.s[:, b, None]
    return term


def quantise(rows: Floats, block_type: BlockType) -> Activations:
    """Rows [m, k] in 8 bits: blocks of 256 scaled by their extreme value, blocks of 32 by the largest magnitude."""
    size, _ = SIZES[block_type]
    x = rows.astype(np.float32).reshape(rows.shape[0], -1, size)
    magnitude = np.abs(x)
    if size == 256:
        first = np.argmax(magnitude, axis=2)[..., None]
        extreme = np.take_along_axis(x, first, axis=2)[..., 0]
        with np.errstate(divide="ignore"):
            inverse = np.where(extreme != 0, np.float32(-127.0) / extreme, np.float32(0))
            d = np.where(extreme != 0, np.float32(1.0) / inverse, np.float32(0)).astype(np.float32)
        q = np.minimum(np.rint(x * inverse[..., None]).astype(np.int32), 127)
        return Activations(q, d, d)
    most = magnitude.max(axis=2)
    with np.errstate(divide="ignore"):
        inverse = np.where(most > 0, np.float32(127.0) / most, np.float32(0))
    d = most / np.float32(127.0)
    q = np.rint(x * inverse[..., None]).astype(np.int32)
    s = (d * q.sum(axis=2).astype(np.float32)).astype(np.float16).astype(np.float32)
    return Activations(q, d.astype(np.float16).astype(np.float32), s)


def unpack(blocks: Bytes, block_type: BlockType) -> Weights:
    """Blocks as in a GGUF file, bytes [n, …]."""
    _, n_bytes = SIZES[block_type]
    raw = np.ascontiguousarray(blocks).reshape(blocks.shape[0], -1, n_bytes)
    return _UNPACK[block_type](raw)


def _half(raw: Bytes, at: int) -> Floats:
    half: Floats = np.ascontiguousarray(raw[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float32)
    return half


def _ones(raw: Bytes) -> Integers:
    return np.ones((*raw.shape[:2], 1), np.int32)


def _nibbles(packed: Bytes) -> Integers:
    """Low nibbles, then high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.int32)


def _q4_0(raw: Bytes) -> Weights:
    return Weights(_nibbles(raw[..., 2:]) - 8, _half(raw, 0), _ones(raw))


def _q4_1(raw: Bytes) -> Weights:
    return Weights(_nibbles(raw[..., 4:]), _half(raw, 0), _ones(raw), m=_half(raw, 2))


def _q5_0(raw: Bytes) -> Weights:
    high = np.unpackbits(raw[..., 2:6], axis=-1, bitorder="little").astype(np.int32)
    return Weights((_nibbles(raw[..., 6:]) | high << 4) - 16, _half(raw, 0), _ones(raw))


def _q8_0(raw: Bytes) -> Weights:
    return Weights(raw[..., 2:].view(np.int8).astype(np.int32), _half(raw, 0), _ones(raw))


def _scales_and_minima(raw: Bytes) -> tuple[Integers, Integers]:
    """Eight scales and eight minima of 6 bits in 12 bytes."""
    scales, minima, both = raw[..., 4:8], raw[..., 8:12], raw[..., 12:16]
    late_scales = (both & 15) | (scales >> 6 << 4)
    late_minima = (both >> 4) | (minima >> 6 << 4)
    return (
        np.concatenate([scales & 63, late_scales], axis=-1).astype(np.int32),
        np.concatenate([minima & 63, late_minima], axis=-1).astype(np.int32),
    )


def _q4_k(raw: Bytes) -> Weights:
    scales, minima = _scales_and_minima(raw)
    packed = raw[..., 16:].reshape(*raw.shape[:2], 4, 32)
    return Weights(
        _nibbles(packed).reshape(*raw.shape[:2], 256), _half(raw, 0), scales, minima=minima, dmin=_half(raw, 2)
    )


def _q5_k(raw: Bytes) -> Weights:
    scales, minima = _scales_and_minima(raw)
    packed = raw[..., 48:].reshape(*raw.shape[:2], 4, 32)
    high = raw[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = _nibbles(packed).reshape(*raw.shape[:2], 8, 32) | high.astype(np.int32) << 4
    return Weights(q.reshape(*raw.shape[:2], 256), _half(raw, 0), scales, minima=minima, dmin=_half(raw, 2))


def _q6_k(raw: Bytes) -> Weights:
    low = raw[..., :128].reshape(*raw.shape[:2], 2, 2, 32)  # half, upper or lower 32 of a nibble, place
    high = raw[..., 128:192].reshape(*raw.shape[:2], 2, 32)
    parts = [
        (low[..., i % 2, :] >> (4 * (i // 2)) & 15).astype(np.int32) | (high >> (2 * i) & 3).astype(np.int32) << 4
        for i in range(4)
    ]
    q = np.stack(parts, axis=3).reshape(*raw.shape[:2], 256) - 32
    return Weights(q, _half(raw, 208), raw[..., 192:208].view(np.int8).astype(np.int32))


_UNPACK = {
    BlockType.Q4_0: _q4_0,
    BlockType.Q4_1: _q4_1,
    BlockType.Q5_0: _q5_0,
    BlockType.Q8_0: _q8_0,
    BlockType.Q4_K: _q4_k,
    BlockType.Q5_K: _q5_k,
    BlockType.Q6_K: _q6_k,
}
