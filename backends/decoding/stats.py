"""Raw counters of one answer; rates are derived when shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from pardec_chat.backends.base import Method


class Counted(Protocol):
    """Counters that rates are made of; see `Stats`."""

    @property
    def predicted_n(self) -> int: ...
    @property
    def predicted_ms(self) -> float: ...
    @property
    def steps(self) -> int: ...
    @property
    def draft_n(self) -> int: ...
    @property
    def draft_n_accepted(self) -> int: ...


class Rates:
    """The rates, defined once for whoever holds the counters."""

    __slots__ = ()

    @property
    def acceptance_rate(self: Counted) -> float | None:
        """Accepted over drafted; None when nothing was drafted."""
        return self.draft_n_accepted / self.draft_n if self.draft_n else None

    @property
    def tokens_per_step(self: Counted) -> float | None:
        """Tokens kept over forward passes; None before the first."""
        return self.predicted_n / self.steps if self.steps else None

    @property
    def tokens_per_second(self: Counted) -> float | None:
        """Decoding alone, without the prompt; None before the first step."""
        return self.predicted_n / self.predicted_ms * 1e3 if self.predicted_ms > 0 else None


@dataclass(slots=True)
class Stats(Rates):
    """Counters of one answer. Times are milliseconds, taken on the thread that decodes.

    prompt_n, cache_n: prompt ids evaluated, and found in the cache. prompt_ms: time for the evaluated ones.
    ttft_ms: from the request's arrival to its first token, waiting included. total_ms: to its last.
    steps: forward passes of the target. draft_rounds: those that checked a draft. draft_n: tokens drafted.
    predicted_ms: decoding alone, of which draft_ms went into drafting.
    plain_ms: what plain decoding would have taken for `plain_n` tokens, each at the speed it had here at that moment.
    accepted_at: for each place in a draft, from the first on, how many kept tokens were accepted there.
    depths: for each kept token its place in its draft, from 1 on, or 0 for the target's own.
    """

    draft_kind: Method = Method.PLAIN
    prompt_n: int = 0
    cache_n: int = 0
    prompt_ms: float = 0.0
    ttft_ms: float = 0.0
    total_ms: float = 0.0
    steps: int = 0
    draft_rounds: int = 0
    draft_n: int = 0
    predicted_ms: float = 0.0
    draft_ms: float = 0.0
    plain_n: int = 0
    plain_ms: float = 0.0
    accepted_at: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)

    def count(self, n_drafted: int, n_accepted: int, n_emitted: int, draft_ms: float, verify_ms: float) -> None:
        """One step: `n_emitted` tokens, the first `n_accepted` of them drafted."""
        self.steps += 1
        self.draft_rounds += n_drafted > 0
        self.draft_n += n_drafted
        self.draft_ms += draft_ms
        self.predicted_ms += draft_ms + verify_ms
        self.accepted_at.extend([0] * (n_accepted - len(self.accepted_at)))
        for place in range(n_accepted):
            self.accepted_at[place] += 1
        self.depths.extend(range(1, n_accepted + 1))
        self.depths.extend([0] * (n_emitted - n_accepted))

    def compare(self, n_emitted: int, plain_ms: float) -> None:
        """A step of `n_emitted` tokens came while plain decoding would have taken `plain_ms` for each."""
        self.plain_n += n_emitted
        self.plain_ms += n_emitted * plain_ms

    @property
    def plain_per_second(self) -> float | None:
        """Tokens a second of plain decoding in the place of this answer; None before the first step."""
        return self.plain_n / self.plain_ms * 1e3 if self.plain_ms > 0 else None

    def cut(self, n: int) -> None:
        """Only the first `n` tokens were kept: those behind a stop string count neither as emitted nor as accepted."""
        for depth in self.depths[n:]:
            if depth:
                self.accepted_at[depth - 1] -= 1
        del self.depths[n:]

    @property
    def predicted_n(self) -> int:
        """Tokens kept."""
        return len(self.depths)

    @property
    def draft_n_accepted(self) -> int:
        """Drafted tokens kept; never more than `draft_n`."""
        return sum(self.accepted_at)

    @property
    def accepted_per_position(self) -> list[float]:
        """For each place in a draft: accepted there over all forward passes."""
        return [n / self.steps for n in self.accepted_at]

    def timings(self) -> dict[str, Any]:
        """The figures under the names of llama.cpp's `timings`, and what those lack."""
        return {
            "prompt_n": self.prompt_n,
            "prompt_ms": _rounded(self.prompt_ms),
            "predicted_n": self.predicted_n,
            "predicted_ms": _rounded(self.predicted_ms),
            "predicted_per_second": _rounded(self.tokens_per_second),
            "draft_n": self.draft_n,
            "draft_n_accepted": self.draft_n_accepted,
            "cache_n": self.cache_n,
            "draft_kind": self.draft_kind.value,
            "draft_rounds": self.draft_rounds,
            "draft_ms": _rounded(self.draft_ms),
            "steps": self.steps,
            "acceptance_rate": _rounded(self.acceptance_rate),
            "tokens_per_step": _rounded(self.tokens_per_step),
            "accepted_per_position": [_rounded(rate) for rate in self.accepted_per_position],
            "ttft_ms": _rounded(self.ttft_ms),
            "total_ms": _rounded(self.total_ms),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
