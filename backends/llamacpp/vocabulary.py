"""The vocabulary of a GGUF file, as llama.cpp reads it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import llama_cpp

from pardec_chat.backends.base import Vocabulary

if TYPE_CHECKING:
    from pardec_chat.backends.llamacpp.model import Model


class LlamaCppVocabulary(Vocabulary):
    """Reads through `model`'s handle, as long as that is open."""

    def __init__(self, model: Model) -> None:
        self._handle: Any = llama_cpp.llama_model_get_vocab(model.handle)
        self.size = int(llama_cpp.llama_vocab_n_tokens(self._handle))
        self.end_ids = frozenset(i for i in range(self.size) if llama_cpp.llama_vocab_is_eog(self._handle, i))
        self.begins_with_bos = bool(llama_cpp.llama_vocab_get_add_bos(self._handle))
        self.bos = self._text_of(llama_cpp.llama_vocab_bos(self._handle))
        self.eos = self._text_of(llama_cpp.llama_vocab_eos(self._handle))
        self._pieces: dict[int, bytes] = {}

    def _text_of(self, token: int) -> str:
        return self.text(token) if token >= 0 else ""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Vocabulary`."""
        raw = text.encode("utf-8", "replace")
        room = len(raw) + 8
        buffer = (llama_cpp.llama_token * room)()
        n = llama_cpp.llama_tokenize(self._handle, raw, len(raw), buffer, room, add_special, parse_special)
        if n < 0:
            room = -n
            buffer = (llama_cpp.llama_token * room)()
            n = llama_cpp.llama_tokenize(self._handle, raw, len(raw), buffer, room, add_special, parse_special)
        return list(buffer[:n])

    def piece(self, token: int) -> bytes:
        """See `Vocabulary`."""
        known = self._pieces.get(token)
        if known is None:
            room = 64
            while True:
                buffer = ctypes.create_string_buffer(room)
                n = llama_cpp.llama_token_to_piece(self._handle, token, buffer, room, 0, False)
                if n >= 0:
                    break
                room = -n
            known = self._pieces[token] = buffer.raw[:n]
        return known

    def text(self, token: int) -> str:
        """See `Vocabulary`."""
        raw: bytes = llama_cpp.llama_vocab_get_text(self._handle, token)
        return raw.decode("utf-8", "replace")
