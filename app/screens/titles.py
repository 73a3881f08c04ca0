"""Titles that the model makes while it has nothing else to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pardec_chat.app.conversations.title import QUESTION, clean
from pardec_chat.app.messages import Mailbox
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from pardec_chat.app.conversations.conversation import Conversation
    from pardec_chat.app.screens.dialogue import Dialogue
    from pardec_chat.app.screens.session import TicketLike

_MAX_TOKENS = 32


class Titles:
    """Asks behind the conversation itself, whose text is in the cache: only the question is read, and taken back again."""

    def __init__(self, dialogue: Dialogue, pump: MessagePump) -> None:
        self._dialogue = dialogue
        self._pump = pump
        self._conversation: Conversation | None = None
        self._mailbox: Mailbox | None = None
        self._ticket: TicketLike | None = None
        self._answer = ""
        self._tried: set[str] = set()

    @property
    def wanted(self) -> bool:
        """Whether the conversation that is shown has no title but its first words, and an answer that is whole."""
        dialogue, session = self._dialogue, self._dialogue.session
        conversation, answer = dialogue.conversation, dialogue.last_answer
        loaded = session.loaded
        return (
            session.options.makes_titles
            and conversation.title_by == "words"
            and conversation.id not in self._tried
            and answer is not None
            and answer.state == "whole"
            and loaded is not None
            and loaded.rewinds
            and session.loading is None
            and not dialogue.running
        )

    def ask(self) -> None:
        """Ask for a title where one is wanted; TurnEvents will follow."""
        from pardec_chat.app.chat.request import Message, Request
        from pardec_chat.backends.decoding.params import SamplingParams

        if not self.wanted:
            return
        dialogue, engine = self._dialogue, self._dialogue.session.engine
        answer = dialogue.last_answer
        assert engine is not None and answer is not None
        self._conversation = conversation = dialogue.conversation
        self._tried.add(conversation.id)
        self._answer = ""
        self._mailbox = Mailbox(0, self._pump)
        messages = dialogue.messages(answer, dialogue.session.setup.system)
        request = Request(
            messages=[*messages, Message("user", QUESTION)],
            sampling=SamplingParams(temperature=0.0),
            max_tokens=_MAX_TOKENS,
            method=Method.PLAIN,
            overflow="refuse",
            alone=True,
        )
        try:
            self._ticket = engine.submit(request, self._mailbox.put)
        except UserError:
            self._mailbox = None

    def give_up(self) -> None:
        """There is something else to do now; it is tried again behind the next answer."""
        if self._ticket is not None:
            self._ticket.cancel()
            if self._conversation is not None:
                self._tried.discard(self._conversation.id)
        self._ticket = self._mailbox = None

    def take(self, mailbox: Mailbox) -> Conversation | None:
        """Count the events of a title; gives the conversation that has a new one."""
        from pardec_chat.app.chat.request import Delta, Failed, Finished

        if mailbox is not self._mailbox:
            return None
        for event in mailbox.take():
            if isinstance(event, Delta):
                self._answer += event.text
            elif isinstance(event, Finished | Failed):
                self._mailbox = self._ticket = None
                whole = isinstance(event, Finished) and event.finish_reason == "stop"
                title = clean(self._answer + event.tail) if isinstance(event, Finished) and whole else None
                conversation = self._conversation
                # The user may have named it meanwhile.
                if title is not None and conversation is not None and conversation.title_by == "words":
                    conversation.title, conversation.title_by = title, "model"
                    return conversation
        return None
