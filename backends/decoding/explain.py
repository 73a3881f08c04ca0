"""What is known, laid out for people: what passes cost, how often guesses are right, what follows from both."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.estimates import N_BUCKETS, Record, bucket, lower_bound
from pardec_chat.backends.decoding.knowledge import ENOUGH_DRAFTS, MOST_GUESSES, Knowledge, Measured
from pardec_chat.backends.decoding.options import PLAIN, Option

#: Lengths of match that a reader is told about.
_MATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@dataclass(frozen=True, slots=True)
class PassCost:
    """A pass of so many rows: milliseconds, the same in single steps, and how often it was measured."""

    rows: int
    ms: float
    steps: float
    n: int


@dataclass(frozen=True, slots=True)
class Rate:
    """How often guesses were right. evidence: place in the draft, or length of the match, from here to the next rate's.

    low, high: one standard error to both sides. n: guesses checked, the older ones counting less.
    """

    evidence: int
    mean: float
    low: float
    high: float
    n: float


@dataclass(frozen=True, slots=True)
class MatchOption:
    """What is best behind a match of `length` tokens; `PLAIN` where copying does not pay."""

    length: int
    option: Option


@dataclass(frozen=True, slots=True)
class Speed:
    """What steps with this method and depth gave: tokens a step and tokens per second, over `steps` of them."""

    method: Method
    depth: int
    steps: int
    tokens_per_step: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of text.

    places: the draft model's rates by place. matches: the n-grams' by length of match. Only what was seen is listed.
    draft: what the draft model would give at depth 1, 2, …; empty while it was never tried.
    ngram: what copying would give by length of match.
    measured: what was really done.
    """

    name: str
    places: tuple[Rate, ...]
    matches: tuple[Rate, ...]
    draft: tuple[Option, ...]
    ngram: tuple[MatchOption, ...]
    measured: tuple[Speed, ...]

    @property
    def best_draft(self) -> Option:
        """The depth that pays most with the draft model; `PLAIN` when none does."""
        return max((PLAIN, *self.draft), key=lambda option: option.speedup)

    @property
    def shortest_match(self) -> MatchOption | None:
        """The shortest match behind which copying pays."""
        return next((match for match in self.ngram if match.option.speedup > 1.0), None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that a choice rests on, at one context length.

    passes: measured row counts alone. plain_ms: a single step; None while nothing was measured.
    draft_ms: one guess of the draft model; None without one or before it was tried often enough.
    break_even: share of right guesses from which the draft model pays at its best depth; None when none is enough, or when
        it is not known. kinds: of text, the most seen first.
    """

    passes: tuple[PassCost, ...]
    plain_ms: float | None
    draft_ms: float | None
    break_even: float | None
    kinds: tuple[Kind, ...]


def explain(knowledge: Knowledge, n_context: int = 512) -> Explanation:
    """A picture of what is known now."""
    curve = knowledge.costs.passes(n_context)
    if not curve.sizes:
        return Explanation((), None, None, None, ())
    unit = curve.ms(1)
    passes = tuple(PassCost(n, curve.ms(n), curve.ms(n) / unit, curve.count(n)) for n in curve.sizes if n <= 33)
    drafting = knowledge.costs.drafting.get(Method.DRAFT.value)
    # One slow first time is not what a guess takes.
    has_draft = drafting is not None and drafting.total >= ENOUGH_DRAFTS
    names = {kind for _, kind in knowledge.records if kind} | {kind for kind, _, _ in knowledge.measured}
    seen = {name: sum(m.steps for (kind, _, _), m in knowledge.measured.items() if kind == name) for name in names}
    kinds = tuple(_kind(knowledge, name, n_context, has_draft) for name in sorted(names, key=lambda n: (-seen[n], n)))
    return Explanation(
        passes,
        unit,
        knowledge.costs.draft_ms(Method.DRAFT.value, 1) if has_draft else None,
        _break_even(knowledge, n_context) if has_draft else None,
        kinds,
    )


def _kind(knowledge: Knowledge, name: str, n_context: int, has_draft: bool) -> Kind:
    model, copying = knowledge.record(Method.DRAFT, name), knowledge.record(Method.NGRAM, name)
    draft = tuple(_options(knowledge, Method.DRAFT, model, 1, n_context)) if has_draft else ()
    ngram = []
    for length in _MATCHES:
        best = max(
            (PLAIN, *_options(knowledge, Method.NGRAM, copying, length, n_context)), key=lambda option: option.speedup
        )
        ngram.append(MatchOption(length, best))
    measured = sorted(
        (_speed(method, depth, m) for (kind, method, depth), m in knowledge.measured.items() if kind == name),
        key=lambda speed: -speed.steps,
    )
    return Kind(name, _rates(model), _rates(copying), draft, tuple(ngram), tuple(measured))


def _options(knowledge: Knowledge, method: Method, record: Record, evidence: int, n_context: int) -> Iterable[Option]:
    curve = knowledge.costs.passes(n_context)
    rows, unit = curve.relative(MOST_GUESSES[method] + 1), curve.ms(1)
    tokens = reach = 1.0
    # A place in a draft counts on with each guess, and so does the length of a match.
    for n in range(1, MOST_GUESSES[method] + 1):
        reach *= record.mean(bucket(evidence + n - 1))
        tokens += reach
        yield Option(method, n, tokens, rows[n + 1] + knowledge.costs.draft_ms(method.value, n) / unit)


def _rates(record: Record) -> tuple[Rate, ...]:
    rates = []
    for index in range(N_BUCKETS):
        seen = record.shares[index].seen
        if seen >= 1.0:
            mean = record.mean(index)
            error = math.sqrt(mean * (1.0 - mean) / (seen + 1.0))
            low, high = max(0.0, mean - error), min(1.0, mean + error)
            rates.append(Rate(lower_bound(index), mean, low, high, seen))
    return tuple(rates)


def _speed(method: Method, depth: int, measured: Measured) -> Speed:
    return Speed(
        method,
        depth,
        measured.steps,
        measured.tokens / measured.steps,
        measured.tokens / measured.ms * 1e3,
    )


def _break_even(knowledge: Knowledge, n_context: int) -> float | None:
    curve = knowledge.costs.passes(n_context)
    most = MOST_GUESSES[Method.DRAFT]
    rows, unit = curve.relative(most + 1), curve.ms(1)
    costs = [rows[n + 1] + knowledge.costs.draft_ms(Method.DRAFT.value, n) / unit for n in range(1, most + 1)]

    def pays(rate: float) -> bool:
        return any(sum(rate**k for k in range(n + 1)) > cost for n, cost in enumerate(costs, 1))

    if not pays(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
