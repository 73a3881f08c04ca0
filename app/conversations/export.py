"""The shown branch of a conversation as Markdown, and files that a user asks for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from pardec_chat.app.conversations.attaching import fenced
from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.reasoning import Fence, begins_inside, split
from pardec_chat.app.conversations.record import AnswerRecord
from pardec_chat.app.downloads.files import write_atomically
from pardec_chat.app.plain_text import visible, visible_line
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

#: Bytes of a file's name, below the limit of every file system and short enough to read.
MOST_NAME_BYTES: Final = 100

# What is markup inside a line, so that a title shows as it is.
_MARKUP = re.compile(r"[\\`*\[\]<&]|(?<![^\W_])_|_(?![^\W_])|(?<=\s)#+$")
# HTML that swallows what follows up to its own end, which may never come.
_SWALLOWS = re.compile(r"( {0,3})(<(?:script|pre|style|textarea|[!?]))", re.IGNORECASE)
# No file system takes them, or not all do.
_NOT_IN_NAMES = re.compile(r'[/\\:*?"<>|]+')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[0-9¹²³])(?:\..*)?", re.IGNORECASE)
_UNTITLED = "conversation"
_STATES = {
    "stopped": "Stopped.",
    "writing": "Not finished.",
    "length": "Cut at the token limit.",
}


class NotExported(UserError):
    """A file could not be written; there is none, or the one that was there before."""


class AlreadyThere(NotExported):
    """There is a file of that name, which is not overwritten unasked."""


def markdown(conversation: Conversation) -> str:
    """The shown branch, with reasoning and attachments, and no control byte in it."""
    return "\n\n".join(_blocks(conversation)) + "\n"


def _blocks(conversation: Conversation) -> Iterator[str]:
    yield f"# {_inline(conversation.title) or 'Conversation'}"
    if begun := _date(conversation.created):
        yield f"*{begun}*"
    if conversation.setup.system.strip():
        yield "## System"
        yield _quoted(conversation.setup.system)
    for node in conversation.path():
        if node.role == "user":
            yield "## You"
            yield from _text(node.text)
            for attachment in node.attachments:
                yield f"**{_inline(attachment.name)}**"
                yield visible(fenced(attachment))
        else:
            yield f"## {_inline(node.record.model if node.record else '') or 'Assistant'}"
            yield from _answer(node)


def _answer(node: Node) -> Iterator[str]:
    for part in split(node.text, begins_inside(node.text), whole=True):
        text = node.text[part.start : part.end]
        if part.kind == "text":
            yield from _text(text)
        elif text.strip():
            yield "> *Reasoning*\n>\n" + _quoted(text)
    if node.state == "failed":
        yield f"**Failed.** {_inline(node.error)}".rstrip()
    elif node.state in _STATES:
        yield f"**{_STATES[node.state]}**"
    if node.record is not None and (figures := _figures(node.record)):
        yield f"*{figures}*"


def _figures(record: AnswerRecord) -> str:
    """What is worth knowing about an answer; empty where nothing was measured."""
    if not record.predicted_n:
        return ""
    parts = [] if record.tokens_per_second is None else [f"{record.tokens_per_second:,.1f} tok/s"]
    if record.method != Method.PLAIN and (speedup := record.speedup) is not None:
        parts.append(f"{speedup:.2f}x plain")
    parts.append(f"{record.predicted_n:,} tokens")
    if record.tokens_per_step is not None:
        parts.append(f"{record.tokens_per_step:.1f} a step")
    if record.draft_n:
        parts.append(f"{100 * record.draft_n_accepted // record.draft_n} % of {record.draft_n:,} accepted")
    return " · ".join((*parts, record.method.value))


def _text(text: str) -> Iterator[str]:
    """Markdown of a message that cannot run on into the next one; nothing where it is blank."""
    fence, lines = Fence(), []
    for line in visible(text).strip("\n").split("\n"):
        lines.append(
            line if fence.mark else _SWALLOWS.sub(r"\1\\\2", line, count=1) if line.lstrip()[:1] == "<" else line
        )
        fence.line(line)
    if fence.mark:
        lines.append(fence.indent + fence.mark)
    if any(map(str.strip, lines)):
        yield "\n".join(lines)


def _quoted(text: str) -> str:
    """A quotation: whatever begins in it ends with it."""
    return "\n".join(f"> {line}".rstrip() for line in visible(text).strip("\n").split("\n"))


def _inline(text: str) -> str:
    """Text of one line that shows as it is."""
    return _MARKUP.sub(lambda found: "\\" + found[0], visible_line(text))


def _date(seconds: float) -> str:
    """Empty for what no calendar has."""
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""


def file_name(title: str, suffix: str) -> str:
    """A name for a file, suffix included, that every file system takes: of a title, as far as that is possible."""
    name = _NOT_IN_NAMES.sub("-", "".join(c for c in title if not _is_unseen(c) or c.isspace()))
    name = unicodedata.normalize("NFC", " ".join(name.split())).strip(" .-~")
    if _RESERVED.fullmatch(name):
        name = f"{name} {_UNTITLED}" if "." not in name else f"{_UNTITLED} {name}"
    most = MOST_NAME_BYTES - len(suffix.encode())
    while len(name.encode()) > most:
        name = name.encode()[:most].decode(errors="ignore").rstrip(" .-~\u200d")
    return (name or _UNTITLED) + suffix


def _is_unseen(character: str) -> bool:
    """Control and format characters, halves of surrogate pairs, and what is none."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")


def write(path: Path, text: str, *, overwrite: bool = False) -> None:
    """A whole file or none. Raises AlreadyThere, unless `overwrite` is set, and NotExported."""
    name = visible_line(path.name)
    try:
        path = path.expanduser()
        if path.is_dir():
            raise NotExported(f"{name} is a folder.", "Name a file in it.")
        if overwrite:
            write_atomically(path, text.encode(errors="replace"))
            return
        # Takes the name, so that nobody else's file of that name is replaced.
        path.open("xb").close()
        try:
            write_atomically(path, text.encode(errors="replace"))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    except FileExistsError:
        raise AlreadyThere(f"{name} is there already.", "Give another name, or agree to replace it.") from None
    except FileNotFoundError:
        raise NotExported(f"The folder {visible_line(str(path.parent))} is not there.", "Name another one.") from None
    except (OSError, ValueError, RuntimeError) as error:
        reason = visible_line(getattr(error, "strerror", None) or str(error))
        raise NotExported(f"{name} could not be written: {reason}.", "Choose another folder.") from None
