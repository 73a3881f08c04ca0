"""The llama.cpp runtime: GGUF files on every machine."""

from __future__ import annotations

from pathlib import Path

from pardec_chat.backends.base import KernelChoice, Kernels, LoadOptions, NumberType, Runtime, Target
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.model import read_model
from pardec_chat.backends.llamacpp import build, library
from pardec_chat.backends.llamacpp.accelerator import loading
from pardec_chat.backends.llamacpp.target import LlamaCppTarget
from pardec_chat.backends.machine import Machine
from pardec_chat.backends.model_file import ModelFile


class LlamaCppRuntime(Runtime):
    """See `Runtime`."""

    name = "llamacpp"

    def read_model(self, path: Path, dtype: NumberType = "auto", *, draft: bool = False) -> ModelFile:
        """See `Runtime`. From the file's header: llama.cpp itself takes a second for a large vocabulary."""
        if path.is_dir():
            raise ModelUnreadable(
                f"{path.name} is a folder, and llama.cpp reads GGUF files.", "Give --runtime pytorch, or a GGUF file."
            )
        return read_model(path)

    def usable(self, machine: Machine) -> Machine:
        """See `Runtime`."""
        return build.usable(machine)

    def kernels(self, choice: KernelChoice, gpu_layers: int | None) -> Kernels:
        """See `Runtime`."""
        return loading.kernels(choice, gpu_layers)

    def load(self, options: LoadOptions) -> Target:
        """See `Runtime`."""
        return LlamaCppTarget(options)

    def describe(self) -> dict[str, str]:
        """See `Runtime`."""
        described = {"version": library.version(), "features": library.system_info()}
        kernels = loading.kernels("auto", 0)
        described["kernels"] = kernels.described()
        if library.has_tile_kernels():
            described["hint"] = "llama.cpp was built with AMX kernels, which are kept off: some compilers break them."
            described["mend"] = (
                'CFLAGS="-mno-amx-tile -mno-amx-int8" CXXFLAGS="-mno-amx-tile -mno-amx-int8" '
                f"pip install --force-reinstall --no-deps --no-cache-dir llama-cpp-python=={library.version()}"
            )
        return described


def make() -> Runtime:
    """Called by the registry, on the owner thread."""
    return LlamaCppRuntime()
