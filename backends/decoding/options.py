"""What one answer could do in a pass, and what it is expected to give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pardec_chat.backends.base import Drafter, GoOn, Method
from pardec_chat.backends.decoding.estimates import Record, bucket


@dataclass(frozen=True, slots=True)
class Option:
    """`depth` guesses of `method`, for `tokens` expected at the cost of `cost` single steps."""

    method: Method
    depth: int
    tokens: float
    cost: float

    @property
    def speedup(self) -> float:
        """Expected speed over that of plain decoding."""
        return self.tokens / self.cost


#: One token a step: what everything else is measured against.
PLAIN = Option(Method.PLAIN, 0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Choice:
    """The latest choice for an answer, for whoever shows it.

    rejected: the best of what was not chosen in favour of plain decoding; None when there was nothing to choose from.
    is_try: made to learn something.
    """

    taken: Option
    rejected: Option | None = None
    is_try: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What one answer does in the next pass: up to `depth` guesses of `drafter`, fewer when `go_on` says so."""

    drafter: Drafter | None = None
    depth: int = 0
    go_on: GoOn | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """One source for one answer.

    index: of the answer in its pass. evidence: what speaks for each guess. costs: of drafting 0…n guesses, in single steps.
    is_known: whether drafting was ever measured.
    """

    index: int
    drafter: Drafter
    record: Record
    evidence: Sequence[int]
    costs: Sequence[float]
    is_known: bool

    def tokens(self, hope: float = 0.0) -> list[float]:
        """Additional tokens expected of 0…n guesses, with rates that are `hope` standard errors better than known."""
        total, reach = 0.0, 1.0
        tokens = [0.0]
        for evidence in self.evidence:
            index = bucket(evidence)
            reach *= self.record.at_best(index, hope) if hope else self.record.mean(index)
            total += reach
            tokens.append(total)
        return tokens

    def option(self, n: int, rows: Sequence[float], base: int) -> Option:
        """`n` guesses, for one answer of a pass that has `base` rows without them; rows: cost of a pass by its rows."""
        cost = rows[base + n] - rows[base] + rows[1] + self.costs[n]
        return Option(self.drafter.method, n, 1.0 + self.tokens()[n], cost)
