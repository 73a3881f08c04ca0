"""Does guessing pay here? What the engine measured, and the key that measures at once."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import CancelledError, Future
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app import locations, pays, svg
from pardec_chat.app.lines import BLANK, Line, wrapped
from pardec_chat.app.messages import Calibrated, CalibrationProgress, Explained, ExplainFailed, post
from pardec_chat.app.palette import DARK, LIGHT
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message_pump import MessagePump

    from pardec_chat.app.screens.session import Session
    from pardec_chat.backends.decoding.explain import Explanation

logger = logging.getLogger(__name__)

#: Tokens in the context for which costs are told, when a conversation has no more.
_LEAST_CONTEXT = 512


class PaysScreen(ModalScreen[None]):
    """Asks the engine when it opens, and again behind each measurement. used: tokens of the context that are taken."""

    CSS_PATH = "pays.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False),
        Binding("f4,q", "app.pop_screen", "Back", show=False),
        Binding("m", "measure", "Measure", show=False),
        Binding("s", "save", "Save", show=False),
    ]

    def __init__(self, session: Session, used: int = 0) -> None:
        super().__init__()
        self._session = session
        self._n_context = max(_LEAST_CONTEXT, used)
        self._explanation: Explanation | None = None
        self._calibration: Future[Explanation] | None = None
        self._ended = threading.Event()
        self._done = 0.0

    def compose(self) -> ComposeResult:
        """The question, the answer, what is going on, keys."""
        yield Picture(id="heading")
        with VerticalScroll(id="page"):
            yield Picture(id="picture")
        yield Picture(id="state")
        yield Static(Content("↑↓ scroll · m measure · s save as SVG · esc back"), id="keys")

    def on_mount(self) -> None:
        """What is known already comes at once, when the engine has the time."""
        model, draft = self._session.names
        self._show("#heading", lambda width: [pays.heading(model, draft, width)])
        self.query_one("#page").focus()
        self._ask()

    def on_unmount(self) -> None:
        """Nobody waits for the measurement any more."""
        self._ended.set()

    # ---- asking ----

    def _ask(self) -> None:
        engine = self._session.engine
        if engine is None:
            self._say(pays.NO_ENGINE)
            return
        if self._session.loaded is None and self._session.loading is None:
            self._say(pays.NO_MODEL)
            return
        if self._explanation is None:
            self._say(pays.ASKING)
        try:
            engine.explain(self._n_context).add_done_callback(_reporter(self, Explained))
        except UserError as error:
            self.post_message(ExplainFailed(error))

    @on(Explained)
    def take(self, message: Explained) -> None:
        """Draw what the engine knows."""
        self._explanation = message.explanation
        self._draw()

    @on(Calibrated)
    def take_measured(self) -> None:
        """The measurement is over: ask what follows for this conversation's context."""
        self._end_calibration()
        self._ask()

    @on(ExplainFailed)
    def tell_failed(self, message: ExplainFailed) -> None:
        """Say why there is no answer, and what next; an earlier picture stays."""
        self._end_calibration()
        if not isinstance(message.error, UserError):
            logger.error("no explanation", exc_info=message.error)
        note = Note.of(message.error)
        if self._explanation is None:
            self._say("")
            self.query("Note").remove()
            self.query_one("#page").mount(note)
        else:
            self.notify(visible_line(str(message.error)), severity="error", markup=False)

    # ---- measuring ----

    def action_measure(self) -> None:
        """Measure directly; a second press changes nothing."""
        session = self._session
        if self._calibration is not None or session.engine is None or session.loaded is None:
            return
        self._ended.clear()
        ended = self._ended

        def progress(done: float) -> bool:
            post(self, CalibrationProgress(done))
            return not ended.is_set()

        try:
            self._calibration = session.engine.calibrate(progress)
        except UserError as error:
            self.post_message(ExplainFailed(error))
            return
        self._done = 0.0
        self._show_state()
        self._calibration.add_done_callback(_reporter(self, Calibrated))

    @on(CalibrationProgress)
    def show_progress(self, message: CalibrationProgress) -> None:
        """A part of it is done."""
        if self._calibration is not None:
            self._done = message.done
            self._show_state()

    def _end_calibration(self) -> None:
        self._calibration = None
        self._show_state()

    def action_leave(self) -> None:
        """End the measurement that runs, keeping what it found; else back to the chat."""
        if self._calibration is None:
            self.dismiss(None)
        else:
            self._ended.set()
            self._show_state()

    # ---- what is seen ----

    def _draw(self) -> None:
        explanation, draft, n_context = self._explanation, self._session.names[1], self._n_context
        assert explanation is not None
        self.query("Note").remove()

        def lines(width: int) -> list[Line]:
            drawn = pays.picture(explanation, draft, width, n_context)
            return drawn if explanation.passes else [*drawn, BLANK, *wrapped(pays.HOW_TO_MEASURE, width)]

        self._show("#picture", lines)

    def _say(self, text: str) -> None:
        self._show("#picture", lambda width: wrapped(text, width))

    def _show_state(self) -> None:
        if self._calibration is None:
            self._show("#state", lambda _width: [BLANK])
        elif self._ended.is_set():
            self._show("#state", lambda width: wrapped(pays.ENDING, width, "value"))
        else:
            self._show("#state", lambda width: [pays.measuring(self._done, width)])

    def _show(self, where: str, make: Callable[[int], list[Line]]) -> None:
        self.query_one(where, Picture).show(make)

    # ---- saving ----

    @work(group="save", exclusive=True)
    async def action_save(self) -> None:
        """Save the picture where the user's downloads go."""
        explanation = self._explanation
        if explanation is None or not explanation.passes:
            self.notify(pays.NOTHING_TO_SAVE, markup=False)
            return
        model, draft = self._session.names
        lines = [
            pays.heading(model, draft, svg.WIDTH),
            BLANK,
            *pays.picture(explanation, draft, svg.WIDTH, self._n_context),
        ]
        palette = DARK if self.app.current_theme.dark else LIGHT
        path = locations.pictures() / f"pardec-chat-pays-{datetime.now():%Y%m%d-%H%M%S}.svg"
        try:
            await asyncio.to_thread(lambda: svg.write(svg.draw(lines, palette), path))
        except UserError as error:
            self.notify(visible_line(str(error)), severity="error", markup=False)
        else:
            self.notify(f"Saved as {visible_line(str(path))}", markup=False)


def _reporter(pump: MessagePump, message: type[Explained] | type[Calibrated]) -> Callable[[Future[Explanation]], None]:
    def report(future: Future[Explanation]) -> None:
        try:
            explanation = future.result()
        except (Exception, CancelledError) as error:  # noqa: BLE001  # shown to the user
            post(pump, ExplainFailed(error))
        else:
            post(pump, message(explanation))

    return report
