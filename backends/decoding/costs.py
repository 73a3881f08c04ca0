"""What forward passes and guesses take here, learned from the steps that happen anyway.

The time of a pass over its rows is jagged (kernels change with the row count, rows are padded), so nothing is assumed of its
shape: measured row counts stand for themselves, and those between two measured ones lie on the line between them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

#: How fast the common factor follows the machine (frequency, heat, other processes), and each size what is its own.
#: Choices depend on ratios alone, so the factor may be quick: a burst of load then leaves the shape as it was.
_SCALE_GAIN, _LEAST_GAIN = 0.4, 0.03
#: Largest surprise that one measurement may be to the shape, in log milliseconds: most are hiccups.
_MOST_SURPRISE = 0.25
#: Until so many measurements the smallest one counts: noise only ever adds time, and first times are the slowest.
_FEW = 3
#: Ids that every draft reads, and how fast the time for others follows its measurements.
_ALWAYS_READ, _READING_GAIN = 2, 0.3
#: A table is drawn anew when something in it moved by more than this, in log milliseconds.
_STALE = 0.01


class Curve:
    """Milliseconds by size (rows of a pass, tokens of a draft), as a common factor times a shape.

    A machine that slows down slows all sizes down, those that are not in use included: they share the factor.
    """

    def __init__(self) -> None:
        self._scale = 0.0
        # What the last measurements by themselves would make of it.
        self._recent: tuple[float, ...] = (0.0, 0.0)
        # Size → log milliseconds beside the common factor, and how often it was measured.
        self._shape: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self._sizes: list[int] = []
        self._drawn: dict[int, float] = {}
        self._table: list[float] = []

    def observe(self, size: int, ms: float) -> None:
        """A pass of `size` took `ms`."""
        if ms <= 0.0:
            return
        level = math.log(ms) - self._scale
        count = self._counts.get(size, 0)
        if count == 0:
            self._sizes.insert(bisect_left(self._sizes, size), size)
            self._shape[size] = level
        else:
            error = level - self._shape[size]
            if count < _FEW:
                self._shape[size] = min(self._shape[size], level)
            else:
                # Of three surprises in a row the middle one is no hiccup.
                self._recent = (*self._recent[-2:], level + self._scale - self._shape[size])
                self._scale += _SCALE_GAIN * (sorted(self._recent)[len(self._recent) // 2] - self._scale)
                gain = max(_LEAST_GAIN, 1.0 / (count + 1)) * (1.0 - _SCALE_GAIN)
                self._shape[size] += gain * max(-_MOST_SURPRISE, min(_MOST_SURPRISE, error))
        self._counts[size] = count + 1
        if abs(self._shape[size] - self._drawn.get(size, math.inf)) > _STALE:
            self._table = []

    def count(self, size: int) -> int:
        """How often `size` was measured."""
        return self._counts.get(size, 0)

    @property
    def total(self) -> int:
        """How often anything was measured."""
        return sum(self._counts.values())

    @property
    def sizes(self) -> Sequence[int]:
        """Measured sizes, in order."""
        return self._sizes

    def ms(self, size: int) -> float:
        """Expected milliseconds of `size`; at least one size was measured before.

        Beyond the largest measured size the last slope goes on; with one size only, time is taken to be proportional.
        """
        return math.exp(self._scale) * self._relative(size)

    def least(self, size: int) -> float:
        """What `size` may take at best: where it was hardly measured, what the next smaller measured one takes."""
        if self._counts.get(size, 0) >= 2:
            return self.ms(size)
        at = bisect_left(self._sizes, size)
        return self.ms(self._sizes[at - 1]) if at else self.ms(size)

    def relative(self, n: int) -> list[float]:
        """Entries 0…n: time of each size over that of size 1, which none can be below; entry 0 is 0."""
        if len(self._table) <= n:
            self._drawn = dict(self._shape)
            one = self._relative(1)
            self._table = [0.0, *(max(1.0, self._relative(size) / one) for size in range(1, max(n, 33) + 1))]
        return self._table

    def _relative(self, size: int) -> float:
        own = self._shape.get(size)
        if own is not None:
            return math.exp(own)
        sizes = self._sizes
        at = bisect_left(sizes, size)
        if at == 0:
            # Smaller than all that is known: half of the way is there for the size itself, half is paid in any case.
            return math.exp(self._shape[sizes[0]]) * (0.5 + 0.5 * size / sizes[0])
        low = sizes[at - 1]
        below = math.exp(self._shape[low])
        if at < len(sizes):
            high = sizes[at]
            return below + (math.exp(self._shape[high]) - below) * (size - low) / (high - low)
        if at == 1:
            return below * size / low
        before = sizes[at - 2]
        slope = max(0.0, (below - math.exp(self._shape[before])) / (low - before))
        return below + slope * (size - low)

    def copy(self) -> Curve:
        """A curve that starts from this one and is quick to leave it."""
        twin = Curve()
        twin._recent = self._recent
        twin._scale, twin._sizes, twin._shape = self._scale, list(self._sizes), dict(self._shape)
        twin._counts = {size: min(count, _FEW) for size, count in self._counts.items()}
        return twin

    def dump(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {str(size): [round(self.ms(size), 4), self._counts[size]] for size in self._sizes}

    @staticmethod
    def load(data: dict[str, Any]) -> Curve:
        """From `dump`. Raises ValueError, TypeError, KeyError or AttributeError for anything else."""
        curve = Curve()
        for name, (ms, count) in data.items():
            size = int(name)
            if not (size > 0 and 0.0 < ms < math.inf and 0 < count < math.inf) or size in curve._shape:
                raise ValueError(f"no measurement: {name}")
            curve._sizes.append(size)
            curve._shape[size], curve._counts[size] = math.log(ms), min(int(count), 100)
        curve._sizes.sort()
        return curve


class Costs:
    """Times of one target with its drafters on one machine.

    Passes are kept by context length (bands of a factor of two): attention reads the whole cache once a pass.
    """

    def __init__(self) -> None:
        self._passes: dict[int, Curve] = {}
        #: Drafting by source: milliseconds for a draft of n tokens.
        self.drafting: dict[str, Curve] = {}
        #: Milliseconds a token that a drafter reads before it can guess, where it has fallen behind.
        self.reading: dict[str, float] = {}

    def passes(self, n_context: int) -> Curve:
        """Passes with `n_context` committed tokens, or those of the nearest band that was measured; not to be written to."""
        band = _band(n_context)
        near = min(self._passes, key=lambda other: abs(other - band), default=None)
        return Curve() if near is None else self._passes[near]

    def adopt_passes(self, other: Costs) -> None:
        """Begin with what passes took elsewhere, quick to leave it."""
        self._passes = {band: curve.copy() for band, curve in other._passes.items()}

    def observe_pass(self, n_context: int, rows: int, ms: float) -> None:
        """A pass of `rows` took `ms`; a band seen for the first time begins as its neighbour is."""
        band = _band(n_context)
        if band not in self._passes:
            self._passes[band] = self.passes(n_context).copy()
        self._passes[band].observe(rows, ms)

    def observe_draft(self, source: str, n: int, behind: int, ms: float) -> None:
        """Drafting `n` tokens took `ms`, `behind` ids that had to be read first included."""
        curve = self.drafting.setdefault(source, Curve())
        # The token that the target added is always to be read: up to two are part of every draft. Reading more takes longer,
        # so what was quicker than expected counts in any case.
        if behind <= _ALWAYS_READ or not curve.sizes or ms < curve.ms(n):
            curve.observe(n, ms)
        else:
            self.observe_reading(source, behind, ms - curve.ms(n))

    def observe_reading(self, source: str, n: int, ms: float) -> None:
        """Reading `n` ids took `ms`."""
        known = self.reading.get(source)
        self.reading[source] = ms / n if known is None else known + _READING_GAIN * (ms / n - known)

    def draft_ms(self, source: str, n: int) -> float:
        """Expected milliseconds for `n` tokens of `source` that is not behind; 0 while nothing is known of it."""
        curve = self.drafting.get(source)
        return 0.0 if curve is None or not curve.sizes or n < 1 else curve.ms(n)

    def late_ms(self, source: str, behind: int) -> float:
        """Expected milliseconds to read what `source` is behind, beyond what every draft reads.

        While that is not known it is taken for as much as a guess a token: then being far behind is not tried.
        """
        if behind <= _ALWAYS_READ:
            return 0.0
        return behind * self.reading.get(source, self.draft_ms(source, 1))

    def dump(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {
            "passes": {str(band): curve.dump() for band, curve in self._passes.items() if curve.sizes},
            "drafting": {source: curve.dump() for source, curve in self.drafting.items() if curve.sizes},
            "reading": {source: round(ms, 4) for source, ms in self.reading.items()},
        }

    @staticmethod
    def load(data: dict[str, Any]) -> Costs:
        """From `dump`. Raises ValueError, TypeError, KeyError or AttributeError for anything else."""
        costs = Costs()
        costs._passes = {int(band): Curve.load(curve) for band, curve in data["passes"].items()}
        costs.drafting = {str(source): Curve.load(curve) for source, curve in data["drafting"].items()}
        costs.reading = {str(source): float(ms) for source, ms in data["reading"].items()}
        if not all(0.0 <= ms < math.inf for ms in costs.reading.values()):
            raise ValueError("no time to read")
        return costs


def _band(n_context: int) -> int:
    return (n_context >> 10).bit_length()
