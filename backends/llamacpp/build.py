"""What the installed llama.cpp was built for, told by its files: nothing is imported."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pardec_chat.backends.machine import Machine

#: Kind of device → the library that drives it.
_LIBRARIES = {"cuda": "ggml-cuda", "metal": "ggml-metal"}


def usable(machine: Machine) -> Machine:
    """The machine with those devices alone that this build can use."""
    kinds = device_kinds()
    return replace(machine, devices=tuple(device for device in machine.devices if device.kind in kinds))


def device_kinds() -> frozenset[str]:
    """Kinds of devices that the build has kernels for, beside the CPU."""
    found = find_spec("llama_cpp")
    if found is None or found.origin is None:
        return frozenset()
    folder = Path(found.origin).parent / "lib"
    return frozenset(kind for kind, name in _LIBRARIES.items() if any(folder.glob(f"*{name}*")))
