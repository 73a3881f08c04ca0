"""What every word of the command line prints alike: one JSON document, errors, tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pardec_chat.backends.errors import UserError

INTERRUPTED = 130


def print_json(document: Any) -> None:
    """The one document of a `--json` run, on standard output."""
    from pardec_chat.app.plain_text import dump_json

    print(dump_json(document))


def print_error(error: UserError) -> None:
    """What was wrong and what to do next, on standard error."""
    from pardec_chat.app.plain_text import visible_line

    lines = [f"pardec-chat: {visible_line(error.what)}"]
    if error.next_step:
        lines.append(f"  {visible_line(error.next_step)}")
    print("\n".join(lines), file=sys.stderr)


def described(error: UserError) -> dict[str, str]:
    """An error as it stands in a document."""
    return {"kind": type(error).__name__, "what": error.what, "next_step": error.next_step}


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> None:
    """Columns on standard output, the first `left` of them flush left, by the width that a terminal gives them."""
    from rich.cells import cell_len

    widths = [max(cell_len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            padding = " " * (width - cell_len(cell))
            cells.append(cell + padding if i < left else padding + cell)
        print("  ".join(cells).rstrip())
