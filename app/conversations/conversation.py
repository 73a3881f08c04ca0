"""A conversation as a tree of messages: an edited message and another answer are branches beside the first one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import time
from typing import Literal

from pardec_chat.app.conversations.record import AnswerRecord, Origin, StepRecord
from pardec_chat.app.conversations.setup import Setup

Role = Literal["user", "assistant"]
#: Of an answer: being written (by this process; found on disk it means that it was cut off), whole, stopped by the user,
#: at the token limit, or come to nothing. Messages of the user's are whole.
State = Literal["writing", "whole", "stopped", "length", "failed"]
#: Where a title is from: the first words of the first message, the model, or the user, whose titles nobody changes.
TitleBy = Literal["words", "model", "user"]


def new_id() -> str:
    """An id that no other message or conversation has."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text file that goes with a message. n_tokens: None while nobody counted them."""

    name: str
    text: str
    n_tokens: int | None = None


@dataclass(slots=True)
class Node:
    """A message. parent: the one before it, None for the first. created: seconds since 1970.

    origins: of an answer's tokens, empty where they are not known. error: why it failed.
    """

    role: Role
    text: str
    parent: str | None = None
    id: str = field(default_factory=new_id)
    created: float = field(default_factory=time)
    state: State = "whole"
    attachments: tuple[Attachment, ...] = ()
    origins: tuple[Origin, ...] = ()
    record: AnswerRecord | None = None
    steps: tuple[StepRecord, ...] = ()
    error: str = ""


@dataclass(slots=True)
class Conversation:
    """nodes: all messages by id, parents before children. leaf: the last message of the branch that is shown.

    unsent: what stands in the prompt and was not sent. updated: of its last message.
    """

    id: str = field(default_factory=new_id)
    title: str = ""
    title_by: TitleBy = "words"
    pinned: bool = False
    created: float = field(default_factory=time)
    updated: float = field(default_factory=time)
    setup: Setup = field(default_factory=Setup)
    unsent: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    leaf: str | None = None

    def path(self) -> list[Node]:
        """The branch that is shown, from its first message on."""
        path = list(self._up(self.leaf))
        path.reverse()
        return path

    def before(self, id: str) -> list[Node]:  # noqa: A002  # the field's own name
        """The messages that lead to this one, without it."""
        path = list(self._up(self.nodes[id].parent))
        path.reverse()
        return path

    def siblings(self, id: str) -> list[Node]:  # noqa: A002
        """This message and those in whose place it stands, oldest first."""
        node = self.nodes[id]
        return [one for one in self.nodes.values() if one.parent == node.parent and one.role == node.role]

    def add(self, node: Node) -> Node:
        """A message of the branch that is shown from now on."""
        assert node.parent is None or node.parent in self.nodes
        self.nodes[node.id] = node
        self.leaf, self.updated = node.id, max(self.updated, node.created)
        return node

    def show(self, id: str) -> None:  # noqa: A002
        """Show the branch through this message: behind it the newest one at each fork."""
        newest: dict[str | None, str] = {node.parent: node.id for node in self.nodes.values()}
        while id in newest:
            id = newest[id]  # noqa: A001
        self.leaf = id

    def _up(self, id: str | None) -> Iterator[Node]:  # noqa: A002
        while id is not None:
            node = self.nodes[id]
            yield node
            id = node.parent  # noqa: A001


@dataclass(frozen=True, slots=True)
class Summary:
    """A conversation in the list. snippet: text around what was searched for; empty where only the title holds it."""

    id: str
    title: str
    updated: float
    pinned: bool
    n_messages: int
    snippet: str = ""
