"""The window, the pool and the candidates of Lookahead, on scripted models."""

from __future__ import annotations

import pytest

from pardec_chat.backends.base import LEAVES, MAX_NODES, MAX_PROBES, Draft, Method, Probes, Verdict, depths, leaves
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.lookahead import CANDIDATES, NGRAM, WINDOW, Lookahead, NgramPool, branches
from pardec_chat.tests.decode import GREEDY, begin, finish, generate, greedy, never
from pardec_chat.tests.fakes import ScriptedTarget
from pardec_chat.tests.rows import Rows, noise, sure

SIZE = 24


def counting(prefix: tuple[int, ...]) -> list[float]:
    """Each id is followed by the next one, the last by the first."""
    return sure(SIZE, (prefix[-1] + 1) % SIZE)


def model(rows: Rows = counting, *, slots: int = 1, n_ctx: int = 256) -> ScriptedTarget:
    return ScriptedTarget(rows, [b"%d." % i for i in range(SIZE)], n_ctx=n_ctx, max_slots=slots)


def begun(drafter: Lookahead, target: ScriptedTarget, prompt: list[int]) -> Lookahead:
    slot = target.open()
    slot.prefill(prompt, never)
    drafter.begin(slot, Sampler(GREEDY, prompt), never)
    return drafter


# The pool


def test_the_pool_gives_the_newest_first_and_keeps_so_many_of_each() -> None:
    pool = NgramPool(each=2)
    for rest in ((1, 1), (2, 2), (1, 1), (3, 3)):
        pool.add(7, rest)
    assert pool.behind(7) == [(3, 3), (1, 1)]
    assert pool.behind(8) == []
    assert len(pool) == 2


def test_the_pool_forgets_the_token_that_was_used_longest_ago() -> None:
    pool = NgramPool(each=8, most=3)
    for first in (1, 2, 1, 3):
        pool.add(first, (first, len(pool)))
    assert len(pool) == 3
    assert (pool.behind(2), len(pool.behind(1)), len(pool.behind(3))) == ([], 2, 1)


def test_the_pool_stays_bounded_over_a_long_answer() -> None:
    drafter = Lookahead(window=4, ngram=3, candidates=2, most=20)
    generate(model(noise(SIZE, 1)), [1, 2, 3], drafter=drafter, max_tokens=200)
    assert len(drafter._pool) == 20


# The window


def test_the_window_is_a_tree_of_columns() -> None:
    #   . a1 a2 a3     0 1 2
    #  b0 b1 b2 b3     3 4 5 6
    #  c0 c1 c2 c3     7 8 9 10
    drafter = begun(Lookahead(window=4, ngram=4, candidates=1, copies=False), model(), [5])
    probes = drafter.draft(8).probes
    assert list(probes.parents) == [-1, 0, 1, -1, 0, 1, 2, 3, 4, 5, 6]
    assert probes.leaves == [7, 8, 9, 10]
    assert depths(probes.parents) == [1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5]
    assert list(probes.tokens) == [5] * 11


def test_a_pass_makes_each_column_longer_and_its_ngrams_candidates() -> None:
    target = model()
    slot = target.open()
    slot.prefill([5], never)
    sampler = Sampler(GREEDY, [5])
    drafter = Lookahead(window=3, ngram=3, candidates=4, copies=False)
    drafter.begin(slot, sampler, never)
    drafter._rows = [[0, 11, 12], [6, 12, 20]]
    draft = drafter.draft(8)
    assert (list(draft.tokens), list(draft.probes.tokens)) == ([], [11, 12, 6, 12, 20])
    (verdict,) = target.verify([(slot, draft, sampler)])
    assert (list(verdict.tokens), list(verdict.probe_tokens)) == ([6], [7, 13, 21])
    drafter.accept(verdict)
    # The n-grams 5 6 7, 11 12 13 and 12 20 21; the window has moved on.
    assert (drafter._pool.behind(5), drafter._pool.behind(11), drafter._pool.behind(12)) == (
        [(6, 7)],
        [(12, 13)],
        [(20, 21)],
    )
    assert drafter._rows == [[6, 12, 20], [7, 13, 21]]


def test_a_language_that_counts_is_learned_by_looking_ahead_alone() -> None:
    drafter = Lookahead(window=6, ngram=4, candidates=4, copies=False)
    answer = generate(model(), [0], drafter=drafter, depth=3, max_tokens=100)
    assert answer.ids == [i % SIZE for i in range(1, 101)]
    # Every token of the language was looked at after one round, and from then on three guesses a step are right.
    assert {one.n_accepted for one in answer.steps[-8:-1]} == {3}
    assert (answer.generation.stats.tokens_per_step or 0) > 2


def test_n_grams_of_the_text_are_candidates_at_once() -> None:
    prompt = [3, 4, 5, 6, 3]
    drafter = begun(Lookahead(window=1, ngram=4, candidates=4), model(), prompt)
    draft = drafter.draft(8)
    assert (list(draft.tokens), list(draft.parents), draft.source) == ([4, 5, 6], [-1, 0, 1], Method.LOOKAHEAD)


def test_candidates_share_what_they_begin_with() -> None:
    drafter = begun(Lookahead(window=1, ngram=4, candidates=3, copies=False), model(), [9])
    for rest in ((1, 2, 3), (1, 2, 4), (5, 2, 3)):
        drafter._pool.add(9, rest)
    draft = drafter.draft(3)
    assert (list(draft.tokens), list(draft.parents)) == ([5, 2, 3, 1, 2, 4, 3], [-1, 0, 1, -1, 3, 4, 4])
    assert leaves(draft.parents) == [2, 5, 6]
    short = drafter.draft(1)
    assert (list(short.tokens), list(short.parents)) == ([5, 1], [-1, -1])
    assert len(drafter.draft(0)) == len(drafter.draft(0).probes) == 0


def test_the_papers_parameters_stay_inside_the_bounds_of_a_pass() -> None:
    drafter = begun(Lookahead(), model(), [9])
    for i in range(40):
        drafter._pool.add(9, (i, i, i, i))
    draft = drafter.draft(NGRAM - 1)
    assert len(draft) == CANDIDATES * (NGRAM - 1) <= MAX_NODES
    assert len(draft.probes) == WINDOW * (NGRAM - 1) - 1 <= MAX_PROBES
    assert len(leaves(draft.parents)) + len(draft.probes.leaves) == branches() == LEAVES


@pytest.mark.parametrize("wrong", [(0, 5, 15), (15, 2, 15), (15, 5, 0), (20, 5, 15)])
def test_impossible_parameters_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="a "):
        Lookahead(*wrong)


def test_a_verdict_on_somebody_elses_draft_moves_nothing() -> None:
    target = model()
    slot = target.open()
    slot.prefill([5], never)
    sampler = Sampler(GREEDY, [5])
    drafter = Lookahead(window=3, ngram=3, candidates=4, copies=False)
    drafter.begin(slot, sampler, never)
    before = [list(row) for row in drafter._rows]
    (verdict,) = target.verify([(slot, Draft.chain([6], Method.DRAFT), sampler)])
    drafter.accept(verdict)
    assert (drafter._rows, len(drafter._pool)) == (before, 0)


# Probes


def test_what_follows_probes_is_told_for_their_leaves_alone() -> None:
    target = model()
    slot = target.open()
    slot.prefill([5], never)
    probes = Probes([10, 14, 18], [-1, 0, -1])
    draft = Draft([6, 9], [-1, -1], Method.LOOKAHEAD, probes=probes)
    (verdict,) = target.verify([(slot, draft, Sampler(GREEDY, [5]))])
    assert verdict == Verdict([6, 7], [0], None, [15, 19])
    assert list(slot.tokens) == [5, 6, 7]


def test_probes_are_checked_like_drafts() -> None:
    with pytest.raises(ValueError, match="parent for each"):
        Probes([1], [])
    with pytest.raises(ValueError, match="before their children"):
        Probes([1, 2], [1, -1])


# Whole answers


@pytest.mark.parametrize("depth", range(1, 5))
@pytest.mark.parametrize("seed", range(3))
def test_D02_greedy_ids_are_those_of_plain_decoding(depth: int, seed: int) -> None:
    rows = noise(SIZE, seed, order=2)
    drafter = Lookahead(window=4, ngram=4, candidates=4)
    answer = generate(model(rows), [1, 2, 3], drafter=drafter, depth=depth, max_tokens=120)
    assert answer.ids == greedy(rows, [1, 2, 3], 120)
    assert answer.generation.stats.draft_n_accepted > 0


def test_D08_the_same_seed_gives_the_same_text() -> None:
    params = SamplingParams(temperature=0.9, seed=5)
    rows = noise(SIZE, 4, order=1)
    wanted = generate(model(rows), [1], params=params, max_tokens=80).ids
    answer = generate(model(rows), [1], params=params, max_tokens=80, drafter=Lookahead(4, 4, 4))
    assert answer.ids == wanted
    assert answer.generation.stats.draft_n_accepted > 0


@pytest.mark.parametrize("room", range(1, 8))
def test_K07_the_contexts_edge(room: int) -> None:
    rows = noise(SIZE, 1, order=2)
    prompt = [1, 2, 3]
    generation = begin(model(rows, n_ctx=len(prompt) + room), prompt, drafter=Lookahead(4, 4, 4))
    answer = finish(generation.slot._target, generation)  # type: ignore[attr-defined]
    assert answer.ids == greedy(rows, prompt, room)
    assert generation.finish_reason == "length"
