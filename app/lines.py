"""Text in lines whose parts have roles, for what screen, command line and picture files show alike."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from rich.cells import cell_len

Role = Literal["title", "text", "quiet", "value", "bar"]
Line = tuple[tuple[str, Role], ...]

BLANK: Line = ()

_UNIT = re.compile(r"(?<=\d) (?=%|ms\b|s\b)")


def plain(line: Line) -> str:
    """The text alone."""
    return "".join(text for text, _ in line).rstrip()


def wrapped(text: str, width: int, role: Role = "text", indent: int = 0) -> list[Line]:
    """A sentence on as many lines as it takes; a figure and its unit stay together."""
    bound = _UNIT.sub("\xa0", text)
    lines = textwrap.wrap(bound, max(20, width - indent), break_long_words=False, break_on_hyphens=False)
    return [((" " * indent + line.replace("\xa0", " "), role),) for line in lines]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of figures."""

    label: str
    cells: Sequence[str]
    role: Role = "value"


def columns(rows: Sequence[Row], width: int, *, label_width: int, gap: int = 2) -> Iterator[Line]:
    """Rows below each other, all columns as wide as the widest cell; in several bands where `width` is too small for one."""
    n = max(len(row.cells) for row in rows)
    cell = max((cell_len(text) for row in rows for text in row.cells), default=0) + gap
    n_bands = ceil(n / max(1, (width - label_width) // cell))
    size = ceil(n / max(1, n_bands))
    for start in range(0, n, max(1, size)):
        if start:
            yield BLANK
        for row in rows:
            text = "".join(" " * (cell - cell_len(one)) + one for one in row.cells[start : start + size])
            yield (row.label.ljust(label_width), "quiet"), (text, row.role)
