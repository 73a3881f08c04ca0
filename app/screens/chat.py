"""The chat: one conversation, its prompt, and the figures of the answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from pardec_chat.app.chat import earlier
from pardec_chat.app.messages import (
    EarlierChanged,
    EndpointSwitched,
    EngineMissing,
    EngineReady,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    PromptSubmitted,
    TurnEvents,
    post,
)
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.answer import Answer
from pardec_chat.app.screens.choosing import choose_method, choose_models, choose_way, get_models
from pardec_chat.app.screens.endpoint import EndpointScreen, Switching
from pardec_chat.app.screens.help import HelpScreen
from pardec_chat.app.screens.pays import PaysScreen
from pardec_chat.app.screens.race import RaceScreen
from pardec_chat.app.screens.session import ChatOptions, EngineLike, Session
from pardec_chat.app.screens.turn import Turn
from pardec_chat.app.widgets.body import Body
from pardec_chat.app.widgets.header import Header
from pardec_chat.app.widgets.keys import Keys
from pardec_chat.app.widgets.message import UserMessage
from pardec_chat.app.widgets.metrics import MetricsPanel
from pardec_chat.app.widgets.metrics_line import MetricsLine
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.pacer import Pacer
from pardec_chat.app.widgets.prompt import Prompt
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.app.widgets.transcript import Transcript
from pardec_chat.app.widgets.welcome import Welcome
from pardec_chat.backends.errors import DoesNotFit, UserError

logger = logging.getLogger(__name__)

Figures = Literal["panel", "line", "none"]
_CYCLE: tuple[Figures, ...] = ("panel", "line", "none")
#: From this width on the panel stands beside the conversation unless the user wants it otherwise.
_WIDE = 100
#: Keys that the line at the bottom shows only where it is wide.
_SELDOM = ("f5", "f6", "f7")
_NO_MODEL = "No model is loaded: F3 chooses one, F7 gets more."


class ChatScreen(Screen[None]):
    """Moves what the session and its answer say into the widgets; the widgets hold no state of their own."""

    AUTO_FOCUS = "Prompt"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]  # noqa: RUF012  # the name and the kind are Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "stop", key_display="esc", tooltip="End the answer; what came stays", id="stop"),
        Binding("ctrl+r", "again", "again", tooltip="Another answer to the last message", id="again"),
        Binding("ctrl+n", "new", "new", tooltip="A new conversation", id="new"),
        Binding("f2", "choose_method", "method", key_display="F2", tooltip="What guesses ahead", id="method"),
        Binding("f3", "choose_models", "model", key_display="F3", tooltip="Model and draft model", id="model"),
        Binding("f4", "pays", "pays?", key_display="F4", tooltip="Whether guessing pays here, and why", id="pays"),
        Binding("f5", "figures", "panel", key_display="F5", tooltip="Figures: panel, one line, none", id="panel"),
        # With priority, since a text area marks a line with F6 and all with F7.
        Binding(
            "f6",
            "race",
            "race",
            show=False,
            key_display="F6",
            priority=True,
            tooltip="Two methods side by side",
            id="race",
        ),
        Binding(
            "f7",
            "get_models",
            "get",
            show=False,
            key_display="F7",
            priority=True,
            tooltip="More models: download one, or take a file of yours",
            id="get",
        ),
        # With priority, since a text area goes to the line's end with it; so does the key of that name.
        Binding(
            "ctrl+e",
            "endpoint",
            "endpoint",
            show=False,
            priority=True,
            tooltip="The endpoint: other programs ask this model",
            id="endpoint",
        ),
        Binding("f1", "help", "keys", key_display="F1", tooltip="All keys, what the figures mean", id="help"),
    ]

    def __init__(self, options: ChatOptions, make_engine: Callable[[], EngineLike]) -> None:
        super().__init__()
        self.session = Session(options, make_engine, self)
        self._turn: Turn | None = None
        # Tokens of the context that are taken while no answer says so.
        self._used = 0
        self._figures: Figures | None = None
        # The load that brings back what was there before a race: nothing is new then.
        self._load_back = 0
        # The endpoint on its way on or off.
        self._switching: Switching | None = None
        #: Where it listened last, else where it is to listen.
        self._port = options.port
        self._pace = Pacer(self, self._draw)

    # ---- what is seen ----

    def compose(self) -> ComposeResult:
        """Title line, conversation beside the panel, the folded figures, prompt, keys."""
        yield Header()
        yield Body()
        yield MetricsLine()
        with Horizontal(id="entry"):
            yield Static("›", id="glyph")
            yield Prompt()
        yield Keys(_SELDOM)

    @property
    def conversation(self) -> Transcript:
        """The messages."""
        return self.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        """Where the user writes."""
        return self.query_one(Prompt)

    async def on_mount(self) -> None:
        """Everything slow begins behind the first paint."""
        await self.conversation.add(Welcome())
        self._place_figures()
        self._show_state()
        self.call_after_refresh(self.session.start)
        options = self.session.options
        if options.model is None and options.wizard is not None and not options.choices():
            self.call_after_refresh(self._get_models, first=True)

    def on_resize(self) -> None:
        """Figures go where there is room."""
        self._place_figures()

    def _place_figures(self) -> None:
        shown = self.figures
        for name in _CYCLE:
            self.set_class(name == shown, f"-figures-{name}")

    @property
    def figures(self) -> Figures:
        """Where the figures are: as the user wants, else as the width allows."""
        return self._figures or ("panel" if self.app.size.width >= _WIDE else "line")

    @property
    def state(self) -> str:
        """What is going on, in words."""
        session = self.session
        if session.loading is not None:
            return session.load_state
        if self._turn is not None and not self._turn.answer.over:
            return self._turn.answer.state
        if session.engine is None:
            return "no engine" if session.broken else "starting"
        return "no model" if session.loaded is None else "ready"

    def _show_state(self) -> None:
        """Title line, prompt and figures as things are now."""
        session = self.session
        header = self.query_one(Header)
        header.names, header.endpoint = session.names, session.listening
        usable = session.loaded is not None or session.loading is not None or session.engine is None
        self.prompt.disabled = not usable
        self.prompt.placeholder = "" if usable else _NO_MODEL
        self._show_progress()

    def _show_progress(self) -> None:
        session = self.session
        self.query_one(Header).state = self.state
        for welcome in self.query(Welcome):
            welcome.show(*session.names, self.state)
        answer = self._turn.answer if self._turn is not None else Answer(used=self._used)
        n_ctx = session.loaded.n_ctx if session.loaded is not None else 0
        readout = answer.readout(session.method.value, session.depth, n_ctx)
        self.query_one(MetricsPanel).readout = readout
        self.query_one(MetricsLine).readout = readout

    # ---- the engine and its models ----

    @on(EngineReady)
    def load_first(self) -> None:
        """The engine is there: load what the app was started with."""
        options = self.session.options
        if options.model is not None:
            self._load(options.model, options.draft)
        self._show_state()

    @on(EngineMissing)
    async def tell_missing(self, message: EngineMissing) -> None:
        """Without an engine there is nothing to do but say so."""
        logger.error("no engine", exc_info=message.error)
        self.session.broken = True
        await self._note(Note.of(message.error, "The program cannot start its engine."))
        self._show_state()

    def _load(self, model: Path, draft: Path | None) -> None:
        if self.session.engine is None:  # it is still being made, and loads this first then
            self.session.options = replace(self.session.options, model=model, draft=draft)
        self.session.load(model, draft)
        self._show_state()

    @on(LoadProgress)
    def show_progress(self, message: LoadProgress) -> None:
        """A part of the file was read."""
        if message.load == self.session.load_number and self.session.loading is not None:
            self.session.take_progress(message.done)
            self._pace()

    @on(ModelLoaded)
    async def take_model(self, message: ModelLoaded) -> None:
        """A model is ready to answer."""
        if message.load != self.session.load_number:
            return
        back, before = message.load == self._load_back, self.session.loaded
        told = before.notices if back and before is not None else ()
        change = self.session.take_loaded(message.loaded)
        if not back:
            self._turn, self._used = None, 0
        for notice in filter(None, (*message.loaded.notices, change)):
            if notice not in told:
                await self._note(Note(notice))
        self._show_state()
        self.prompt.focus()

    @on(LoadFailed)
    async def tell_failed_load(self, message: LoadFailed) -> None:
        """Say why and what next; what was loaded before comes back."""
        if message.load != self.session.load_number:
            return
        names, wanted = self.session.names, self.session.loading
        if not isinstance(message.error, UserError):
            logger.error("a load failed", exc_info=message.error)
        back = self.session.take_failed_load(message.error)
        if isinstance(message.error, DoesNotFit) and wanted is not None:
            self._choose_way(message.error, wanted, names)
        else:
            await self._note(Note.of(message.error, f"{names[0]} was not loaded."))
        if back:
            await self._note(Note(f"Back to {self.session.names[0]}."))
        self._show_state()

    async def _note(self, note: Note) -> None:
        await self.conversation.add(note)

    # ---- a turn ----

    @on(PromptSubmitted)
    async def ask(self, message: PromptSubmitted) -> None:
        """Mount the message and an empty reply, hand the conversation to the engine."""
        session = self.session
        if session.busy or session.loaded is None or session.loading is not None:
            why = "An answer is being written: esc stops it." if session.busy else f"Not yet: {self.state}."
            self.notify(why, markup=False)
            self.prompt.give_back(message.text)
            return
        await self.query(Welcome).remove()
        await self.conversation.add(UserMessage(message.text))
        await self._begin(lambda: session.ask(message.text))

    async def _begin(self, submit: Callable[[], None]) -> None:
        reply = Reply(self.session.names[0])
        await self.conversation.add(reply)
        self.conversation.anchor()
        self._turn = Turn(reply, self._used)
        try:
            submit()
        except UserError as error:
            self._turn.fail(error)
        await self._turn.draw()
        self._show_state()

    @on(TurnEvents)
    async def take_events(self, message: TurnEvents) -> None:
        """Events of an answer; drawn soon, at the end of it at once."""
        events = message.mailbox.take()
        turn = self._turn
        if message.mailbox.turn != self.session.turn or turn is None:
            return
        turn.take(events)
        if not turn.answer.over:
            self._pace()
            return
        self._pace.drop()
        self._used = turn.answer.context_used
        self.session.finish(turn.answer.text, failed=turn.answer.error is not None)
        await turn.draw()
        self._show_state()

    async def _draw(self) -> None:
        self._show_progress()
        turn = self._turn
        if turn is not None and not turn.answer.over:
            await turn.draw()

    # ---- what keys do ----

    def action_stop(self) -> None:
        """End the answer; what came of it stays."""
        if self.session.busy and self._turn is not None:
            self.session.stop()
            self._turn.answer.stop()
            self._pace()

    async def action_again(self) -> None:
        """Another answer to the last message, in the place of the last one."""
        if not self.session.exchanges or self.session.loaded is None or self.session.loading is not None:
            self.notify("There is nothing to answer again yet.", markup=False)
            return
        replies = self.query(Reply)
        if replies:
            await self.conversation.remove_from(replies.last())
        await self._begin(self.session.again)

    async def action_new(self) -> None:
        """A new conversation."""
        self.session.clear()
        self._turn, self._used = None, 0
        await self.conversation.clear()
        await self.conversation.add(Welcome())
        self._show_state()
        self.prompt.focus()

    def action_figures(self) -> None:
        """The next place for the figures."""
        self._figures = _CYCLE[(_CYCLE.index(self.figures) + 1) % len(_CYCLE)]
        self._place_figures()

    def action_read(self, where: str) -> None:
        """Read on or back while the prompt keeps the keys."""
        self.conversation.read(where)

    def action_pays(self) -> None:
        """What checking and guessing cost here, and what follows."""
        answer = self._turn.answer if self._turn is not None else None
        self.app.push_screen(PaysScreen(self.session, self._used if answer is None else answer.context_used))

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

    def action_help(self) -> None:
        """All keys, what the figures mean, and the promise."""
        self.app.push_screen(HelpScreen([*self.BINDINGS, *self.app.BINDINGS]))

    @work(group="choose", exclusive=True)
    async def action_choose_method(self) -> None:
        """What guesses, from the next answer on."""
        method = await choose_method(self.app, self.session)
        if method is not None and method != self.session.method:
            self.session.method = method
            if not self.session.busy:
                self._turn = None
            self._show_state()

    @work(group="choose", exclusive=True)
    async def action_choose_models(self) -> None:
        """Which models, from the next answer on."""
        if self.session.engine is None:
            return
        try:
            choice = await choose_models(self.app, self.session)
        except UserError as error:
            self.notify(visible_line(str(error)), severity="error", markup=False)
            return
        if choice is not None:
            self._load(*choice)

    def action_get_models(self) -> None:
        """More models: the wizard."""
        if self.session.options.wizard is None:
            self.notify("pardec-chat models pull, on the command line, fetches models.", markup=False)
        else:
            self._get_models(first=False)

    @work(group="choose", exclusive=True)
    async def _get_models(self, *, first: bool) -> None:
        choice = await get_models(self.app, self.session, first=first)
        if choice is not None:
            self._load(*choice)

    @work(group="choose", exclusive=True)
    async def _choose_way(
        self, error: DoesNotFit, wanted: tuple[Path, Path | None], names: tuple[str, str | None]
    ) -> None:
        """What to give up for models that do not fit; the ones before are loaded still."""
        way = await choose_way(self.app, error, names)
        if way is None:
            await self._note(Note.of(error, f"{names[0]} was not loaded."))
            return
        self.session.fit(wanted[0], way)
        self._load(wanted[0], wanted[1] if way == "force" or way.draft is not None else None)

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
        self._show_state()

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
        self._show_state()

    @work(group="choose", exclusive=True)
    async def action_race(self) -> None:
        """Two ways of decoding side by side; the models make room for it and come back afterwards."""
        session = self.session
        if session.busy or session.loaded is None or session.loading is not None or session.choice is None:
            why = "An answer is being written: esc stops it." if session.busy else f"Not yet: {self.state}."
            self.notify(why, markup=False)
            return
        if session.listening:
            self.notify("The endpoint is on, and a race needs the machine for itself: ^E ends it.", markup=False)
            return
        error = await self.app.push_screen_wait(RaceScreen(session))
        if error is not None:
            logger.error("no race", exc_info=error)
            await self._note(Note.of(error, "There is no race:"))
        self._load(*session.choice)
        self._load_back = session.load_number
