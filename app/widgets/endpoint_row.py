"""One request to the endpoint in a line: columns that keep their places while figures change. No widget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from pardec_chat.app.lines import Line
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.cells import left, right

#: States of a request that is not over yet.
LIVE = frozenset({"waiting", "reading", "writing"})
_ORDER = ("writing", "reading", "waiting", "done", "stopped", "failed")

_STATE, _TOKENS, _SPEED, _ACCEPTED = 7, 8, 7, 10
_GAP = 2
#: From this width on there is room for seconds and long names of methods.
_ROOMY = 100
#: Wider lines are hard to follow with the eye.
_WIDEST = 120
#: A client can send any text; no more of it than this is looked at.
_LONGEST = 400


class EntryLike(Protocol):
    """A request as the endpoint tells of it. It stays as it is: when the request goes on, another one takes its place."""

    @property
    def number(self) -> int:
        """Counts the requests."""

    @property
    def when(self) -> float:
        """When it came, in seconds since the epoch."""

    @property
    def client(self) -> str:
        """Who sent it, in the client's own words."""

    @property
    def what(self) -> str:
        """What was asked for."""

    @property
    def state(self) -> str:
        """waiting, reading, writing, done, stopped or failed."""

    @property
    def tokens(self) -> int:
        """Written so far."""

    @property
    def tokens_per_second(self) -> float | None:
        """Of decoding; None before there is anything to tell."""

    @property
    def acceptance(self) -> float | None:
        """A share of 1; None where nothing was guessed."""

    @property
    def method(self) -> str:
        """What guesses."""

    @property
    def error(self) -> object:
        """Why it failed; empty or None where it did not."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is seen of an entry: while these are equal nothing has to be drawn. All texts are safe to show."""

    number: int
    time: str
    who: str
    what: str
    state: str
    tokens: str
    speed: str
    accepted: str
    method: str
    error: str


def of(entry: EntryLike, key: str | None = None) -> Row:
    """What is seen of an entry; `key` is in none of the texts."""
    return Row(
        number=entry.number,
        time=f"{datetime.fromtimestamp(entry.when):%H:%M:%S}",
        who=shown(entry.client, key) or "unnamed",
        what=shown(entry.what, key),
        state=entry.state,
        tokens=f"{entry.tokens:,}" if entry.tokens else wording.NONE,
        speed=wording.rate(entry.tokens_per_second),
        accepted=wording.percent(entry.acceptance),
        method=shown(entry.method, key),
        error=shown(str(entry.error), key) if entry.error else "",
    )


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The live ones first, then those that are over, the newest on top of both."""
    return tuple(sorted(rows, key=lambda row: (row.state not in LIVE, -row.number)))


def shown(text: str, key: str | None = None) -> str:
    """Foreign text on one line, harmless for a terminal, without the key."""
    if key:
        text = text.replace(key, "…")
    # JSON can bring halves of surrogate pairs, which cannot be sent to a terminal.
    return visible_line(text[:_LONGEST].encode(errors="replace").decode())


def summary(rows: Sequence[Row]) -> str:
    """How many there are of each state."""
    counts = Counter(row.state for row in rows)
    return ", ".join(f"{counts[state]:,} {state}" for state in _ORDER if counts[state])


def heading(width: int) -> Line:
    """The names of the columns."""
    return (("".join(_cells(width, "time", "who", "what", "state", "tokens", "tok/s", "accepted", "method")), "quiet"),)


@lru_cache(maxsize=1024)
def draw(row: Row, width: int) -> Sequence[Line]:
    """Its line; what is over stands back but for its figures."""
    time = row.time if width >= _ROOMY else row.time[:5]
    parts = _cells(
        width, time, row.who, row.what, row.state, row.tokens, row.speed, row.accepted, row.method or wording.NONE
    )
    live = row.state in LIVE
    side = "text" if live else "quiet"
    state = "bar" if live else "value" if row.state == "failed" else "quiet"
    roles = (side, "text", side, state, "text", "text", "text", side)
    return (tuple(zip(parts, roles, strict=True)),)  # type: ignore[arg-type]


def _cells(
    width: int, time: str, who: str, what: str, state: str, tokens: str, speed: str, accepted: str, method: str
) -> Sequence[str]:
    roomy = width >= _ROOMY
    width = min(width, _WIDEST)
    time_width, what_width, method_width = (8, 12, 14) if roomy else (5, 10, 8)
    fixed = time_width + what_width + _STATE + _TOKENS + _SPEED + _ACCEPTED + method_width + 4 * _GAP
    gap = " " * _GAP
    return (
        left(time, time_width) + gap,
        left(who, max(0, width - fixed)) + gap,
        left(what, what_width) + gap,
        left(state, _STATE),
        right(tokens, _TOKENS),
        right(speed, _SPEED),
        right(accepted, _ACCEPTED),
        gap + left(method, method_width),
    )
