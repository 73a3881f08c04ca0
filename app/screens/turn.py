"""An answer on its way and the reply that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pardec_chat.app.screens.answer import Answer
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Event
    from pardec_chat.backends.errors import UserError


class Turn:
    """Takes events as they come and draws them when it is asked to."""

    def __init__(self, reply: Reply, used: int) -> None:
        self.answer = Answer(used=used)
        self.reply = reply
        self._unwritten: list[str] = []

    def take(self, events: Sequence[Event]) -> None:
        """Count events, draw nothing."""
        self._unwritten += [self.answer.take(event) for event in events]

    def fail(self, error: UserError) -> None:
        """There will be no answer."""
        self.answer.error = error

    async def draw(self) -> None:
        """Bring the reply up to date."""
        answer = self.answer
        if answer.waiting:
            self.reply.wait_for(answer.state)
        notices, answer.notices = answer.notices, []
        for notice in notices:
            self.reply.add_note(Note(notice))
        pieces, self._unwritten = self._unwritten, []
        self.reply.write([(text, Method.PLAIN) for text in pieces if text])
        if answer.error is not None:
            self.reply.add_note(Note.of(answer.error))
        if answer.over:
            self.reply.finish(wording.answer(answer.finished) if answer.finished else ())
