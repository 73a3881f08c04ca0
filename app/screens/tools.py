"""What opens over the chat, and what comes of it."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work

from pardec_chat.app import locations
from pardec_chat.app.chat import earlier
from pardec_chat.app.messages import EarlierChanged, EndpointSwitched, post
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.choosing import choose_method
from pardec_chat.app.screens.endpoint import EndpointScreen, Switching
from pardec_chat.app.screens.models import ModelsScreen
from pardec_chat.app.screens.pays import PaysScreen
from pardec_chat.app.screens.preset_file import PresetFile
from pardec_chat.app.screens.race import RaceScreen
from pardec_chat.app.screens.session import ChatOptions, EngineLike
from pardec_chat.app.screens.talk import Talk
from pardec_chat.app.widgets.note import Note
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.conversations.conversation import Conversation
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
        from pardec_chat.app.screens.history import HistoryScreen

        self.dialogue.settle()
        self.app.push_screen(HistoryScreen(self.dialogue.conversation.title, self.dialogue.conversation.path()))

    def action_pays(self) -> None:
        """What checking and guessing cost here, and what follows."""
        turn = self.dialogue.turn
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

    def commands(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """What the menu offers beside the keys: title, what it does, how."""
        yield "Export this conversation", "To Markdown or JSON", self.action_export
        yield "Import conversations", "Of this app, Open WebUI or LM Studio", self.action_import
        yield "Details of the last error", "Its causes, and what the log says", self.action_details
        yield "Settings file", "Where it is; made with all defaults where there is none", self.action_settings
        yield self.earlier_title, self.earlier_help, self.action_earlier

    @work(group="choose", exclusive=True)
    async def action_export(self) -> None:
        """Write the conversation to a file."""
        from pardec_chat.app.conversations import exchange, export
        from pardec_chat.app.plain_text import dump_json
        from pardec_chat.app.screens.exporting import ExportScreen

        self.dialogue.settle()
        conversation = self.dialogue.conversation
        if not conversation.nodes:
            self.notify("There is nothing to export yet.", markup=False)
            return

        def make(kind: str) -> str:
            return export.markdown(conversation) if kind == "markdown" else dump_json(exchange.dump(conversation))

        def write(path: Path, text: str, over: bool) -> None:
            export.write(path, text, overwrite=over)

        title, folder = conversation.title, locations.pictures()
        screen = ExportScreen(title, make, write, folder, partial(export.file_name, title))
        path = await self.app.push_screen_wait(screen)
        if path is not None:
            self.notify(f"Written to {visible_line(str(path))}", markup=False)

    @work(group="choose", exclusive=True)
    async def action_import(self) -> None:
        """Take conversations over from files."""
        from pardec_chat.app.conversations.importing import read
        from pardec_chat.app.screens.importing import ImportScreen

        keeper = self.dialogue.keeper
        if keeper is None:
            self.notify("Conversations are not kept here.", markup=False)
            return

        def take(conversations: Sequence[Conversation]) -> None:
            for conversation in conversations:
                keeper.put(conversation)
                for node in conversation.nodes.values():
                    keeper.put_node(conversation.id, node)

        n = await self.app.push_screen_wait(ImportScreen(read, take))
        if n:
            self.notify(f"{n:,} conversations came in." if n > 1 else "One conversation came in.", markup=False)
            self.list_changed()

    @abstractmethod
    def list_changed(self) -> None:
        """There are other conversations than before."""

    def action_details(self) -> None:
        """What is known about the last error."""
        from pardec_chat.app.screens.details import DetailsScreen

        error = self.talk.last_error
        if error is None:
            self.notify("Nothing has failed so far.", markup=False)
        else:
            self.app.push_screen(DetailsScreen(error, "", locations.log_file()))

    def action_settings(self) -> None:
        """Where the settings are; the file is made, all defaults in it, where there is none."""
        file = self.session.options.settings
        if file is None:
            self.notify("There is no settings file here.", markup=False)
            return
        try:
            if not file.path.exists():
                file.change({"look.theme": self.app.theme})
        except UserError as error:
            self.notify(visible_line(str(error)), severity="error", markup=False)
            return
        self.notify(f"{visible_line(str(file.path))} is read again whenever it is changed.", timeout=10, markup=False)

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
        from pardec_chat.app.screens.control import ControlScreen

        session, presets = self.session, PresetFile(self.session)
        changed = await self.app.push_screen_wait(
            ControlScreen(
                session.setup,
                session.names,
                session.why_not,
                presets.choices,
                presets.save,
                presets.delete,
                defaults=session.options.setup(),
            )
        )
        if changed is not None:
            self.use(changed.setup)
            if changed.models:
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
        taken = self.dialogue.used + sum(one.n_tokens or 0 for one in self.dialogue.attachments)
        room = 0 if session.loaded is None else session.loaded.n_ctx - taken
        attachment = await self.app.push_screen_wait(AttachScreen(read, engine.count, room, Path.cwd()))
        if attachment is not None:
            self.dialogue.attachments.append(attachment)
            self.talk.show_state()
        self.talk.prompt.focus()

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
        if not self.talk.can_answer(alone=True) or session.choice is None:
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
