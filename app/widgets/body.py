"""The conversation with the panel beside it, on a rule."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal

from pardec_chat.app.widgets.metrics import MetricsPanel
from pardec_chat.app.widgets.transcript import Transcript

_MORE = "↓ more below · ctrl+end "


class Body(Horizontal):
    """The rule below is always there, so nothing moves when it says that there is more."""

    def compose(self) -> ComposeResult:
        """Text at the left, figures at the right."""
        yield Transcript()
        yield MetricsPanel()

    def on_mount(self) -> None:
        """Look where the reader is."""
        self.watch(self.query_one(Transcript), "more_below", self._show_more, init=False)

    def _show_more(self, more: bool) -> None:
        self.border_subtitle = _MORE if more else ""
