"""What the metrics show: one immutable picture of an answer, whichever widget draws it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Figures


#: Places with a bar where the depth changes as an answer is written.
_ROOM = 4


@dataclass(frozen=True, slots=True)
class Readout:
    """method, depth: of the answer shown, or of the next one while there is none.

    figures: the engine's counters, None before the first step. now: tokens per second, None when nothing is written.
    curve: speed over the answer. total_ms: from the request to the last token, known when the answer is whole.
    used: tokens of the context that were taken before the first step. n_ctx: what it holds, 0 while nothing is loaded.
    """

    method: str = "plain"
    depth: int = 0
    figures: Figures | None = None
    now: float | None = None
    curve: tuple[float, ...] = ()
    total_ms: float | None = None
    used: int = 0
    n_ctx: int = 0

    @property
    def using(self) -> str:
        """What guesses now, which differs from the method where that is auto."""
        return self.figures.using if self.figures is not None else self.method

    @property
    def state(self) -> str:
        """active, idle or off; idle too before there was anything to guess."""
        if self.figures is not None:
            return self.figures.status.state
        return "off" if self.method == "plain" else "idle"

    @property
    def reason(self) -> str:
        """Why it is in that state."""
        if self.figures is not None:
            return self.figures.status.reason
        return "plain decoding was chosen" if self.method == "plain" else "begins with the next answer"

    @property
    def average(self) -> float | None:
        """Tokens per second over the whole answer."""
        return None if self.figures is None else self.figures.tokens_per_second

    @property
    def context(self) -> tuple[int, int]:
        """Tokens of the context that are used, and how many there are."""
        return (
            (self.used, self.n_ctx) if self.figures is None else (self.figures.context_used, self.figures.context_size)
        )

    def position_rates(self) -> tuple[float, ...]:
        """For each place in a draft: accepted there over all forward passes; nothing where nothing can be drafted."""
        rates = () if self.figures is None else self.figures.accepted_per_position
        # All places are there from the start, so that nothing below them moves.
        most = _ROOM if self.method == "auto" else self.depth
        return (*rates, *([0.0] * (most - len(rates))))
