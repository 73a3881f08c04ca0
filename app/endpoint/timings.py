"""The figures of an answer under the names of design.md's rule 6, while it is written and at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from pardec_chat.app.chat.request import Delta, Figures, Finished
from pardec_chat.backends.base import Method

#: Counters that add up over answers to one request.
_SUMS = (
    "prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "draft_n", "draft_n_accepted", "cache_n", "draft_rounds",
    "draft_ms", "steps",
)  # fmt: skip


class Tally:
    """What the steps of one answer tell beyond its figures. Fed on the engine's thread.

    draft_model: name of the loaded draft model; told only where it drafted.
    """

    def __init__(self, draft_model: str | None) -> None:
        self._draft_model = draft_model
        self._begin = perf_counter()
        self._rounds = 0
        self._draft_ms = 0.0
        self._total_ms = 0.0
        self._drafted: Counter[Method] = Counter()

    def count(self, event: Delta) -> None:
        """One step more."""
        step = event.step
        self._rounds += len(step.proposed) > 0
        self._draft_ms += step.draft_ms
        self._total_ms = (perf_counter() - self._begin) * 1e3
        if step.proposed:
            self._drafted[step.source] += len(step.proposed)

    @property
    def rounds(self) -> int:
        """Forward passes that checked a draft."""
        return self._rounds

    def live(self, figures: Figures) -> dict[str, Any]:
        """Milliseconds and counts so far; the names are those of the end."""
        return {
            "prompt_n": figures.prompt_n,
            "prompt_ms": _rounded(figures.prompt_ms),
            "predicted_n": figures.predicted_n,
            "predicted_ms": _rounded(figures.predicted_ms),
            "predicted_per_second": _rounded(figures.tokens_per_second),
            "draft_n": figures.draft_n,
            "draft_n_accepted": figures.draft_n_accepted,
            "cache_n": figures.cache_n,
            "draft_rounds": self._rounds,
            "draft_ms": _rounded(self._draft_ms),
            "steps": figures.steps,
            "acceptance_rate": _rounded(figures.acceptance_rate),
            "tokens_per_step": _rounded(figures.tokens_per_step),
            "accepted_per_position": [_rounded(rate) for rate in figures.accepted_per_position],
            "ttft_ms": _rounded(figures.ttft_ms),
            "total_ms": _rounded(self._total_ms),
            **self._who(figures.method),
        }

    def final(self, finished: Finished) -> dict[str, Any]:
        """The engine's own, with what really drafted in place of what was meant to."""
        return {**finished.timings, **self._who(finished.figures.method)}

    def _who(self, method: Method) -> dict[str, Any]:
        """draft_kind: what really drafted, `plain` for nothing, joined by + where several did in turn."""
        return {
            "method": method.value,
            "draft_kind": "+".join(sorted(kind.value for kind in self._drafted)) or Method.PLAIN.value,
            "draft_model": self._draft_model if Method.DRAFT in self._drafted else None,
        }


def summed(timings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Those of several answers to one request: counts and times added up, the rates that follow, the first first token."""
    if len(timings) == 1:
        return timings[0]
    total: dict[str, Any] = {name: _rounded(sum(one[name] for one in timings)) for name in _SUMS}
    steps, ms, drafted = total["steps"], total["predicted_ms"], total["draft_n"]
    places = max(len(one["accepted_per_position"]) for one in timings)
    accepted = [
        sum(one["accepted_per_position"][i] * one["steps"] for one in timings if i < len(one["accepted_per_position"]))
        for i in range(places)
    ]
    kinds = {kind for one in timings for kind in one["draft_kind"].split("+")}
    return {
        **total,
        "predicted_per_second": _rounded(total["predicted_n"] / ms * 1e3) if ms else None,
        "acceptance_rate": _rounded(total["draft_n_accepted"] / drafted) if drafted else None,
        "tokens_per_step": _rounded(total["predicted_n"] / steps) if steps else None,
        "accepted_per_position": [_rounded(n / steps) for n in accepted],
        "ttft_ms": min(one["ttft_ms"] for one in timings),
        "total_ms": max(one["total_ms"] for one in timings),
        "method": timings[0]["method"],
        "draft_kind": "+".join(sorted(kinds - {"plain"})) or "plain",
        "draft_model": next((one["draft_model"] for one in timings if one["draft_model"]), None),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
