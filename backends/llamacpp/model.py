"""Weights and metadata of one GGUF file: owns the native model."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp

from pardec_chat.backends.errors import ModelUnreadable, OutOfMemory
from pardec_chat.backends.llamacpp import library
from pardec_chat.backends.llamacpp.accelerator import loading


class Model:
    """A loaded file; gpu_layers: layers that go on a GPU, None for all. Raises ModelUnreadable or OutOfMemory.

    own_kernels: weights are packed for them while they are read, so that no page of the file stays mapped.
    """

    def __init__(
        self,
        path: Path,
        *,
        gpu_layers: int | None = None,
        progress: Callable[[float], bool] | None = None,
        own_kernels: bool = False,
    ) -> None:
        self.path = path
        _check_header(path)
        params = llama_cpp.llama_model_default_params()
        # -1 is all of them where the library has a device, none otherwise.
        params.n_gpu_layers = -1 if gpu_layers is None else gpu_layers
        params.use_extra_bufts = not library.has_tile_kernels()
        if own_kernels:
            params.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        # The callback must live as long as the call: the C side keeps no reference.
        callback = llama_cpp.llama_progress_callback(lambda done, _data: progress is None or progress(done))
        params.progress_callback = callback
        library.last_error()
        loading.enable(own_kernels)
        self.handle: Any = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        if not self.handle:
            raise _load_error(path)

    def metadata(self, key: str) -> str | None:
        """A metadata value as text, None where the file has none."""
        buffer = ctypes.create_string_buffer(4096)
        n = llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), buffer, len(buffer))
        return None if n < 0 else buffer.value.decode("utf-8", "replace")

    @property
    def chat_template(self) -> str | None:
        """The default chat template, of any length."""
        raw = llama_cpp.llama_model_chat_template(self.handle, None)
        return raw.decode("utf-8", "replace") if raw else None

    @property
    def name(self) -> str:
        """What the file calls the model; the file's own name where it says nothing."""
        return self.metadata("general.name") or self.path.stem

    @property
    def generates_text(self) -> bool:
        """Whether it is a plain left-to-right language model."""
        return not (llama_cpp.llama_model_has_encoder(self.handle) or llama_cpp.llama_model_is_diffusion(self.handle))

    @property
    def has_state(self) -> bool:
        """Whether some layers keep one running state, which cannot be trimmed (recurrent and hybrid models)."""
        return bool(llama_cpp.llama_model_is_recurrent(self.handle) or llama_cpp.llama_model_is_hybrid(self.handle))

    @property
    def n_window(self) -> int:
        """Width of the sliding attention window in tokens, 0 where there is none."""
        return int(llama_cpp.llama_model_n_swa(self.handle))

    @property
    def n_ctx_train(self) -> int:
        """Context the model was trained for, in tokens."""
        return int(llama_cpp.llama_model_n_ctx_train(self.handle))

    def close(self) -> None:
        """Free the weights; harmless when done twice."""
        handle, self.handle = self.handle, None
        if handle:
            llama_cpp.llama_model_free(handle)


def _check_header(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelUnreadable(f"{path} cannot be read: {error.strerror}.", "Check the path and its rights.") from error
    if magic != b"GGUF":
        raise ModelUnreadable(f"{path.name} is not a GGUF file.", "The llamacpp runtime loads GGUF files only.")


def _load_error(path: Path) -> ModelUnreadable | OutOfMemory:
    reason = library.last_error() or "llama.cpp gives no reason"
    if "alloc" in reason or "memory" in reason:
        return OutOfMemory(f"{path.name} does not fit into memory: {reason}.", "Take a smaller model or quantisation.")
    return ModelUnreadable(
        f"{path.name} cannot be loaded: {reason}.", "Fetch it again, or take a model that llama.cpp supports."
    )
