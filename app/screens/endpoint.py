"""The endpoint for other programs: on or off, where, and what is asked of it."""

from __future__ import annotations

import logging
import traceback
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.endpoint.address import PortTaken
from pardec_chat.app.lines import Line, wrapped
from pardec_chat.app.messages import EndpointSwitched, post
from pardec_chat.app.widgets import endpoint_row, endpoint_words
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.endpoint_row import EntryLike
from pardec_chat.app.widgets.endpoint_watch import EndpointWatch
from pardec_chat.app.widgets.endpoint_words import AddressLike
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.message_pump import MessagePump

    from pardec_chat.app.widgets.endpoint_row import Row

__all__ = ["AddressLike", "EndpointLike", "EndpointScreen", "EntryLike", "Switching"]

logger = logging.getLogger(__name__)

_DETAIL_LINES = 4
_CALLED_OFF = "Switching it {} was called off."
_LOG = "The log says where (pardec-chat doctor)."


class EndpointLike(Protocol):
    """The part of the endpoint that the screens use. Nothing of it may take time but what the futures stand for."""

    @property
    def running(self) -> bool:
        """Whether it listens."""

    @property
    def address(self) -> AddressLike | None:
        """Where it listens; None while it does not."""

    def start(self, port: int) -> Future[Any]:
        """Load the models for several answers and listen. The future raises UserError; where a port is taken, one with a
        free one as its `offer`."""

    def stop(self) -> Future[None]:
        """Listen no more."""

    def entries(self) -> tuple[EntryLike, ...]:
        """The requests that are on their way, and the latest that are over."""

    def close(self, seconds: float = 1.0) -> None:
        """Stop at once; harmless when it does not run."""


@dataclass(eq=False, slots=True)
class Switching:
    """The endpoint on its way on or off."""

    on: bool
    port: int
    future: Future[AddressLike] | Future[None]

    def tell(self, pump: MessagePump) -> None:
        """Post EndpointSwitched to `pump` when it is over, at once when it is."""
        self.future.add_done_callback(lambda _future: post(pump, EndpointSwitched(self)))

    @property
    def error(self) -> BaseException | None:
        """What came between; waits for the end."""
        try:
            return self.future.exception()
        except CancelledError as error:
            return error

    @property
    def offer(self) -> int | None:
        """A free port, where the one that was wanted is taken."""
        error = self.error
        return error.offer or None if isinstance(error, PortTaken) else None


class EndpointScreen(ModalScreen[Switching | None]):
    """Gives the switching that is still going on when it is left, or None; the endpoint stays as it is.

    port: where it is to listen. change: what was still going on when this screen was left before.
    """

    CSS_PATH = "endpoint.tcss"
    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority, since the list takes enter.
        Binding("enter", "take_offer", "Take the free port", show=False, priority=True),
        Binding("escape,q", "leave", "Back", show=False),
        Binding("ctrl+e", "leave", "Back", show=False),
        Binding("space,s", "switch", "Switch on or off", show=False),
        Binding("c", "copy", "Copy the address", show=False),
        Binding("k", "key", "Show the key", show=False),
    ]

    def __init__(self, endpoint: EndpointLike, port: int, change: Switching | None = None) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._port = change.port if change is not None else port
        self._change = change
        #: A free port that was offered and not yet answered.
        self._offer: int | None = None
        self._key_shown = False
        #: The rows as they are drawn, by which the mark finds its request again.
        self._rows: tuple[Row, ...] = ()
        self._watch = EndpointWatch(self, endpoint, self._draw)

    def compose(self) -> ComposeResult:
        """On or off and where, the requests, what there is to say about the marked one, keys."""
        yield Picture(id="head")
        yield Picture(id="about")
        yield Picture(id="columns")
        yield Choices(click_takes=False)
        yield Picture(id="detail")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """As things are now."""
        if self._change is not None:
            self._change.tell(self)
        self._watch.start()
        self._draw()

    def on_screen_suspend(self) -> None:
        """Something lies over it; a picture taken from the menu does not show the key."""
        self._watch.stop()
        self._key_shown = False
        self._draw()

    def on_screen_resume(self) -> None:
        """It is seen again."""
        self._watch.start()

    @property
    def state(self) -> str:
        """on, off, taken (off, and another port is offered), starting or stopping."""
        if self._change is not None:
            return "starting" if self._change.on else "stopping"
        if self._watch.address is not None:
            return "on"
        return "off" if self._offer is None else "taken"

    # ---- on and off ----

    def action_switch(self) -> None:
        """On when it is off, off when it is on; on its way it is left alone."""
        self._watch.look()
        if self.state == "on":
            self._begin(on=False)
        elif self.state == "off":
            self._begin(on=True)

    def action_take_offer(self) -> None:
        """The free port instead of the taken one."""
        if self._offer is not None:
            self._port = self._offer
            self._begin(on=True)

    def _begin(self, *, on: bool) -> None:
        self._offer = None
        self.query(Note).remove()
        self.remove_class("-told")
        endpoint = self._endpoint
        future: Future[AddressLike] | Future[None]
        try:
            future = endpoint.start(self._port) if on else endpoint.stop()
        except UserError as error:
            future = Future()
            future.set_exception(error)
        self._change = Switching(on, self._port, future)
        self._change.tell(self)
        self._draw_state()

    @on(EndpointSwitched)
    def finish(self, message: EndpointSwitched) -> None:
        """It is on or off now, or there is a question or an error to show."""
        change = message.change
        if change is not self._change:
            return
        self._change, self._offer = None, change.offer
        error = change.error
        if isinstance(error, CancelledError):
            self._tell(Note(_CALLED_OFF.format("on" if change.on else "off")))
        elif error is not None and self._offer is None:
            self._tell(_note(error))
        self._watch.look()
        self._draw_state()

    def _tell(self, note: Note) -> None:
        self.query(Note).remove()
        self.mount(note, before="#columns")
        self.add_class("-told")

    # ---- what is seen ----

    def _draw(self) -> None:
        if self.query("#foot"):  # this can come before all is composed
            self._show_rows(self._watch.rows)
            self._draw_state()

    def _draw_state(self) -> None:
        self._draw_about()
        self._draw_detail()
        self.refresh_bindings()

    def _draw_about(self) -> None:
        state, address, key_shown = self.state, self._watch.address, self._key_shown
        port, offer, empty = self._port, self._offer, not self._rows

        def lines(width: int) -> Sequence[Line]:
            if state == "on" and address is not None:
                return endpoint_words.on(address, width, key_shown=key_shown)
            if state == "taken" and offer is not None:
                return endpoint_words.taken(port, offer, width)
            if state == "off":
                return endpoint_words.off(port, width, explained=empty)
            return endpoint_words.starting(port, width) if state == "starting" else endpoint_words.stopping(width)

        self.query_one("#about", Picture).show(lines)
        rows = self._rows
        nothing = endpoint_words.NO_REQUEST if state == "on" else ""
        self.query_one("#columns", Picture).show(
            lambda width: [endpoint_row.heading(width)] if rows else wrapped(nothing, width, "quiet")
        )

    def _show_rows(self, rows: tuple[Row, ...]) -> None:
        """The mark stays on its request, or at the top, where the newest is; what is seen stays where it is."""
        choices, before, top = self._choices, self._choices.marked or 0, self._choices.scroll_offset.y
        marked = before
        if 0 < before < len(self._rows):
            numbers = [row.number for row in rows]
            number = self._rows[before].number
            marked = numbers.index(number) if number in numbers else before
        seen = top <= before < top + choices.size.height
        self._rows = rows
        choices.show([partial(endpoint_row.draw, row) for row in rows], marked)
        if top > 0 or not seen:
            choices.scroll_to(y=top + marked - before if top else 0, animate=False, immediate=True, force=True)
        summary = endpoint_row.summary(rows)
        self.query_one("#head", Picture).show(lambda width: [endpoint_words.heading(summary, width)])
        self.set_class(not rows, "-empty")

    @property
    def _choices(self) -> Choices:
        return self.query_one(Choices)

    @on(Choices.Marked)
    def _draw_detail(self) -> None:
        marked, rows = self._choices.marked, self._rows
        row = rows[marked] if marked is not None and marked < len(rows) else None
        self.query_one("#detail", Picture).show(lambda width: endpoint_words.detail(row, width, _DETAIL_LINES))
        address = self._watch.address
        has_key = address is not None and bool(address.key)
        words = endpoint_words.keys(self.state, has_key=has_key, key_shown=self._key_shown, rows=len(rows))
        self.query_one("#foot", Static).update(Content(words))

    # ---- what other keys do ----

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter means something behind the question alone."""
        return self._offer is not None if action == "take_offer" else True

    def action_copy(self) -> None:
        """The address to the clipboard."""
        address = self._watch.address
        if address is None:
            self.notify("There is no address yet: space switches it on.", markup=False)
            return
        url = endpoint_words.base_url(address)
        self.app.copy_to_clipboard(url)
        self.notify(f"Copied: {url}", markup=False)

    def action_key(self) -> None:
        """Show the key, or hide it again."""
        address = self._watch.address
        if address is not None and address.key:
            self._key_shown = not self._key_shown
            self._draw_state()

    def action_leave(self) -> None:
        """No to the question; else back, and what goes on goes on."""
        if self._offer is not None:
            self._offer = None
            self._draw_state()
        else:
            self.dismiss(self._change)


def _note(error: BaseException) -> Note:
    """Says what was wrong; of a fault of ours only where it is, since a library's words could hold the key."""
    if isinstance(error, UserError):
        return Note.of(error)
    kind, where = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
    logger.error("the endpoint was not switched: %s\n%s", kind, where)
    return Note(f"A fault of this program: {kind}.", next_step=_LOG, error=True)
