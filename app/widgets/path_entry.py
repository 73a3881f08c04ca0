"""Where a path is typed, with completion as in a shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from pardec_chat.app.messages import PathsFound
from pardec_chat.app.plain_text import visible
from pardec_chat.app.widgets import errand
from pardec_chat.app.widgets.entry import Entry

_MOST = 500


class PathEntry(Entry):
    """Tab completes to a folder or a GGUF file; PathsFound tells the screen what there is to choose from."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "complete", "Complete", show=False)]

    def action_complete(self) -> None:
        """Look on the disk, away from the screen: a folder may be on a slow one."""
        typed = self.value
        errand.run(self, "complete", 0, lambda: PathsFound(typed, find(typed)))

    @on(PathsFound)
    def take(self, message: PathsFound) -> None:
        """Write what all have in common."""
        if message.typed == self.value and message.found:
            first, last = min(message.found), max(message.found)
            same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
            self.value = first[:same]
            self.cursor_position = len(self.value)


def find(typed: str) -> tuple[str, ...]:
    """Folders and GGUF files whose path begins like `typed`; folders with a slash behind them.

    Names that hold control bytes cannot be typed and are left out.
    """
    head, slash, begin = typed.rpartition("/")
    found = []
    try:
        with os.scandir(Path(head + slash or ".").expanduser()) as entries:
            for entry in entries:
                name = entry.name
                wanted = name.startswith(begin) and (begin.startswith(".") or not name.startswith("."))
                if not wanted or visible(name) != name:
                    continue
                if entry.is_dir():
                    found.append(f"{head}{slash}{name}/")
                elif name.lower().endswith(".gguf"):
                    found.append(f"{head}{slash}{name}")
    except (OSError, RuntimeError, ValueError):  # no such folder, no such user, no path at all
        return ()
    return tuple(sorted(found)[:_MOST])


def listed(found: Sequence[str]) -> str:
    """The last parts of paths, on one line."""
    return "   ".join(path.rstrip("/").rpartition("/")[2] + ("/" if path.endswith("/") else "") for path in found)
