"""One lane of a race: who runs, what it writes, how it does."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from pardec_chat.app.plain_text import visible
from pardec_chat.app.widgets.lane_figures import LaneFigures
from pardec_chat.app.widgets.readout import Readout


class Lane(Vertical):
    """side: 0 is the left one. The text is shown as it is: neither Markdown nor markup."""

    @dataclass
    class Picked(Message):
        """The contestant was clicked on."""

        side: int

    def __init__(self, side: int) -> None:
        super().__init__()
        self.side = side
        self._racer = Static(classes="racer")
        self._course = VerticalScroll(classes="course")
        self._written = Static(classes="written")
        self._figures = LaneFigures()
        self._shown = ""
        self._lines = 0

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
        self._write(Content(visible(text).expandtabs(4)) if text else Content.styled(instead, "$quiet"))
        figures = self._figures
        figures.readout, figures.end, figures.limit = readout, end, limit

    def _write(self, content: Content) -> None:
        if content.plain == self._shown:
            return
        # A layout of the whole screen is needed only where the text gets a line more.
        width = self._written.content_size.width
        lines = content.get_height({}, width) if width else 0
        self._written.update(content, layout=not lines or lines != self._lines)
        self._shown, self._lines = content.plain, lines
