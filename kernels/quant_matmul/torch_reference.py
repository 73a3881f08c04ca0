"""Weights in the block formats of GGUF files, as plain torch: what they stand for, and a product with them.

A row of a matrix is a sequence of blocks of 32 or 256 values; a block is some scales and small whole numbers. Layouts as in
ggml's `ggml-common.h`. All functions take blocks as uint8, shape [rows, blocks in a row * bytes of a block].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: ggml's numbers of the types that can be read here.
F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, BF16 = 0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 30
#: Types whose values stand for themselves.
_PLAIN = {F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16}


def dequantise(kind: int, raw: Tensor) -> Tensor:
    """The values of `raw` as float32, shape [rows, columns]; kind: ggml's number of the type. Raises KeyError for others."""
    rows = raw.shape[0]
    if kind in _PLAIN:
        return raw.view(_PLAIN[kind]).reshape(rows, -1).float()
    size, values = _BLOCKS[kind]
    return values(raw.reshape(-1, size)).reshape(rows, -1)


def readable(kind: int) -> bool:
    """Whether `dequantise` knows the type."""
    return kind in _PLAIN or kind in _BLOCKS


def matmul(kind: int, raw: Tensor, x: Tensor) -> Tensor:
    """x [M, K] times the transposed matrix [N, K] in blocks: [M, N], float32."""
    return x.float() @ dequantise(kind, raw).T


def _half(blocks: Tensor, at: int) -> Tensor:
    """A 16-bit scale of each block, as float32, shape [blocks, 1]."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """Low halves, then high halves, of each row of bytes."""
    return torch.cat([packed & 15, packed >> 4], dim=-1)


def _bits(words: Tensor, n: int) -> Tensor:
    """The lowest `n` bits of each byte, the first byte's first: shape [..., bytes * n], 0 or 1."""
    shifts = torch.arange(n, device=words.device, dtype=torch.uint8)
    return ((words.unsqueeze(-1) >> shifts) & 1).flatten(-2)


def _q4_0(blocks: Tensor) -> Tensor:
    return (_nibbles(blocks[:, 2:]).float() - 8) * _half(blocks, 0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _nibbles(blocks[:, 4:]).float() * _half(blocks, 0) + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    values = _nibbles(blocks[:, 6:]) + (_bits(blocks[:, 2:6], 8) << 4)
    return (values.float() - 16) * _half(blocks, 0)


def _q5_1(blocks: Tensor) -> Tensor:
    values = _nibbles(blocks[:, 8:]) + (_bits(blocks[:, 4:8], 8) << 4)
    return values.float() * _half(blocks, 0) + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].contiguous().view(torch.int8).float() * _half(blocks, 0)


def _q2_k(blocks: Tensor) -> Tensor:
    scales, packed = blocks[:, :16], blocks[:, 16:80].reshape(-1, 2, 1, 32)
    shifts = torch.tensor([0, 2, 4, 6], device=blocks.device, dtype=torch.uint8).view(1, 1, 4, 1)
    values = ((packed >> shifts) & 3).reshape(-1, 16, 16).float()
    scale = (scales & 15).float() * _half(blocks, 80)
    least = (scales >> 4).float() * _half(blocks, 82)
    return (values * scale.unsqueeze(-1) - least.unsqueeze(-1)).flatten(1)


def _q3_k(blocks: Tensor) -> Tensor:
    high, packed, raw = blocks[:, :32], blocks[:, 32:96].reshape(-1, 2, 1, 32), blocks[:, 96:108]
    shifts = torch.tensor([0, 2, 4, 6], device=blocks.device, dtype=torch.uint8).view(1, 1, 4, 1)
    low = ((packed >> shifts) & 3).reshape(-1, 8, 32)
    planes = torch.arange(8, device=blocks.device, dtype=torch.uint8).view(1, 8, 1)
    # A cleared bit takes 4 away.
    values = low.float() - 4 * (1 - ((high.unsqueeze(1) >> planes) & 1).float())
    upper = torch.cat([(raw[:, 8:12] >> shift) & 3 for shift in (0, 2, 4, 6)], dim=1)
    scale = (_nibbles(raw[:, :8]) | (upper << 4)).float() - 32
    return (values.reshape(-1, 16, 16) * (scale * _half(blocks, 108)).unsqueeze(-1)).flatten(1)


def k_scales(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Eight 6-bit scales and eight 6-bit minima of a block of Q4_K or Q5_K, from their 12 bytes; each [blocks, 8]."""
    first, second, third = raw[:, :4], raw[:, 4:8], raw[:, 8:12]
    scale = torch.cat([first & 63, (third & 15) | ((first >> 6) << 4)], dim=1)
    least = torch.cat([second & 63, (third >> 4) | ((second >> 6) << 4)], dim=1)
    return scale, least


def _with_scales(blocks: Tensor, values: Tensor) -> Tensor:
    scale, least = k_scales(blocks[:, 4:16])
    found = values.float() * (scale.float() * _half(blocks, 0)).unsqueeze(-1)
    return (found - (least.float() * _half(blocks, 2)).unsqueeze(-1)).flatten(1)


def _q4_k(blocks: Tensor) -> Tensor:
    packed = blocks[:, 16:].reshape(-1, 4, 32)
    return _with_scales(blocks, torch.stack([packed & 15, packed >> 4], dim=2).reshape(-1, 8, 32))


def _q5_k(blocks: Tensor) -> Tensor:
    packed = blocks[:, 48:].reshape(-1, 4, 32)
    planes = torch.arange(8, device=blocks.device, dtype=torch.uint8).view(1, 8, 1)
    high = (blocks[:, 16:48].unsqueeze(1) >> planes) & 1
    low = torch.stack([packed & 15, packed >> 4], dim=2).reshape(-1, 8, 32)
    return _with_scales(blocks, low + (high << 4))


def _q6_k(blocks: Tensor) -> Tensor:
    low, high = blocks[:, :128].reshape(-1, 2, 2, 32), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    shifts = torch.tensor([0, 2, 4, 6], device=blocks.device, dtype=torch.uint8).view(1, 1, 4, 1)
    four = torch.cat([low & 15, low >> 4], dim=2)
    values = (four | (((high >> shifts) & 3) << 4)).float() - 32
    scale = blocks[:, 192:208].contiguous().view(torch.int8).float() * _half(blocks, 208)
    return (values.reshape(-1, 16, 16) * scale.unsqueeze(-1)).flatten(1)


#: Type → bytes of a block, and its values.
_BLOCKS: dict[int, tuple[int, Callable[[Tensor], Tensor]]] = {
    Q4_0: (18, _q4_0),
    Q4_1: (20, _q4_1),
    Q5_0: (22, _q5_0),
    Q5_1: (24, _q5_1),
    Q8_0: (34, _q8_0),
    Q2_K: (84, _q2_k),
    Q3_K: (110, _q3_k),
    Q4_K: (144, _q4_k),
    Q5_K: (176, _q5_k),
    Q6_K: (210, _q6_k),
}
