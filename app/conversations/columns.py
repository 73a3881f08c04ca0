"""Messages and conversations as rows of the file, and back. What makes no sense in a row is left out, never an error."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final, TypeVar, get_args

from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node, Role, State, TitleBy
from pardec_chat.app.conversations.record import AnswerRecord, Origin, StepRecord
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.backends.base import Method

#: Columns of a conversation beside its number, as `conversation_row` writes and `conversation_of` reads them.
CONVERSATION: Final = ("id", "title", "title_by", "pinned", "created", "updated", "leaf", "setup", "unsent")
#: Columns of a message beside its number and its conversation's, as `node_row` writes and `node_of` reads them.
NODE: Final = ("id", "parent", "role", "created", "state", "error", "text", "attachments", "record", "origins", "steps")

_T = TypeVar("_T", bound=str)
_MOST = 2**32 - 1


def storable(text: str) -> str:
    """Text that SQLite takes: halves of a surrogate pair are joined, or become U+FFFD where the other half is missing."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def conversation_row(conversation: Conversation) -> tuple[object, ...]:
    """The row of a conversation, without its messages."""
    return (
        conversation.id,
        storable(conversation.title),
        conversation.title_by,
        conversation.pinned,
        _time(conversation.created),
        _time(conversation.updated),
        conversation.leaf,
        json.dumps(conversation.setup.dump()),
        storable(conversation.unsent),
    )


def conversation_of(row: Sequence[Any], nodes: Sequence[Node]) -> Conversation:
    """What the row and the messages of a conversation say."""
    id_, title, title_by, pinned, created, updated, leaf, setup, unsent = row
    ordered = _parents_first(nodes)
    return Conversation(
        id=id_,
        title=title,
        title_by=_one_of(title_by, get_args(TitleBy), "user"),
        pinned=bool(pinned),
        created=_time(created),
        updated=_time(updated),
        setup=Setup.load(_json(setup)),
        unsent=unsent,
        nodes=ordered,
        # It may have been written before its message, and the program have ended in between.
        leaf=leaf if leaf in ordered else next(reversed(ordered), None),
    )


def node_row(node: Node) -> tuple[object, ...]:
    """The row of a message."""
    attachments = [[one.name, one.text, one.n_tokens] for one in node.attachments]
    return (
        node.id,
        node.parent,
        node.role,
        _time(node.created),
        node.state,
        storable(node.error),
        storable(node.text),
        storable(json.dumps(attachments, ensure_ascii=False)) if attachments else None,
        json.dumps(node.record.dump()) if node.record is not None else None,
        pack_origins(node.origins),
        json.dumps([step.dump() for step in node.steps], separators=(",", ":")) if node.steps else None,
    )


def node_of(row: Sequence[Any]) -> Node:
    """What the row of a message says."""
    id_, parent, role, created, state, error, text, attachments, record, origins, steps = row
    node = _Stored(
        id=id_,
        parent=parent,
        role=_one_of(role, get_args(Role), "assistant"),
        created=_time(created),
        state=_one_of(state, get_args(State), "whole"),
        error=error,
        text=text,
        attachments=_attachments(_json(attachments)),
        record=AnswerRecord.load(_json(record)),
    )
    node.packed_origins, node.packed_steps = origins, steps
    return node


def attachments_of(column: str | None) -> tuple[Attachment, ...]:
    """What the column `attachments` says."""
    return _attachments(_json(column))


def pack_origins(origins: Sequence[Origin]) -> bytes | None:
    """Origins in some bytes a token; None for none.

    Compressed: names of the methods that occur, a line feed, a byte for the method of each token, four for its characters.
    """
    if not origins:
        return None
    names = sorted({method for _, method in origins})
    code = {method: number for number, method in enumerate(names)}
    methods = bytes([code[method] for _, method in origins])
    counts = [n for n, _ in origins]
    if not 0 <= min(counts) <= max(counts) <= _MOST:
        counts = [min(max(n, 0), _MOST) for n in counts]
    return zlib.compress(" ".join(names).encode() + b"\n" + methods + struct.pack(f"<{len(counts)}I", *counts), 1)


def unpack_origins(packed: object) -> tuple[Origin, ...]:
    """What `pack_origins` packed; nothing where it was something else."""
    if not isinstance(packed, bytes):
        return ()
    try:
        head, _, body = zlib.decompress(packed).partition(b"\n")
        names = [Method(name) for name in head.decode().split()]
        n = len(body) // 5
        return tuple(zip(struct.unpack(f"<{n}I", body[n:]), [names[code] for code in body[:n]], strict=True))
    except (zlib.error, struct.error, ValueError, IndexError):
        return ()


class _Stored(Node):
    """A message as it was read: what takes time to unpack is unpacked when it is first asked for.

    A long conversation has thousands of steps, of which a few are ever looked at.
    """

    __slots__ = ("_origins", "_steps", "packed_origins", "packed_steps")
    packed_origins: object
    packed_steps: object

    @property
    def origins(self) -> tuple[Origin, ...]:
        if self.packed_origins is not None:
            self._origins, self.packed_origins = unpack_origins(self.packed_origins), None
        return self._origins

    @origins.setter
    def origins(self, origins: tuple[Origin, ...]) -> None:
        self._origins, self.packed_origins = origins, None

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        if self.packed_steps is not None:
            self._steps, self.packed_steps = _steps(_json(self.packed_steps)), None
        return self._steps

    @steps.setter
    def steps(self, steps: tuple[StepRecord, ...]) -> None:
        self._steps, self.packed_steps = steps, None

    def __eq__(self, other: object) -> bool:
        """As messages are compared, whether or not they were read."""
        if not isinstance(other, Node):
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(Node))

    __hash__ = None  # type: ignore[assignment]  # as Node, which can change


def _parents_first(nodes: Sequence[Node]) -> dict[str, Node]:
    """Messages by id. One whose parent is not there, or is its own child, begins a branch instead."""
    known = {node.id for node in nodes}
    ordered: dict[str, Node] = {}
    waiting = list(nodes)
    while waiting:
        late = []
        for node in waiting:
            if node.parent is not None and node.parent not in known:
                node.parent = None
            if node.parent is None or node.parent in ordered:
                ordered[node.id] = node
            else:
                late.append(node)
        if len(late) == len(waiting):
            late[0].parent = None
        waiting = late
    return ordered


def _json(column: object) -> object:
    """The document in a column; None where there is none."""
    with suppress(ValueError, TypeError, RecursionError):
        document: object = json.loads(column)  # type: ignore[arg-type]  # TypeError is what it is for
        return document
    return None


def _attachments(document: object) -> tuple[Attachment, ...]:
    found = []
    for one in document if isinstance(document, list) else ():
        match one:
            case [str(name), str(text), int() | None as n_tokens]:
                found.append(Attachment(name, text, n_tokens))
    return tuple(found)


def _steps(document: object) -> tuple[StepRecord, ...]:
    try:
        return tuple(map(StepRecord.load, document)) if isinstance(document, list) else ()
    except (ValueError, TypeError):
        return ()


def _one_of(word: object, known: Sequence[_T], otherwise: _T) -> _T:
    return next((one for one in known if one == word), otherwise)


def _time(value: object) -> float:
    """Seconds since 1970; 0 for what is no time, which SQLite would not take."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
