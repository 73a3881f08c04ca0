"""The sampler chain on one row of logits, in numpy.

Order: penalties, logit bias, temperature, top-k, top-p, min-p; the same for every runtime, so that `p` in both acceptance
rules is the distribution after the whole chain. Truncated rows keep only their survivors, so that the cost of what follows
does not depend on the size of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Ids = NDArray[np.int64]
Weights = NDArray[np.float64]

# Colder than this the divisions overflow; unequal logits are many thousand temperatures apart well before.
_COLDEST = 1e-30


class Chance(Protocol):
    """The only source of randomness below the loop: a generator in use, an enumeration in the tests."""

    def coin(self, probability: float) -> bool:
        """True with `probability`."""
        ...

    def pick(self, distribution: Distribution) -> int:
        """A token drawn from `distribution`."""
        ...


@dataclass(frozen=True, slots=True)
class Distribution:
    """Probabilities over a vocabulary.

    ids: the tokens with a probability above zero, shape [K]; None when `weights` covers the vocabulary from id 0 on.
    weights: their probabilities, float64, shape [K], sum 1.
    """

    ids: Ids | None
    weights: Weights

    def probability(self, token: int) -> float:
        """Probability of `token`, 0 for one that was cut off."""
        if self.ids is None:
            return float(self.weights[token]) if token < len(self.weights) else 0.0
        found = np.flatnonzero(self.ids == token)
        return float(self.weights[found[0]]) if len(found) else 0.0

    def quantile(self, u: float) -> int:
        """The token at `u` in [0, 1) of the cumulated weights: one uniform number gives one token."""
        cumulated = np.cumsum(self.weights)
        index = int(np.searchsorted(cumulated, u * cumulated[-1], side="right"))
        index = min(index, len(cumulated) - 1)
        while self.weights[index] == 0.0:  # u beyond the last weight by rounding
            index -= 1
        return index if self.ids is None else int(self.ids[index])

    def minus(self, other: Distribution) -> Distribution:
        """norm(max(0, self - other)): what is left for the target after a rejection (Leviathan et al. 2023, section 2.3)."""
        if self.ids is None:
            left = self.weights.copy()
            n = len(left)
            if other.ids is None:
                m = min(n, len(other.weights))
                left[:m] -= other.weights[:m]
            else:
                inside = other.ids < n
                left[other.ids[inside]] -= other.weights[inside]
        else:
            left = self.weights - np.array([other.probability(int(i)) for i in self.ids])
        np.maximum(left, 0.0, out=left)
        total = left.sum()
        # Equal distributions leave nothing, up to rounding; then the rejection had probability 0 up to rounding too.
        return Distribution(self.ids, left / total) if total > 0.0 else self

    def without(self, token: int) -> Distribution:
        """Renormalised without `token`: what the next sibling of a draft tree was drawn from."""
        weights = np.where((np.arange(len(self.weights)) if self.ids is None else self.ids) == token, 0.0, self.weights)
        total = weights.sum()
        return Distribution(self.ids, weights / total) if total > 0.0 else self

    def dense(self, n: int) -> Weights:
        """As a row over `n` ids, shape [n]."""
        row = np.zeros(n)
        if self.ids is None:
            row[: len(self.weights)] = self.weights
        else:
            row[self.ids] = self.weights
        return row


@dataclass(frozen=True, slots=True)
class Seen:
    """What the penalties look at, for one position.

    ids: distinct tokens of prompt and answer so far, shape [M].
    counts: how often each stands in the answer so far (0 for one of the prompt alone), shape [M].
    """

    ids: Ids
    counts: NDArray[np.float32]


def penalise(
    logits: Logits,
    seen: Seen,
    repetition: float,
    frequency: float,
    presence: float,
    bias: tuple[Ids, NDArray[np.float32]] | None,
) -> Logits:
    """A copy of `logits` [V] after the penalties and the logit bias; `logits` itself when there is nothing to do.

    repetition: divides positive and multiplies negative logits of tokens of prompt and answer (Keskar et al. 2019, CTRL).
    frequency, presence: subtracted per occurrence, and once, for tokens of the answer.
    """
    penalised = repetition != 1.0 or frequency != 0.0 or presence != 0.0
    if bias is None and not (penalised and len(seen.ids)):
        return logits
    row = logits.copy()
    if penalised and len(seen.ids):
        inside = seen.ids < len(row)
        ids, counts = seen.ids[inside], seen.counts[inside]
        values = row[ids]
        values = np.where(values > 0, values / np.float32(repetition), values * np.float32(repetition))
        row[ids] = values - counts * np.float32(frequency) - (counts > 0) * np.float32(presence)
    if bias is not None:
        row[bias[0]] += bias[1]
    return row


def distribution(logits: Logits, temperature: float, top_k: int, top_p: float, min_p: float) -> Distribution:
    """softmax(logits / temperature) cut by top-k, top-p and min-p, renormalised.

    logits: shape [V], penalised and biased; temperature > 0; top_k 0, top_p 1 and min_p 0 switch each cut off.
    """
    temperature = max(temperature, _COLDEST)
    peak = float(logits.max())
    if 0 < top_k < len(logits):
        ids = _largest(logits, top_k)
        weights = np.exp((logits[ids].astype(np.float64) - peak) / temperature)
        weights /= weights.sum()
    elif top_p >= 1.0 and min_p <= 0.0:
        weights = _exp(logits, peak, temperature).astype(np.float64)
        weights /= weights.sum()
        return Distribution(None, weights)
    elif top_p >= 1.0:
        # Min-p compares with the most probable token, so the survivors are known before the sum.
        ids = np.flatnonzero(logits >= peak + temperature * np.log(min_p) - 1e-3)
        ids = ids[np.argsort(-logits[ids], kind="stable")]
        weights = np.exp((logits[ids].astype(np.float64) - peak) / temperature)
    else:
        ids, weights = _head(logits, peak, temperature, top_p)
    if top_p < 1.0:
        # The token that crosses the threshold stays (Holtzman et al. 2020).
        keep = int(np.searchsorted(np.cumsum(weights), top_p, side="left")) + 1
        ids, weights = ids[:keep], weights[:keep]
    if min_p > 0.0:
        keep = int(np.count_nonzero(weights >= min_p * weights[0]))
        ids, weights = ids[:keep], weights[:keep]
    return Distribution(ids, weights / weights.sum())


def log_softmax(logits: Logits, ids: Ids) -> Weights:
    """Natural log-probabilities of `ids` under softmax(logits), before any sampler; shape of `ids`."""
    peak = float(logits.max())
    total = float(np.exp(logits - np.float32(peak)).sum(dtype=np.float64))
    row: Weights = logits[ids].astype(np.float64) - peak - np.log(total)
    return row


def largest(logits: Logits, k: int) -> Ids:
    """The ids of the `k` largest logits, largest first, ties by id; shape [min(k, V)]."""
    return _largest(logits, min(k, len(logits))) if k else np.zeros(0, np.int64)


def _largest(logits: Logits, k: int) -> Ids:
    # Partitioning values is far cheaper than partitioning indices; ids are looked up for the few survivors only.
    if k < len(logits):
        threshold = np.partition(logits, len(logits) - k)[len(logits) - k]
        above = np.flatnonzero(logits > threshold)
        ties = np.flatnonzero(logits == threshold)[: k - len(above)]
        ids = np.sort(np.concatenate([above, ties]))
    else:
        ids = np.arange(len(logits))
    order = np.argsort(-logits[ids], kind="stable")
    result: Ids = ids[order]
    return result


def _exp(logits: Logits, peak: float, temperature: float) -> Logits:
    # float32 here is a tenth of the time of float64, and plain decoding takes the very same path.
    scaled = logits - np.float32(peak)
    scaled /= np.float32(temperature)
    row: Logits = np.exp(scaled, out=scaled)
    return row


def _head(logits: Logits, peak: float, temperature: float, top_p: float) -> tuple[Ids, Weights]:
    """Enough of the most probable tokens to hold `top_p` of the mass, largest first, and their share of the whole mass."""
    weights = _exp(logits, peak, temperature)
    total = float(weights.sum(dtype=np.float64))
    size = 256
    while True:
        ids = _largest(logits, min(size, len(logits)))
        head = weights[ids].astype(np.float64) / total
        if len(ids) == len(logits) or float(head.sum()) >= top_p:
            return ids, head
        size *= 8
