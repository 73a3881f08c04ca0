"""One lane of a race: who runs, what it writes, how it does."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from pardec_chat.app.widgets.lane_figures import LaneFigures
from pardec_chat.app.widgets.page import Page
from pardec_chat.app.widgets.readout import Readout
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method


class Lane(Vertical):
    """side: 0 is the left one. The text is drawn as in the conversation."""

    @dataclass
    class Picked(Message):
        """The contestant was clicked on."""

        side: int

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side
        self._racer = Static(classes="racer")
        self._course = Page(classes="course")
        self._written = Reply("")
        self._written.add_class("written")
        self._written.can_focus = False
        self._figures = LaneFigures()
        self._is_over = False

    def compose(self) -> ComposeResult:
        """Three parts, one below the other."""
        yield self._racer
        with self._course:
            yield self._written
        yield self._figures

    def on_click(self, event: events.Click) -> None:
        """A click on the contestant is the mouse's way to change it."""
        if event.widget is self._racer:
            self.post_message(self.Picked(self.side))

    def take_focus(self) -> None:
        """The keys that scroll are for this lane."""
        self._course.focus()

    def follow(self) -> None:
        """Stay at the end of the text from now on."""
        self._course.anchor()

    def read(self, where: str) -> None:
        """Scroll: page_up, page_down, home or end."""
        getattr(self._course, f"scroll_{where}")(animate=False)

    def name_racer(self, title: str) -> None:
        """Who runs here."""
        self._racer.update(Content.assemble((f"{self.side + 1}  ", "$quiet"), title, ("  ▾", "$quiet")))

    def show(self, text: str, *, instead: str, readout: Readout, end: str, limit: int) -> None:
        """Bring all up to date. instead: what stands there while there is no text; the rest as in `LaneFigures`."""
        written = self._written
        if (self._is_over and not end) or not text.startswith(written.text):
            written.clear()
            self._is_over = False
        written.wait_for(instead)
        if added := text[len(written.text) :]:
            written.write([(added, Method.PLAIN)])
        if end and not self._is_over:
            self._is_over = True
            written.finish(())
        figures = self._figures
        figures.readout, figures.end, figures.limit = readout, end, limit
