"""The details of an error, for whoever wants to know, or to tell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app import log_end
from pardec_chat.app.widgets import error_words
from pardec_chat.app.widgets.picture import Picture

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.log_end import LogEnd

_KEYS = "↑↓ scroll · c copy all of it · esc back"
_COPIED = "Copied: the error, and what the log says about it."


class DetailsScreen(ModalScreen[None]):
    """error: or its words. next_step: what to do; empty takes the error's own. log: where the log is."""

    CSS_PATH = "details.tcss"
    AUTO_FOCUS = "#page"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False, tooltip="Back", id="details-back"),
        Binding("c", "copy", "Copy", show=False, tooltip="Copy all of it", id="details-copy"),
    ]

    def __init__(self, error: BaseException | str, next_step: str, log: Path) -> None:
        super().__init__()
        self._details = error_words.of(error, next_step)
        self._path = log
        self._end: LogEnd | None = None

    def compose(self) -> ComposeResult:
        """What there is to tell, keys."""
        with VerticalScroll(id="page"):
            yield Picture()
        yield Static(Content(_KEYS), id="foot")

    def on_mount(self) -> None:
        """What is known at once, then the log."""
        self._draw()
        self._read()

    @work(group="log", exclusive=True)
    async def _read(self) -> None:
        # A home folder on a network can take its time.
        self._end = await asyncio.to_thread(log_end.read, self._path, self._details.words)
        self._draw()

    def _draw(self) -> None:
        details, path, end = self._details, self._path, self._end
        self.query_one(Picture).show(lambda width: list(error_words.lines(details, path, end, width)))

    def action_copy(self) -> None:
        """All of it to the clipboard."""
        self.app.copy_to_clipboard(error_words.text(self._details, self._path, self._end))
        self.notify(_COPIED, markup=False)

    def action_leave(self) -> None:
        """Back."""
        self.dismiss(None)
