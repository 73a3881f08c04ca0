"""Where MLX computes and in which numbers; memory, and errors about it."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import mlx.core as mx

from pardec_chat.backends import errors
from pardec_chat.backends.base import NumberType
from pardec_chat.backends.units import size

_TYPES: Final = {"bf16": mx.bfloat16, "fp16": mx.float16, "fp32": mx.float32}


def on_metal() -> bool:
    """Whether there is an Apple GPU, and MLX was built for it."""
    return bool(mx.metal.is_available())


def number_type(asked: NumberType) -> Any | None:
    """What weights and caches are kept in; None leaves them as the files have them.

    Raises BadSetting for 16 bits on a CPU, where MLX adds them up in 16 bits and one by one.
    """
    if on_metal():
        return None if asked == "auto" else _TYPES[asked]
    if asked in ("auto", "fp32"):
        return mx.float32
    raise errors.BadSetting(
        f"MLX on a CPU is right and usable in 32-bit floats alone, not in {asked}.", "Leave --dtype out."
    )


def name() -> str:
    """Of the device."""
    return str(mx.device_info().get("device_name", "Apple GPU")) if on_metal() else "CPU"


def wired_limit() -> int:
    """Bytes that the system recommends a GPU to keep at most."""
    return int(mx.device_info()["max_recommended_working_set_size"])


def keep_resident() -> None:
    """Let the GPU keep as much memory as the system recommends; without it macOS takes large weights away between passes."""
    if on_metal():
        mx.set_wired_limit(wired_limit())


def give_back() -> None:
    """Let the allocator return what nothing refers to any more."""
    gc.collect()
    mx.clear_cache()


def memory_errors(path: Path) -> AbstractContextManager[None]:
    """See `errors.memory_errors`."""
    return errors.memory_errors(path, "Ask for a shorter context (--ctx) or take a smaller model.")


def described() -> str:
    """The device and what it may keep, for `doctor`; the same whenever it is asked."""
    if not on_metal():
        return "CPU: for tests, on one core and in 32-bit floats"
    return f"Metal: {name()}, wired memory up to {size(wired_limit())}"
