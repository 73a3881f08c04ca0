"""The law of an answer under a grammar, by exact enumeration: guessing leaves it that of plain decoding under the grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from pardec_chat.backends.base import Draft, Drafter, Method
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.kernels.sampling.reference import distribution
from pardec_chat.tests.enumeration import Tape, TapedSampler, continued, distance, law
from pardec_chat.tests.fakes import ScriptedTarget, TableConstraint
from pardec_chat.tests.rows import noise
from pardec_chat.tests.unit.test_lossless import CHAINS, PROMPT, Guess, Law, params, q_rows

EXACT = 1e-9
BIASED = 1e-3
SIZE = 5
ENDS = frozenset({3, 4})
#: Id → state behind it. An end may come in state 0 and where nothing else can, in state 3.
TABLE: Sequence[Mapping[int, int]] = [{0: 0, 1: 1}, {0: 2, 1: 1, 2: 2}, {1: 0, 2: 3}, {}]
ACCEPTING = {0}
N = 3


def grammar(table: Sequence[Mapping[int, int]] = TABLE) -> TableConstraint:
    return TableConstraint(table, ACCEPTING, ENDS, SIZE)


def model(seed: int, size: int = SIZE) -> ScriptedTarget:
    return ScriptedTarget(noise(size, seed, scale=1.0), [b"%d" % i for i in range(size)], {e for e in ENDS if e < size})


class Bound(TapedSampler):
    """A taped sampler under the grammar."""

    def __init__(
        self, tape: Tape, params: SamplingParams, prompt: Iterable[int], *, ends: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(tape, params, prompt, ends=ends)
        self.constraint = grammar()


def text_law(
    settings: SamplingParams,
    drafter: Callable[[], Drafter] | None = None,
    depth: int = 2,
    *,
    sampler: type[TapedSampler] = Bound,
    head: tuple[int, ...] = (),
    steps: int | None = None,
) -> Law:
    """The law of the first N tokens behind `head`, of all of the answer where it ends before."""
    target = model(1)

    def run(tape: Tape) -> tuple[int, ...]:
        slot = target.open()
        slot.prefill([*PROMPT, *head], lambda: False)
        chance = sampler(tape, settings, PROMPT, ends=ENDS)
        for token in head:
            chance.push(token)
        used = drafter() if drafter is not None else None
        if used is not None:
            used.begin(slot, chance, lambda: False)
        answer = Generation(slot, chance, [] if used is None else [used], depth)
        controller, done = Controller(), 0
        while answer.finish_reason is None and len(head) + len(answer.token_ids) < N and done != steps:
            step(target, [answer], controller)
            done += 1
        if isinstance(chance.constraint, TableConstraint):
            assert chance.constraint.n_pushed == len(head) + len(answer.token_ids), "pushes and pops do not balance"
        if used is not None:
            used.close()
        slot.close()
        return (*head, *answer.token_ids)[:N]

    return law(run)


def stepwise_law(settings: SamplingParams, drafter: Callable[[], Drafter], depth: int) -> Law:
    """The same, one step from each head on its own and then put together."""
    result: Law = {}
    waiting: Law = {(): 1.0}
    while waiting:
        head = min(waiting, key=len)
        mass = waiting.pop(head)
        for text, probability in text_law(settings, drafter, depth, head=head, steps=1).items():
            into: Law = result if len(text) >= N or text[-1] in ENDS else waiting
            into[text] = into.get(text, 0.0) + mass * probability
    return result


@cache
def plain(temperature: float, chain: str) -> Law:
    return text_law(params(temperature, chain))


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_plain_is_the_chain_over_what_the_grammar_leaves(temperature: float, chain: str) -> None:
    """Against the reference's functions put together by hand: penalties, grammar, then temperature and the cuts."""
    settings, rows = params(temperature, chain), q_rows(1, SIZE)

    def following(answer: tuple[int, ...]) -> Sequence[float]:
        free, state = Sampler(settings, PROMPT), grammar()
        for token in answer:
            free.push(token)
            state.push(token)
        scores = free.scores(rows((*PROMPT, *answer))).copy()
        scores[[i for i in range(SIZE) if i not in state.allowed()]] = -np.inf
        p = settings
        weights: list[float] = distribution(scores, temperature, p.top_k, p.top_p, p.min_p).dense(SIZE).tolist()
        return weights

    heads: Law = {(): 1.0}
    ended: Law = {}
    for n in range(1, N + 1):
        longer = continued(heads, following, n)
        ended |= {text: p for text, p in longer.items() if text[-1] in ENDS}
        heads = {text: p for text, p in longer.items() if text[-1] not in ENDS}
    assert distance({**ended, **heads}, plain(temperature, chain)) < EXACT
    assert any(len(text) < N for text in ended)


@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D08_a_draft_model_under_the_same_grammar_changes_nothing(temperature: float, chain: str, depth: int) -> None:
    """Chosen drafts and the walk up to temperature 0.5, drawn drafts and rejection above it."""
    draft = model(2)
    found = stepwise_law(params(temperature, chain), lambda: DraftModel(draft), depth)
    assert distance(found, plain(temperature, chain)) < EXACT
    assert draft.ids("propose"), "nothing was drafted"


@pytest.mark.parametrize("depth", range(1, 6))
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D08_repetition_cut_by_the_grammar_changes_nothing(temperature: float, chain: str, depth: int) -> None:
    found = text_law(params(temperature, chain), lambda: Ngram(min_match=1), depth)
    assert distance(found, plain(temperature, chain)) < EXACT


@pytest.mark.parametrize("size", [2, 3, 4, 8])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D11_a_draft_of_another_size_or_with_banned_ids_changes_nothing(temperature: float, size: int) -> None:
    draft = model(2, size)
    for banned in ((), (0,), (1, 2)):
        found = stepwise_law(params(temperature, "all"), lambda banned=banned: DraftModel(draft, banned), 3)  # type: ignore[misc]
        assert distance(found, plain(temperature, "all")) < EXACT


@pytest.mark.parametrize("chain", ["softmax", "all"])
def test_D08_biased_logits_change_nothing(chain: str) -> None:
    draft = model(2)
    settings = params(1.0, chain, logit_bias={0: 1.5, 3: -2.0})
    assert distance(stepwise_law(settings, lambda: DraftModel(draft), 2), text_law(settings)) < EXACT


@pytest.mark.parametrize("parents", [(-1, -1), (-1, 0, 0), (-1, -1, 0)], ids=str)
def test_D08_trees_change_nothing(parents: Sequence[int]) -> None:
    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        return Draft([(len(committed) + node) % SIZE for node in range(len(parents))], parents, Method.DRAFT)

    assert distance(text_law(params(1.0, "all"), lambda: Guess(make)), plain(1.0, "all")) < EXACT


def test_D08_drawn_drafts_that_know_no_grammar_change_nothing() -> None:
    """What the grammar forbids is rejected like any token the target would not say."""
    rows = q_rows(2, SIZE)

    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        tokens: list[int] = []
        drawn_from = []
        for _ in range(2):
            drawn_from.append(distribution(rows((*committed, *tokens)), 1.0, 0, 1.0, 0.0))
            tokens.append(sampler.pick(drawn_from[-1]))
        return Draft.chain(tokens, Method.DRAFT, drawn_from)

    assert distance(stepwise_law(params(1.0), lambda: Guess(make), 2), plain(1.0, "softmax")) < EXACT


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("chain", CHAINS)
def test_D02_greedy_ids_are_those_of_plain_decoding(chain: str, depth: int) -> None:
    # Without an accepting state the answer goes on, so that there is something to guess.
    table = [{0: 0, 1: 1}, {0: 2, 1: 1, 2: 2}, {1: 0, 2: 1}]
    settings = params(0.0, chain)

    def answer(seed: int, drafter: Drafter | None) -> list[int]:
        target = model(seed)
        slot = target.open()
        slot.prefill(PROMPT, lambda: False)
        sampler = Sampler(settings, PROMPT, ends=ENDS, constraint=TableConstraint(table, (), ENDS, SIZE))
        if drafter is not None:
            drafter.begin(slot, sampler, lambda: False)
        generation = Generation(slot, sampler, [] if drafter is None else [drafter], depth, max_tokens=24)
        controller = Controller()
        while generation.finish_reason is None:
            step(target, [generation], controller)
        return generation.token_ids

    for seed in range(5):
        wanted = answer(seed, None)
        assert len(wanted) == 24
        for drafter in (
            DraftModel(model(seed)),
            DraftModel(model(seed + 50)),
            DraftModel(model(7, 2)),
            Ngram(min_match=1),
        ):
            assert answer(seed, drafter) == wanted


# Mistakes, to show that the enumeration would notice them


def test_it_notices_a_drawn_token_that_was_dropped_instead_of_rejected() -> None:
    rows = q_rows(2, SIZE)

    def make(committed: tuple[int, ...], sampler: Sampler) -> Draft:
        q = distribution(rows(committed), 1.0, 0, 1.0, 0.0)
        token = sampler.pick(q)
        assert sampler.constraint is not None
        return (
            Draft.chain([token], Method.DRAFT, [q])
            if sampler.constraint.legal([token])
            else Draft((), (), Method.DRAFT)
        )

    assert distance(text_law(params(1.0), lambda: Guess(make)), plain(1.0, "softmax")) > BIASED


def test_it_notices_a_grammar_behind_the_cuts() -> None:
    """Top-k of all tokens and the grammar on what is left of them is another distribution, and may be none at all."""

    class Late(Bound):
        def scores(
            self, logits: np.ndarray[tuple[int], np.dtype[np.float32]]
        ) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
            kept = np.argsort(-logits)[:4]
            row = np.full_like(logits, -np.inf)
            row[kept] = logits[kept]
            return super().scores(row)

    assert distance(text_law(params(1.0), sampler=Late), plain(1.0, "softmax")) > BIASED
