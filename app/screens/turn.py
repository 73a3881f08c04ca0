"""An answer on its way: its events, the message that it becomes, and the reply that shows it while it is seen."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from pardec_chat.app.conversations.conversation import Conversation, Node, State
from pardec_chat.app.screens.answer import Answer, Asked
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.note import Note

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Event, Piece
    from pardec_chat.app.messages import Mailbox
    from pardec_chat.app.screens.session import TicketLike
    from pardec_chat.app.widgets.reply import Reply
    from pardec_chat.backends.errors import UserError

_STATES: dict[str, State] = {"stop": "whole", "length": "length", "cancelled": "stopped"}


class Turn:
    """Takes events as they come and draws them when it is asked to. Used on the UI thread alone.

    node: the answer, a message of `conversation`. reply: None while another conversation is shown.
    """

    def __init__(self, conversation: Conversation, node: Node, asked: Asked, mailbox: Mailbox, used: int) -> None:
        self.conversation = conversation
        self.node = node
        self.asked = asked
        self.mailbox = mailbox
        self.answer = Answer(used=used)
        self.reply: Reply | None = None
        self.ticket: TicketLike | None = None
        self._unwritten: list[Piece] = []
        self._opened = False
        self._kept = monotonic()

    def take(self, events: Sequence[Event]) -> None:
        """Count events, draw nothing."""
        for event in events:
            self._unwritten += self.answer.take(event)

    def fail(self, error: UserError) -> None:
        """There will be no answer."""
        self.answer.error = error

    def stop(self) -> None:
        """End it; what came of it stays."""
        if self.ticket is not None and not self.answer.over:
            self.ticket.cancel()
            self.answer.stop()

    def wants_keeping(self, seconds: float) -> bool:
        """Whether it was not kept for so long; it is from now on."""
        now = monotonic()
        if now - self._kept < seconds:
            return False
        self._kept = now
        return True

    def settle(self) -> Node:
        """Put what came so far into the message."""
        node, answer = self.node, self.answer
        node.text, node.origins, node.steps = answer.text, tuple(answer.origins), answer.steps()
        node.record = answer.record(self.asked)
        if answer.error is not None:
            node.state, node.error = "failed", str(answer.error)
        elif answer.finished is not None:
            node.state = _STATES[answer.finished.finish_reason]
        return node

    def follow(self, reply: Reply) -> None:
        """Show it in this reply, all that came before included."""
        self.reply = reply
        self._opened = False
        at, pieces = 0, []
        for length, origin in self.answer.origins:
            pieces.append((self.answer.text[at : at + length], origin))
            at += length
        self._unwritten = pieces

    def draw(self) -> None:
        """Bring the reply up to date."""
        answer, reply = self.answer, self.reply
        if reply is None:
            self._unwritten.clear()
            return
        if answer.waiting:
            reply.wait_for(answer.state)
        if answer.thinks and not self._opened:
            reply.begin_thinking()
            self._opened = True
        notices, answer.notices = answer.notices, []
        for notice in notices:
            reply.add_note(Note(notice))
        if self._unwritten:
            reply.write(self._unwritten)
            self._unwritten = []
        if answer.error is not None:
            reply.add_note(Note.of(answer.error))
        if answer.over:
            reply.finish(wording.answer(answer.record(self.asked)) if answer.finished is not None else ())
