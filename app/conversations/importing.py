"""Conversations from files: our own, Open WebUI's and LM Studio's, told apart by what is in them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from pardec_chat.app.conversations import exchange, lm_studio, open_webui
from pardec_chat.app.conversations.conversation import Conversation
from pardec_chat.app.conversations.documents import ImportFailed
from pardec_chat.app.conversations.foreign import Skipped, mapping
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.units import size

#: Bytes of a file, or of all files of a folder, that are read.
MOST_BYTES: Final = 512_000_000
#: Entries of a folder and of those below it that are looked at.
_MOST_ENTRIES = 20_000

_OURS = "pardec-chat"
_KNOWN = f"Files of {_OURS} itself, chat exports of {open_webui.SOURCE}, and conversations of {lm_studio.SOURCE} can be imported."


@dataclass(slots=True)
class Imported:
    """What a file or a folder held.

    skipped: in a line each, what was left behind. source: the program that wrote it, or several.
    """

    conversations: list[Conversation] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    source: str = ""


def read(path: Path | str) -> Imported:
    """All conversations of a file, or of the `.json` files in a folder and below it, with new ids.

    A conversation among others that cannot be read is skipped. Raises ImportFailed when there is none that can.
    """
    path = Path(path)
    name = visible_line(path.name) or visible_line(str(path))
    imported = Imported()
    try:
        path = path.expanduser()
        if path.is_dir():
            _add_folder(imported, path)
        else:
            _add_file(imported, path, MOST_BYTES)
    except ImportFailed as error:
        raise ImportFailed(f"{name}: {error.what}", error.next_step) from None
    except (OSError, ValueError, RuntimeError) as error:
        raise ImportFailed(f"{name}: {_reason(error)}", "Check the path and its permissions.") from None
    if not imported.conversations:
        why = f" {imported.skipped[0]}." if imported.skipped else ""
        raise ImportFailed(f"{name}: there is no conversation in it.{why}", _KNOWN)
    return imported


def _add_folder(imported: Imported, folder: Path) -> None:
    # Raises what os.walk keeps to itself.
    os.scandir(folder).close()
    left = MOST_BYTES
    for path in _json_files(folder):
        name = visible_line(path.name)
        try:
            left -= _add_file(imported, path, left)
        except ImportFailed as error:
            imported.skipped.append(f"{name}: {error.what.rstrip('.')}")
        except OSError as error:
            imported.skipped.append(f"{name}: {_reason(error).rstrip('.')}")


def _json_files(folder: Path) -> Iterator[Path]:
    n_entries = 0
    for root, folders, names in os.walk(folder):
        folders.sort()
        n_entries += len(folders) + len(names)
        if n_entries > _MOST_ENTRIES:
            raise ImportFailed(
                f"the folder holds more than {_MOST_ENTRIES:,} files.", "Name the folder that the conversations are in."
            )
        yield from (Path(root) / name for name in sorted(names) if name.endswith(".json"))


def _add_file(imported: Imported, path: Path, most: int) -> int:
    """Reads a file of at most that many bytes and returns its size. Raises ImportFailed, OSError and ValueError."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ImportFailed("this is neither a file nor a folder.", "Name the exported file.")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ImportFailed(
            f"more than {size(MOST_BYTES)} are too much to import at once.", "Export fewer conversations at a time."
        )
    _add(imported, _parsed(content), visible_line(path.name), found.st_mtime)
    return len(content)


def _reason(error: Exception) -> str:
    reason = visible_line(getattr(error, "strerror", None) or str(error))
    return f"it cannot be read: {reason}."


def _parsed(content: bytes) -> object:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ImportFailed("the file is no text in UTF-8.", _KNOWN) from None
    if not text.strip():
        raise ImportFailed("the file is empty.", "Export it again.")
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise ImportFailed("the file breaks off, its end is missing.", "Export or copy it again.") from None
        what = f"the file is no JSON, line {error.lineno} cannot be read."
    except RecursionError:
        what = "the file is nested too deeply."
    except ValueError as error:
        what = f"the file is no JSON: {visible_line(str(error)).rstrip('.')}."
    raise ImportFailed(what, _KNOWN)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number there")


def _add(imported: Imported, document: object, name: str, otherwise: float) -> None:
    """The conversations of a document: one, or a list of them, of which those that cannot be read are skipped."""
    if not isinstance(document, list):
        _add_one(imported, document, name, otherwise)
        return
    failures = []
    for number, one in enumerate(document, 1):
        try:
            _add_one(imported, one, f"{name}, number {number}", otherwise)
        except ImportFailed as error:
            failures.append(error)
            imported.skipped.append(f"{name}, number {number}: {error.what.rstrip('.')}")
    if failures and len(failures) == len(document):
        raise failures[0]


def _add_one(imported: Imported, document: object, name: str, otherwise: float) -> None:
    skipped = Skipped()
    if mapping(document).get("format") == exchange.FORMAT:
        source, conversation = _OURS, exchange.load(document)
    elif open_webui.is_chat(document):
        source = open_webui.SOURCE
        conversation, skipped = open_webui.convert(mapping(document), otherwise)
    elif lm_studio.is_conversation(document):
        source = lm_studio.SOURCE
        conversation, skipped = lm_studio.convert(mapping(document), otherwise)
    else:
        raise ImportFailed("its form is not known here.", _KNOWN)
    title = visible_line(conversation.title) or name
    if kinds := skipped.line():
        imported.skipped.append(f"{title}: {kinds}")
    if not conversation.nodes and source != _OURS:
        imported.skipped.append(f"{title}: no messages")
        return
    imported.conversations.append(conversation)
    imported.source = source if imported.source in ("", source) else "several programs"
