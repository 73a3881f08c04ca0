"""What is known of the drafters of one target on one machine: times, rates of right guesses, and what steps really gave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pardec_chat.backends.base import MAX_DEPTH, Method, Outcome
from pardec_chat.backends.decoding.costs import Costs
from pardec_chat.backends.decoding.estimates import N_BUCKETS, Record, Share, lower_bound

#: Most guesses of one draft that pay on any curve known.
MOST_GUESSES = {Method.DRAFT: 16, Method.NGRAM: MAX_DEPTH}
#: Drafts that it takes to know what drafting costs: first times are slow (caches, kernels that are compiled).
ENOUGH_DRAFTS = 3
#: Rates before anything was checked: by place for models (as good as the place before), by length of match for repetition.
_PRIORS: dict[Method, Sequence[float] | None] = {
    Method.DRAFT: None,
    Method.NGRAM: [lower_bound(i) / (lower_bound(i) + 4.0) for i in range(N_BUCKETS)],
    Method.LOOKAHEAD: None,
}
#: Bins of a source's confidence, from 0 to 1.
_N_BINS = 10
#: Observations that the middle of a bin counts for.
_BIN_STRENGTH = 4.0


@dataclass(slots=True)
class Measured:
    """What steps of one kind, method and depth really gave."""

    steps: int = 0
    tokens: int = 0
    ms: float = 0.0


class Knowledge:
    """Learned from every step, whatever decided it; used on the thread that decodes.

    measured: by kind of text, method and depth, of answers that had the pass for themselves.
    share: of all time that trying may take, for the controller.
    """

    def __init__(self, share: float = 0.0) -> None:
        self.costs = Costs()
        self.records: dict[tuple[Method, str], Record] = {}
        self.confidence: dict[Method, list[Share]] = {}
        self.measured: dict[tuple[str, Method, int], Measured] = {}
        self.share = share

    def record(self, method: Method, kind: str) -> Record:
        """The rates of a source in a kind of text; in all kinds for an empty one."""
        known = self.records.get((method, kind))
        if known is None:
            general = self.record(method, "") if kind else None
            known = self.records[method, kind] = Record(_PRIORS[method], general)
        return known

    def note(self, method: Method, record: Record, outcomes: Sequence[Outcome]) -> None:
        """What the committed text said about guesses; record: of the kind of text, or of the answer."""
        for outcome in outcomes:
            record.observe(outcome.evidence, outcome.right)
            if outcome.confidence is not None:
                self._bins(method)[_bin(outcome.confidence)].observe(outcome.right)

    def trust(self, method: Method, confidence: float) -> float:
        """How often guesses are right that a source is so confident in."""
        bin_ = _bin(confidence)
        return self._bins(method)[bin_].mean((bin_ + 0.5) / _N_BINS, _BIN_STRENGTH)

    def _bins(self, method: Method) -> list[Share]:
        return self.confidence.setdefault(method, [Share() for _ in range(_N_BINS)])

    def count(self, kind: str, method: Method, depth: int, n_tokens: int, ms: float) -> None:
        """One step of an answer that had the pass for itself."""
        measured = self.measured.setdefault((kind, method, depth), Measured())
        measured.steps += 1
        measured.tokens += n_tokens
        measured.ms += ms

    def plain_ms(self, n_context: int, n_live: int = 1) -> float:
        """A plain step of `n_live` answers with so many tokens in the context; 0 before anything was measured."""
        curve = self.costs.passes(n_context)
        return curve.ms(n_live) if curve.sizes else 0.0

    def dump(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {
            "costs": self.costs.dump(),
            "records": [[method.value, kind, record.dump()] for (method, kind), record in self.records.items()],
            "confidence": {
                method.value: [[round(share.right, 3), round(share.seen, 3)] for share in shares]
                for method, shares in self.confidence.items()
            },
            "measured": [
                [kind, method.value, depth, m.steps, m.tokens, round(m.ms, 3)]
                for (kind, method, depth), m in self.measured.items()
            ],
            "share": self.share,
        }

    @staticmethod
    def load(data: dict[str, Any]) -> Knowledge:
        """From `dump`. Raises ValueError, TypeError, KeyError, AttributeError or OverflowError for anything else."""
        share = float(data["share"])
        if not 0.0 <= share <= 1.0:
            raise ValueError("no share")
        knowledge = Knowledge(share)
        knowledge.costs = Costs.load(data["costs"])
        for name, kind, record in data["records"]:
            knowledge.record(Method(name), str(kind)).restore(record)
        for name, shares in data["confidence"].items():
            restored = [Share(float(right), float(seen)) for right, seen in shares]
            if len(restored) != _N_BINS or not all(0.0 <= s.right <= s.seen < math.inf for s in restored):
                raise ValueError("no rates by confidence")
            knowledge.confidence[Method(name)] = restored
        for kind, name, depth, steps, tokens, ms in data["measured"]:
            measured = Measured(int(steps), int(tokens), float(ms))
            if not (measured.steps > 0 and measured.tokens > 0 and 0.0 < measured.ms < math.inf):
                raise ValueError("no measurement")
            knowledge.measured[str(kind), Method(name), int(depth)] = measured
        return knowledge


def _bin(confidence: float) -> int:
    return min(_N_BINS - 1, int(confidence * _N_BINS))
