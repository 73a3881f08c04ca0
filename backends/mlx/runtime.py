"""The MLX runtime: MLX folders and packed GGUF files, on Apple's GPUs; on other machines' CPUs for tests."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from pardec_chat.backends.base import LoadOptions, NumberType, Runtime, Target
from pardec_chat.backends.machine import Machine
from pardec_chat.backends.mlx import device, files
from pardec_chat.backends.mlx.target import MlxTarget
from pardec_chat.backends.model_file import ModelFile


class MlxRuntime(Runtime):
    """See `Runtime`."""

    name = "mlx"

    def read_model(self, path: Path, dtype: NumberType = "auto", *, draft: bool = False) -> ModelFile:
        """See `Runtime`. Weights are not read; the memory is what it takes on this runtime in its own choice of numbers."""
        return files.read_model(path)

    def usable(self, machine: Machine) -> Machine:
        """See `Runtime`."""
        if not device.on_metal():
            return replace(machine, devices=())
        limit = device.wired_limit()
        return replace(
            machine,
            devices=tuple(
                replace(one, total=min(one.total, limit), free=min(one.free, limit))
                for one in machine.devices
                if one.kind == "metal"
            ),
        )

    def load(self, options: LoadOptions) -> Target:
        """See `Runtime`."""
        return MlxTarget(options)

    def describe(self) -> dict[str, str]:
        """See `Runtime`."""
        return {"version": f"{version('mlx')}, mlx-lm {version('mlx-lm')}", "features": device.described()}


def make() -> Runtime:
    """Called by the registry, on the owner thread."""
    return MlxRuntime()
