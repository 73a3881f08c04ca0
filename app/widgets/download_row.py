"""One download in lines: columns that keep their places while figures change. No widget."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.app.widgets.cells import ends, left, right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.downloads.queue import Item
    from pardec_chat.app.lines import Line

#: From this width on a download takes one line.
ONE_LINE = 112
_PERCENT, _BYTES, _SPEED, _LEFT, _STATE = 6, 19, 10, 17, 13
_BAR = 20
#: Wider lines are hard to follow with the eye.
_WIDEST = 140

#: States in which nothing has to be done for it to go on, or nothing is left to do.
RUNNING = frozenset({"waiting", "asking", "downloading", "verifying"})


def draw(item: Item, width: int) -> Sequence[Line]:
    """Its line, or two where there is little room."""
    width = min(width, _WIDEST)
    name, state = visible_line(item.model.name), item.state
    figures = _PERCENT + _BYTES + _SPEED + _LEFT
    parts: Line = (
        (right(f"{item.percent} %", _PERCENT), "value"),
        (right(f"{wording.size(item.have) if item.have else '0'} of {wording.size(item.model.size)}", _BYTES), "text"),
        (right(speed(item.speed), _SPEED), "text"),
        (right(f"{seconds(item.seconds_left)} left" if item.seconds_left is not None else "", _LEFT), "text"),
    )
    if width < ONE_LINE:
        first, last = ends(name, state, width)
        return ((first, "text"), (last, "quiet")), (*_bar(item, width - figures), *parts)
    return (
        (
            (left(name, width - _BAR - figures - _STATE - 2), "text"),
            ("  ", "text"),
            *_bar(item, _BAR),
            *parts,
            (right(state, _STATE), "quiet"),
        ),
    )


def speed(bytes_per_second: float | None) -> str:
    """840 kB/s, 3.4 MB/s, 12 MB/s; empty while nothing flows."""
    if bytes_per_second is None:
        return ""
    if bytes_per_second < 999_500:
        return f"{bytes_per_second / 1e3:.0f} kB/s"
    megabytes = bytes_per_second / 1e6
    return f"{megabytes:.1f} MB/s" if megabytes < 9.95 else f"{wording.size(int(bytes_per_second))}/s"


def seconds(left: float) -> str:
    """40 s, 2 min, 1 h 05 min, rounded up."""
    if left <= 59:
        return f"{max(1, ceil(left))} s"
    minutes = ceil(left / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _bar(item: Item, width: int) -> Line:
    full, empty = blocks.bar(item.have / item.model.size if item.model.size else 1.0, width)
    return (full, "bar"), (empty, "quiet")
