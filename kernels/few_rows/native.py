"""The compiled functions, on torch tensors of a CPU: one call where torch takes a dozen, each longer than its arithmetic."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

import torch
from torch import Tensor

from pardec_chat.kernels.quant_matmul import native

#: Rows up to which one thread is faster than torch with all of them.
MOST_ROWS: Final = 16
_NUMBERS: Final = {torch.float32: 0, torch.bfloat16: 1}


def usable(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether this processor has them, for activations such as these."""
    if device.type != "cpu" or dtype not in _NUMBERS:
        return False
    try:
        return bool(native.variants()) and hasattr(native.library(), "few_turn")
    except native.Unavailable:
        return False


@cache
def _library() -> ctypes.CDLL:
    loaded = native.library()
    number, whole, pointer, real = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
    loaded.few_norm.argtypes = [number, *[pointer] * 3, whole, whole, real]
    loaded.few_gated.argtypes = [number, number, *[pointer] * 2, whole, whole]
    loaded.few_turn.argtypes = [number, *[pointer] * 3, real, *[pointer] * 3, *[whole] * 5]
    for entry in (loaded.few_norm, loaded.few_gated, loaded.few_turn):
        entry.restype = None
    return loaded


def norm(x: Tensor, gain: Tensor, offset: float) -> Tensor:
    """See `reference.norm`; x: [rows, n]."""
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, n = x.shape
    _library().few_norm(_NUMBERS[x.dtype], x.data_ptr(), gain.data_ptr(), y.data_ptr(), n, rows, offset)
    return y


def gated(gate_up: Tensor, *, gelu: bool) -> Tensor:
    """See `reference.gated`; gate_up without gaps."""
    rows, n = gate_up.shape[0], gate_up.shape[1] // 2
    y = gate_up.new_empty(rows, n)
    _library().few_gated(_NUMBERS[y.dtype], gelu, gate_up.data_ptr(), y.data_ptr(), n, rows)
    return y


def turn(rows: Tensor, turns: Tensor, key_heads: int, gain: Tensor | None, offset: float, cells: Tensor) -> Tensor:
    """See `reference.turn`; rows and turns without gaps, and cells without gaps within a head."""
    m, all_heads, head = rows.shape
    heads = all_heads - 2 * key_heads
    queries = rows.new_empty(heads, m, head)
    keys = cells.data_ptr()
    _library().few_turn(
        _NUMBERS[rows.dtype],
        rows.data_ptr(),
        turns.data_ptr(),
        None if gain is None else gain.data_ptr(),
        offset,
        queries.data_ptr(),
        keys,
        keys + cells.stride(0) * cells.element_size(),
        heads,
        key_heads,
        head,
        cells.stride(1) // head,
        m,
    )
    return queries
