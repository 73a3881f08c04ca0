"""The compiled attention, on numpy arrays: what the tests compare with the reference."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from pardec_chat.kernels.block_attention.reference import Floats
from pardec_chat.kernels.quant_matmul import native

Halves = NDArray[np.float16]
#: 32 signed bytes behind a 16-bit scale, as Q8_0 of GGUF.
Blocks = NDArray[np.uint8]
_BLOCK, _BLOCK_BYTES = 32, 34


def attend(
    q: Floats,
    k: Halves | Blocks,
    v: Halves | Blocks,
    mask: Halves,
    scale: float,
    softcap: float = 0.0,
    *,
    variant: int = 0,
) -> Floats:
    """The same as `reference.attend` with a cache in 16 bits, or of blocks, and a mask in 16 bits.

    k, v: 16-bit numbers, or bytes whose last dimension is a head's blocks. Raises Unavailable or ValueError.
    """
    m, heads, width = q.shape
    cells, key_heads, value_width = v.shape
    eight_bits = v.dtype == np.uint8
    kind, key_width, step = (np.uint8 if eight_bits else np.float16), width, 32 if eight_bits else 16
    if eight_bits:
        value_width, key_width = value_width // _BLOCK_BYTES * _BLOCK, width // _BLOCK * _BLOCK_BYTES
    if heads % key_heads or width % step or value_width % step or k.shape != (cells, key_heads, key_width):
        raise ValueError(f"heads share key heads evenly, and a head has a multiple of {step} values")
    if mask.shape != (m, cells):
        raise ValueError("the mask has a row for each query and a column for each cell")
    arrays = [np.ascontiguousarray(a, t) for a, t in ((q, np.float32), (k, kind), (v, kind), (mask, np.float16))]
    out = np.empty((m, heads, value_width), np.float32)
    run = native.library().attention_attend
    run.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 7, ctypes.c_float, ctypes.c_float]
    sizes = (m, heads, key_heads, cells, width, value_width, int(eight_bits))
    if run(variant, *(a.ctypes.data for a in arrays), out.ctypes.data, *sizes, scale, softcap):
        raise MemoryError("no room for partial results")
    return out
