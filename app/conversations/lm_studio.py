"""Conversations as LM Studio keeps them, `~/.lmstudio/conversations/**/*.conversation.json`.

The format is not documented. A file is read for `name`, `pinned`, `createdAt` (ms), `userLastMessagedAt`,
`assistantLastMessagedAt`, `systemPrompt`, `perChatPredictionConfig.fields` (`llm.prediction.systemPrompt`),
`lastUsedModel.identifier`, `clientInput` and `messages`. A message is its `versions` and the place of the one that is
`currentlySelected`; what follows was said to that one. A version is a `singleStep` with `role` and `content`, or a `multiStep`
with `role`, `senderInfo.senderName` and `steps`. Of these a `contentBlock` has `content`, `style.type` "thinking" for
reasoning, `genInfo.stats.stopReason`, and a `stepIdentifier` that begins with a time. Content is a list of parts, of which
the `text` ones are taken, unless they are `isStructural`, the model's own marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pardec_chat.app.conversations.conversation import Conversation, Node, State
from pardec_chat.app.conversations.foreign import Skipped, answered_by, items, mapping, moment, name_it, text_of
from pardec_chat.app.conversations.setup import Setup

SOURCE: Final = "LM Studio"

_SYSTEM = "llm.prediction.systemPrompt"
_STATES: dict[object, State] = {
    "userStopped": "stopped",
    "modelUnloaded": "stopped",
    "maxPredictedTokensReached": "length",
    "contextLengthReached": "length",
    "failed": "failed",
}


def is_conversation(document: object) -> bool:
    """Whether this is a conversation file."""
    if not isinstance(document, Mapping) or not isinstance(messages := document.get("messages"), list):
        return False
    if not messages:
        return "perChatPredictionConfig" in document or "lastUsedModel" in document
    return all(isinstance(one, Mapping) and isinstance(one.get("versions"), list) for one in messages)


def convert(document: Mapping[str, object], otherwise: float) -> tuple[Conversation, Skipped]:
    """The conversation with all versions, and what of it is left behind. otherwise: the time of what has none."""
    skipped = Skipped()
    created = moment(document.get("createdAt")) or otherwise
    conversation = Conversation(created=created, updated=created, pinned=document.get("pinned") is True)
    last_model = mapping(document.get("lastUsedModel")).get("identifier")
    system = _system(document)
    now, leaf = created, None
    for message in map(mapping, items(document.get("messages"))):
        nodes: list[Node | None] = []
        for version in map(mapping, items(message.get("versions"))):
            role = version.get("role") or message.get("role")
            if role == "system":
                system = system or _text(version, skipped)
                nodes.append(None)
                continue
            node = _node(version, skipped, last_model) if role == "assistant" else None
            if role == "user":
                node = Node("user", _text(version, skipped))
            if node is None:
                skipped.add("other message")
            else:
                node.parent, node.created = leaf, _time(version) or now
                conversation.add(node)
            nodes.append(node)
        selected = message.get("currentlySelected")
        place = selected if isinstance(selected, int) and 0 <= selected < len(nodes) else -1
        shown = nodes[place] if nodes else None
        if shown is not None:
            leaf, now = shown.id, max(now, shown.created)
    conversation.leaf = leaf
    for key in ("userLastMessagedAt", "assistantLastMessagedAt"):
        conversation.updated = max(conversation.updated, moment(document.get(key)) or 0.0)
    conversation.setup = Setup(system=system)
    conversation.unsent = text_of(document.get("clientInput"))
    name_it(conversation, document.get("name"))
    return conversation, skipped


def _system(document: Mapping[str, object]) -> str:
    for field in map(mapping, items(mapping(document.get("perChatPredictionConfig")).get("fields"))):
        if field.get("key") == _SYSTEM and (system := text_of(field.get("value"))):
            return system
    return text_of(document.get("systemPrompt"))


def _node(version: Mapping[str, object], skipped: Skipped, last_model: object) -> Node:
    node = Node("assistant", _text(version, skipped))
    model = mapping(version.get("senderInfo")).get("senderName")
    for step in map(mapping, items(version.get("steps"))):
        info = mapping(step.get("genInfo"))
        model = model or info.get("identifier")
        stopped = mapping(info.get("stats")).get("stopReason")
        if isinstance(stopped, str):
            node.state = _STATES.get(stopped, "whole")
    if node.state == "failed":
        node.error = f"It failed in {SOURCE}."
    node.record = answered_by(model or last_model, SOURCE)
    return node


def _text(version: Mapping[str, object], skipped: Skipped) -> str:
    """The text of a version, its reasoning between our marks."""
    if "steps" not in version:
        return _content(version.get("content"), skipped, "\n")
    texts = []
    for step in map(mapping, items(version.get("steps"))):
        # The other kinds say how it went: debugInfoBlock, toolStatus, status.
        if step.get("type") != "contentBlock":
            continue
        # An answer's parts are the tokens of the two models, one after the other.
        text = _content(step.get("content"), skipped, "").strip("\n")
        if text.strip() and mapping(step.get("style")).get("type") == "thinking":
            text = f"<think>\n{text}\n</think>"
        if text:
            texts.append(text)
    return "\n\n".join(texts)


def _content(content: object, skipped: Skipped, between: str) -> str:
    if isinstance(content, str):
        return text_of(content)
    texts = []
    for part in map(mapping, items(content)):
        kind = part.get("type")
        if kind == "text":
            if part.get("isStructural") is not True:
                texts.append(text_of(part.get("text")))
        elif kind == "file":
            skipped.add("image" if part.get("fileType") == "image" else "file")
        elif kind == "toolCallRequest":
            skipped.add("tool call")
        elif kind != "toolCallResult":
            skipped.add("other part")
    return between.join(texts)


def _time(version: Mapping[str, object]) -> float | None:
    """When the first step began."""
    for step in map(mapping, items(version.get("steps"))):
        digits = text_of(step.get("stepIdentifier")).partition("-")[0]
        if len(digits) == 13 and digits.isascii() and digits.isdigit():
            return moment(int(digits))
    return None
