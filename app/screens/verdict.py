"""What a race has shown, in words; no widget, no clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pardec_chat.app.widgets import wording

#: Speeds that differ by less may change places in the next race.
_TIE = 0.03
#: Fewer tokens are too few steps to average over.
_LEAST_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Run:
    """What one contestant wrote, and how fast. rate: tokens a second of decoding, None before the first step."""

    name: str
    text: str
    tokens: int
    rate: float | None


def verdict(left: Run, right: Run, temperature: float) -> str:
    """What a race that ran to its end says about speed and text."""
    left, right = _told_apart(left, right)
    return " ".join(filter(None, (_speed(left, right), _length(left, right), _text(left, right, temperature))))


def stopped(left: Run, right: Run) -> str:
    """The figures of a race that did not come to its end; no verdict follows from them."""
    if not left.tokens and not right.tokens:
        return "Stopped before the first token."
    return f"Stopped: {_so_far(*_told_apart(left, right))}."


def _speed(left: Run, right: Run) -> str:
    if not left.rate or not right.rate or min(left.tokens, right.tokens) < _LEAST_TOKENS:
        return f"Too short to tell: {_so_far(left, right)}."
    fast, slow = (left, right) if left.rate >= right.rate else (right, left)
    assert fast.rate is not None and slow.rate is not None
    ratio = fast.rate / slow.rate
    if ratio <= 1 + _TIE:
        both = f"{wording.rate(left.rate)} and {wording.rate(right.rate)} tok/s"
        return f"No difference worth mentioning: {both} (within {wording.percent(_TIE)})."
    rates = f"{wording.rate(fast.rate)} against {wording.rate(slow.rate)} tok/s"
    return f"{fast.name} is {ratio:.2f}x as fast as {slow.name}: {rates}."


def _length(left: Run, right: Run) -> str:
    """Speed changes along an answer, so answers of very different lengths compare badly."""
    short, long = sorted((left.tokens, right.tokens))
    if short < _LEAST_TOKENS or long <= 2 * short:
        return ""
    return f"The lengths are very different: {left.tokens:,} and {right.tokens:,} tokens."


def _text(left: Run, right: Run, temperature: float) -> str:
    if temperature > 0:
        return f"At temperature {temperature:g} the texts may differ; their distribution is the same."
    if left.text == right.text:
        return "Both texts are the same."
    pairs = zip(left.text, right.text, strict=False)
    place = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left.text), len(right.text))) + 1
    return f"The texts differ from character {place:,} on: two tokens that nearly tie may do that."


def _so_far(left: Run, right: Run) -> str:
    first = f"{left.name} wrote {left.tokens:,} tokens at {wording.rate(left.rate)} tok/s"
    return f"{first}, {right.name} {right.tokens:,} at {wording.rate(right.rate)}"


def _told_apart(left: Run, right: Run) -> tuple[Run, Run]:
    if left.name != right.name:
        return left, right
    return replace(left, name=f"{left.name} (left)"), replace(right, name=f"{right.name} (right)")
