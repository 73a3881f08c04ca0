"""How often guesses are right, by what speaks for them: from what was checked, with what is not known kept in sight."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

#: Long memory for a steady rate, short memory for a rate that has just changed (weight of the past, per observation).
_LONG, _SHORT = 0.99, 0.88
#: How unlikely the short memory must be under the long one to count as a change, in nats.
_CHANGE = 2.2
#: Evidence below each bound shares a rate: place in a draft, or length of a match, in tokens.
_BOUNDS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
#: A rate of which nothing was seen.
_FIRST = 0.5
#: Observations that are left when a rate has jumped, of its bucket and of the others.
_AFTER_JUMP = 2.0
N_BUCKETS = len(_BOUNDS)


def bucket(evidence: int) -> int:
    """Index of the rate that `evidence`, from 1 on, belongs to."""
    return bisect_right(_BOUNDS, evidence) - 1


def lower_bound(index: int) -> int:
    """Smallest evidence of a bucket."""
    return _BOUNDS[index]


class Share:
    """A rate that is followed as it drifts, and left at once when it jumps."""

    __slots__ = ("_recent_right", "_recent_seen", "right", "seen")

    def __init__(self, right: float = 0.0, seen: float = 0.0) -> None:
        self.right, self.seen = right, seen
        # What is known from before was as steady as far as anybody knows: one miss is no change then.
        self._recent_seen = min(seen, 1.0 / (1.0 - _SHORT))
        self._recent_right = self._recent_seen * right / seen if seen else 0.0

    def observe(self, hit: bool) -> bool:
        """One guess was checked; says whether the rate has jumped."""
        self.right = self.right * _LONG + hit
        self.seen = self.seen * _LONG + 1.0
        self._recent_right = self._recent_right * _SHORT + hit
        self._recent_seen = self._recent_seen * _SHORT + 1.0
        recent = self._recent_right / self._recent_seen
        steady = self.right / self.seen
        if self.seen > 3.0 * _AFTER_JUMP and self._recent_seen * _divergence(recent, steady) > _CHANGE:
            self.right, self.seen = recent * _AFTER_JUMP, _AFTER_JUMP
            return True
        return False

    def fade(self, weight: float) -> None:
        """What was seen long ago counts less."""
        self.right *= weight
        self.seen *= weight

    def mean(self, prior: float, strength: float) -> float:
        """The rate; `prior` counts like `strength` observations."""
        return (self.right + strength * prior) / (self.seen + strength)

    def at_best(self, prior: float, strength: float, known: float, errors: float) -> float:
        """The rate so many standard errors up; the prior stands on `known` observations."""
        mean, n = self.mean(prior, strength), self.seen + min(strength, known) + 1.0
        # The second term keeps a rate near 0 or 1 from looking certain after a few observations (Wilson 1927).
        return min(0.995, mean + errors * math.sqrt(mean * (1.0 - mean) / n + 0.25 / (n * n)))


class Record:
    """Rates of one source in one kind of text, by bucket of evidence.

    priors: rates before anything was seen; None takes the bucket before, for evidence of which more is about as good.
    general: the same source in more text than this, which stands in, like `strength` observations, where little was seen
        here.
    """

    #: Observations that mere expectation counts for.
    _WEAK = 1.0

    def __init__(self, priors: Sequence[float] | None, general: Record | None = None, strength: float = 2.0) -> None:
        self._strength = strength
        self._priors = priors
        self._general = general
        self.shares = [Share() for _ in range(N_BUCKETS)]
        # Expected rates as of some number of changes, here and in general.
        self._changes = 0
        self._means: list[float] = []
        self._means_at = -1

    def observe(self, evidence: int, hit: bool) -> None:
        """A guess with this evidence was checked."""
        share = self.shares[bucket(evidence)]
        if share.observe(hit):
            # What one bucket shows so clearly holds for the others until they show otherwise; that it has become better
            # says nothing about worse ones.
            for other in self.shares:
                if other is not share and other.seen > _AFTER_JUMP:
                    other.fade(_AFTER_JUMP / other.seen)
                    other.right = min(other.right, share.right)
        self._changes += 1
        if self._general is not None:
            self._general.observe(evidence, hit)

    def mean(self, index: int) -> float:
        """Expected rate of a bucket."""
        changes = self._age()
        if changes != self._means_at:
            self._means_at = changes
            self._means = []
            for i, share in enumerate(self.shares):
                self._means.append(share.mean(*self._prior(i)))
        return self._means[index]

    def _age(self) -> int:
        return self._changes + (self._general._age() if self._general is not None else 0)

    def at_best(self, index: int, errors: float = 1.0) -> float:
        """The same, so many standard errors up."""
        self.mean(index)  # what the prior stands on
        known = self._general.shares[index].seen if self._general is not None else 1.0
        return self.shares[index].at_best(*self._prior(index), known, errors)

    def _prior(self, index: int) -> tuple[float, float]:
        if self._general is not None:
            return self._general.mean(index), self._strength
        if self._priors is not None:
            return self._priors[index], self._WEAK
        return (self._means[index - 1], self._strength) if index else (_FIRST, self._WEAK)

    def fade(self, weight: float, least: float) -> None:
        """What was seen long ago counts less, down to `least` observations of each bucket."""
        for share in self.shares:
            if share.seen > least:
                share.fade(max(weight, least / share.seen))
        self._changes += 1

    def dump(self) -> list[list[float]]:
        """Plain data for a file."""
        return [[round(share.right, 3), round(share.seen, 3)] for share in self.shares]

    def restore(self, data: Sequence[Sequence[float]]) -> None:
        """From `dump`. Raises ValueError or TypeError for anything else."""
        if len(data) != N_BUCKETS:
            raise ValueError("another number of buckets")
        shares = [Share(float(right), float(seen)) for right, seen in data]
        if not all(0.0 <= share.right <= share.seen < 1e6 for share in shares):
            raise ValueError("no rates")
        self.shares = shares
        self._changes += 1


def _divergence(a: float, b: float) -> float:
    """Kullback–Leibler divergence of a coin with rate `a` from one with rate `b`, in nats; no rate is taken for certain."""
    a, b = min(0.99, max(0.01, a)), min(0.97, max(0.03, b))
    return a * math.log(a / b) + (1.0 - a) * math.log((1.0 - a) / (1.0 - b))
