"""Steps of an answer in lines: what was guessed, and below it what the target made of it. No widget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from pardec_chat.app.conversations.record import StepRecord
from pardec_chat.app.lines import Line, Role, wrapped
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.app.widgets.cells import left
from pardec_chat.app.widgets.token_text import shown

TITLE = "Step by step"
NO_STEPS = "No steps are kept of this answer."
NOT_YET = "The first step is on its way."
NO_BREAKS = "No guess broke in these steps."
NO_GUESS = "nothing guessed"
LEGEND = "✓ accepted   ✗ → written instead   + its own behind them   · not reached"
_ENDS = "the answer ends here"
_WRITING = "being written"

#: Cells before the columns: an indent, the row's name, a gap. Between two columns.
_LABEL, _GAP = 13, 2
_TIME = 8
#: Cells that a sign takes beside a token, at most.
_SIGN = len("✗ → ")


@dataclass(frozen=True, slots=True)
class _Column:
    """A place in a draft: what stands in it, above and below."""

    proposed: Line
    target: Line
    width: int


def n_accepted(step: StepRecord) -> int:
    """Guesses that held: never more than there were, whatever a file says."""
    return max(0, min(step.n_accepted, len(step.proposed)))


def wrote(step: StepRecord) -> bool:
    """Whether the target wrote a token of its own; not where the answer was cut before it."""
    return bool(step.own) or step.n_tokens > n_accepted(step)


def broke(step: StepRecord) -> bool:
    """Whether the target wrote something else than what was guessed."""
    return wrote(step) and n_accepted(step) < len(step.proposed)


def heading(title: str, width: int, *, live: bool) -> Line:
    """Which answer, and whether it still goes on."""
    right = f"  {_WRITING}" if live else ""
    middle = left(f"   {visible_line(title)}", max(0, width - len(TITLE) - len(right)))
    return (TITLE, "title"), (middle, "quiet"), (right, "value")


# ---- one step ----


def bands(step: StepRecord, width: int) -> list[list[_Column]]:
    """The columns, in as many bands as the width takes; one without columns where nothing was guessed."""
    room = max(_SIGN + 2, width - _LABEL)
    bands: list[list[_Column]] = [[]]
    used = 0
    for column in _columns(step, room):
        if bands[-1] and used + column.width > room:
            bands.append([])
            used = 0
        bands[-1].append(column)
        used += column.width + _GAP
    return bands


def lines(step: StepRecord, width: int) -> list[Line]:
    """All lines of a step: its head, then two for each band."""
    drawn = [_head(step, width)]
    if not step.proposed:
        own = wording.fit(shown(step.own), max(1, width - _LABEL))
        rest = wording.fit(f"   {NO_GUESS}", width - _LABEL - cell_len(own))
        return [*drawn, (_label("target"), (own, "text"), (rest, "quiet"))]
    for band in bands(step, width):
        drawn.append((_label("proposed"), *_row([(one.proposed, one.width) for one in band])))
        drawn.append((_label("target"), *_row([(one.target, one.width) for one in band])))
    return drawn


def height(step: StepRecord, width: int) -> int:
    """How many lines that are."""
    return 1 + 2 * len(bands(step, width)) if step.proposed else 2


def _head(step: StepRecord, width: int) -> Line:
    guessed = step.proposed or step.draft_ms > 0
    name = step.source.value if step.proposed else "guess"
    draft = f"{name:<5} {wording.milliseconds(step.draft_ms):>{_TIME}}" if guessed else " " * (6 + _TIME)
    check = f"check {wording.milliseconds(step.verify_ms):>{_TIME}}"
    n = f"{step.n_tokens} {'token' if step.n_tokens == 1 else 'tokens'}"
    end = "" if wrote(step) else f"   {_ENDS}"
    first = f"step {step.number:<5} "
    return (first, "value"), (wording.fit(f"{draft}   {check}   {n}{end}", width - len(first)), "quiet")


def _columns(step: StepRecord, room: int) -> Iterator[_Column]:
    held, most = n_accepted(step), room - _SIGN
    own = wording.fit(shown(step.own), most)
    for place, token in enumerate(step.proposed):
        text = wording.fit(shown(token), most)
        below: Line
        if place < held:
            above, below = _part(text, "text"), ((text, "text"), (" ✓", "bar"))
        elif place == held and wrote(step):
            above, below = _part(text, "text"), (("✗", "value"), (" → ", "quiet"), (own, "value"))
        else:
            above, below = _part(text, "quiet"), (("·", "quiet"),)
        yield _Column(above, below, max(_cells(above), _cells(below)))
    if held == len(step.proposed) and wrote(step):
        below = (("+ ", "bar"), (own, "text"))
        yield _Column((), below, _cells(below))


def _part(text: str, role: Role) -> Line:
    return ((text, role),)


def _label(text: str) -> tuple[str, Role]:
    return f"  {text}".ljust(_LABEL), "quiet"


def _row(cells: Sequence[tuple[Line, int]]) -> Iterator[tuple[str, Role]]:
    for line, width in cells:
        yield from line
        yield " " * (width - _cells(line) + _GAP), "text"


def _cells(line: Line) -> int:
    return sum(cell_len(text) for text, _ in line)


# ---- all of them ----


def summary(steps: Sequence[StepRecord], width: int, *, live: bool, only_breaks: bool) -> list[Line]:
    """Two lines about all steps that are kept: how much they brought, and where guesses broke."""
    if not steps:
        return [*wrapped(NOT_YET if live else NO_STEPS, width, "quiet"), ()]
    n, drafted = len(steps), sum(len(step.proposed) for step in steps)
    what = f"{sum(map(broke, steps)):,} of {n:,} steps: where a guess broke" if only_breaks else f"the last {n:,} steps"
    if n == 1 and not only_breaks:
        what = "1 step"
    parts = [what, f"{wording.ratio(sum(step.n_tokens for step in steps) / n)} tokens a step"]
    if drafted:
        share = sum(map(n_accepted, steps)) / drafted
        parts.append(f"{wording.percent(share)} of {drafted:,} accepted")
    first: Line = ((wording.fit("   ".join(parts), width), "text"),)
    return [first, _histogram(steps, width) if drafted else ((wording.fit(NO_GUESS, width), "quiet"),)]


def _histogram(steps: Sequence[StepRecord], width: int) -> Line:
    """How often guesses broke at each place; last those that held to their end."""
    guessed = [step for step in steps if step.proposed]
    counts = Counter(n_accepted(step) for step in guessed if broke(step))
    n_held = sum(not broke(step) for step in guessed)
    names = [wording.ordinal(place + 1) for place in range(max(counts, default=-1) + 1)]
    values = [counts[place] for place in range(len(names))]
    top = float(max([*values, n_held]))
    bars = blocks.curve([*values, n_held], top)
    label = "broke at  "
    parts: list[tuple[str, Role]] = [(label, "quiet")]
    for name, value, bar in zip(names, values, bars, strict=False):
        parts += [(f"{name} ", "quiet"), (bar * 2, "bar"), (f" {value:,}   ", "text")]
    parts += [("nowhere ", "quiet"), (bars[-1] * 2, "bar"), (f" {n_held:,}", "text")]
    if not values or _cells(tuple(parts)) <= width:
        return tuple(parts)
    # Too many places for a name each: a curve from the first to the last, and the worst of them.
    worst = max(range(len(values)), key=values.__getitem__)
    curve, span = blocks.curve(values, float(values[worst])), f" 1st–{names[-1]}   "
    most = f"most at the {names[worst]}: {values[worst]:,}   nowhere {n_held:,}"
    room = width - len(label) - len(curve) - len(span)
    return (label, "quiet"), (curve, "bar"), (span, "quiet"), (wording.fit(most, room), "text")
