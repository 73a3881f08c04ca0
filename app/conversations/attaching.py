"""Text files that go with a message: read from disk, and put into what the model gets."""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pardec_chat.app.conversations.conversation import Attachment
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.errors import UserError
from pardec_chat.backends.units import size

#: Bytes of a file that can be attached: more than any context holds.
MOST_BYTES: Final = 8_000_000

_TEXT = "Attach a text file: code, Markdown, CSV and the like."
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LANGUAGES = {
    "c++": "cpp",
    "cc": "cpp",
    "cs": "csharp",
    "h": "c",
    "hpp": "cpp",
    "js": "javascript",
    "jsx": "javascript",
    "kt": "kotlin",
    "md": "markdown",
    "py": "python",
    "rb": "ruby",
    "rs": "rust",
    "sh": "bash",
    "ts": "typescript",
    "tsx": "typescript",
    "txt": "",
    "log": "",
    "yml": "yaml",
}


class CannotAttach(UserError):
    """A file is missing, is no text, or is too large to go with a message."""


def read(path: Path | str) -> Attachment:
    """A text file, with line feeds at its line ends. Raises CannotAttach, which names the file and the reason."""
    path = Path(path)
    name = visible_line(path.name) or "file"
    try:
        path = path.expanduser()
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise CannotAttach(f"{name} is a folder.", "Attach the files in it one by one.")
        if not stat.S_ISREG(found.st_mode):
            raise CannotAttach(f"{name} is no file.", _TEXT)
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise CannotAttach(f"{visible_line(str(path))} is not there.", "Check the path.") from None
    except PermissionError:
        raise CannotAttach(f"{name} may not be read.", "Mend its permissions, or copy what is in it.") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = visible_line(getattr(error, "strerror", None) or str(error))
        raise CannotAttach(f"{name} cannot be read: {reason}.", "Check the path.") from None
    if len(content) > MOST_BYTES:
        raise CannotAttach(f"{name} is larger than {size(MOST_BYTES)}.", "Attach the part of it that matters.")
    text = _decoded(content)
    if text is None:
        raise CannotAttach(f"{name} is no text.", _TEXT)
    if not text.strip():
        raise CannotAttach(f"{name} is empty.", "Save it first.")
    return Attachment(name, text)


def _decoded(content: bytes) -> str | None:
    """None where it is no text; UTF-16 is one only with a byte order mark."""
    try:
        text = content.decode("utf-16" if content.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.replace("\r\n", "\n").replace("\r", "\n")


def with_attachments(text: str, attachments: Iterable[Attachment]) -> str:
    """What the model gets: the user's text, then each file by name, in a block of code."""
    return "\n\n".join(filter(None, [text, *(f"{one.name}:\n{fenced(one)}" for one in attachments)]))


def fenced(attachment: Attachment) -> str:
    """The text of a file in a Markdown block of code that nothing in it can close."""
    text = attachment.text if attachment.text.endswith("\n") else attachment.text + "\n"
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{_language(attachment.name)}\n{text}{fence}"


def _language(name: str) -> str:
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    known = _LANGUAGES.get(suffix, suffix)
    return known if re.fullmatch(r"[a-z][a-z0-9+#-]{0,11}", known) else ""
