"""A token as it is shown alone: blanks are seen, and so is what has no width."""

from __future__ import annotations

from rich.cells import cell_len

from pardec_chat.app.plain_text import visible

_BLANKS = {"\n": "↵", "\t": "⇥"}
#: A token that adds no text of its own: a part of a character, or one that ends the answer.
EMPTY = "∅"
#: What a mark that stands on the letter before it stands on where there is none.
_CARRIER = "◌"


def shown(token: str) -> str:
    """`token` on one line, each blank and each control byte a sign."""
    text = "".join(_BLANKS.get(c) or ("␣" if c.isspace() else c) for c in visible(token))
    if not text:
        return EMPTY
    return text if cell_len(text[0]) else _CARRIER + text
