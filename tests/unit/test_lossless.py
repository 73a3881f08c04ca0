"""The law of the text through the real loop, sampler and drafters, by exact enumeration: it is plain decoding's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from pardec_chat.backends.base import Draft, Drafter, GoOn, Method, Slot, Target, Verdict
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.lookahead import Lookahead
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.kernels.sampling.reference import Distribution
from pardec_chat.tests.enumeration import Tape, TapedSampler, continued, distance, law
from pardec_chat.tests.fakes import ScriptedTarget
from pardec_chat.tests.rows import Rows, noise

EXACT = 1e-9
BIASED = 1e-3
PROMPT = [0, 1, 0, 1]
Law = dict[tuple[int, ...], float]

OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
CHAINS = {
    "softmax": OFF,
    "top-k": {**OFF, "top_k": 2},
    "top-p": {**OFF, "top_p": 0.8},
    "min-p": {**OFF, "min_p": 0.2},
    "penalties": {**OFF, "repeat_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": 0.4},
    "all": {"top_k": 3, "top_p": 0.95, "min_p": 0.02, "repeat_penalty": 1.3, "frequency_penalty": 0.4},
}
TEMPERATURES = (0.3, 0.7, 1.0, 1.5)


def model(seed: int, *, size: int = 4, ends: frozenset[int] = frozenset(), rows: Rows | None = None) -> ScriptedTarget:
    return ScriptedTarget(rows or noise(size, seed, scale=1.0), [b"%d" % i for i in range(size)], ends)


def params(temperature: float, chain: str = "softmax", **more: object) -> SamplingParams:
    return SamplingParams(temperature=temperature, **{**CHAINS[chain], **more})  # type: ignore[arg-type]


def text_law(
    target: Target,
    settings: SamplingParams,
    n: int,
    drafter: Callable[[], Drafter] | None = None,
    depth: int = 2,
    *,
    sampler: type[TapedSampler] = TapedSampler,
    head: tuple[int, ...] = (),
    steps: int | None = None,
) -> Law:
    """The law of the first `n` tokens of an answer, of all of it where it ends before; of one that goes on from `head`."""

    def run(tape: Tape) -> tuple[int, ...]:
        slot = target.open()
        slot.prefill([*PROMPT, *head], lambda: False)
        chance = sampler(tape, settings, PROMPT, ends=target.vocabulary.end_ids)
        for token in head:
            chance.push(token)
        used = drafter() if drafter is not None else None
        if used is not None:
            used.begin(slot, chance, lambda: False)
        answer = Generation(slot, chance, [] if used is None else [used], depth)
        controller = Controller()
        done = 0
        while answer.finish_reason is None and len(answer.token_ids) < n and done != steps:
            step(target, [answer], controller)
            done += 1
        if used is not None:
            used.close()
        slot.close()
        return (*head, *answer.token_ids)[:n]

    return law(run)


def stepwise_law(
    target: ScriptedTarget, settings: SamplingParams, n: int, drafter: Callable[[], Drafter], depth: int = 2
) -> Law:
    """The same, one step from each head on its own and then put together: far fewer runs where tokens are many."""
    result: Law = {}
    waiting: Law = {(): 1.0}
    while waiting:
        head = min(waiting, key=len)
        mass = waiting.pop(head)
        for text, probability in text_law(target, settings, n, drafter, depth, head=head, steps=1).items():
            ended = len(text) >= n or text[-1] in target.vocabulary.end_ids
            into: Law = result if ended else waiting
            into[text] = into.get(text, 0.0) + mass * probability
    return result


@cache
def plain(temperature: float, chain: str, n: int) -> Law:
    return text_law(model(1), params(temperature, chain), n)


class Guess(Drafter):
    """Gives what a function of the committed ids and the sampler makes up."""

    method = Method.DRAFT

    def __init__(self, make: Callable[[tuple[int, ...], Sampler], Draft]) -> None:
        self._make = make

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        self._slot, self._sampler = slot, sampler

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        return self._make(tuple(self._slot.tokens), self._sampler)

    def accept(self, verdict: Verdict) -> None:
        pass


def q_rows(seed: int, size: int = 4) -> Callable[[tuple[int, ...]], np.ndarray[tuple[int], np.dtype[np.float32]]]:
    rows = noise(size, seed, scale=1.0)
    return lambda prefix: np.array(rows(prefix), np.float32)


def sampled_tree(parents: Sequence[int], seed: int, *, masked: bool = True) -> Callable[[], Drafter]:
    """Trees of a draft model: siblings without replacement, each from the whole sampler chain with its own prefix."""
    rows = q_rows(seed)

    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        tokens: list[int] = []
        kept: list[int] = []
        drawn_from: list[Distribution] = []
        left: dict[int, Distribution] = {}
        paths: dict[int, tuple[int, ...]] = {-1: ()}
        place = {-1: -1}
        for node, parent in enumerate(parents):
            if parent not in place:
                continue
            at = place[parent]
            for token in paths[at]:
                sampler.push(token)
            first = sampler.distribution(rows(committed + paths[at]))
            sampler.pop(len(paths[at]))
            if kept.count(at) == np.count_nonzero(first.weights):
                continue
            now = left.get(at, first)
            token = sampler.pick(now)
            left[at] = now.without(token)
            place[node] = len(tokens)
            paths[len(tokens)] = (*paths[at], token)
            tokens.append(token)
            kept.append(at)
            drawn_from.append(first if masked else Unmasked(first.ids, first.weights))
        return Draft(tokens, kept, Method.DRAFT, drawn_from)

    return lambda: Guess(make)


class Unmasked(Distribution):
    """The mistake: a drawn sibling stays in q."""

    def without(self, token: int) -> Distribution:
        return self


# Plain decoding is the chain rule over the sampler's distributions: what everything else is compared with.


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_plain_is_the_product_of_the_chains_distributions(temperature: float, chain: str) -> None:
    rows = q_rows(1)

    def following(answer: tuple[int, ...]) -> Sequence[float]:
        sampler = Sampler(params(temperature, chain), PROMPT)
        for token in answer:
            sampler.push(token)
        weights: list[float] = sampler.distribution(rows((*PROMPT, *answer))).dense(4).tolist()
        return weights

    assert distance(plain(temperature, chain, 3), continued({(): 1.0}, following, 3)) < EXACT


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_D08_a_draft_model_changes_nothing(temperature: float, chain: str) -> None:
    draft = model(2)
    found = text_law(model(1), params(temperature, chain), 2, lambda: DraftModel(draft))
    assert distance(found, plain(temperature, chain, 2)) < EXACT
    assert draft.ids("propose"), "nothing was drafted"


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_D08_trees_of_a_draft_model_change_nothing(temperature: float, chain: str) -> None:
    draft = model(2)
    found = text_law(model(1), params(temperature, chain), 3, lambda: DraftModel(draft, tree=5))
    assert distance(found, plain(temperature, chain, 3)) < EXACT
    assert draft.ids("propose"), "nothing was drafted"


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_D08_lookahead_changes_nothing(temperature: float, chain: str) -> None:
    drafted: list[Draft] = []

    class Watched(Lookahead):
        def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
            drafted.append(super().draft(n_max, go_on))
            return drafted[-1]

    found = text_law(model(1), params(temperature, chain), 3, lambda: Watched(window=3, ngram=3, candidates=3), depth=2)
    assert distance(found, plain(temperature, chain, 3)) < EXACT
    assert any(len(draft) for draft in drafted), "nothing was drafted"
    if chain == "softmax":
        assert any(not draft.is_chain for draft in drafted), "no tree was ever checked"


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_D08_repetition_changes_nothing(temperature: float, chain: str) -> None:
    target = model(1)
    found = text_law(target, params(temperature, chain), 3, lambda: Ngram(min_match=1))
    assert distance(found, plain(temperature, chain, 3)) < EXACT
    assert any(len(e.tokens) > 1 for e in target.evaluations), "nothing was drafted"


@pytest.mark.parametrize("parents", [(-1, -1), (-1, -1, 0), (-1, 0, 0)], ids=str)
@pytest.mark.parametrize("chain", ["softmax", "all"])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D08_sampled_trees_change_nothing(temperature: float, chain: str, parents: Sequence[int]) -> None:
    found = stepwise_law(model(1), params(temperature, chain), 2, sampled_tree(parents, 2))
    assert distance(found, plain(temperature, chain, 2)) < EXACT


@pytest.mark.parametrize("parents", [(-1, -1), (-1, -1, 0, 1), (-1, 0, 0, 1, 2, -1)], ids=str)
@pytest.mark.parametrize("chain", ["softmax", "penalties", "all"])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D03_chosen_trees_change_nothing(temperature: float, chain: str, parents: Sequence[int]) -> None:
    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        return Draft([(len(committed) + node) % 4 for node in range(len(parents))], parents, Method.DRAFT)

    found = text_law(model(1), params(temperature, chain), 3, lambda: Guess(make))
    assert distance(found, plain(temperature, chain, 3)) < EXACT


@pytest.mark.parametrize(("chain", "depth", "n"), [("softmax", 3, 3), ("top-k", 4, 4), ("all", 2, 4)])
def test_D08_deeper_and_over_more_tokens(chain: str, depth: int, n: int) -> None:
    draft = model(2)
    found = stepwise_law(model(1), params(1.0, chain), n, lambda: DraftModel(draft), depth)
    assert distance(found, plain(1.0, chain, n)) < EXACT


def test_D08_a_draft_that_equals_the_target_changes_nothing() -> None:
    draft = model(1)
    found = stepwise_law(model(1), params(1.0, "all"), 3, lambda: DraftModel(draft))
    assert distance(found, plain(1.0, "all", 3)) < EXACT


def test_D11_banned_and_missing_ids_of_the_draft_change_nothing() -> None:
    padded = model(2, size=6)
    found = text_law(model(1), params(1.0), 2, lambda: DraftModel(padded, banned=[1, 4, 5]))
    assert distance(found, plain(1.0, "softmax", 2)) < EXACT


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D05_end_tokens_change_nothing(temperature: float) -> None:
    target, draft = model(1, ends=frozenset({2})), model(2, ends=frozenset({2}))
    wanted = text_law(target, params(temperature), 3)
    assert any(len(answer) < 3 for answer in wanted)
    assert all(2 not in answer[:-1] for answer in wanted)
    for drafter in (lambda: DraftModel(draft), lambda: Ngram(min_match=1), sampled_tree((-1, -1, 0), 2)):
        assert distance(stepwise_law(target, params(temperature), 3, drafter), wanted) < EXACT


def test_D07_biased_logits_change_nothing() -> None:
    draft = model(2)
    settings = params(1.0, "penalties", logit_bias={0: 1.5, 3: -np.inf})
    wanted = text_law(model(1), settings, 3)
    assert all(3 not in answer for answer in wanted)
    assert distance(stepwise_law(model(1), settings, 3, lambda: DraftModel(draft)), wanted) < EXACT


# Mistakes that peers made, to show that the enumeration would notice them


def test_it_notices_a_greedy_draft_tested_with_its_softmax() -> None:
    rows = q_rows(2)

    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        q = sampler.distribution(rows(committed))
        return Draft.chain([int(q.dense(4).argmax())], Method.DRAFT, [q])

    assert distance(text_law(model(1), params(1.0), 2, lambda: Guess(make)), plain(1.0, "softmax", 2)) > BIASED


def test_it_notices_unmasked_siblings() -> None:
    found = text_law(model(1), params(1.0), 2, sampled_tree((-1, -1, -1), 2, masked=False))
    assert distance(found, plain(1.0, "softmax", 2)) > BIASED


def test_it_notices_a_draft_drawn_at_another_temperature_than_it_is_tested_with() -> None:
    rows = q_rows(2)

    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        token = sampler.pick(sampler.distribution(rows(committed) * np.float32(2)))
        return Draft.chain([token], Method.DRAFT, [sampler.distribution(rows(committed))])

    assert distance(text_law(model(1), params(1.0), 2, lambda: Guess(make)), plain(1.0, "softmax", 2)) > BIASED


def test_it_notices_a_drawn_token_dropped_for_its_own_probability() -> None:
    rows = q_rows(2)

    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        q = sampler.distribution(rows(committed))
        token = sampler.pick(q)
        return Draft.chain([token], Method.DRAFT, [q]) if q.probability(token) > 0.2 else Draft((), (), Method.DRAFT)

    assert distance(text_law(model(1), params(1.0), 2, lambda: Guess(make)), plain(1.0, "softmax", 2)) > BIASED


def test_it_notices_penalties_that_forget_the_block() -> None:
    class Forgetful(TapedSampler):
        def push(self, token: int) -> None:
            pass

    found = text_law(model(1), params(1.0, "penalties"), 2, sampler=Forgetful)
    assert distance(found, plain(1.0, "penalties", 2)) > BIASED
