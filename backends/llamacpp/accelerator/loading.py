"""Loads the backend into the ggml that llama.cpp uses, or says why not."""

from __future__ import annotations

import ctypes
import logging
import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llama_cpp

from pardec_chat.backends.base import KernelChoice, Kernels
from pardec_chat.backends.llamacpp import build
from pardec_chat.backends.llamacpp import library as llama
from pardec_chat.backends.machine import physical_cores

logger = logging.getLogger(__name__)

#: The ggml whose tables and tensors the C++ sources describe, see ggml_api.h.
_GGML = "0.25.3"
_FOLDER = Path(__file__).parent
_WHY = 400
#: One row may take this much longer than with ggml's kernels, if eight are faster: single steps are bound by memory.
_SLOWER_BY = 1.25
#: Self-tests at most, of some milliseconds each: a busy machine may favour either side in one of them.
_TRIES = 6


@dataclass(frozen=True, slots=True)
class Loaded:
    """variant: the instruction set in use, empty where the kernels cannot be used; reason: why not, in words."""

    variant: str = ""
    reason: str = ""
    library: Any = None

    @property
    def usable(self) -> bool:
        """Whether models can be loaded with these kernels."""
        return bool(self.variant)


@cache
def load() -> Loaded:
    """Once for the process: find, check, load and try the backend. No fault of it gets further than a reason."""
    found = _load()
    if not found.usable:
        logger.info("own kernels are not used: %s", found.reason)
    return found


def kernels(choice: KernelChoice, gpu_layers: int | None) -> Kernels:
    """Whose kernels a model would run on that has so many layers on a GPU; None for as many as there is a GPU for."""
    if choice == "stock":
        return Kernels(reason="own kernels are switched off")
    if gpu_layers != 0 and build.device_kinds():
        return Kernels(reason="layers are on a GPU")
    found = load()
    return Kernels(found.usable, found.variant, found.reason)


class _Switch:
    on = False


def enable(on: bool) -> None:
    """Whether models, contexts and graphs that are made from now on use the kernels: said before each call that makes one."""
    if on != _Switch.on:
        load().library.accelerator_enable(int(on))
        _Switch.on = on


def _load() -> Loaded:
    found = sorted(_FOLDER.glob("_plugin*.so"))
    if not found:
        return Loaded(reason="they were not compiled when the package was installed: PARDEC_CHAT_KERNELS=1 asks for it")
    try:
        library = ctypes.CDLL(str(found[0]))
    except OSError as error:
        return Loaded(reason=f"they could not be loaded: {error}")
    library.accelerator_variant.restype = ctypes.c_char_p
    variant = library.accelerator_variant().decode()
    if not variant:
        return Loaded(reason="this processor lacks the instructions that they need (AVX2, or Arm's dot products)")
    why = ctypes.create_string_buffer(_WHY)
    # libllama's own handle: other copies of ggml may lie beside it, and this one is the one it calls.
    ggml = llama_cpp.llama_cpp._lib
    library.accelerator_bind.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    if library.accelerator_bind(ggml._handle, _GGML.encode(), why, _WHY):
        return Loaded(reason=why.value.decode("utf-8", "replace"))
    found_times = (ctypes.c_double * 4)()
    library.accelerator_self_test.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    times = [math.inf] * 4
    for _ in range(_TRIES):
        if library.accelerator_self_test(physical_cores(), found_times, why, _WHY):
            return Loaded(reason=why.value.decode("utf-8", "replace"))
        times = [min(pair) for pair in zip(times, found_times, strict=True)]
        one, eight, stock_one, stock_eight = times
        if eight < stock_eight and one <= _SLOWER_BY * stock_one:
            break
    else:
        return Loaded(
            reason="llama.cpp's own are faster here: "
            f"{stock_one:.2f} against {one:.2f} ms for one row, {stock_eight:.2f} against {eight:.2f} ms for eight"
        )
    load_backend = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(("ggml_backend_load", ggml))
    if not load_backend(os.fsencode(found[0])):
        return Loaded(reason=f"ggml refused them: {llama.last_error() or 'it gives no reason'}")
    return Loaded(variant, library=library)
