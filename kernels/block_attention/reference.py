"""Attention of rows over a cache, in numpy: what the compiled kernels compute, up to rounding.

They differ in how sums are split: along the list of cells that a row sees, in chunks and segments of fixed length, so that a
row's result hangs on nothing but that row (see block_attention.h). No order of summation is promised here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def attend(q: Floats, k: Floats, v: Floats, mask: Floats, scale: float, softcap: float = 0.0) -> Floats:
    """q [m, heads, d], k [cells, key heads, d], v [cells, key heads, e]; gives [m, heads, e].

    Consecutive query heads share a key head. mask: [m, cells], added to the scores; a row that sees no cell gets zeros.
    softcap: bounds the scores where it is not 0.
    """
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, axis=1).astype(np.float64), np.repeat(v, group, axis=1).astype(np.float64)
    scores = np.einsum("mhd,chd->mhc", q.astype(np.float64), keys) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + mask[:, None, :]
    highest = scores.max(axis=2, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(highest), highest, 0.0))
    total = weights.sum(axis=2, keepdims=True)
    result: Floats = np.einsum("mhc,che->mhe", weights / np.where(total > 0, total, 1.0), values).astype(np.float32)
    return result
