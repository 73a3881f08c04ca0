"""The vocabulary of a Hugging Face folder, from its tokenizer.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from pardec_chat.backends.base import Vocabulary
from pardec_chat.backends.decoding.pairing import TokenTable
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.vocabulary.bpe import byte_characters
from pardec_chat.backends.vocabulary.gguf import ENDS

_SPACE = "\u2581"


class FolderVocabulary(Vocabulary):
    """size: rows of the model's output, which may be more than there are texts. Raises ModelUnreadable."""

    def __init__(self, folder: Path, size: int, config: Mapping[str, Any]) -> None:
        path = folder / "tokenizer.json"
        try:
            raw = path.read_text("utf-8")
            self._tokenizer = Tokenizer.from_str(raw)
        except OSError as error:
            raise ModelUnreadable(f"{path} cannot be read: {error.strerror}.", "Fetch the folder again.") from error
        except Exception as error:  # the package raises nothing narrower
            raise ModelUnreadable(f"{path} makes no sense: {error}.", "Fetch the folder again.") from error
        self.size = size
        added = self._tokenizer.get_added_tokens_decoder()
        self._control = {i for i, token in added.items() if token.special}
        self._plain = {i: token.content for i, token in added.items() if not token.special}
        # Byte-level vocabularies spell bytes in printable characters, the others name them.
        self._bytes = byte_characters() if '"ByteLevel"' in raw else None
        named = _settings(folder)
        self.bos, self.eos = (_name(named.get(key)) for key in ("bos_token", "eos_token"))
        bos = self._tokenizer.token_to_id(self.bos) if self.bos else None
        self.begins_with_bos = bos is not None and self._tokenizer.encode("a").ids[:1] == [bos]
        self.end_ids = self._find_ends(folder, config)

    def _find_ends(self, folder: Path, config: Mapping[str, Any]) -> frozenset[int]:
        found = {i for name in {self.eos, *ENDS} if (i := self._tokenizer.token_to_id(name)) is not None and name}
        for source in (config, _json(folder / "generation_config.json")):
            named = source.get("eos_token_id")
            found |= {i for i in (named if isinstance(named, list) else [named]) if isinstance(i, int)}
        return frozenset(i for i in found if i < self.size)

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Vocabulary`."""
        self._tokenizer.encode_special_tokens = not parse_special
        text = text.encode("utf-8", "replace").decode()
        return list(self._tokenizer.encode(text, add_special_tokens=add_special).ids)

    def piece(self, token: int) -> bytes:
        """See `Vocabulary`."""
        if token in self._control:
            return b""
        if token in self._plain:
            return self._plain[token].encode()
        text = self._tokenizer.id_to_token(token) or ""
        if self._bytes is not None:
            return b"".join(bytes([self._bytes[c]]) if c in self._bytes else c.encode() for c in text)
        if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            return bytes([int(text[3:5], 16)])
        return text.replace(_SPACE, " ").encode()

    def text(self, token: int) -> str:
        """See `Vocabulary`."""
        return self._tokenizer.id_to_token(token) or f"[PAD{token}]"

    def table(self) -> TokenTable:
        """The names of all ids, and which of them are never part of a written text."""
        special = frozenset(i for i in range(self.size) if i in self._control or not self.piece(i))
        return TokenTable([self.text(i).encode() for i in range(self.size)], special)


def read_template(folder: Path) -> str | None:
    """The folder's chat template, from its own file or from the tokenizer's settings."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text("utf-8")
    given = _settings(folder).get("chat_template")
    if isinstance(given, list):
        given = next((one.get("template") for one in given if one.get("name") == "default"), None)
    return given if isinstance(given, str) else None


def _settings(folder: Path) -> dict[str, Any]:
    return _json(folder / "tokenizer_config.json")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _name(value: object) -> str:
    """A token's text, which older files wrap in an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else ""
