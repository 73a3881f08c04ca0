"""What opens over the chat, and what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work

from pardec_chat.app.chat import earlier
from pardec_chat.app.messages import EarlierChanged, EndpointSwitched, post
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.choosing import choose_method
from pardec_chat.app.screens.endpoint import EndpointScreen, Switching
from pardec_chat.app.screens.models import ModelsScreen
from pardec_chat.app.screens.pays import PaysScreen
from pardec_chat.app.screens.presets import Presets
from pardec_chat.app.screens.race import RaceScreen
from pardec_chat.app.screens.session import ChatOptions, EngineLike
from pardec_chat.app.screens.talk import Talk
from pardec_chat.app.widgets.note import Note
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.conversations.setup import Setup

logger = logging.getLogger(__name__)


class ToolsScreen(ModelsScreen):
    """Opens screens on the conversation, and hands on what was chosen there."""

    def __init__(self, options: ChatOptions, make_engine: Callable[[], EngineLike]) -> None:
        super().__init__(options, make_engine)
        self.talk = Talk(self.session, lambda: self.state)
        self.dialogue = self.talk.dialogue
        # The endpoint on its way on or off.
        self._switching: Switching | None = None
        #: Where it listened last, else where it is to listen.
        self._port = options.port

    def action_history(self) -> None:
        """The figures of all answers of this conversation."""
        self.app.push_screen(HistoryScreen(self.dialogue.conversation.title, self.dialogue.conversation.path()))

    def action_pays(self) -> None:
        """What checking and guessing cost here, and what follows."""
        turn = self.dialogue.shown_turn
        used = self.dialogue.used if turn is None else turn.answer.context_used
        self.app.push_screen(PaysScreen(self.session, used))

    @property
    def earlier_title(self) -> str:
        """What the palette offers about earlier answers, as things are now."""
        return "Forget earlier answers" if earlier.is_agreed() else "Copy from earlier answers"

    @property
    def earlier_help(self) -> str:
        """What that means."""
        return (
            "Deletes the answers that were kept for n-grams, and keeps no more"
            if earlier.is_agreed()
            else "Keeps the tokens of answers on this disk, so that n-grams can copy from them in later conversations"
        )

    def action_earlier(self) -> None:
        """Begin to keep answers for n-grams, or forget them; the engine says when it is done."""
        engine, agreed = self.session.engine, not earlier.is_agreed()
        if engine is None:
            self.notify(f"Not yet: {self.state}.", markup=False)
            return

        def report(future: Future[None]) -> None:
            if not future.cancelled():  # as when the app is left meanwhile
                post(self, EarlierChanged(agreed, future.exception()))

        engine.use_earlier(agreed).add_done_callback(report)

    @on(EarlierChanged)
    def tell_earlier(self, message: EarlierChanged) -> None:
        """Say what holds from now on."""
        if message.error is not None:
            self.notify(visible_line(str(message.error)), severity="error", markup=False)
        elif message.agreed:
            self.notify("Answers are kept from now on, and n-grams copy from them.", markup=False)
        else:
            self.notify("The earlier answers are deleted, and no more are kept.", markup=False)

    @work(group="choose", exclusive=True)
    async def action_choose_method(self) -> None:
        """What guesses, from the next answer on."""
        method = await choose_method(self.app, self.session)
        if method is not None and method != self.session.method:
            self.use(replace(self.session.setup, method=method, depth=None))

    def use(self, setup: Setup) -> None:
        """Answers of this conversation are asked with this from now on."""
        self.session.setup = setup
        self.dialogue.put()
        if not self.dialogue.busy:
            self.dialogue.turn = None
        self.show_state()

    @work(group="choose", exclusive=True)
    async def action_control(self) -> None:
        """What answers are asked with, all in one place."""
        from pardec_chat.app.screens.control import CHOOSE_MODELS, Changed, ControlScreen

        session, presets = self.session, Presets(self.session)
        result = await self.app.push_screen_wait(
            ControlScreen(session.setup, session.names, session.why_not, presets.choices, presets.save, presets.delete)
        )
        if isinstance(result, Changed):
            self.use(result.setup)
        elif result == CHOOSE_MODELS:
            await self.choose_models()

    @work(group="choose", exclusive=True)
    async def action_attach(self) -> None:
        """A text file for the next message."""
        from pardec_chat.app.conversations.attaching import read
        from pardec_chat.app.screens.attach import AttachScreen

        session, engine = self.session, self.session.engine
        if engine is None:
            self.notify(f"Not yet: {self.state}.", markup=False)
            return
        room = 0 if session.loaded is None else session.loaded.n_ctx - self.dialogue.used
        attachment = await self.app.push_screen_wait(AttachScreen(read, engine.count, room, Path.cwd()))
        if attachment is not None:
            self.dialogue.attachments.append(attachment)
            self.talk.show_state()
        self.prompt.focus()

    @work(group="choose", exclusive=True)
    async def action_endpoint(self) -> None:
        """Let other programs ask this model, see what they ask, or end it."""
        session = self.session
        endpoint = session.endpoint
        if endpoint is None or session.loaded is None or session.loading is not None:
            self.notify(f"Not yet: {self.state}.", markup=False)
            return
        pending, self._switching = self._switching, None
        self._switching = await self.app.push_screen_wait(EndpointScreen(endpoint, self._port, pending))
        if endpoint.address is not None:
            self._port = endpoint.address.port
        if self._switching is not None:
            self._switching.tell(self)
        self.show_state()

    @on(EndpointSwitched)
    def tell_switched(self, message: EndpointSwitched) -> None:
        """The endpoint went on or off after its screen was left."""
        if message.change is not self._switching:
            return
        self._switching = None
        error = message.change.error
        if isinstance(error, UserError):
            self.notify(visible_line(str(error)), severity="error", markup=False)
        elif error is not None:  # its words may hold the key
            self.notify(
                f"The endpoint: a fault of this program, {type(error).__name__}.", severity="error", markup=False
            )
        self.show_state()

    @work(group="choose", exclusive=True)
    async def action_race(self) -> None:
        """Two ways of decoding side by side; the models make room for it and come back afterwards."""
        session = self.session
        if not self.talk.can_answer() or session.choice is None:
            return
        if session.listening:
            self.notify("The endpoint is on, and a race needs the machine for itself: ^E ends it.", markup=False)
            return
        asked = [node.text for node in self.dialogue.conversation.path() if node.role == "user"]
        error = await self.app.push_screen_wait(RaceScreen(session, asked[-1] if asked else ""))
        if error is not None:
            logger.error("no race", exc_info=error)
            await self.note(Note.of(error, "There is no race:"))
        self.load(*session.choice, back=True)
