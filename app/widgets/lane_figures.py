"""The figures under one lane of a race."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from pardec_chat.app.widgets import blocks, wording
from pardec_chat.app.widgets.readout import Readout

_LABEL, _VALUE, _SPEED, _BAR, _TRACK = ".label", ".value", ".speed", ".bar", ".track"


class LaneFigures(Widget):
    """Four lines that stand still while their figures change, so that two lanes can be read line by line.

    end: how the answer ended, in a word; empty while it is written. limit: most tokens of an answer.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"label", "value", "speed", "bar", "track"}

    readout: reactive[Readout] = reactive(Readout(), layout=False)
    end: reactive[str] = reactive("", layout=False)
    limit: reactive[int] = reactive(0, layout=False)

    def render(self) -> Content:
        """How far; how fast; how well it guesses; with what, and in which time."""
        figures, width = self.readout.figures, self.content_size.width
        speed = wording.rate(self.readout.average)
        first = wording.seconds(figures.ttft_ms) if figures else wording.NONE
        a_step = f"{wording.ratio(figures.tokens_per_step if figures else None)} a step"
        lines = [
            self._progress(width),
            _row(Content.assemble((speed, _SPEED), (" tok/s", _LABEL)), f"first token {first}", width),
            _row(Content.styled(a_step, _VALUE), self._accepted(), width),
            _row(Content.styled(self._using(), _VALUE), self._time(), width),
        ]
        return Content("\n").join(lines)

    def _progress(self, width: int) -> Content:
        figures = self.readout.figures
        n = figures.predicted_n if figures else 0
        count = f"  {n:>{len(f'{self.limit:,}')},} of {self.limit:,}"
        full, empty = blocks.bar(n / self.limit if self.limit else 0.0, max(0, width - len(count)))
        return Content.assemble((full, _BAR), (empty, _TRACK), (count, _LABEL))

    def _accepted(self) -> str:
        figures = self.readout.figures
        if figures is None:
            return f"{wording.NONE} accepted"
        if not figures.draft_n:
            return "nothing guessed"
        return f"{wording.percent(figures.acceptance_rate)} of {figures.draft_n:,} accepted"

    def _using(self) -> str:
        figures = self.readout.figures
        if figures is None:
            return ""
        using = wording.method(figures.using.value, figures.depth)
        return using if self.end else f"now {using}"

    def _time(self) -> str:
        figures = self.readout.figures
        if figures is None:
            return self.end
        time = wording.seconds(figures.predicted_ms)
        return f"{self.end} after {time}" if self.end else time


def _row(left: Content, right: str, width: int) -> Content:
    if left.cell_length + 1 + len(right) > width:
        left = left.truncate(max(0, width - len(right) - 1))
    gap = max(1, width - left.cell_length - len(right))
    return Content.assemble(left, " " * gap, (right, _LABEL))
