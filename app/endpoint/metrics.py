"""Counters for Prometheus, named in the style of vLLM's. They count what came through the endpoint, not the app's own chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pardec_chat.app.chat.request import Figures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "pardec:"
#: Upper bounds of the buckets, in seconds.
_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_TOKEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
_WHOLE = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class _Histogram:
    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name, self._text, self._bounds = _PREFIX + name, text, bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        place = next((i for i, bound in enumerate(self._bounds) if seconds <= bound), len(self._bounds))
        self._counts[place] += 1
        self._sum += seconds

    def lines(self) -> list[str]:
        lines = _head(self._name, self._text, "histogram")
        total = 0
        for bound, n in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += n
            lines.append(f'{self._name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{self._name}_sum {self._sum:.6f}", f"{self._name}_count {total}"]


class Metrics:
    """Used on the endpoint's loop alone."""

    def __init__(self) -> None:
        self.running = 0
        self._counts: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._accepted_at: list[int] = []
        self._first = _Histogram("time_to_first_token_seconds", "From a request to its first token.", _FIRST)
        self._token = _Histogram("time_per_output_token_seconds", "Decoding, for each token.", _TOKEN)
        self._whole = _Histogram("e2e_request_latency_seconds", "From a request to its last token.", _WHOLE)

    def ended(self, reason: str, figures: Figures | None, seconds: float) -> None:
        """An answer is over: stop, length, abort or error, after so many seconds; figures: None before its first token."""
        self._ends[reason] += 1
        if figures is None:
            return
        # The last id of a prompt is evaluated with the first step.
        self._counts["prompt_tokens_total"] += figures.prompt_n + figures.cache_n + 1
        self._counts["prefix_cache_queries_total"] += figures.prompt_n + figures.cache_n + 1
        self._counts["prefix_cache_hits_total"] += figures.cache_n
        self._counts["generation_tokens_total"] += figures.predicted_n
        self._counts["decode_steps_total"] += figures.steps
        self._counts["spec_decode_num_draft_tokens_total"] += figures.draft_n
        self._counts["spec_decode_num_accepted_tokens_total"] += figures.draft_n_accepted
        accepted = [round(rate * figures.steps) for rate in figures.accepted_per_position]
        self._accepted_at.extend([0] * (len(accepted) - len(self._accepted_at)))
        for place, n in enumerate(accepted):
            self._accepted_at[place] += n
        if figures.predicted_n:
            self._first.observe(figures.ttft_ms / 1e3)
            self._token.observe(figures.predicted_ms / figures.predicted_n / 1e3)
        self._whole.observe(seconds)

    def drafted(self, rounds: int) -> None:
        """So many forward passes checked a draft."""
        self._counts["spec_decode_num_drafts_total"] += rounds

    def text(self, waiting: int) -> str:
        """The exposition. waiting: requests that have not started, the app's own among them."""
        lines = []
        for name, text, value in (
            ("num_requests_running", "Answers that are being written, or whose prompt is being read.", self.running),
            ("num_requests_waiting", "Requests that have not started.", waiting),
        ):
            lines += [*_head(_PREFIX + name, text, "gauge"), f"{_PREFIX}{name} {value}"]
        for name, text in _COUNTERS.items():
            lines += [*_head(_PREFIX + name, text, "counter"), f"{_PREFIX}{name} {self._counts[name]}"]
        name = f"{_PREFIX}spec_decode_num_accepted_tokens_per_pos_total"
        lines += _head(name, "Drafted tokens that were kept, by their place in the draft.", "counter")
        lines += [f'{name}{{position="{place}"}} {n}' for place, n in enumerate(self._accepted_at)]
        name = f"{_PREFIX}request_success_total"
        lines += _head(name, "Answers that ended, by the reason.", "counter")
        lines += [
            f'{name}{{finished_reason="{reason}"}} {self._ends[reason]}'
            for reason in ("stop", "length", "abort", "error")
        ]
        for histogram in (self._first, self._token, self._whole):
            lines += histogram.lines()
        return "\n".join(lines) + "\n"


_COUNTERS = {
    "prompt_tokens_total": "Tokens of prompts.",
    "prefix_cache_queries_total": "Tokens of prompts that were looked for in the cache.",
    "prefix_cache_hits_total": "Tokens of prompts that were in the cache.",
    "generation_tokens_total": "Tokens of answers.",
    "decode_steps_total": "Forward passes for answers.",
    "spec_decode_num_drafts_total": "Forward passes that checked a draft.",
    "spec_decode_num_draft_tokens_total": "Tokens drafted.",
    "spec_decode_num_accepted_tokens_total": "Drafted tokens that were kept.",
}


def _head(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
