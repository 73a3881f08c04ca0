"""The one decoding loop: draft, verify, accept, for all live answers in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from pardec_chat.backends.base import NO_DRAFT, Drafter, Method, Slot, Target, TokenLogprobs
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.decoding.stats import Stats

FinishReason = Literal["stop", "length"]


@dataclass(slots=True)
class Generation:
    """One answer being decoded in one slot, whose committed ids are the prompt at first.

    max_tokens: how many tokens the answer may have; None leaves it to the context's edge.
    depth: most tokens to draft in one step.
    drafter: begun on this slot; None decodes plainly.
    """

    slot: Slot
    sampler: Sampler
    drafter: Drafter | None
    depth: int
    max_tokens: int | None = None
    stats: Stats = field(default_factory=Stats)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    def __post_init__(self) -> None:
        if self.drafter is not None:
            self.stats.draft_kind = self.drafter.method
        if self.room < 1:
            self.finish_reason = "length"

    @property
    def room(self) -> int:
        """Tokens that may still come: the smaller of what the request and what the context leave."""
        left = self.slot.n_ctx - len(self.slot.tokens)
        return left if self.max_tokens is None else min(left, self.max_tokens - len(self.token_ids))

    def cut(self, n: int) -> None:
        """Keep the first `n` tokens of the answer: ids, counts and cache alike. The answer is finished."""
        self.slot.rewind(len(self.slot.tokens) - len(self.token_ids) + n)
        del self.token_ids[n:]
        self.stats.cut(n)
        self.finish_reason = "stop"


@dataclass(frozen=True, slots=True)
class Step:
    """What one forward pass added to one answer; raw, for counters and for whoever shows it.

    tokens: committed ids. origins: for each what guessed it, `plain` for the target's own.
    proposed: what was drafted, accepted or not.
    """

    tokens: Sequence[int]
    origins: Sequence[Method]
    proposed: Sequence[int]
    n_accepted: int
    draft_ms: float
    verify_ms: float
    logprobs: Sequence[TokenLogprobs] | None = None


def step(target: Target, live: Sequence[Generation]) -> list[Step]:
    """One forward pass for all of `live` (none finished); each gets its Step and perhaps its `finish_reason`.

    An end token, the limit and the context's edge cut here: a draft never reaches past what may still be emitted, and
    acceptance stops at an end token wherever in the block it falls.
    """
    drafts = []
    draft_times = []
    for generation in live:
        start = perf_counter()
        # A full acceptance emits one token more than was drafted.
        depth = min(generation.depth, generation.room - 1)
        drafts.append(generation.drafter.draft(depth) if generation.drafter is not None and depth > 0 else NO_DRAFT)
        draft_times.append((perf_counter() - start) * 1e3)
    start = perf_counter()
    verdicts = target.verify([(g.slot, draft, g.sampler) for g, draft in zip(live, drafts, strict=True)])
    verify_ms = (perf_counter() - start) * 1e3
    steps = []
    for generation, draft, draft_ms, verdict in zip(live, drafts, draft_times, verdicts, strict=True):
        if generation.drafter is not None:
            generation.drafter.accept(verdict)
        generation.token_ids.extend(verdict.tokens)
        generation.stats.count(len(draft), verdict.n_accepted, len(verdict.tokens), draft_ms, verify_ms)
        if verdict.tokens[-1] in generation.sampler.ends:
            generation.finish_reason = "stop"
        elif generation.room < 1:
            generation.finish_reason = "length"
        own = len(verdict.tokens) - verdict.n_accepted
        origins = [draft.source] * verdict.n_accepted + [Method.PLAIN] * own
        steps.append(
            Step(verdict.tokens, origins, draft.tokens, verdict.n_accepted, draft_ms, verify_ms, verdict.logprobs)
        )
    return steps
