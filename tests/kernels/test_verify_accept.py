"""The two acceptance rules: their law by exact enumeration, and what they call in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from pardec_chat.kernels.sampling.reference import Distribution
from pardec_chat.kernels.verify_accept.reference import ROOT, Acceptance, children, reject, walk
from pardec_chat.tests.enumeration import Tape, continued, distance, law

CHAIN = (-1, 0, 1)
FORK = (-1, -1, -1)
BUSHY = (-1, -1, 0, 0, 1, 2)
DEEP = (-1, 0, 0, 1, 1, 2)
SHAPES = [(), (-1,), CHAIN, FORK, BUSHY, DEEP]
EXACT = 1e-9

Model = Callable[[tuple[int, ...]], Distribution]


def model(seed: int, size: int, *, zeros: bool = False, sparse: bool = False) -> Model:
    """Random distributions over `size` tokens by prefix; with zeros some tokens are impossible, sparse lists the others."""

    @cache
    def at(prefix: tuple[int, ...]) -> Distribution:
        rng = np.random.default_rng((seed, *prefix))
        weights = rng.dirichlet(np.full(size, 0.7))
        if zeros:
            weights[rng.permutation(size)[: size // 2]] = 0.0
            weights /= weights.sum()
        if not sparse:
            return Distribution(None, weights)
        ids = np.flatnonzero(weights)[::-1]
        return Distribution(ids, weights[ids])

    return at


def prefix_of(tokens: Sequence[int], parents: Sequence[int], node: int) -> tuple[int, ...]:
    path: list[int] = []
    while node != ROOT:
        path.insert(0, tokens[node])
        node = parents[node]
    return tuple(path)


def drawn(parents: Sequence[int], q: Model, tape: Tape) -> tuple[list[int], list[int], list[Distribution]]:
    """A tree of about this shape: siblings without replacement, as many as have a probability."""
    tokens: list[int] = []
    kept: list[int] = []
    rows: list[Distribution] = []
    place = {ROOT: ROOT}
    left: dict[int, Distribution] = {}
    for node, parent in enumerate(parents):
        if parent not in place:
            continue
        at = place[parent]
        first = q(prefix_of(tokens, kept, at))
        now = left.get(at, first)
        siblings = [tokens[i] for i, p in enumerate(kept) if p == at]
        if len(siblings) == np.count_nonzero(first.weights):
            continue
        place[node] = len(tokens)
        token = tape.pick(now)
        tokens.append(token)
        kept.append(at)
        rows.append(first)
        left[at] = now.without(token)
    return tokens, kept, rows


def rejected(
    parents: Sequence[int], p: Model, q: Model, ends: frozenset[int] = frozenset()
) -> dict[tuple[int, ...], float]:
    """The law of what one verify emits, over draft and verdict."""

    def run(tape: Tape) -> tuple[int, ...]:
        tokens, kept, rows = drawn(parents, q, tape)
        result = reject(tokens, kept, lambda n: p(prefix_of(tokens, kept, n)), rows, tape, lambda _token: None, ends)
        return tuple(result.tokens)

    return law(run)


def plain(p: Model, n: int) -> dict[tuple[int, ...], float]:
    return continued({(): 1.0}, lambda prefix: p(prefix).dense(8).tolist(), n)


@pytest.mark.parametrize("parents", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("p", "q"),
    [
        (model(1, 4), model(2, 4)),
        (model(1, 4), model(1, 4)),
        (model(3, 5, zeros=True), model(4, 5, zeros=True)),
        (model(5, 4, zeros=True, sparse=True), model(6, 4)),
        (model(7, 4), model(8, 4, zeros=True, sparse=True)),
        (model(9, 3), model(10, 5)),  # a draft model whose vocabulary is padded: those ids are never accepted
        (model(11, 5), model(12, 3)),
    ],
    ids=["dense", "equal", "zeros", "sparse target", "sparse draft", "padded draft", "short draft"],
)
def test_D08_rejection_is_exact(parents: Sequence[int], p: Model, q: Model) -> None:
    found = continued(rejected(parents, p, q), lambda prefix: p(prefix).dense(8).tolist(), 2)
    assert distance(found, plain(p, 2)) < EXACT


def test_D08_a_chain_accepts_with_one_minus_the_total_variation() -> None:
    p, q = model(1, 4), model(2, 4)
    overlap = float(np.minimum(p(()).weights, q(()).weights).sum())
    kept = sum(m for tokens, m in rejected((-1,), p, q).items() if len(tokens) == 2)
    assert kept == pytest.approx(overlap, abs=1e-12)


def test_D09_equal_models_accept_everything() -> None:
    p = model(1, 4)
    assert {len(tokens) for tokens in rejected(CHAIN, p, p)} == {4}


def test_more_siblings_are_accepted_more_often() -> None:
    p, q = model(1, 4), model(2, 4)
    rates = [sum(m for tokens, m in rejected((-1,) * n, p, q).items() if len(tokens) == 2) for n in (1, 2, 3, 4)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(1.0, abs=1e-12), "with every token as a sibling one is the target's"


class Unmasked(Distribution):
    """The mistake: a drawn sibling stays in q."""

    def without(self, token: int) -> Distribution:
        return self


def test_the_enumeration_notices_unmasked_siblings() -> None:
    p, q = model(1, 4), model(2, 4)

    def run(tape: Tape) -> tuple[int, ...]:
        tokens, kept, rows = drawn(FORK, q, tape)
        wrong = [Unmasked(row.ids, row.weights) for row in rows]
        result = reject(tokens, kept, lambda n: p(prefix_of(tokens, kept, n)), wrong, tape, lambda _t: None, ())
        return tuple(result.tokens[:1])

    assert distance(law(run), plain(p, 1)) > 1e-3


def test_the_enumeration_notices_a_greedy_draft_tested_with_its_softmax() -> None:
    p, q = model(1, 4), model(2, 4)

    def run(tape: Tape) -> tuple[int, ...]:
        best = int(q(()).weights.argmax())
        result = reject([best], [-1], lambda n: p(() if n == ROOT else (best,)), [q(())], tape, lambda _t: None, ())
        return tuple(result.tokens[:1])

    assert distance(law(run), plain(p, 1)) > 1e-3


def test_the_enumeration_notices_that_no_residual_was_taken() -> None:
    p, q = model(1, 4), model(2, 4)

    def run(tape: Tape) -> tuple[int, ...]:
        token = tape.pick(q(()))
        if tape.coin(min(1.0, p(()).probability(token) / q(()).probability(token))):
            return (token,)
        return (tape.pick(p(())),)

    assert distance(law(run), plain(p, 1)) > 1e-3


# The walk


@pytest.mark.parametrize("parents", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_D03_the_walk_is_exact_for_any_tree_of_any_tokens(parents: Sequence[int], seed: int) -> None:
    p = model(1, 4)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, 4, len(parents))]

    def run(tape: Tape) -> tuple[int, ...]:
        result = walk(tokens, parents, lambda node: tape.pick(p(prefix_of(tokens, parents, node))), ())
        return tuple(result.tokens)

    assert distance(continued(law(run), lambda x: p(x).dense(8).tolist(), 3), plain(p, 3)) < EXACT


def test_D03_the_walk_draws_the_same_for_every_tree() -> None:
    # One number a token, in the order of the text: the stream of plain decoding, whatever was drafted.
    p = model(1, 4)

    def text(parents: Sequence[int], tokens: Sequence[int]) -> list[int]:
        rng = np.random.default_rng(5)
        out: list[int] = []

        def own(node: int) -> int:
            return p((*out, *prefix_of(tokens, parents, node))).quantile(rng.random())

        while len(out) < 12:
            out += walk(tokens, parents, own, ()).tokens
        return out[:12]

    wanted = text((), ())
    for parents in SHAPES:
        for first in range(4):
            assert text(parents, [(first + i) % 4 for i in range(len(parents))]) == wanted


def walked(tokens: Sequence[int], parents: Sequence[int], own: Sequence[int], ends: Sequence[int] = ()) -> Acceptance:
    """A walk in which the target's tokens are given in the order of the text; all must be asked for."""
    waiting = list(own)
    result = walk(tokens, parents, lambda _node: waiting.pop(0), ends)
    assert not waiting
    return result


def test_walk_follows_the_matching_branch() -> None:
    #        a ── c ── d
    # root ──┤    └─── e       a=1 b=2 c=3 d=4 e=5
    #        b ── c
    tokens, parents = [1, 2, 3, 3, 4, 5], [-1, -1, 0, 1, 2, 2]
    assert walked(tokens, parents, [1, 3, 5, 9]) == Acceptance([0, 2, 5], [1, 3, 5, 9])
    assert walked(tokens, parents, [2, 3, 9]) == Acceptance([1, 3], [2, 3, 9])
    assert walked(tokens, parents, [2, 9]) == Acceptance([1], [2, 9])
    assert walked(tokens, parents, [9]) == Acceptance([], [9])


@pytest.mark.parametrize("length", range(6))
@pytest.mark.parametrize("right", range(6))
def test_walk_at_every_block_boundary(length: int, right: int) -> None:
    right = min(right, length)
    own = [10 + i for i in range(right)] + [99]
    found = walked([10 + i for i in range(length)], range(-1, length - 1), own)
    assert found == Acceptance(list(range(right)), own)


@pytest.mark.parametrize("position", range(5))
def test_D05_nothing_is_sampled_behind_an_accepted_end_token(position: int) -> None:
    tokens = [10, 11, 12, 13, 14]
    found = walked(tokens, range(-1, 4), tokens[: position + 1], ends=[10 + position])
    assert found == Acceptance(list(range(position + 1)), tokens[: position + 1])


@pytest.mark.parametrize("position", range(5))
def test_D05_rejection_stops_at_an_accepted_end_token(position: int) -> None:
    tokens = [0, 1, 2, 3, 4]
    rows = [Distribution(np.array([t]), np.array([1.0])) for t in (*tokens, 5)]
    emitted: list[int] = []
    found = reject(tokens, range(-1, 4), lambda n: rows[n + 1], rows, Tape(), emitted.append, {position})
    assert found == Acceptance(list(range(position + 1)), tokens[: position + 1])
    assert emitted == found.tokens


def test_D05_an_end_token_of_the_targets_own_is_the_last_one() -> None:
    assert walked([1, 2], [-1, 0], [1, 7], ends=[7]) == Acceptance([0], [1, 7])


def test_D07_rejection_emits_before_it_asks_for_the_next_row() -> None:
    rows = [Distribution(np.array([t]), np.array([1.0])) for t in (4, 5, 6)]
    calls: list[str] = []

    def target(node: int) -> Distribution:
        calls.append(f"row {node}")
        return rows[node + 1]

    reject([4, 5], [-1, 0], target, rows, Tape(), lambda token: calls.append(f"emit {token}"), ())
    assert calls == ["row -1", "emit 4", "row 0", "emit 5", "row 1", "emit 6"]


def test_children_come_in_the_order_of_the_draft() -> None:
    assert children(BUSHY) == {-1: [0, 1], 0: [2, 3], 1: [4], 2: [5]}
    assert children(()) == {}
