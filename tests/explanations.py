"""What controllers know after real answers, written down: machines on which guessing pays and does not."""

from __future__ import annotations

from collections.abc import Sequence

from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.explain import Explanation, Kind, MatchOption, PassCost, Rate, Speed
from pardec_chat.backends.decoding.options import PLAIN, Option

NOTHING = Explanation((), None, None, None, ())
_MATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def passes(costs: dict[int, float], plain_ms: float, n: int = 24) -> tuple[PassCost, ...]:
    """Measured passes: rows and single steps."""
    return tuple(PassCost(rows, steps * plain_ms, steps, n) for rows, steps in costs.items())


def rate(evidence: int, mean: float, error: float, n: float) -> Rate:
    """A rate with its standard error."""
    return Rate(evidence, mean, max(0.0, mean - error), min(1.0, mean + error), n)


def draft(tokens: Sequence[float], costs: Sequence[float]) -> tuple[Option, ...]:
    """What the draft model gives at depth 1, 2, …"""
    pairs = enumerate(zip(tokens, costs, strict=True), 1)
    return tuple(Option(Method.DRAFT, depth, n, cost) for depth, (n, cost) in pairs)


def ngram(options: dict[int, Option]) -> tuple[MatchOption, ...]:
    """What copying gives; from each length in `options` on the one given there, nothing before the first."""
    best, matches = PLAIN, []
    for length in _MATCHES:
        best = options.get(length, best)
        matches.append(MatchOption(length, best))
    return tuple(matches)


def copying(depth: int, tokens: float, cost: float) -> Option:
    """A copy of so many tokens."""
    return Option(Method.NGRAM, depth, tokens, cost)


_CPU_COSTS = [2.14, 2.88, 3.92, 4.46, 5.5]
#: Two cores: checking costs almost as much as decoding.
CPU = Explanation(
    passes(
        {1: 1.0, 2: 1.9, 3: 2.4, 4: 3.2, 5: 3.5, 6: 4.3, 7: 4.4, 8: 4.6, 9: 5.7, 10: 5.9, 12: 6.2, 13: 7.4}
        | {16: 7.8, 17: 9.0, 24: 10.4, 25: 11.9, 32: 13.1, 33: 14.6},
        59.2,
    ),
    59.2,
    14.2,
    0.93,
    (
        Kind(
            "chat",
            (rate(1, 0.61, 0.05, 96.0), rate(2, 0.55, 0.07, 48.0), rate(3, 0.52, 0.1, 22.0)),
            (rate(1, 0.12, 0.04, 61.0), rate(3, 0.44, 0.11, 17.0), rate(6, 0.81, 0.15, 4.0)),
            draft([1.61, 1.95, 2.12, 2.21, 2.26], _CPU_COSTS),
            ngram({6: copying(7, 5.6, 4.6), 12: copying(15, 10.9, 7.8)}),
            (
                Speed(Method.PLAIN, 0, 1204, 1.0, 16.8),
                Speed(Method.NGRAM, 7, 31, 4.9, 18.4),
                Speed(Method.DRAFT, 1, 12, 1.6, 12.4),
            ),
        ),
        Kind(
            "code",
            (rate(1, 0.84, 0.04, 88.0), rate(2, 0.78, 0.05, 61.0)),
            (),
            draft([1.84, 2.5, 3.0, 3.4, 3.7], _CPU_COSTS),
            ngram({4: copying(3, 3.3, 3.2), 8: copying(7, 5.6, 4.6)}),
            (Speed(Method.PLAIN, 0, 310, 1.0, 16.9),),
        ),
    ),
)

_GPU_COSTS = [1.32, 1.44, 1.56, 1.75, 1.98, 2.2, 2.4]
#: A graphics card: a few tokens more cost next to nothing.
GPU = Explanation(
    passes({1: 1.0, 2: 1.0, 3: 1.1, 4: 1.1, 5: 1.2, 6: 1.4, 8: 1.7, 12: 2.3, 16: 3.0}, 7.14, 310),
    7.14,
    1.21,
    0.38,
    (
        Kind(
            "code",
            (rate(1, 0.93, 0.03, 99.0), rate(2, 0.91, 0.03, 92.0), rate(3, 0.87, 0.04, 84.0), rate(6, 0.8, 0.09, 20.0)),
            (rate(1, 0.3, 0.05, 90.0), rate(2, 0.5, 0.06, 71.0), rate(12, 0.96, 0.03, 40.0), rate(32, 0.99, 0.02, 9.0)),
            draft([1.93, 2.78, 3.51, 4.1, 4.6, 5.0, 5.3], _GPU_COSTS),
            ngram({2: copying(3, 2.1, 1.1), 6: copying(11, 7.0, 2.3)}),
            (
                Speed(Method.DRAFT, 4, 611, 4.0, 316.2),
                Speed(Method.DRAFT, 3, 402, 3.5, 309.9),
                Speed(Method.PLAIN, 0, 88, 1.0, 139.0),
                Speed(Method.NGRAM, 11, 60, 7.1, 421.0),
                Speed(Method.DRAFT, 2, 41, 2.7, 270.0),
                Speed(Method.NGRAM, 3, 20, 2.0, 260.0),
                Speed(Method.DRAFT, 6, 10, 5.0, 320.0),
            ),
        ),
        Kind(
            "translation",
            (rate(1, 0.22, 0.06, 44.0),),
            (),
            draft([1.22, 1.27, 1.28, 1.28, 1.28, 1.28, 1.28], _GPU_COSTS),
            ngram({}),
            (Speed(Method.PLAIN, 0, 140, 1.0, 140.1),),
        ),
    ),
)
