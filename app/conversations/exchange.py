"""Conversations as JSON documents of our own, for other machines and for keeping.

A document holds `format`, `version`, what the conversation has, and its `messages`, parents before children. Each has an
`id` that means something within the document alone: what is imported gets new ones, so nothing is ever overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, get_args

from pardec_chat.app.conversations.columns import storable
from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node, Role, State, TitleBy
from pardec_chat.app.conversations.documents import Fields, ImportFailed, broken, is_sane
from pardec_chat.app.conversations.record import MOST_STEPS, AnswerRecord, Origin, StepRecord
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.backends.base import Method

FORMAT: Final = "pardec-chat conversation"
VERSION: Final = 1

#: Seconds since 1970 that any calendar can show.
_LATEST = 200_000_000_000
_METHODS = {method.value: method for method in Method}


def dump(conversation: Conversation) -> dict[str, object]:
    """The whole conversation, all branches of it, as JSON has it."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": conversation.title,
        "title_by": conversation.title_by,
        "pinned": conversation.pinned,
        "created": conversation.created,
        "updated": conversation.updated,
        "setup": conversation.setup.dump(),
        "unsent": conversation.unsent,
        "leaf": conversation.leaf,
        "messages": [_dump_node(node) for node in conversation.nodes.values()],
    }


def _dump_node(node: Node) -> dict[str, object]:
    document: dict[str, object] = {
        "id": node.id,
        "parent": node.parent,
        "role": node.role,
        "created": node.created,
        "text": node.text,
    }
    if node.state != "whole":
        # In a file it will never be written further.
        document["state"] = "stopped" if node.state == "writing" else node.state
    if node.error:
        document["error"] = node.error
    if node.attachments:
        document["attachments"] = [
            {"name": one.name, "text": one.text, "n_tokens": one.n_tokens} for one in node.attachments
        ]
    if node.origins:
        document["origins"] = _dump_origins(node.origins)
    if node.record is not None:
        document["record"] = node.record.dump()
    if node.steps:
        document["steps"] = [step.dump() for step in node.steps]
    return document


def _dump_origins(origins: Iterable[Origin]) -> str:
    """Each run of tokens with one origin as its name and their lengths: `plain 4 draft 3 2 5 plain 1`."""
    runs = groupby(origins, lambda origin: origin[1])
    return " ".join(" ".join((method.value, *(str(n) for n, _ in run))) for method, run in runs)


def load(document: object) -> Conversation:
    """The conversation of a document, with new ids. Raises ImportFailed, which names what is wrong and where."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        raise broken("it is no document of pardec-chat")
    fields = Fields(document, "the conversation")
    if (version := fields.whole("version")) > VERSION:
        raise ImportFailed(
            f"it is from a newer pardec-chat: it has format {version}, this one reads formats up to {VERSION}.",
            "Update pardec-chat, then import it again.",
        )
    conversation = Conversation(
        title=fields.text("title", ""),
        title_by=fields.choice("title_by", get_args(TitleBy), "words"),
        pinned=fields.flag("pinned"),
        setup=_load_setup(document.get("setup")),
        unsent=fields.text("unsent", ""),
    )
    conversation.created = fields.number("created", conversation.created, _LATEST)
    conversation.updated = fields.number("updated", conversation.created, _LATEST)
    ids: dict[str, str] = {}
    for number, one in enumerate(fields.items("messages"), 1):
        message = Fields(one, f"message {number}")
        node = _load_node(message, ids)
        id = message.text("id")  # noqa: A001  # the field's own name
        if id in ids:
            raise broken(f"message {number} has the id of an earlier one")
        ids[id] = node.id
        conversation.nodes[node.id] = node
    conversation.leaf = fields.reference("leaf", ids) if "leaf" in document else next(reversed(ids.values()), None)
    return conversation


def _load_node(message: Fields, ids: Mapping[str, str]) -> Node:
    text = message.text("text")
    node = Node(
        message.choice("role", get_args(Role)),
        text,
        message.reference("parent", ids),
        state=message.choice("state", get_args(State), "whole"),
        error=message.text("error", ""),
        attachments=tuple(
            Attachment(one.text("name"), one.text("text"), one.whole("n_tokens") if one.has("n_tokens") else None)
            for one in message.objects("attachments")
        ),
        origins=_load_origins(message.text("origins", ""), len(text), message.at),
        record=_load_record(message),
        steps=tuple(_load_step(one, message.at) for one in message.items("steps", ())[-MOST_STEPS:]),
    )
    if node.state == "writing":
        node.state = "stopped"
    node.created = message.number("created", node.created, _LATEST)
    return node


def _load_origins(line: str, n_characters: int, at: str) -> tuple[Origin, ...]:
    origins: list[Origin] = []
    method: Method | None = None
    for word in line.split():
        if word in _METHODS:
            method = _METHODS[word]
        elif method is not None and word.isascii() and word.isdigit() and len(word) < 10:
            origins.append((int(word), method))
        else:
            raise broken(f'"origins" of {at} are no methods and lengths')
    # Of a text that was changed by hand nobody knows any longer who wrote what.
    return tuple(origins) if sum(n for n, _ in origins) <= n_characters else ()


def _load_setup(document: object) -> Setup:
    if document is None:
        return Setup()
    if not isinstance(document, Mapping):
        raise broken('"setup" is no object')
    for key, value in document.items():
        if isinstance(value, int | float) and not is_sane(value, 2**64):
            raise broken(f'"{key}" of the setup is no number that can be set')
        # Asking a file system about a longer name is an error in itself.
        if key in ("model", "draft") and isinstance(value, str) and _is_too_long(value):
            raise broken(f'"{key}" of the setup is no path')
    return Setup.load({key: storable(value) if isinstance(value, str) else value for key, value in document.items()})


def _is_too_long(path: str) -> bool:
    return len(path) > 1000 or any(len(storable(name).encode()) > 255 for name in path.split("/"))


# Fields of AnswerRecord by their types as they are written there: what JSON has for them.
_RECORD_TYPES: dict[str, type | tuple[type, ...]] = {
    "str": str,
    "str | None": (str, type(None)),
    "int": int,
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "Method": str,
    "tuple[float, ...]": (list, tuple),
}


def _load_record(message: Fields) -> AnswerRecord | None:
    """None where there is none, or one with other figures, as another version has."""
    document = message.document.get("record")
    if document is None:
        return None
    fields = Fields(document, f"the record of {message.at}")
    values: dict[str, object] = {}
    for key, field in AnswerRecord.__dataclass_fields__.items():
        if key not in fields.document:
            return None
        value = fields.document[key]
        numbers = value if isinstance(value, list | tuple) else [value] if isinstance(value, int | float) else []
        if (
            isinstance(value, bool)
            or not isinstance(value, _RECORD_TYPES[str(field.type)])
            or not all(is_sane(number) for number in numbers)
        ):
            raise broken(f'"{key}" of {fields.at} is not what it should be')
        values[key] = storable(value) if isinstance(value, str) else value
    return AnswerRecord.load(values)


def _load_step(document: object, at: str) -> StepRecord:
    error = broken(f"a step of {at} is not what it should be")
    if not isinstance(document, list):
        raise error
    texts = [text for one in document if isinstance(one, list) for text in one]
    numbers = [one for one in document if isinstance(one, int | float)]
    if not all(isinstance(text, str) for text in texts) or not all(map(is_sane, numbers)):
        raise error
    try:
        step = StepRecord.load(
            [
                storable(one) if isinstance(one, str) else [*map(storable, one)] if isinstance(one, list) else one
                for one in document
            ]
        )
    except (TypeError, ValueError):
        raise error from None
    if not 0 <= step.n_accepted <= len(step.proposed):
        raise error
    return step
