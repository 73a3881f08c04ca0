"""The one decoding loop: draft, verify, accept, for all live answers in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, Method, Slot, Target, TokenLogprobs
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.estimates import Record
from pardec_chat.backends.decoding.options import Choice
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.decoding.stats import Stats

FinishReason = Literal["stop", "length"]


@dataclass(slots=True)
class Generation:
    """One answer being decoded in one slot, whose committed ids are the prompt at first.

    drafters: begun on this slot; the first one drafts, or whichever the controller chooses; empty decodes plainly.
    depth: most tokens to draft in one step; None leaves method and depth to the controller.
    max_tokens: how many tokens the answer may have; None leaves it to the context's edge.
    kind: of text, for what the controller remembers.
    """

    slot: Slot
    sampler: Sampler
    drafters: Sequence[Drafter]
    depth: int | None
    max_tokens: int | None = None
    kind: str = "chat"
    stats: Stats = field(default_factory=Stats)
    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    #: What the controller chose last; None while there is nothing to choose.
    choice: Choice | None = None
    #: What guessing has won in this answer so far, in single steps' time; the controller's account.
    credit: float = 0.0
    #: Its own rates of right guesses, by source.
    records: dict[Method, Record] = field(default_factory=dict)
    #: Its tokens lately over those of plain decoding in the same time.
    pace: float = 1.0

    def __post_init__(self) -> None:
        self.slot.guessed_for = bool(self.drafters)
        if self.drafters:
            self.stats.draft_kind = Method.AUTO if self.depth is None else self.drafters[0].method
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
    proposed: what was drafted, accepted or not. source: what guessed, `plain` where nothing did.
    """

    tokens: Sequence[int]
    origins: Sequence[Method]
    proposed: Sequence[int]
    n_accepted: int
    draft_ms: float
    verify_ms: float
    logprobs: Sequence[TokenLogprobs] | None = None
    source: Method = Method.PLAIN


def step(target: Target, live: Sequence[Generation], controller: Controller) -> list[Step]:
    """One forward pass for all of `live` (none finished); each gets its Step and perhaps its `finish_reason`.

    An end token, the limit and the context's edge cut here: a draft never reaches past what may still be emitted, and
    acceptance stops at an end token wherever in the block it falls. What a grammar forbids is not put before the target.
    """
    begin = perf_counter()
    plans = controller.plan(live)
    deciding = perf_counter() - begin
    drafts, behind, draft_times = [], [], []
    for generation, plan in zip(live, plans, strict=True):
        start = perf_counter()
        drafter = plan.drafter
        behind.append(0 if drafter is None else drafter.behind)
        drafts.append(
            NO_DRAFT if drafter is None else _legal(drafter.draft(plan.depth, plan.go_on), generation.sampler)
        )
        draft_times.append((perf_counter() - start) * 1e3)
    start = perf_counter()
    verdicts = target.verify([(g.slot, draft, g.sampler) for g, draft in zip(live, drafts, strict=True)])
    verify_ms = (perf_counter() - start) * 1e3
    for i, (generation, verdict) in enumerate(zip(live, verdicts, strict=True)):
        draft_times[i] += verdict.drafting_ms
        verify_ms -= verdict.drafting_ms
        for drafter in generation.drafters:
            drafter.accept(verdict)
        generation.token_ids.extend(verdict.tokens)
    begin = perf_counter()
    controller.learn(live, drafts, behind, draft_times, verify_ms, verdicts)
    plain_ms = controller.knowledge.plain_ms(max(len(generation.slot.tokens) for generation in live), len(live))
    deciding = (deciding + perf_counter() - begin) * 1e3 / len(live)
    steps = []
    for generation, draft, draft_ms, verdict in zip(live, drafts, draft_times, verdicts, strict=True):
        draft_ms += deciding
        generation.stats.count(len(draft), verdict.n_accepted, len(verdict.tokens), draft_ms, verify_ms)
        generation.stats.compare(len(verdict.tokens), plain_ms)
        if verdict.tokens[-1] in generation.sampler.ends:
            generation.finish_reason = "stop"
        elif generation.room < 1:
            generation.finish_reason = "length"
        own = len(verdict.tokens) - verdict.n_accepted
        origins = [draft.source] * verdict.n_accepted + [Method.PLAIN] * own
        steps.append(
            Step(
                tokens=verdict.tokens,
                origins=origins,
                proposed=draft.tokens,
                n_accepted=verdict.n_accepted,
                draft_ms=draft_ms,
                verify_ms=verify_ms,
                logprobs=verdict.logprobs,
                source=draft.source,
            )
        )
    return steps


def _legal(draft: Draft, sampler: Sampler) -> Draft:
    """A chosen chain up to the first token that the answer's grammar forbids.

    A drawn draft stays as it is: its model is under the same grammar, and a token that was dropped for its value instead of
    being rejected would bias what comes in its place. A tree stays too: the walk goes to no forbidden child.
    """
    if sampler.constraint is None or draft.probabilities is not None or not draft.is_chain:
        return draft
    n = sampler.constraint.legal(draft.tokens)
    if n == len(draft):
        return draft
    return Draft.chain(draft.tokens[:n], draft.source, None, draft.confidence[:n]) if n else NO_DRAFT
