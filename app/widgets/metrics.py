"""The metrics panel beside the conversation."""

from __future__ import annotations

from itertools import zip_longest
from typing import ClassVar

from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.strip import Strip

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.app.widgets.kept import Kept
from pardec_chat.app.widgets.looks import Looks
from pardec_chat.app.widgets.readout import Readout

_LABEL, _VALUE, _BAR, _TRACK = ".label", ".value", ".bar", ".track"
#: Places in a draft with a bar of their own; the ones behind share one line.
_BARS = 6
_REASON_LINES = 3

_Line = Content
_BLANK = Content("")


class MetricsPanel(Kept):
    """Draws a Readout line by line, and only the lines that say something else than before: figures change often."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"label", "value", "speed", "bar", "curve", "track"}

    readout: reactive[Readout] = reactive(Readout(), layout=False, repaint=False)

    def __init__(self) -> None:
        super().__init__()
        self._look = Looks(self)
        # What is seen, and the size that it was made for.
        self._seen: list[_Line] = []
        self._seen_size = Size(-1, -1)

    def watch_readout(self) -> None:
        """Draw the lines that changed."""
        before, size = self._seen, self.content_size
        if size != self._seen_size:
            self.refresh()
            return
        self._seen = self._fitted(size)
        for y, (old, new) in enumerate(zip_longest(before, self._seen)):
            if old is None or new is None or not old.is_same(new):
                self.refresh(Region(0, y, size.width, 1))

    def render(self) -> Content:
        """All lines, for whoever selects text."""
        return Content("\n").join(self._lines_now())

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        if self.text_selection is not None:
            return super().render_line(y)
        lines = self._lines_now()
        segments = self._look.segments(lines[y]) if y < len(lines) else ()
        return Strip(segments).adjust_cell_length(self._seen_size.width, self._look(()))

    def notify_style_update(self) -> None:
        """Another theme."""
        self._look.clear()
        super().notify_style_update()

    def _lines_now(self) -> list[_Line]:
        if self._seen_size != self.content_size:
            self._seen_size = self.content_size
            self._seen = self._fitted(self._seen_size)
        return self._seen

    def _fitted(self, size: Size) -> list[_Line]:
        """All lines; where there is little height the blank ones go first."""
        lines = self._lines(size.width)
        for i in range(len(lines) - 1, -1, -1):
            if len(lines) <= size.height:
                break
            if lines[i] is _BLANK:
                del lines[i]
        return lines[: size.height] if size.height else lines

    def _lines(self, width: int) -> list[_Line]:
        return [
            *self._speed_lines(width),
            _BLANK,
            *self._acceptance_lines(width),
            _BLANK,
            *self._method_lines(width),
            _BLANK,
            *self._times_lines(width),
            _BLANK,
            *self._context_lines(width),
        ]

    def _speed_lines(self, width: int) -> list[_Line]:
        readout = self.readout
        value = wording.rate(readout.now if readout.now is not None else readout.average)
        average = f"avg {wording.rate(readout.average)}"
        gap = max(1, width - len(value) - len(" tok/s") - len(average))
        curve = readout.curve[-width:]
        return [
            Content.assemble((value, ".speed"), (" tok/s", _LABEL), " " * gap, (average, _LABEL)),
            Content.assemble(
                (blocks.curve(curve, blocks.round_top(max(curve, default=0.0))), ".curve"),
                ("▁" * (width - len(curve)), _TRACK),
            ),
            _row("plain here", self._against_plain(), width),
        ]

    def _against_plain(self) -> str:
        figures = self.readout.figures
        if figures is None or figures.plain_per_second is None:
            return wording.NONE
        plain = wording.rate(figures.plain_per_second)
        return plain if figures.speedup is None else f"{wording.times(figures.speedup)} of {plain}"

    def _acceptance_lines(self, width: int) -> list[_Line]:
        figures = self.readout.figures
        drafted = figures.draft_n if figures else 0
        accepted = wording.percent(figures.acceptance_rate if figures else None)
        of = f" of {drafted:,}" if drafted else ""
        lines = [
            _row("tokens a step", wording.ratio(figures.tokens_per_step if figures else None), width),
            _row("accepted", accepted + of, width),
        ]
        rates = self.readout.position_rates()
        for place, share in enumerate(rates[:_BARS], start=1):
            name = f"  {wording.ordinal(place):<5}"
            value = f"{wording.percent(share):>6}" if drafted else f"{wording.NONE:>6}"
            full, empty = blocks.bar(share, width - len(name) - len(value))
            lines.append(Content.assemble((name, _LABEL), (full, _BAR), (empty, _TRACK), (value, _VALUE)))
        if rest := rates[_BARS:]:
            name = f"  {_BARS + 1}–{len(rates)} "
            lines.append(
                Content.assemble(
                    (f"{name:<7}", _LABEL), (blocks.curve(rest[: width - len(f"{name:<7}")], 1.0), ".curve")
                )
            )
        return lines

    def _method_lines(self, width: int) -> list[_Line]:
        readout = self.readout
        lines = [_row("method", wording.method(readout.method, readout.depth, readout.using), width)]
        text = Content(f"{readout.state}: {visible_line(readout.reason)}")
        wrapped = text.stylize(_LABEL).stylize(_VALUE, 0, len(readout.state)).wrap(width)
        if len(wrapped) > _REASON_LINES:
            wrapped = [*wrapped[: _REASON_LINES - 1], wrapped[_REASON_LINES - 1].truncate(width - 1) + Content("…")]
        # The reason's length changes as it counts; what is below must stay where it is.
        return lines + wrapped + [Content(" ")] * (_REASON_LINES - len(wrapped))

    def _times_lines(self, width: int) -> list[_Line]:
        figures, total = self.readout.figures, self.readout.total_ms
        none = wording.NONE
        return [
            _row("first token", wording.seconds(figures.ttft_ms) if figures else none, width),
            _row("prompt", wording.prompt_line(figures) if figures else none, width),
            _row("from the cache", f"{figures.cache_n:,}" if figures else none, width),
            _row("whole answer", wording.seconds(total) if total is not None else none, width),
        ]

    def _context_lines(self, width: int) -> list[_Line]:
        used, size = self.readout.context
        full, empty = blocks.bar(used / size if size else 0.0, width)
        value = f"{used:,} / {size:,}" if size else wording.NONE
        return [_row("context", value, width), Content.assemble((full, _BAR), (empty, _TRACK))]


def _row(label: str, value: str, width: int) -> Content:
    gap = max(1, width - len(label) - len(value))
    return Content.assemble((label, _LABEL), " " * gap, (value, _VALUE))
