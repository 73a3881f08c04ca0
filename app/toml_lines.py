"""On which line of a TOML text each key stands. tomllib reads values only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The way to a value from the top: keys of tables, and numbers (from 0) in arrays.
Address = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""
      (?P<nothing> [ \t\r]+ | \#[^\n]* )
    | \"{3} (?: \\. | [^\\] )*? \"{3,5}  |  '{3} .*? '{3,5}
    | " (?: \\. | [^"\\\n] )* "          |  ' [^'\n]* '
    | [\[\]{}=,.\n]
    | [^\s\[\]{}=,.#"']+
    """,
    re.VERBOSE | re.DOTALL,
)


def lines_of(text: str) -> dict[Address, int]:
    """The line (from 1) of every key, table and member of an array; 1 for the whole, at the address ().

    `text` must be TOML that tomllib reads. Of a table that is written in several places, the first counts.
    """
    return _Walk(text).lines


class _Walk:
    """Goes through the tokens once, writing down where each address begins."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Address, int] = {(): 1}
        self._lengths: dict[Address, int] = {}
        self._tokens = [*_tokens(text), ("", 0)]
        self._at = 0
        table: Address = ()
        while self._next != "":
            if self._next == "\n":
                self._at += 1
            elif self._next == "[":
                table = self._header()
            else:
                self._key_and_value(table)

    @property
    def _next(self) -> str:
        return self._tokens[self._at][0]

    def _mark(self, address: Address, line: int | None = None) -> None:
        self.lines.setdefault(address, line or self._tokens[self._at][1])

    def _header(self) -> Address:
        line = self._tokens[self._at][1]
        brackets = 1 + (self._tokens[self._at + 1][0] == "[")
        self._at += brackets
        keys = self._keys()
        self._at += brackets
        address: Address = ()
        for number, key in enumerate(keys, start=1):
            address = (*address, key)
            self._mark(address, line)
            if number == len(keys) and brackets == 2:
                self._lengths[address] = self._lengths.get(address, 0) + 1
            if address in self._lengths:
                address = (*address, self._lengths[address] - 1)
                self._mark(address, line)
        return address

    def _keys(self) -> list[str]:
        """A key, or several with dots between them."""
        keys = []
        while self._next not in ("]", "="):
            if self._next != ".":
                keys.append(self._next.strip("\"'"))
            self._at += 1
        return keys

    def _key_and_value(self, address: Address) -> None:
        line = self._tokens[self._at][1]
        for key in self._keys():
            address = (*address, key)
            self._mark(address, line)
        self._at += 1
        self._value(address)

    def _value(self, address: Address) -> None:
        opened = self._next
        if opened not in ("[", "{"):
            while self._next not in (",", "]", "}", "\n", ""):
                self._at += 1
            return
        self._at += 1
        number = 0
        while self._next not in ("]", "}"):
            if self._next in (",", "\n"):
                self._at += 1
            elif opened == "{":
                self._key_and_value(address)
            else:
                self._mark((*address, number))
                self._value((*address, number))
                number += 1
        self._at += 1


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Each token with its line; white space and comments are left out."""
    line = 1
    for match in _TOKEN.finditer(text):
        if match["nothing"] is None:
            yield match[0], line
        line += match[0].count("\n")
