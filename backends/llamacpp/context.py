"""A native context: the cache of all slots, batches, and rows of logits."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from pardec_chat.backends.base import MAX_DEPTH, MAX_NODES, MAX_PROBES
from pardec_chat.backends.cells import CHUNK
from pardec_chat.backends.errors import OutOfMemory
from pardec_chat.backends.llamacpp import library
from pardec_chat.backends.llamacpp.accelerator import loading
from pardec_chat.backends.llamacpp.model import Model
from pardec_chat.backends.machine import physical_cores
from pardec_chat.backends.memory import CacheType

_PARTIAL = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: the running state alone, without the attention cache
_CACHE_TYPES = {"q8_0": llama_cpp.GGML_TYPE_Q8_0}

#: `llama_get_logits` with the address as a number; a typed pointer would be made anew at each step.
_logits = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(("llama_get_logits", llama_cpp.llama_cpp._lib))


class Batch:
    """Rows of one decode call, in memory that the native struct points at.

    Plain ctypes arrays: right after a forward pass the caches are cold, and numpy's machinery then costs three times as much.
    """

    def __init__(self, n_rows: int, n_sequences: int) -> None:
        self._tokens = (ctypes.c_int32 * n_rows)()
        self._positions = (ctypes.c_int32 * n_rows)()
        self._counts = (ctypes.c_int32 * n_rows)()
        self._sequences = [(ctypes.c_int32 * n_sequences)() for _ in range(n_rows)]
        pointer = ctypes.POINTER(ctypes.c_int32)
        self._pointers = (pointer * n_rows)(*(ctypes.cast(row, pointer) for row in self._sequences))
        self._wanted = (ctypes.c_int8 * n_rows)()
        self.native = llama_cpp.llama_batch(
            token=self._tokens,
            pos=self._positions,
            n_seq_id=self._counts,
            seq_id=self._pointers,
            logits=self._wanted,
        )

    def clear(self) -> None:
        """Start a new batch."""
        self.native.n_tokens = 0

    def extend(self, tokens: Sequence[int], position: int, sequence: int, *, wanted: bool) -> None:
        """Consecutive tokens of one sequence; wanted: whether somebody reads their logits."""
        row = self.native.n_tokens
        for token in tokens:
            self._tokens[row] = token
            self._positions[row] = position
            self._counts[row] = 1
            self._sequences[row][0] = sequence
            self._wanted[row] = wanted
            row += 1
            position += 1
        self.native.n_tokens = row

    def add(self, token: int, position: int, sequences: Sequence[int], *, wanted: bool) -> None:
        """One token of several sequences; wanted: as for `extend`."""
        row = self.native.n_tokens
        self.extend([token], position, sequences[0], wanted=wanted)
        self._counts[row] = len(sequences)
        for i, sequence in enumerate(sequences):
            self._sequences[row][i] = sequence


class Context:
    """Owns the native context. Raises OutOfMemory when the cache or the buffers do not fit."""

    def __init__(
        self,
        model: Model,
        *,
        n_ctx: int,
        slots: int,
        branches: int,
        threads: int | None,
        full_window: bool,
        cache_type: CacheType = "f16",
        own_kernels: bool = False,
    ) -> None:
        self._own_kernels = own_kernels
        self.n_sequences = slots + branches
        self._n_vocab = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model.handle)))
        params = llama_cpp.llama_context_default_params()
        # Rows of a pass, and those of them whose logits are wanted.
        rows = slots * (1 + (MAX_NODES + MAX_PROBES if branches else MAX_DEPTH))
        self._n_rows = outputs = slots * (2 + MAX_NODES) + branches if branches else rows
        self._address = 0
        self._view: NDArray[np.float32] = np.zeros((0, self._n_vocab), np.float32)
        # What does not lie on the accepted path takes cells too, until the pass is over.
        params.n_ctx = n_ctx * slots + (rows if branches else 0)
        params.n_batch = max(CHUNK, rows)
        params.n_ubatch = max(CHUNK, slots * (1 + MAX_DEPTH))
        params.n_seq_max = self.n_sequences
        # Without a bound llama.cpp keeps room for the logits of a whole batch: 300 MB with a 150k vocabulary.
        params.n_outputs_max = outputs
        params.n_threads = params.n_threads_batch = threads or physical_cores()
        params.swa_full = full_window
        if cache_type != "f16":
            params.type_k = params.type_v = _CACHE_TYPES[cache_type]
            # Only these kernels read quantised values.
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if own_kernels:
            # llama.cpp would choose attention in single products, whose rows are not independent of each other.
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.kv_unified = True  # one pool of cells: copying a sequence copies no data
        params.no_perf = True
        loading.enable(own_kernels)
        self.handle: Any = llama_cpp.llama_init_from_model(model.handle, params)
        if not self.handle:
            raise OutOfMemory(
                f"No room for a context of {n_ctx:,} tokens: {library.last_error() or 'the allocation failed'}.",
                "Ask for a shorter context (--ctx) or take a smaller model.",
            )
        self._memory = llama_cpp.llama_get_memory(self.handle)
        self.batch = Batch(int(params.n_batch), self.n_sequences)

    def decode(self) -> None:
        """Evaluate the batch."""
        loading.enable(self._own_kernels)
        result = llama_cpp.llama_decode(self.handle, self.batch.native)
        if result != 0:
            raise OutOfMemory(
                f"llama.cpp could not evaluate {self.batch.native.n_tokens} tokens (code {result}): "
                f"{library.last_error() or 'no room in the cache'}.",
                "Start a new conversation or ask for a longer context (--ctx).",
            )

    def rows(self) -> NDArray[np.float32]:
        """Logits of the wanted tokens of the last batch, in its order, shape [rows, V]; a view, valid until the next decode.

        One call for all rows: each look into native memory costs more than the arithmetic on a row.
        """
        address = _logits(self.handle)
        if not address:
            raise RuntimeError("the last batch has no logits")
        if address != self._address:
            # The buffer stays where it is unless llama.cpp has to enlarge it.
            buffer = (ctypes.c_float * (self._n_rows * self._n_vocab)).from_address(address)
            self._view = np.frombuffer(memoryview(buffer), np.float32).reshape(self._n_rows, self._n_vocab)
            self._address = address
        return self._view

    def remove(self, sequence: int, start: int) -> None:
        """Take the cells of `sequence` from position `start` on away."""
        llama_cpp.llama_memory_seq_rm(self._memory, sequence, start, -1)

    def copy(self, source: int, to: int, start: int = 0) -> None:
        """Let `to` share the cells of `source` from position `start` on."""
        llama_cpp.llama_memory_seq_cp(self._memory, source, to, start, -1)

    def first_position(self, sequence: int) -> int:
        """The oldest position still in the cache, -1 when there is none."""
        return int(llama_cpp.llama_memory_seq_pos_min(self._memory, sequence))

    def save_state(self, sequence: int) -> bytes:
        """The running state of a recurrent or hybrid model."""
        size = llama_cpp.llama_state_seq_get_size_ext(self.handle, sequence, _PARTIAL)
        buffer = (ctypes.c_uint8 * size)()
        written = llama_cpp.llama_state_seq_get_data_ext(self.handle, buffer, size, sequence, _PARTIAL)
        return bytes(buffer[:written]) if written != size else bytes(buffer)

    def restore_state(self, sequence: int, state: bytes) -> None:
        """Bring a saved running state back."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        if not llama_cpp.llama_state_seq_set_data_ext(self.handle, buffer, len(state), sequence, _PARTIAL):
            raise RuntimeError("a saved state did not fit back")

    def close(self) -> None:
        """Free cache and buffers; harmless when done twice."""
        handle, self.handle = self.handle, None
        if handle:
            llama_cpp.llama_free(handle)
