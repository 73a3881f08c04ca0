"""One answer from beginning to end through the real loop, with what must hold after every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, GoOn, Method, Slot, Target, TokenLogprobs, Verdict
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, Step, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.tests.rows import Rows

GREEDY = SamplingParams(temperature=0)


def never() -> bool:
    """The user stops nothing."""
    return False


def begin(
    target: Target,
    prompt: Sequence[int],
    *,
    params: SamplingParams = GREEDY,
    drafter: Drafter | None = None,
    depth: int | None = 4,
    max_tokens: int | None = None,
    slot: Slot | None = None,
) -> Generation:
    """An answer to `prompt` before its first step."""
    place = slot if slot is not None else target.open()
    assert place.prefill(prompt, never).complete
    sampler = Sampler(params, prompt, ends=target.vocabulary.end_ids)
    if drafter is not None:
        drafter.begin(place, sampler, never)
        drafter.prepare(never)
    return Generation(place, sampler, [] if drafter is None else [drafter], depth, max_tokens)


@dataclass
class Answer:
    """All of it."""

    generation: Generation
    steps: list[Step]

    @property
    def ids(self) -> list[int]:
        """What was answered."""
        return self.generation.token_ids

    @property
    def logprobs(self) -> list[TokenLogprobs]:
        """One entry a token."""
        return [entry for one in self.steps for entry in one.logprobs or ()]


def finish(target: Target, generation: Generation, controller: Controller | None = None) -> Answer:
    """Step until something ends the answer. controller: one that has learned from others."""
    prompt = list(generation.slot.tokens)
    steps = []
    controller = controller or Controller()
    while generation.finish_reason is None:
        steps += step(target, [generation], controller)
        check(generation, steps, prompt)
    return Answer(generation, steps)


def generate(
    target: Target,
    prompt: Sequence[int],
    *,
    params: SamplingParams = GREEDY,
    drafter: Drafter | None = None,
    depth: int | None = 4,
    max_tokens: int | None = None,
    slot: Slot | None = None,
    controller: Controller | None = None,
) -> Answer:
    """Begin and finish; a slot that was not given is closed again."""
    generation = begin(target, prompt, params=params, drafter=drafter, depth=depth, max_tokens=max_tokens, slot=slot)
    answer = finish(target, generation, controller)
    if slot is None:
        generation.slot.close()
    return answer


def check(generation: Generation, steps: Sequence[Step], prompt: Sequence[int]) -> None:
    """Ids, counts, origins and committed text agree after every step."""
    ids, stats = generation.token_ids, generation.stats
    last = steps[-1]
    assert ids == [token for one in steps for token in one.tokens]
    assert list(generation.slot.tokens) == [*prompt, *ids]
    assert len(generation.slot.tokens) <= generation.slot.n_ctx
    assert generation.max_tokens is None or len(ids) <= generation.max_tokens
    assert not any(token in generation.sampler.ends for token in ids[:-1])
    assert len(last.origins) == len(last.tokens)
    assert [origin == Method.PLAIN for origin in last.origins] == [
        i >= last.n_accepted for i in range(len(last.tokens))
    ]
    assert last.n_accepted <= len(last.proposed)
    assert last.n_accepted <= len(last.tokens) <= last.n_accepted + 1
    assert stats.predicted_n == len(ids)
    assert stats.steps == len(steps)
    assert stats.draft_n == sum(len(one.proposed) for one in steps)
    assert stats.draft_n_accepted == sum(one.n_accepted for one in steps)
    assert 0 <= stats.draft_n_accepted <= stats.draft_n
    assert last.logprobs is None or len(last.logprobs) == len(last.tokens)


def greedy(rows: Rows, prompt: Sequence[int], n: int, ends: Iterable[int] = ()) -> list[int]:
    """What `rows` say on their own, without any of the engine."""
    ids = list(prompt)
    while len(ids) < len(prompt) + n and (len(ids) == len(prompt) or ids[-1] not in set(ends)):
        ids.append(int(np.argmax(np.array(rows(tuple(ids)), np.float32))))
    return ids[len(prompt) :]


class Fixed(Drafter):
    """Drafts what a list says for each place in the text, right or wrong, and notes what it was asked for.

    text: the whole text from the prompt's first id on that the drafter believes in.
    """

    method = Method.DRAFT

    def __init__(self, text: Sequence[int]) -> None:
        self._text = list(text)
        self.asked: list[int] = []
        self.verdicts: list[Verdict] = []

    def begin(self, slot: Slot, sampler: Sampler, should_stop: object) -> None:
        """See `Drafter`."""
        self._slot = slot

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`."""
        self.asked.append(n_max)
        start = len(self._slot.tokens)
        tokens = self._text[start : start + n_max]
        return Draft.chain(tokens, Method.DRAFT) if tokens else NO_DRAFT

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`."""
        self.verdicts.append(verdict)
