"""Where the lines of a text begin and end when it is as wide as there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells

_WORD = re.compile(r"\s*\S+\s*")


def folded(text: str, width: int) -> list[tuple[int, int]]:
    """Start and end of each line in `text`; blanks at the end of a line may stand out. Line feeds are in none of them."""
    places: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        places += ((start + begin, start + end) for begin, end in _pieces(line, max(2, width)))
        start += len(line) + 1
    return places


def _pieces(line: str, width: int) -> Iterator[tuple[int, int]]:
    begin, room = 0, width
    for match in _WORD.finditer(line) if cell_len(line) > width else ():
        word, start = match.group(), match.start()
        stem = word.rstrip()
        size = cell_len(stem)
        if size <= room:
            room -= cell_len(word)
            continue
        if start > begin:
            yield begin, start
            begin = start
        room = width - cell_len(word)
        if size > width:
            *full, last = chop_cells(stem, width)
            for piece in full:
                yield begin, begin + len(piece)
                begin += len(piece)
            room = width - cell_len(last) - cell_len(word[len(stem) :])
    yield begin, len(line)
