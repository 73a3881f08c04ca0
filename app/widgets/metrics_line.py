"""The metrics on one line above the prompt, where there is no room for the panel."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.app.widgets.readout import Readout

_CURVE = 8
_SEPARATOR = " · "


class MetricsLine(Widget):
    """As many figures as fit, the important ones first; the method's state stands at the right end."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"label", "value", "speed", "curve", "track"}

    readout: reactive[Readout] = reactive(Readout(), layout=False)

    def render(self) -> Content:
        """Speed, curve, tokens a step, acceptance, context; then method and state."""
        readout = self.readout
        figures = readout.figures
        width = self.content_size.width
        state = self._state(width)
        value = wording.rate(readout.now if readout.now is not None else readout.average)
        curve = readout.curve[-_CURVE:]
        drawn = blocks.curve(curve, blocks.round_top(max(curve, default=0.0)))
        left = Content.assemble(
            (value, ".speed"),
            # At least as wide as 99.9, so that the curve stays where it is.
            (" tok/s ".ljust(11 - len(value)), ".label"),
            (drawn, ".curve"),
            ("▁" * (_CURVE - len(curve)), ".track"),
        )
        parts = []
        if figures is not None:
            if readout.method != "plain" and figures.speedup is not None:
                parts.append(f"{wording.times(figures.speedup)} plain")
            parts.append(f"{wording.ratio(figures.tokens_per_step)} a step")
            if figures.draft_n:
                parts.append(f"{wording.percent(figures.acceptance_rate)} of {figures.draft_n:,} accepted")
        used, size = readout.context
        if size:
            parts.append(f"{wording.percent(used / size)} of context")
        for i, part in enumerate(parts):
            longer = left + Content.styled(("  " if i == 0 else _SEPARATOR) + part, ".label")
            if longer.cell_length + 2 + state.cell_length > width:
                break
            left = longer
        gap = max(1, width - left.cell_length - state.cell_length)
        return Content.assemble(left, " " * gap, state)

    def _state(self, width: int) -> Content:
        """`draft active`; off and idle come with their reason where that fits."""
        readout = self.readout
        state = "" if readout.method == "plain" else f" {readout.state}"
        if readout.method == "auto" and readout.figures is not None:
            state = f" → {readout.using}"
        short = Content.assemble((readout.method, ".value"), (state, ".label"))
        if readout.method == "plain" or readout.state == "active":
            return short
        reason = f": {visible_line(readout.reason)}"
        return short + Content.styled(reason, ".label") if cell_len(reason) < width // 2 else short
