"""Draft trees grown best first, on made-up draft models."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from pardec_chat.backends.base import Draft
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.decoding.tree import grow
from pardec_chat.kernels.sampling.reference import Logits
from pardec_chat.tests.rows import Rows, noise

SIZE = 5


class Model:
    """Rows of a scripted draft model for a tree, and the prefixes that were asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.paths: list[tuple[int, ...]] = []
        self.calls = 0

    def row(self, prefix: tuple[int, ...]) -> Logits:
        return np.array(self._rows(prefix), np.float32)

    def evaluate(self, tokens: Sequence[int], parents: Sequence[int], depth: int) -> list[Logits]:
        self.calls += 1
        new = [
            (*(self.paths[parent] if parent >= 0 else ()), token) for token, parent in zip(tokens, parents, strict=True)
        ]
        assert {len(path) for path in new} == {depth}
        self.paths += new
        return [self.row(path) for path in new]


def grown(rows: Rows, nodes: int, depth: int, width: int = SIZE, sampler: Sampler | None = None) -> tuple[Draft, Model]:
    model = Model(rows)
    chance = sampler or Sampler(SamplingParams(temperature=0), [0])
    return grow(model.row(()), model.evaluate, chance, nodes=nodes, depth=depth, width=width), model


def paths(draft: Draft) -> set[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    assert len(set(found)) == len(found)
    return set(found)


def worth(rows: Rows, path: tuple[int, ...]) -> float:
    total = 0.0
    for i, token in enumerate(path):
        row = np.array(rows(path[:i]), np.float64)
        total += row[token] - np.log(np.exp(row).sum())
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nodes", [1, 3, 8, 20])
def test_the_tree_holds_the_most_probable_paths_of_all(seed: int, nodes: int) -> None:
    rows = noise(SIZE, seed, order=3)
    everything = [path for n in (1, 2, 3) for path in itertools.product(range(SIZE), repeat=n)]
    best = sorted(everything, key=lambda path: -worth(rows, path))[:nodes]
    draft, _ = grown(rows, nodes, 3, width=SIZE**2)
    assert paths(draft) == set(best)
    assert draft.probabilities is None


def test_only_what_can_be_among_the_best_is_evaluated() -> None:
    # One token is nearly certain: with three nodes wanted nothing beside its line can be.
    rows: Rows = lambda prefix: [6.0 if i == len(prefix) else 0.0 for i in range(SIZE)]  # noqa: E731
    draft, model = grown(rows, 3, 3)
    assert paths(draft) == {(0,), (0, 1), (0, 1, 2)}
    assert model.calls == 2
    # Nothing is evaluated for the deepest nodes.
    assert grown(rows, 3, 1)[1].calls == 0


def test_width_bounds_the_rows_of_a_level() -> None:
    _, model = grown(lambda prefix: [0.0] * SIZE, 20, 3, width=2)
    assert [len(path) for path in model.paths] == [1, 1, 2, 2]


def test_nothing_follows_an_end_token() -> None:
    rows: Rows = lambda prefix: [5.0, 4.0, 0.0, 0.0, 0.0]  # noqa: E731
    chance = Sampler(SamplingParams(temperature=0), [0], ends=frozenset({0}))
    draft, _ = grown(rows, 8, 3, sampler=chance)
    assert (0,) in paths(draft)
    assert not any(path[0] == 0 and len(path) > 1 for path in paths(draft))


def test_D07_penalties_see_the_path_of_each_node() -> None:
    rows: Rows = lambda prefix: [2.0, 1.9, 0.0, 0.0, 0.0]  # noqa: E731
    assert paths(grown(rows, 2, 2, width=1)[0]) == {(0,), (0, 0)}
    # Behind 0 another 0 is penalised; afterwards the sampler remembers nothing of it.
    chance = Sampler(SamplingParams(temperature=0, frequency_penalty=1.5), [4])
    assert paths(grown(rows, 2, 2, width=1, sampler=chance)[0]) == {(0,), (0, 1)}
    assert chance.scores(np.array(rows(()), np.float32)).tolist() == pytest.approx(list(rows(())))


def test_masked_tokens_are_never_guessed() -> None:
    chance = Sampler(SamplingParams(temperature=0), [0]).for_draft([1, 2])
    draft, _ = grown(lambda prefix: [0.0, 9.0, 9.0, 1.0, 2.0], 20, 2, sampler=chance)
    assert {token for path in paths(draft) for token in path} == {0, 3, 4}
