"""A catalogue's file taken key by key: what is wrong is refused with the file, the line, the model and the key."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar, cast

from pardec_chat.app.toml_lines import Address, lines_of
from pardec_chat.backends.errors import UserError

_Choice = TypeVar("_Choice", bound=str)


class CatalogueWrong(UserError):
    """A catalogue's file cannot be read, or breaks its own rules."""


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """A file's text. `name` is what messages call it, `mend` what they tell the user to do."""

    text: str
    name: str
    mend: str

    def top(self) -> Table:
        """The whole as a table. Raises CatalogueWrong for text that is not TOML."""
        try:
            return Table(tomllib.loads(self.text), Place(self))
        except (ValueError, RecursionError) as error:
            raise CatalogueWrong(f"{self.name} is not valid TOML: {error}.", self.mend) from error


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table lies in its file, and the id of the model that it belongs to."""

    file: CatalogueFile
    address: Address = ()
    model_id: str = ""

    def inside(self, *steps: str | int) -> Place:
        """The place of a table in this one."""
        return replace(self, address=(*self.address, *steps))

    def line(self, key: str) -> int:
        """Line (from 1) of the key; where it is missing, that of the table it belongs to."""
        lines = lines_of(self.file.text)
        address: Address = (*self.address, key)
        while address not in lines:
            address = address[:-1]
        return lines[address]

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raises CatalogueWrong for `key`."""
        owner = f"model {self.model_id!r}: " if self.model_id else ""
        raise CatalogueWrong(f"{self.file.name}, line {self.line(key)}: {owner}key {key!r} {why}.", self.file.mend)


class Table:
    """A TOML table that is taken key by key; what is left over at the end was not known.

    All that take a key raise CatalogueWrong when it is missing or its value is not what was asked for.
    """

    def __init__(self, data: dict[str, object], place: Place) -> None:
        self._left = dict(data)
        self.place = place

    def has(self, key: str) -> bool:
        """Whether the key is there, and not taken yet."""
        return key in self._left

    def belongs_to_model(self, number: int) -> None:
        """From here on complaints name the model of this table: by its id, or where it has none by its number."""
        model_id = self._left.get("id")
        self.place = replace(self.place, model_id=model_id if isinstance(model_id, str) else f"number {number}")

    def _take(self, key: str, kind: type, described: str) -> object:
        if key not in self._left:
            self.place.refuse(key, "is missing")
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            self.place.refuse(key, f"must be {described}")
        return value

    def text(self, key: str, pattern: re.Pattern[str] | None = None, shape: str = "") -> str:
        """One line of text; with a pattern, all of it matches."""
        value = str(self._take(key, str, "a text"))
        if not value.strip() or not value.isprintable():
            self.place.refuse(key, "must be one line of printable text")
        if pattern and not pattern.fullmatch(value):
            self.place.refuse(key, f"must be {shape}")
        return value

    def choice(self, key: str, choices: tuple[_Choice, ...]) -> _Choice:
        """One of the choices."""
        value = self.text(key)
        chosen = next((choice for choice in choices if choice == value), None)
        if chosen is None:
            self.place.refuse(key, f"must be {_either(choices)}")
        return chosen

    def path(self, key: str) -> str:
        """A relative path that stays where it begins."""
        value = self.text(key)
        if value.startswith("/") or "\\" in value or any(part in ("", ".", "..") for part in value.split("/")):
            self.place.refuse(key, "must be a relative path without '..'")
        return value

    def positive(self, key: str) -> int:
        """A whole number of 1 and more."""
        value = int(cast("int", self._take(key, int, "a whole number")))
        if value < 1:
            self.place.refuse(key, "must be at least 1")
        return value

    def texts(self, key: str, pattern: re.Pattern[str], shape: str) -> tuple[str, ...]:
        """One or more texts that match the pattern, none of them twice."""
        values = cast("list[object]", self._take(key, list, "a list of texts"))
        texts = tuple(value for value in values if isinstance(value, str))
        if not values or len(texts) < len(values):
            self.place.refuse(key, "must be a list of one or more texts")
        if not all(pattern.fullmatch(text) for text in texts):
            self.place.refuse(key, f"must list {shape}")
        if len(set(texts)) < len(texts):
            self.place.refuse(key, "lists something twice")
        return texts

    def choices(self, key: str, choices: tuple[str, ...]) -> tuple[str, ...]:
        """One or more of the choices."""
        return self.texts(key, re.compile("|".join(map(re.escape, choices))), f"nothing but {_either(choices)}")

    def tables(self, key: str) -> list[Table]:
        """One or more tables."""
        values = cast("list[object]", self._take(key, list, "a list of tables"))
        if not values or not all(isinstance(value, dict) for value in values):
            self.place.refuse(key, "must be a list of one or more tables")
        tables = cast("list[dict[str, object]]", values)
        return [Table(table, self.place.inside(key, number)) for number, table in enumerate(tables)]

    def close(self) -> None:
        """Refuses keys that nobody asked for: a misspelt optional key must not pass unseen."""
        for key in self._left:
            self.place.refuse(key, "is not known")


def _either(choices: tuple[str, ...]) -> str:
    *others, last = map(repr, choices)
    return f"{', '.join(others)} or {last}"
