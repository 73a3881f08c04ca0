"""How fast an answer comes, now and over its whole length, from the engine's own counters."""

from __future__ import annotations

from collections import deque

#: Decoding time the present rate is taken over, and the least there must be of it.
WINDOW_MS = 1000.0
_LEAST_MS = 200.0
#: Decoding time of one point of the curve at first; doubled whenever the curve is full.
_CELL_MS = 125.0


class Speed:
    """Fed with tokens emitted (predicted_n) and decoding time (predicted_ms); no other clock comes in.

    `now` is tokens emitted over time taken within the last second of decoding, so it cannot exceed what really came. The
    curve holds the mean rate of equal spans from the answer's first token on, at most `points` of them.
    """

    def __init__(self, points: int = 26) -> None:
        self._points = points
        self._samples: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._cell_ms = _CELL_MS
        # Tokens emitted at the end of each whole span; between two steps they are taken to come evenly.
        self._totals: list[float] = [0.0]

    def feed(self, n: int, ms: float) -> None:
        """The counters as they are now."""
        last_ms, last_n = self._samples[-1]
        if ms <= last_ms:
            # A stop string took tokens back that had been counted; time does not move for that.
            self._samples[-1] = (last_ms, min(n, last_n))
            return
        while len(self._totals) * self._cell_ms <= ms:
            share = (len(self._totals) * self._cell_ms - last_ms) / (ms - last_ms)
            self._totals.append(last_n + (n - last_n) * share)
            if len(self._totals) > self._points + 1:
                self._totals = self._totals[::2]
                self._cell_ms *= 2
        self._samples.append((ms, n))
        while len(self._samples) > 2 and self._samples[1][0] <= ms - WINDOW_MS:
            self._samples.popleft()

    @property
    def now(self) -> float | None:
        """Tokens per second; None while there is too little to tell."""
        first_ms, first_n = self._samples[0]
        last_ms, last_n = self._samples[-1]
        elapsed = last_ms - first_ms
        return max(0, last_n - first_n) / elapsed * 1e3 if elapsed >= _LEAST_MS else None

    @property
    def curve(self) -> tuple[float, ...]:
        """Tokens per second of each whole span, from the first token on."""
        steps = zip(self._totals, self._totals[1:], strict=False)
        return tuple(max(0.0, after - before) / self._cell_ms * 1e3 for before, after in steps)
