"""What the list of conversations says about itself and its keys. No widget."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets.cells import ends
from pardec_chat.app.widgets.wording import fit

TITLE = "Conversations"
NEW_TITLE = "New title"
NOTHING_FOUND = "nothing found"
NONE_YET = "No conversations yet."
_BETWEEN = " · "
_UNDO = "u undoes"

#: What keys do while a new title is typed.
IN_NAME = ("enter save", "esc leave it")


def in_list(*, pinned: bool | None) -> tuple[str, ...]:
    """What keys do in the list, in order of their weight. pinned: the marked one; None where there is none."""
    keys = ("/ search", "n new", "esc back")
    return keys if pinned is None else ("enter open", "r rename", "p unpin" if pinned else "p pin", "d delete", *keys)


def in_search(*, typed: bool) -> tuple[str, ...]:
    """What keys do while one searches. typed: for something."""
    return "enter open", "↑↓ move", "esc clear" if typed else "esc to the list"


def heading(width: int, *, found: int | None = None, hint: str = "", renaming: bool = False) -> tuple[str, str]:
    """What stands at the two ends of the title line. found: hits of a search that is on. hint: a key."""
    title = NEW_TITLE if renaming else TITLE
    if found is None or renaming:
        return ends(title, "" if renaming else hint, width)
    words = f"{found:,} found"
    return ends(title, words if cell_len(title) + 2 + len(words) <= width else f"{found:,}", width)


def packed(words: Sequence[str], width: int, n_lines: int) -> list[str]:
    """As many of the words as have room on so many lines, in their order; none of them is cut."""
    lines = [""] * n_lines
    at = 0
    for word in words:
        line = lines[at] + _BETWEEN + word if lines[at] else word
        if cell_len(line) > width and lines[at]:
            at, line = at + 1, word
        if at == n_lines or cell_len(line) > width:
            break
        lines[at] = line
    return lines


def deleted(title: str, width: int, n_lines: int) -> list[str]:
    """What was deleted, and how it comes back."""
    title = visible_line(title) or "untitled"
    around = cell_len("Deleted “”")
    if n_lines > 1:
        return [f"Deleted “{fit(title, width - around)}”", _UNDO]
    room = width - around - cell_len(_BETWEEN + _UNDO)
    return [f"Deleted “{fit(title, room)}”{_BETWEEN}{_UNDO}" if room >= 8 else f"Deleted{_BETWEEN}{_UNDO}"]


def counted(n: int) -> str:
    """1 conversation, 5,000 conversations; empty for none."""
    return f"{n:,} conversation{'' if n == 1 else 's'}" if n else ""
