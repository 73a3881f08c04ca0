"""The PyTorch runtime: safetensors folders and GGUF files, on CUDA first; the CPU works too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from pardec_chat.backends.base import LoadOptions, NumberType, Runtime, Target
from pardec_chat.backends.machine import Machine
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.pytorch import device as devices
from pardec_chat.backends.pytorch import files, linear
from pardec_chat.backends.pytorch.target import PytorchTarget


class PytorchRuntime(Runtime):
    """See `Runtime`."""

    name = "pytorch"

    def read_model(self, path: Path, dtype: NumberType = "auto", *, draft: bool = False) -> ModelFile:
        """See `Runtime`. From headers alone; the memory is what it takes on this runtime."""
        device = devices.choose(None)
        if draft and linear.is_compiled(dtype, device, files.kinds(path)):
            return files.read_model(path, torch.float32.itemsize, in_blocks=True, reordered=True)
        number = devices.number_type(dtype, device)
        return files.read_model(
            path, number.itemsize, in_blocks=device.type == "cuda", reordered=linear.reorders(number, device)
        )

    def usable(self, machine: Machine) -> Machine:
        """See `Runtime`."""
        kinds = ("cuda",) if torch.cuda.is_available() else ("metal",) if torch.backends.mps.is_available() else ()
        return replace(machine, devices=tuple(device for device in machine.devices if device.kind in kinds))

    def load(self, options: LoadOptions) -> Target:
        """See `Runtime`."""
        return PytorchTarget(options)

    def describe(self) -> dict[str, str]:
        """See `Runtime`."""
        described = {"version": str(torch.__version__), "features": _features()}
        if torch.version.cuda is None and torch.version.hip is None and Path("/proc/driver/nvidia/version").exists():
            described["hint"] = "This torch was built for the CPU alone, and there is an NVIDIA GPU: it is not used."
            described["mend"] = "pip install --force-reinstall torch"
        return described


def _features() -> str:
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        return f"CUDA {torch.version.cuda}: {names}"
    if torch.backends.mps.is_available():
        return "MPS"
    return f"CPU ({torch.backends.cpu.get_cpu_capability()})"


def make() -> Runtime:
    """Called by the registry, on the owner thread."""
    return PytorchRuntime()
