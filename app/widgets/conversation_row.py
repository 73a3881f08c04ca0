"""One conversation of the list in lines, and the sections that the list has. No widget."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.cells import cell_len

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets.cells import ends, left
from pardec_chat.app.widgets.wording import fit

if TYPE_CHECKING:
    from pardec_chat.app.conversations.conversation import Summary
    from pardec_chat.app.lines import Line, Role

PINNED = "Pinned"
UNTITLED = "untitled"
_OPEN, _PIN = "▸ ", "★"
#: From this width on there is room for the time.
_TIMED = 48
#: Wider lines are hard to follow with the eye.
_WIDEST = 100
_OLDEST_YEAR = 1990
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def height(summary: Summary) -> int:
    """Lines that `draw` makes."""
    return 2 if summary.snippet else 1


def draw(
    summary: Summary, width: int, now: datetime, *, is_open: bool = False, found: re.Pattern[str] | None = None
) -> Sequence[Line]:
    """Its title, and what was `found` in it. now: naive, in local time."""
    width = min(width, _WIDEST)
    room = width - len(_OPEN)
    title = visible_line(summary.title)
    last = [_PIN] if summary.pinned else []
    if width >= _TIMED and (time := when(summary.updated, now)):
        last.append(time.rjust(11))
    text, right = ends(title or UNTITLED, " ".join(last), room) if last else (left(title or UNTITLED, room), "")
    role: Role = "value" if is_open else "text" if title else "quiet"
    lines: list[Line] = [((_OPEN if is_open else " " * len(_OPEN), "bar"), (text, role), (right, "quiet"))]
    if summary.snippet:
        lines.append(((" " * len(_OPEN), "quiet"), *_marked(visible_line(summary.snippet), room, found)))
    return lines


def _marked(text: str, width: int, found: re.Pattern[str] | None) -> Line:
    """`text` on one line, cut so that the first thing found in it is seen."""
    first = found.search(text) if found else None
    if first is not None and cell_len(text[: first.end()]) >= width:
        start, cells = first.start(), 1
        while start > 0 and (cells := cells + cell_len(text[start - 1])) <= width // 3:
            start -= 1
        text = "…" + text[start:]
    text, at = fit(text, width), 0
    parts: list[tuple[str, Role]] = []
    for match in found.finditer(text) if found else ():
        parts += [(text[at : match.start()], "quiet"), (match[0], "value")]
        at = match.end()
    return (*parts, (text[at:], "quiet"))


def when(updated: float, now: datetime) -> str:
    """14:32, Tue 14:32, 12 Mar, 12 Mar 2024; `updated` in seconds since 1970. Empty for what is no time."""
    try:
        moment = datetime.fromtimestamp(updated)
    except (OverflowError, OSError, ValueError):
        return ""
    clock = f"{moment:%H:%M}"
    if moment.date() == now.date():
        return clock
    if _begin_of_week(now) <= moment <= now or moment.date() == now.date() - timedelta(days=1):
        return f"{_DAYS[moment.weekday()]} {clock}"
    return f"{moment.day} {_MONTHS[moment.month - 1][:3]}" + (f" {moment.year}" if moment.year != now.year else "")


def in_order(summaries: Sequence[Summary]) -> list[Summary]:
    """Pinned ones first, the newest first."""
    newest = sorted(summaries, key=attrgetter("updated"), reverse=True)
    return [one for one in newest if one.pinned] + [one for one in newest if not one.pinned]


def sections(summaries: Sequence[Summary], now: datetime) -> dict[int, str]:
    """Titles of sections, by the row that begins them. summaries: `in_order`. now: naive, in local time."""
    titles: dict[int, str] = {}
    edges = _edges(now)
    begin, title = next(edges)
    before = ""
    for row, summary in enumerate(summaries):
        if summary.pinned:
            here = PINNED
        else:
            while summary.updated < begin:
                begin, title = next(edges)
            here = title
        if here != before:
            titles[row] = before = here
    return titles


def _edges(now: datetime) -> Iterator[tuple[float, str]]:
    """Each section's first moment, newest first."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    yield today.timestamp(), "Today"
    yesterday = today - timedelta(days=1)
    yield yesterday.timestamp(), "Yesterday"
    if (monday := _begin_of_week(now)) < yesterday:
        yield monday.timestamp(), "This week"
    for year in (now.year, now.year - 1):
        for month in range(now.month if year == now.year else 12, 0, -1):
            name = _MONTHS[month - 1]
            yield datetime(year, month, 1).timestamp(), name if year == now.year else f"{name} {year}"
    for year in range(now.year - 2, _OLDEST_YEAR, -1):
        yield datetime(year, 1, 1).timestamp(), str(year)
    yield -inf, "Earlier"


def _begin_of_week(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=now.weekday())
