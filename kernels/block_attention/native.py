"""The compiled attention, on numpy arrays: what the tests compare with the reference."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from pardec_chat.kernels.block_attention.reference import Floats
from pardec_chat.kernels.quant_matmul import native

Halves = NDArray[np.float16]


def attend(
    q: Floats, k: Halves, v: Halves, mask: Halves, scale: float, softcap: float = 0.0, *, variant: int = 0
) -> Floats:
    """The same as `reference.attend` with a cache and a mask in 16 bits. Raises Unavailable or ValueError."""
    m, heads, width = q.shape
    cells, key_heads, value_width = v.shape
    if heads % key_heads or width % 16 or value_width % 16 or k.shape != (cells, key_heads, width):
        raise ValueError("heads share key heads evenly, and a head has a multiple of 16 values")
    if mask.shape != (m, cells):
        raise ValueError("the mask has a row for each query and a column for each cell")
    arrays = [
        np.ascontiguousarray(a, t) for a, t in ((q, np.float32), (k, np.float16), (v, np.float16), (mask, np.float16))
    ]
    out = np.empty((m, heads, value_width), np.float32)
    run = native.library().attention_attend
    run.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 6, ctypes.c_float, ctypes.c_float]
    sizes = (m, heads, key_heads, cells, width, value_width)
    if run(variant, *(a.ctypes.data for a in arrays), out.ctypes.data, *sizes, scale, softcap):
        raise MemoryError("no room for partial results")
    return out
