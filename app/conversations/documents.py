"""JSON documents that somebody else may have written: each value is asked for by its type, and errors say where it is."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from pardec_chat.app.conversations.columns import storable
from pardec_chat.backends.errors import UserError

#: No count and no time that means something is larger; whole numbers below are exact as floats.
MOST: Final = 2**53

_T = TypeVar("_T", bound=str)


class ImportFailed(UserError):
    """A file holds no conversation that can be read."""


def broken(what: str) -> ImportFailed:
    """A document of ours that somebody, or something, has changed."""
    return ImportFailed(f"the conversation cannot be read: {what}.", "Export it again, or mend the file.")


def is_sane(value: object, most: int = MOST) -> bool:
    """Whether it is a finite number between -`most` and `most`."""
    return isinstance(value, int | float) and (isinstance(value, int) or math.isfinite(value)) and abs(value) <= most


class Fields:
    """The fields of one object in a document, each asked for by its type. `at`: where the object is, in words.

    Every method raises ImportFailed for a value of another type, and for a missing one that has no default.
    """

    def __init__(self, document: object, at: str) -> None:
        if not isinstance(document, Mapping):
            raise broken(f"{at} is no object")
        self.document: Mapping[str, object] = document
        self.at = at

    def has(self, key: str) -> bool:
        """Whether there is a value other than null."""
        return self.document.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """A text, without halves of surrogate pairs, which no file and no terminal takes."""
        value = self.document.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return storable(value)

    def choice(self, key: str, options: Collection[_T], default: _T | None = None) -> _T:
        """One of `options`."""
        value = self.document.get(key, default)
        for option in options:
            if value == option:
                return option
        raise self._wrong(key, "one of " + ", ".join(options))

    def flag(self, key: str) -> bool:
        """False where it is missing."""
        value = self.document.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str, default: float, most: float) -> float:
        """A number from 0 to `most`."""
        value = self.document.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
            raise self._wrong(key, "a number in its range")
        return float(value)

    def whole(self, key: str) -> int:
        """A whole number from 0 on."""
        value = self.document.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise self._wrong(key, "a whole number")
        return value

    def items(self, key: str, default: tuple[object, ...] | None = None) -> list[object]:
        """A list."""
        value = self.document.get(key, default)
        if not isinstance(value, list | tuple):
            raise self._wrong(key, "a list")
        return list(value)

    def objects(self, key: str) -> list[Fields]:
        """A list of objects, empty where it is missing."""
        return [
            Fields(one, f"number {number} of the {key} of {self.at}")
            for number, one in enumerate(self.items(key, ()), 1)
        ]

    def reference(self, key: str, ids: Mapping[str, str]) -> str | None:
        """The new id of a message that came before; None for null."""
        if key not in self.document:
            raise self._wrong(key, "null or an id")
        value = self.document[key]
        if value is None:
            return None
        if not isinstance(value, str) or storable(value) not in ids:
            raise broken(f'"{key}" of {self.at} is no message before it')
        return ids[storable(value)]

    def _wrong(self, key: str, wanted: str) -> ImportFailed:
        if key not in self.document:
            return broken(f'{self.at} has no "{key}"')
        return broken(f'"{key}" of {self.at} is not {wanted}')
