"""What the installed llama.cpp was built for, told by its files: nothing is imported."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pardec_chat.backends.machine import Machine

#: Kind of device → the library that drives it.
_LIBRARIES = {"cuda": "ggml-cuda", "metal": "ggml-metal"}

#: What a CPU must have, one of these, for own kernels.
_WANTED = frozenset({"AVX2", "dot products"})


def usable(machine: Machine) -> Machine:
    """The machine with those devices alone that this build can use."""
    kinds = device_kinds()
    return replace(machine, devices=tuple(device for device in machine.devices if device.kind in kinds))


def packs_weights(machine: Machine) -> bool:
    """Whether own kernels are there and likely to be used: what is planned before anything is loaded is planned for them."""
    compiled = any((Path(__file__).parent / "accelerator").glob("_plugin*.so"))
    return compiled and not machine.devices and not _WANTED.isdisjoint(machine.features)


def device_kinds() -> frozenset[str]:
    """Kinds of devices that the build has kernels for, beside the CPU."""
    found = find_spec("llama_cpp")
    if found is None or found.origin is None:
        return frozenset()
    folder = Path(found.origin).parent / "lib"
    return frozenset(kind for kind, name in _LIBRARIES.items() if any(folder.glob(f"*{name}*")))
