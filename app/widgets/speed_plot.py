"""The speed of answers side by side, with that of plain decoding as a line through the bars; no widget."""

from __future__ import annotations

from collections.abc import Sequence

from pardec_chat.app.lines import Line, Role
from pardec_chat.app.widgets import blocks
from pardec_chat.app.widgets.answer_words import Answered
from pardec_chat.app.widgets.cells import left

LEGEND: Line = (("█", "bar"), (" tok/s   ", "quiet"), ("──", "text"), (" plain decoding", "quiet"))

#: Cells of an answer: its bar, at least and at most, and the line behind it.
_BAR, _WIDEST, _LINE = 2, 6, 2
#: The heights that a line can have in a cell.
_LEVELS = "▁─▔"
_MARK = "▴"


def lines(answers: Sequence[Answered], marked: int, width: int, height: int) -> list[Line]:
    """`height` lines of bars, and the answers' numbers below them; of more answers than fit, those around the marked one."""
    speeds = [one.record.tokens_per_second for one in answers]
    plain = [one.record.plain_per_second for one in answers]
    top = blocks.round_top(max([value for value in (*speeds, *plain) if value is not None], default=0.0))
    scale = f"{top:,.0f}" if top >= 10 else f"{top:g}"
    label = len(scale) + 1
    slot = max(_BAR, min(_WIDEST, (width - label) // len(answers) - _LINE)) + _LINE
    n = max(1, (width - label) // slot)
    start = max(0, min(marked - n // 2, len(answers) - n))
    shown = range(start, min(len(answers), start + n))
    bars = blocks.columns([*(speeds[i] or 0.0 for i in shown), top], height, slot - _LINE)
    drawn: list[Line] = []
    for line in range(height):
        text = scale if line == 0 else "0" if line == height - 1 else ""
        parts: list[tuple[str, Role]] = [(text.rjust(label - 1) + " ", "quiet")]
        for bar, i in zip(bars[line], shown, strict=False):
            parts.append((bar if speeds[i] is not None else " " * len(bar), "bar"))
            parts.append((_level(plain[i], top, height - 1 - line, height) * _LINE, "text"))
        drawn.append(tuple(parts))
    numbers: list[tuple[str, Role]] = [(" " * label, "quiet")]
    for i in shown:
        is_marked = i == marked
        number = str(answers[i].number)
        numbers.append((left(_MARK + number if is_marked else number, slot), "value" if is_marked else "quiet"))
    return [*drawn, tuple(numbers)]


def _level(value: float | None, top: float, line: int, height: int) -> str:
    """The piece of the line in a cell; `line` counts from the lowest."""
    if value is None:
        return " "
    place = min(height * len(_LEVELS) - 1, int(value / top * height * len(_LEVELS)))
    return _LEVELS[place % len(_LEVELS)] if place // len(_LEVELS) == line else " "
