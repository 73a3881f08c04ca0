"""The llama.cpp runtime: GGUF files on every machine."""

from __future__ import annotations

from pathlib import Path

from pardec_chat.backends.base import LoadOptions, Runtime, Target
from pardec_chat.backends.decoding.pairing import TokenTable
from pardec_chat.backends.llamacpp import library
from pardec_chat.backends.llamacpp.model import Model
from pardec_chat.backends.llamacpp.target import LlamaCppTarget
from pardec_chat.backends.llamacpp.vocabulary import LlamaCppVocabulary


class LlamaCppRuntime(Runtime):
    """See `Runtime`."""

    name = "llamacpp"

    def read_vocabulary(self, path: Path) -> TokenTable:
        """See `Runtime`."""
        model = Model(path, vocabulary_only=True)
        try:
            return LlamaCppVocabulary(model).table()
        finally:
            model.close()

    def load(self, options: LoadOptions) -> Target:
        """See `Runtime`."""
        return LlamaCppTarget(options)

    def describe(self) -> dict[str, str]:
        """See `Runtime`."""
        described = {"version": library.version(), "features": library.system_info()}
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
