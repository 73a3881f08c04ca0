"""An answer step by step: what was guessed, and what the target made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.widgets import step_words
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.app.widgets.step_sheet import StepSheet
from pardec_chat.app.widgets.step_watch import StepWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pardec_chat.app.conversations.record import StepRecord


class StepsScreen(ModalScreen[None]):
    """title: of the answer. steps: gives the last ones, oldest first. live: whether the answer still goes on."""

    CSS_PATH = "steps.tcss"
    AUTO_FOCUS = "StepSheet"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False, tooltip="Back to the answer", id="steps-back"),
        Binding("b", "breaks", "Breaks", show=False, tooltip="Only the steps whose guess broke", id="steps-breaks"),
    ]

    def __init__(self, title: str, steps: Callable[[], Sequence[StepRecord]], live: bool) -> None:
        super().__init__()
        self._title = title
        self._live = live
        self._only_breaks = False
        self._watch = StepWatch(self, steps, self._draw)

    def compose(self) -> ComposeResult:
        """Which answer, what its steps brought, the steps, what the signs mean, keys."""
        yield Picture(id="head")
        yield Picture(id="summary")
        yield StepSheet(follows=self._live)
        yield Static(Content(step_words.LEGEND), id="legend")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """As things are now."""
        title, live = self._title, self._live
        self.query_one("#head", Picture).show(lambda width: [step_words.heading(title, width, live=live)])
        self._draw()
        if live:
            self._watch.start()
        else:
            self._watch.look()

    def on_screen_suspend(self) -> None:
        """Something lies over it."""
        self._watch.stop()

    def on_screen_resume(self) -> None:
        """It is seen again."""
        if self._live:
            self._watch.start()

    def _draw(self) -> None:
        if not self.query("#foot"):  # this can come before all is composed
            return
        steps, live, only_breaks = self._watch.steps, self._live, self._only_breaks
        self.query_one("#summary", Picture).show(
            lambda width: step_words.summary(steps, width, live=live, only_breaks=only_breaks)
        )
        seen = tuple(filter(step_words.broke, steps)) if only_breaks else steps
        self.query_one(StepSheet).show(seen, step_words.NO_BREAKS if steps else "")
        which = "all steps" if only_breaks else "only where a guess broke"
        self.query_one("#foot", Static).update(Content(f"↑↓ scroll · b {which} · esc back"))

    def action_breaks(self) -> None:
        """Only the steps whose guess broke, or all again."""
        self._only_breaks = not self._only_breaks
        self._draw()

    def action_leave(self) -> None:
        """Back to where it was opened."""
        self.dismiss(None)
