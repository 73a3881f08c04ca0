"""The compiled kernels, on numpy arrays."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pardec_chat.kernels.quant_matmul.reference import SIZES, BlockType, Bytes, Floats, check

_FOLDER = Path(__file__).parent


class Unavailable(Exception):
    """There are no compiled kernels, or none that this processor can run; the text says which."""


@cache
def library() -> ctypes.CDLL:
    """The compiled kernels. Raises Unavailable."""
    found = sorted(_FOLDER.glob("_native*.so")) + sorted(_FOLDER.glob("_native*.pyd"))
    if not found:
        raise Unavailable("they were not compiled when the package was installed, which takes a C++ compiler")
    try:
        loaded = ctypes.CDLL(str(found[0]))
    except OSError as error:
        raise Unavailable(f"they could not be loaded: {error}") from error
    loaded.quant_variant_name.restype = ctypes.c_char_p
    loaded.quant_packed_size.restype = ctypes.c_int64
    loaded.quant_packed_size.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    packing: list[type[ctypes._SimpleCData[Any]]] = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
    ]
    loaded.quant_pack.argtypes = loaded.quant_unpack.argtypes = packing
    loaded.quant_pack.restype = loaded.quant_unpack.restype = None
    loaded.quant_multiply.argtypes = [
        ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, ctypes.c_int,
    ]  # fmt: skip
    return loaded


def variants() -> list[str]:
    """Names of the kernels that this processor can run, fastest first. Raises Unavailable."""
    loaded = library()
    return [loaded.quant_variant_name(i).decode() for i in range(_n_variants())]


@cache
def _n_variants() -> int:
    return int(library().quant_variants())


class Packed:
    """Weights in the order that the kernels read. blocks: bytes as in a GGUF file, [n, bytes of a row]. Raises Unavailable."""

    def __init__(self, blocks: Bytes, block_type: BlockType) -> None:
        size, n_bytes = SIZES[block_type]
        if blocks.ndim != 2 or blocks.dtype != np.uint8 or blocks.shape[1] % n_bytes or 0 in blocks.shape:
            raise ValueError("blocks are whole rows of bytes")
        self.block_type = block_type
        self.n, self.k = blocks.shape[0], blocks.shape[1] // n_bytes * size
        loaded = library()
        needed = loaded.quant_packed_size(block_type, self.k, self.n)
        room = np.empty(needed + 64, np.uint8)
        self._bytes = room[-room.ctypes.data % 64 :][:needed]
        contiguous = np.ascontiguousarray(blocks)
        loaded.quant_pack(block_type, contiguous.ctypes.data, self._bytes.ctypes.data, self.k, self.n)

    def unpack(self) -> Bytes:
        """The blocks again, as they were."""
        size, n_bytes = SIZES[self.block_type]
        blocks = np.empty((self.n, self.k // size * n_bytes), np.uint8)
        library().quant_unpack(self.block_type, self._bytes.ctypes.data, blocks.ctypes.data, self.k, self.n)
        return blocks

    @property
    def nbytes(self) -> int:
        """What they take."""
        return self._bytes.nbytes

    def multiply(self, rows: Floats, *, variant: int = 0, threads: int = 1) -> Floats:
        """rows [m, k] times the transpose of the weights, [m, n]. variant: index into `variants`."""
        if rows.ndim != 2 or rows.shape[1] != self.k:
            raise ValueError(f"rows have {self.k} columns")
        if variant >= _n_variants():
            raise Unavailable("this processor lacks the instructions that they need (AVX2, or Arm's dot products)")
        x = np.ascontiguousarray(rows, np.float32)
        y = np.empty((rows.shape[0], self.n), np.float32)
        failed = library().quant_multiply(
            variant, self.block_type, self._bytes.ctypes.data, x.ctypes.data, y.ctypes.data, self.k, self.n,
            rows.shape[0], threads,
        )  # fmt: skip
        if failed:
            raise MemoryError("no room for quantised rows")
        return y


def matmul(blocks: Bytes, block_type: BlockType, rows: Floats, *, variant: int = 0, threads: int = 1) -> Floats:
    """The same as `reference.matmul`, compiled. Raises ValueError or Unavailable."""
    check(blocks, block_type, rows)
    return Packed(blocks, block_type).multiply(rows, variant=variant, threads=threads)
