"""Conversations as Open WebUI exports them.

An export is a list of chats, each of which is read for `title`, `created_at`, `updated_at`, `pinned` and `chat`, and that for
`title`, `timestamp`, `params.system` (earlier `system`), `history.currentId` and `history.messages`: by id, `parentId`,
`role`, `content`, `timestamp`, `model`, `modelName`, `files`, `done`, `error` and `output`. Exports without a history have
`chat.messages`, the shown branch alone. Reasoning is in `content` as `<details type="reasoning">` with quoted lines.
"""

from __future__ import annotations

import heapq
import html
import re
from collections.abc import Mapping
from typing import Final

from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node, Role
from pardec_chat.app.conversations.foreign import Skipped, answered_by, items, mapping, moment, name_it, text_of
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.plain_text import visible_line

SOURCE: Final = "Open WebUI"

_DETAILS, _DETAILS_END = '<details type="', "</details>"
_SUMMARY = re.compile(r"\s*<summary>[^<]*</summary>\n?")
_QUOTE = re.compile(r"^> ?", re.MULTILINE)
# Kinds of output items that are neither text nor reasoning.
_CALLS = ("function_call", "custom_tool_call", "code_interpreter_call")


def is_chat(document: object) -> bool:
    """Whether this is one chat of an export."""
    if not isinstance(document, Mapping):
        return False
    chat = document.get("chat")
    if not isinstance(chat, Mapping):
        return False
    history = chat.get("history")
    return (isinstance(history, Mapping) and isinstance(history.get("messages"), Mapping)) or _is_flat(chat)


def _is_flat(chat: Mapping[str, object]) -> bool:
    messages = chat.get("messages")
    return isinstance(messages, list) and all(isinstance(one, Mapping) and "role" in one for one in messages)


def convert(document: Mapping[str, object], otherwise: float) -> tuple[Conversation, Skipped]:
    """The chat with all its branches, and what of it is left behind. otherwise: the time of what has none."""
    chat = mapping(document.get("chat"))
    skipped = Skipped()
    created = moment(document.get("created_at")) or moment(chat.get("timestamp")) or otherwise
    system = text_of(mapping(chat.get("params")).get("system")) or text_of(chat.get("system"))
    conversation = Conversation(created=created, updated=created, pinned=document.get("pinned") is True)
    messages, current = _messages(chat)
    nodes: dict[str, str | None] = {}
    for id, parent in _in_order(messages, skipped):  # noqa: A001  # the field's own name
        message = messages[id]
        before = nodes.get(parent) if parent is not None else None
        role = message.get("role")
        if role == "system":
            system = system or _content(message.get("content"), Skipped())
        elif role in ("user", "assistant"):
            node = _node("user" if role == "user" else "assistant", message, skipped)
            node.parent = before
            node.created = moment(message.get("timestamp")) or (
                conversation.nodes[before].created if before else created
            )
            before = conversation.add(node).id
        else:
            skipped.add("other message")
        # What follows a message that is left out follows the one before it.
        nodes[id] = before
    conversation.leaf = nodes.get(current, conversation.leaf) if current is not None else conversation.leaf
    conversation.updated = moment(document.get("updated_at")) or conversation.updated
    conversation.setup = Setup(system=system)
    name_it(conversation, document.get("title") or chat.get("title"))
    return conversation, skipped


def _messages(chat: Mapping[str, object]) -> tuple[dict[str, Mapping[str, object]], str | None]:
    """The messages by id and the id of the last one shown."""
    history = mapping(chat.get("history"))
    messages = {str(key): one for key, one in mapping(history.get("messages")).items() if isinstance(one, Mapping)}
    if messages:
        current = history.get("currentId")
        return messages, current if isinstance(current, str) else None
    rows = [one for one in items(chat.get("messages")) if isinstance(one, Mapping)]
    return {
        str(number): {**one, "parentId": str(number - 1) if number else None} for number, one in enumerate(rows)
    }, None


def _in_order(messages: Mapping[str, Mapping[str, object]], skipped: Skipped) -> list[tuple[str, str | None]]:
    """The messages and their parents as they were written, parents before children; those in a circle are left out."""
    children: dict[str | None, list[tuple[float, int, str]]] = {}
    for number, (id, message) in enumerate(messages.items()):  # noqa: A001
        parent = message.get("parentId")
        known = parent if isinstance(parent, str) and parent in messages else None
        children.setdefault(known, []).append((moment(message.get("timestamp")) or 0.0, number, id))
    ready: list[tuple[float, int, str, str | None]] = [(*one, None) for one in children.get(None, [])]
    heapq.heapify(ready)
    order: list[tuple[str, str | None]] = []
    while ready:
        _, _, id, parent_id = heapq.heappop(ready)  # noqa: A001
        order.append((id, parent_id))
        for child in children.get(id, []):
            heapq.heappush(ready, (child[0], child[1], child[2], id))
    for _ in range(len(messages) - len(order)):
        skipped.add("unlinked message")
    return order


def _node(role: Role, message: Mapping[str, object], skipped: Skipped) -> Node:
    text = _content(message.get("content"), skipped)
    attachments = _attachments(message.get("files"), skipped)
    if role == "user":
        return Node(role, text, attachments=attachments)
    text = _with_output(_without_details(text, skipped), message.get("output"), skipped)
    node = Node(role, text, record=answered_by(message.get("modelName") or message.get("model"), SOURCE))
    for _ in attachments:
        skipped.add("file")
    if error := message.get("error"):
        node.state = "failed"
        node.error = visible_line(text_of(mapping(error).get("content") or error)) or "It failed."
    elif message.get("done") is False:
        node.state = "stopped"
    return node


def _content(content: object, skipped: Skipped) -> str:
    """The text of a message: one, or the texts of several parts."""
    if not isinstance(content, list):
        return text_of(content)
    texts = []
    for part in content:
        kind = mapping(part).get("type")
        if kind in ("text", "output_text", "summary_text", "reasoning_text"):
            texts.append(text_of(mapping(part).get("text")))
        else:
            skipped.add("image" if kind in ("image", "image_url", "input_image") else "other part")
    return "\n".join(texts)


def _without_details(text: str, skipped: Skipped) -> str:
    """Reasoning between our marks; tool calls left out; code that was run as a block of code."""
    parts, at = [], 0
    while (start := text.find(_DETAILS, at)) >= 0:
        head = text.find(">", start)
        end = text.find(_DETAILS_END, head)
        if head < 0 or end < 0:
            break
        kind = text[start + len(_DETAILS) : head].split('"', 1)[0]
        body = _SUMMARY.sub("", text[head + 1 : end], count=1).strip("\n")
        before = text[at:start]
        parts.append(before if not before or before.endswith("\n") else before + "\n")
        at = end + len(_DETAILS_END)
        if kind == "reasoning":
            # Later versions escape the text, earlier ones do not.
            body = html.unescape(body) if body.startswith("&gt;") else body
            parts.append(f"<think>\n{_QUOTE.sub('', body)}\n</think>\n")
        elif kind == "code_interpreter":
            parts.append(body)
        elif kind == "tool_calls":
            skipped.add("tool call")
        else:
            parts.append(text[start:at])
    parts.append(text[at:])
    return "".join(parts).strip("\n") if at else text


def _with_output(text: str, output: object, skipped: Skipped) -> str:
    """The text with what only `output` has, which the latest versions keep an answer in, item by item."""
    if not isinstance(output, list):
        return text
    thoughts, texts = [], []
    for item in map(mapping, output):
        kind = item.get("type")
        if kind == "reasoning":
            thoughts.append(_content(item.get("content") or item.get("summary") or "", skipped))
        elif kind == "message":
            texts.append(_content(item.get("content"), skipped))
        elif kind in _CALLS:
            skipped.add("tool call")
    text = text or "\n".join(filter(None, texts))
    thought = "\n".join(filter(None, thoughts)).strip("\n")
    return f"<think>\n{thought}\n</think>\n\n{text}" if thought and "<think>" not in text else text


def _attachments(files: object, skipped: Skipped) -> tuple[Attachment, ...]:
    """The files whose text is in the export."""
    attachments = []
    for file in map(mapping, items(files)):
        inner = mapping(file.get("file"))
        text = text_of(mapping(inner.get("data")).get("content")) or text_of(file.get("content"))
        name = visible_line(text_of(file.get("name")) or text_of(inner.get("filename")))
        if file.get("type") == "image" or text_of(file.get("content_type")).startswith("image/"):
            skipped.add("image")
        elif text:
            attachments.append(Attachment(name or "file", text))
        else:
            skipped.add("file")
    return tuple(attachments)
