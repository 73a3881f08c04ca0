"""Runtimes by name, without importing them: an import costs a second and binds native threads to its own."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from pardec_chat.backends.base import Runtime
from pardec_chat.backends.errors import BadSetting

#: Name → (module that holds `make`, the package it needs).
_RUNTIMES = {
    "llamacpp": ("pardec_chat.backends.llamacpp.runtime", "llama_cpp"),
    "pytorch": ("pardec_chat.backends.pytorch.runtime", "torch"),
    "mlx": ("pardec_chat.backends.mlx.runtime", "mlx_lm"),
}
#: Those that run some GGUF files only → the module that tells which.
_PARTICULAR = {"mlx": "pardec_chat.backends.mlx.packed"}


def names() -> list[str]:
    """Every runtime this version knows, installed or not."""
    return list(_RUNTIMES)


def installed(name: str) -> bool:
    """Whether the package a runtime needs is there; nothing is imported."""
    return find_spec(_RUNTIMES[name][1]) is not None


def reads(name: str, path: Path) -> bool:
    """Whether a runtime runs a GGUF file as far as its header tells; nothing of the runtime is imported."""
    module = _PARTICULAR.get(name)
    return module is None or bool(import_module(module).reads(path))


def load(name: str) -> Runtime:
    """Import one runtime, on the thread that will own it. Raises BadSetting for an unknown or absent one."""
    if name not in _RUNTIMES:
        raise BadSetting(f"There is no runtime {name!r}.", f"Known ones: {', '.join(_RUNTIMES)}.")
    module, package = _RUNTIMES[name]
    if not installed(name):
        raise BadSetting(
            f"The runtime {name} needs the package {package}, which is not installed.",
            f'Install it: pip install "pardec-chat[{name}]".',
        )
    runtime = import_module(module).make()
    assert isinstance(runtime, Runtime)
    return runtime
