"""The header of a GGUF file: metadata and the list of tensors, without the weights.

Only the header's pages are read, so that a file of many gigabytes costs as little as a small one.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pardec_chat.backends.errors import ModelUnreadable

Scalar = int | float | bool | str
Value = Scalar | Sequence[int] | Sequence[float] | Sequence[bytes]

_MAGIC: Final = b"GGUF"
_STRING, _ARRAY = 8, 9
#: Value type → format of one value.
_FORMATS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
#: Arrays of text that nobody here asks for and that are as long as the vocabulary: stepped over, not read.
_SKIPPED: Final = frozenset({"tokenizer.ggml.merges"})
#: Bytes in which a file says what it is: the general keys come first.
_PEEK: Final = 1 << 14
#: More of anything than this is not a header but a damaged file.
_MOST = 1 << 24

#: Tensor type → (values in a block, bytes of a block); the types of ggml.h that files are made of.
BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66),
    39: (32, 17),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's place: `shape` innermost first, `type` as in ggml.h, `bytes` 0 where the type is not known here."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """metadata: by key, arrays as sequences, texts in arrays as UTF-8 bytes. size: bytes of the whole file."""

    path: Path
    size: int
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]

    def text(self, key: str, default: str = "") -> str:
        """The text of `key`."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else default

    def number(self, key: str, default: int = 0) -> int:
        """The whole number of `key`; the largest where the file gives one for each layer."""
        value = self.metadata.get(key)
        if isinstance(value, (list, tuple)) and value and all(isinstance(item, int) for item in value):
            return max(int(item) for item in value)
        return int(value) if isinstance(value, (int, float)) else default

    def numbers(self, key: str) -> Sequence[int]:
        """The whole numbers of `key`; empty where the file has no list of them."""
        value = self.metadata.get(key)
        if isinstance(value, (str, int, float)) or value is None or (value and isinstance(value[0], bytes)):
            return ()
        return [int(item) for item in value]

    def texts(self, key: str) -> Sequence[bytes]:
        """The texts of `key`; empty where the file has no list of them."""
        value = self.metadata.get(key)
        if isinstance(value, (str, int, float)) or value is None:
            return ()
        return [item for item in value if isinstance(item, bytes)]


def read(path: Path, *, everything: bool = False) -> Header:
    """Read the header of one file; everything: also what only a tokenizer needs, the merges.

    Raises ModelUnreadable, also for a file that ends before its tensors do.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                raise ModelUnreadable(f"{path.name} is not a GGUF file.", "Give the .gguf file of a model.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return _Reader(path, size, view, frozenset() if everything else _SKIPPED).header()
    except OSError as error:
        raise ModelUnreadable(f"{path} cannot be read: {error.strerror}.", "Check the path and its rights.") from error
    except (struct.error, ValueError, OverflowError) as error:
        raise _damaged(path) from error


def peek(path: Path) -> tuple[str, str]:
    """(architecture, type) of a file from its first lines alone; empty where it does not say, or cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(_PEEK)
        reader = _Reader(path, len(start), start)
        reader.skip_counts()
        found: dict[str, Value] = {}
        while "general.type" not in found or "general.architecture" not in found:
            key, value = reader.pair()
            if not key.startswith("general."):
                break
            found[key] = value
    except (OSError, struct.error, ValueError, OverflowError, ModelUnreadable):
        return "", ""
    arch, kind = found.get("general.architecture", ""), found.get("general.type", "")
    return str(arch), str(kind)


def _damaged(path: Path) -> ModelUnreadable:
    return ModelUnreadable(f"{path.name} is damaged: its header cannot be read.", "Fetch the file again.")


class _Reader:
    """Walks through the header once; `at` is the next byte."""

    def __init__(self, path: Path, size: int, view: mmap.mmap | bytes, skipped: frozenset[str] = _SKIPPED) -> None:
        self._path, self._size, self._view, self._skipped = path, size, view, skipped
        self._at = 4

    def header(self) -> Header:
        version = self._one("I")
        if not 2 <= version <= 3:
            raise ModelUnreadable(
                f"{self._path.name} has GGUF version {version}; versions 2 and 3 can be read.",
                "Fetch a newer file of the model.",
            )
        n_tensors, n_values = self._count(), self._count()
        metadata = dict(self.pair() for _ in range(n_values))
        listed = [self._tensor() for _ in range(n_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            raise _damaged(self._path)
        start = -(-self._at // alignment) * alignment
        tensors = []
        for name, shape, kind, offset in listed:
            count = 1
            for n in shape:
                count *= n
            values, block = BLOCKS.get(kind, (1, 0))
            tensors.append(Tensor(name, shape, kind, start + offset, -(-count // values) * block))
        end = max((tensor.offset + tensor.bytes for tensor in tensors), default=0)
        if end > self._size:
            raise ModelUnreadable(
                f"{self._path.name} is cut off: it has {self._size:,} bytes and should have {end:,} or more.",
                "Fetch the file again.",
            )
        return Header(self._path, self._size, metadata, tuple(tensors))

    def skip_counts(self) -> None:
        """Go to the first key."""
        self._at = 24

    def _one(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self._view, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def _count(self) -> int:
        count = self._one("Q")
        if count > _MOST:
            raise _damaged(self._path)
        return count

    def _text(self) -> bytes:
        length = self._one("Q")
        text = self._view[self._at : self._at + length]
        if len(text) != length:
            raise _damaged(self._path)
        self._at += length
        return text

    def pair(self) -> tuple[str, Value]:
        """The next key and its value."""
        key = self._text().decode("utf-8", "replace")
        return key, self._value(self._one("I"), key)

    def _value(self, kind: int, key: str) -> Value:
        if kind == _STRING:
            return self._text().decode("utf-8", "replace")
        if kind == _ARRAY:
            return self._array(key)
        form = _FORMATS.get(kind)
        if form is None:
            raise _damaged(self._path)
        (value,) = struct.unpack_from(f"<{form}", self._view, self._at)
        self._at += struct.calcsize(form)
        scalar: Scalar = value
        return scalar

    def _array(self, key: str) -> Value:
        kind, count = self._one("I"), self._count()
        if kind == _STRING:
            return self._texts(count, keep=key not in self._skipped)
        form = _FORMATS.get(kind)
        if form is None:
            raise _damaged(self._path)
        values: Sequence[int] | Sequence[float] = struct.unpack_from(f"<{count}{form}", self._view, self._at)
        self._at += count * struct.calcsize(form)
        return values

    def _texts(self, count: int, *, keep: bool) -> list[bytes]:
        # A vocabulary has 150,000 of them: this loop is most of the time that a header takes.
        view, at, unpack = self._view, self._at, struct.Struct("<Q").unpack_from
        found = []
        for _ in range(count):
            (length,) = unpack(view, at)
            end = at + 8 + length
            if keep:
                found.append(view[at + 8 : end])
            at = end
        if at > self._size:
            raise _damaged(self._path)
        self._at = at
        return found

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text().decode("utf-8", "replace")
        n = self._one("I")
        if n > 8:
            raise _damaged(self._path)
        shape = tuple(self._one("Q") for _ in range(n))
        if any(length < 0 or length > 1 << 40 for length in shape):
            raise _damaged(self._path)
        return name, shape, self._one("I"), self._one("Q")
