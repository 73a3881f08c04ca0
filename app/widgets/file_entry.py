"""Where the path of any file is typed, from a folder on."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pardec_chat.app.messages import PathsFound
from pardec_chat.app.plain_text import visible
from pardec_chat.app.widgets import errand
from pardec_chat.app.widgets.path_entry import PathEntry
from pardec_chat.backends.errors import UserError

_MOST = 500


class FileEntry(PathEntry):
    """Like PathEntry, for files of all kinds; what is no whole path begins at `folder`."""

    def __init__(self, folder: Path, placeholder: str = "") -> None:
        super().__init__(placeholder)
        self._folder = folder

    def action_complete(self) -> None:
        """Look on the disk, away from the screen: a folder may be on a slow one."""
        typed, folder = self.value, self._folder
        errand.run(self, "complete", 0, lambda: PathsFound(typed, find(typed, folder)))


def find(typed: str, folder: Path) -> tuple[str, ...]:
    """Folders and files whose path begins like `typed`; folders with a slash behind them.

    Names that hold control bytes cannot be typed and are left out.
    """
    head, slash, begin = typed.rpartition("/")
    found = []
    try:
        with os.scandir(folder / Path(head + slash).expanduser()) as entries:
            for entry in entries:
                wanted = entry.name.startswith(begin) and (begin.startswith(".") or not entry.name.startswith("."))
                if wanted and visible(entry.name) == entry.name:
                    found.append(f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    except (OSError, RuntimeError, ValueError):  # no such folder, no such user, no path at all
        return ()
    return tuple(sorted(found)[:_MOST])


def path_of(typed: str, folder: Path) -> Path:
    """The path that was typed, pasted or dropped on the terminal, which then quotes it or gives its address.

    Raises UserError for the home of nobody.
    """
    text = typed.strip()
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    elif text[:1] in ("'", '"') or "\\ " in text:
        with suppress(ValueError):  # a quote that is part of the name
            text = " ".join(shlex.split(text))
    try:
        return folder / Path(text).expanduser()
    except RuntimeError:
        raise UserError(f"{text.partition('/')[0]} is nobody's home here.", "Give the whole path.") from None
