"""Does guessing pay here? What the engine explains, in plain words and figures; neither a widget nor a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pardec_chat.app.lines import BLANK, Line, Role, Row, columns, wrapped
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.estimates import N_BUCKETS, bucket, lower_bound

if TYPE_CHECKING:
    from pardec_chat.backends.decoding.explain import Explanation, Kind, PassCost, Rate, Speed

TITLE = "Does it pay here?"
NOTHING = "Nothing is measured yet. Write something: every answer measures what its steps take."
HOW_TO_MEASURE = "Or press m: that measures passes and guesses directly, in about 25 seconds."
ASKING = "Asking the engine; it tells as soon as it has the time."
NO_ENGINE = "There is no engine yet to ask."
NO_MODEL = "No model is loaded. Go back with esc; F3 chooses one."
NOTHING_TO_SAVE = "There is nothing to save yet: nothing is measured."
ENDING = "ending the measurement …"

#: What each kind of text is, and its name where several stand in a sentence.
_KINDS = {
    "chat": ("questions and talk", "chat"),
    "code": ("programs", "code"),
    "edit": ("a longer text with code in it is changed or asked about", "edits"),
    "quote": ("a longer text is summed up, changed or asked about", "quotes"),
    "translation": ("from one language to another, or another script", "translations"),
}
#: Rows that stand for checking: those of a draft of three, the usual depth.
_USUAL_ROWS = 4
#: Auto wants at least this much more than plain decoding.
_WORTH = 1.01
#: Depths that are always shown, and what is shown behind the best one.
_DEPTHS, _BEHIND = 5, 2
#: Ways of decoding with a line of their own, by the steps that were done with them.
_SPEEDS = 5
_BAR_WIDTH, _BAR_LINES = 3, 4
_LABEL, _LABEL_OF_ROWS, _LABEL_OF_SPEEDS = 16, 6, 20
_INDENT = 2
#: Cells of a line that is read, at most.
_READABLE = 100


def heading(model: str, draft: str | None, width: int) -> Line:
    """The question, and for which models it is answered."""
    names = visible_line(model) + (f"  +  {visible_line(draft)}" if draft else "")
    return (TITLE, "title"), (wording.fit(f"   {names}", width - len(TITLE)) if names else "", "quiet")


def measuring(done: float, width: int) -> Line:
    """How far a measurement is, 0…1."""
    before, behind = "measuring ", f"{wording.percent(done):>6}   answers wait · esc ends it"
    full, empty = blocks.bar(done, max(4, min(30, width - len(before) - len(behind))))
    return (before, "value"), (full, "bar"), (empty, "quiet"), (behind, "quiet")


def picture(explanation: Explanation, draft: str | None, width: int, n_context: int = 512) -> list[Line]:
    """Everything, on lines of `width` cells at most.

    draft: name of the draft model that is loaded. n_context: what the explanation was asked for.
    """
    if explanation.plain_ms is None:
        return _text(NOTHING, width)
    lines = [*_text(verdict(explanation, draft), width, "value"), BLANK]
    lines += [_title("What checking costs"), *_costs(explanation, explanation.plain_ms, width, n_context), BLANK]
    lines += [_title("What a guess costs"), *_text(guess_cost(explanation, draft), width, indent=_INDENT)]
    for kind in explanation.kinds:
        lines += [BLANK, *_kind(kind, explanation.plain_ms, width)]
    lines += [BLANK, *_text(_definitions(explanation), width, "quiet")]
    return lines


def verdict(explanation: Explanation, draft: str | None) -> str:
    """What follows from all figures, in two sentences."""
    if explanation.plain_ms is None:
        return NOTHING
    checked = [cost for cost in explanation.passes if cost.rows > 1]
    if checked:
        usual = min(checked, key=lambda cost: abs(cost.rows - _USUAL_ROWS))
        first = f"Checking {usual.rows} tokens costs {_steps(usual.steps)} single steps here"
    else:
        first = "What checking several tokens costs was not measured yet"
    return f"{first}; {_draft_clause(explanation, draft)}. {_used(explanation, draft)}"


def guess_cost(explanation: Explanation, draft: str | None) -> str:
    """What the draft model takes for a guess, and how often it has to be right."""
    if draft is None:
        return "No draft model is loaded. Copying text that repeats (n-gram) needs none."
    if explanation.draft_ms is None or explanation.plain_ms is None:
        return "The draft model was hardly tried yet."
    cost = _steps(explanation.draft_ms / explanation.plain_ms)
    first = (
        f"One guess of the draft model takes {wording.milliseconds(explanation.draft_ms)}, that is {cost} single steps."
    )
    if explanation.break_even is None:
        return f"{first} It cannot pay: with every guess right, plain decoding would be as fast."
    share = wording.percent(explanation.break_even)
    return f"{first} It breaks even with {share} right guesses, at the depth that suits it best."


def right(rate: Rate) -> str:
    """A share of right guesses and its standard error: 84 % ± 3."""
    error = round(max(rate.high - rate.mean, rate.mean - rate.low) * 100)
    return f"{wording.percent(rate.mean)} ± {max(1, error)}"


def best_depth(kind: Kind) -> str:
    """The draft model's best depth, in words; empty while it was never tried."""
    if not kind.draft:
        return ""
    best = max(kind.draft, key=lambda option: option.speedup)
    if best.speedup > 1.0:
        return f"The draft model is best {best.depth} deep: {wording.times(best.speedup)} plain decoding."
    return f"The draft model does not pay: {best.depth} deep, its best, gives {wording.times(best.speedup)} plain decoding."


def shortest_match(kind: Kind) -> str:
    """From where on copying pays, in words."""
    pays = [match.option.speedup > 1.0 for match in kind.ngram]
    seen = "" if kind.matches else " Nothing was copied here so far: this is expected from other texts."
    shortest = kind.shortest_match
    if shortest is None:
        return f"n-gram does not pay behind any match.{seen}"
    first = pays.index(True)
    if all(pays[first:]):
        where = f"a match of {shortest.length} or more"
    else:
        where = f"matches of {_listed([str(m.length) for m, paid in zip(kind.ngram, pays, strict=True) if paid])}"
    n, speedup = shortest.option.depth, wording.times(shortest.option.speedup)
    return f"n-gram pays behind {where}, {n} {'token' if n == 1 else 'tokens'}: {speedup} plain decoding.{seen}"


def _draft_clause(explanation: Explanation, draft: str | None) -> str:
    if draft is None:
        return "no draft model is loaded"
    if explanation.draft_ms is None:
        return "the draft model was hardly tried yet"
    if explanation.break_even is None:
        return "the draft model cannot pay, not even with every guess right"
    share = wording.percent(explanation.break_even)
    if any(map(_draft_pays, explanation.kinds)):
        return f"the draft model breaks even with {share} right guesses"
    return f"the draft model would need {share} right guesses to break even"


def _used(explanation: Explanation, draft: str | None) -> str:
    if not explanation.kinds:
        return "How often guesses are right shows with the first answers."
    # Where nothing was guessed yet, what pays there is a guess itself.
    known = [kind for kind in explanation.kinds if kind.places] if draft is not None else []
    paying = [kind for kind in known if _draft_pays(kind)]
    if not paying:
        what = "plain decoding is used"
    elif len(paying) == len(known):
        what = "the draft model is used"
    else:
        names = _listed([_KINDS.get(kind.name, ("", visible_line(kind.name)))[1] for kind in paying])
        what = f"the draft model is used for {names}, plain decoding for the rest"
    copies = ", n-gram where text repeats" if any(kind.shortest_match for kind in explanation.kinds) else ""
    return f"With auto, {what}{copies}."


def _draft_pays(kind: Kind) -> bool:
    return bool(kind.places) and kind.best_draft.speedup > _WORTH


def _costs(explanation: Explanation, plain_ms: float, width: int, n_context: int) -> Iterator[Line]:
    text = f"A single step takes {wording.milliseconds(plain_ms)} with {n_context:,} tokens in the context."
    passes = explanation.passes
    if all(cost.rows == 1 for cost in passes):
        yield from _text(f"{text} Passes of more than one row were not measured yet.", width, indent=_INDENT)
        return
    text += " Below, the rows of a pass that were measured, and what it costs in single steps."
    yield from _text(text, width, indent=_INDENT)
    gap = 2 if _LABEL_OF_ROWS + len(passes) * (_BAR_WIDTH + 2) <= width else 1
    bars = blocks.columns([cost.steps for cost in passes], _BAR_LINES, _BAR_WIDTH)
    rows = [Row("", line, "bar") for line in bars]
    rows += [
        Row("  rows", [str(cost.rows) for cost in passes], "text"),
        Row("  cost", [_short(cost.steps) for cost in passes]),
        Row("  seen", [_seen(cost) for cost in passes], "quiet"),
    ]
    yield from columns(rows, width, label_width=_LABEL_OF_ROWS, gap=gap)


def _kind(kind: Kind, plain_ms: float, width: int) -> Iterator[Line]:
    name, what = visible_line(kind.name), _KINDS.get(kind.name, ("", ""))[0]
    yield (name, "title"), (wording.fit(f"   {what}", width - len(name)) if what else "", "quiet")
    parts = [_draft(kind, width), _ngram(kind, width), _speeds(kind, plain_ms, width)]
    for i, part in enumerate([part for part in parts if part]):
        if i:
            yield BLANK
        yield from part


def _draft(kind: Kind, width: int) -> list[Line]:
    lines: list[Line] = []
    if kind.places:
        lines += _rates("  draft, place", wording.ordinal, kind.places, width)
    if kind.draft:
        options = kind.draft[: max(_DEPTHS, kind.best_draft.depth + _BEHIND)]
        rows = [
            Row("  draft, depth", [str(option.depth) for option in options], "text"),
            Row("    speed-up", [wording.times(option.speedup) for option in options]),
        ]
        lines += columns(rows, width, label_width=_LABEL)
        lines += _text(best_depth(kind), width, indent=_INDENT)
    return lines


def _ngram(kind: Kind, width: int) -> list[Line]:
    rates = _rates("  n-gram, match", str, kind.matches, width) if kind.matches else []
    return [*rates, *_text(shortest_match(kind), width, indent=_INDENT)]


def _rates(label: str, name: Callable[[int], str], rates: Sequence[Rate], width: int) -> list[Line]:
    rows = [
        Row(label, [_span(rate, name) for rate in rates], "text"),
        Row("    right", [right(rate) for rate in rates]),
        Row("    of", [f"{rate.n:,.0f}" for rate in rates], "quiet"),
    ]
    return list(columns(rows, width, label_width=_LABEL))


def _speeds(kind: Kind, plain_ms: float, width: int) -> list[Line]:
    if not kind.measured:
        return []
    rows = [Row("  measured", ["tok/s", "expected", "a step", "steps"], "text")]
    for speed in kind.measured[:_SPEEDS]:
        rate, expected = wording.rate(speed.tokens_per_second), wording.rate(_expected(kind, speed, plain_ms))
        cells = [rate, expected, wording.ratio(speed.tokens_per_step), f"{speed.steps:,}"]
        rows.append(Row(f"    {_way(speed)}", cells))
    if rest := kind.measured[_SPEEDS:]:
        steps = sum(speed.steps for speed in rest)
        tokens = sum(speed.steps * speed.tokens_per_step for speed in rest)
        seconds = sum(speed.steps * speed.tokens_per_step / speed.tokens_per_second for speed in rest)
        cells = [wording.rate(tokens / seconds), wording.NONE, wording.ratio(tokens / steps), f"{steps:,}"]
        rows.append(Row(f"    {len(rest)} more", cells))
    return list(columns(rows, width, label_width=_LABEL_OF_SPEEDS))


def _expected(kind: Kind, speed: Speed, plain_ms: float) -> float | None:
    """Tokens per second that follow from costs and rates; not for copies, whose rates hang on the match."""
    if speed.method == Method.PLAIN:
        return 1e3 / plain_ms
    if speed.method == Method.DRAFT and 0 < speed.depth <= len(kind.draft):
        return kind.draft[speed.depth - 1].speedup * 1e3 / plain_ms
    return None


def _way(speed: Speed) -> str:
    return wording.method("n-gram" if speed.method == Method.NGRAM else speed.method.value, speed.depth)


def _span(rate: Rate, name: Callable[[int], str]) -> str:
    """The places or lengths that share a rate: 5, 6–7, 32+."""
    index = bucket(rate.evidence)
    if index + 1 == N_BUCKETS:
        return f"{name(rate.evidence)}+"
    last = lower_bound(index + 1) - 1
    return name(rate.evidence) if last == rate.evidence else f"{name(rate.evidence)}–{name(last)}"


def _definitions(explanation: Explanation) -> str:
    text = "All costs are counted in single steps: passes of the large model for one token."
    if any(kind.places or kind.matches for kind in explanation.kinds):
        text += (
            " Right: of the guesses checked there, those before them being right; ± is one standard error, older ones"
            " count less. Speed-ups are expected from costs and rates, speeds without the prompt."
        )
    return text


def _text(text: str, width: int, role: Role = "text", indent: int = 0) -> list[Line]:
    return wrapped(text, min(_READABLE, width - 2), role, indent)


def _title(text: str) -> Line:
    return ((text, "title"),)


def _steps(value: float) -> str:
    return f"{value:.2f}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def _short(steps: float) -> str:
    return f"{steps:.1f}" if steps < 9.95 else f"{steps:.0f}"


def _seen(cost: PassCost) -> str:
    return "99+" if cost.n > 99 else str(cost.n)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
