"""Text cut and filled to a number of terminal cells; wide characters take two."""

from __future__ import annotations

from rich.cells import cell_len

from pardec_chat.app.widgets.wording import fit


def left(text: str, width: int) -> str:
    """At the left end of `width` cells."""
    text = fit(text, width)
    return text + " " * (width - cell_len(text))


def right(text: str, width: int) -> str:
    """At the right end of `width` cells."""
    text = fit(text, width)
    return " " * (width - cell_len(text)) + text


def ends(first: str, last: str, width: int) -> tuple[str, str]:
    """Both at the two ends of `width` cells, two blanks between them at least; the first one gives way."""
    last = fit(last, width)
    room = width - cell_len(last)
    return left(left(first, max(0, room - 2)), room), last
