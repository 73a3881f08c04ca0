"""The sampler chain against a slow implementation in float64 that sorts everything."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import History, Sampler
from pardec_chat.backends.errors import BadSetting
from pardec_chat.kernels.sampling import reference
from pardec_chat.kernels.sampling.reference import Distribution, Logits, Seen

NOTHING_SEEN = Seen(np.zeros(0, np.int64), np.zeros(0, np.float32))


def slow(logits: Sequence[float], temperature: float, top_k: int, top_p: float, min_p: float) -> NDArray[np.float64]:
    """One stage after the other, each renormalised by hand."""
    n = len(logits)
    peak = max(logits)
    order = sorted(range(n), key=lambda i: (-logits[i], i))
    kept = order[:top_k] if top_k else order
    mass = {i: math.exp((logits[i] - peak) / temperature) for i in kept}
    total = math.fsum(mass.values())
    mass = {i: m / total for i, m in mass.items()}
    if top_p < 1.0:
        nucleus, summed = {}, 0.0
        for i in kept:
            if summed >= top_p:
                break
            nucleus[i] = mass[i]
            summed += mass[i]
        mass = nucleus
    most = max(mass.values())
    mass = {i: m for i, m in mass.items() if m >= min_p * most}
    total = math.fsum(mass.values())
    row = np.zeros(n)
    for i, m in mass.items():
        row[i] = m / total
    return row


def rows(n: int) -> list[Logits]:
    """Random rows of several kinds, ties among them."""
    rng = np.random.default_rng(n)
    normal = rng.normal(0, 3, n).astype(np.float32)
    with_ties = rng.integers(-3, 4, n).astype(np.float32)
    flat = np.zeros(n, np.float32)
    peaked = normal.copy()
    peaked[n // 2] = 40.0
    banned = normal.copy()
    banned[1 :: max(2, n // 5)] = -np.inf
    return [normal, with_ties, flat, peaked, banned]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [1e-6, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_chain_equals_the_slow_one(n: int, temperature: float) -> None:
    for row, top_k, top_p, min_p in itertools.product(
        rows(n), [0, 1, 3, n, n + 5], [1.0, 0.95, 0.5, 1e-6], [0.0, 0.05, 0.5, 1.0]
    ):
        wanted = slow([float(x) for x in row], temperature, top_k, top_p, min_p)
        found = reference.distribution(row, temperature, top_k, top_p, min_p)
        dense = found.dense(n)
        assert dense == pytest.approx(wanted, abs=2e-6), (row, top_k, top_p, min_p)
        assert not (dense[wanted == 0.0] > 0.0).any(), "a token that was cut off"
        assert (dense[wanted > 1e-30] > 0.0).all(), "a survivor is missing"
        assert found.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_more_survivors_than_the_first_guess_of_top_p() -> None:
    flat = np.random.default_rng(1).normal(0, 0.01, 5000).astype(np.float32)
    found = reference.distribution(flat, 1.0, 0, 0.9, 0.0)
    wanted = slow([float(x) for x in flat], 1.0, 0, 0.9, 0.0)
    assert abs(np.count_nonzero(found.weights) - np.count_nonzero(wanted)) <= 1  # the sum is rounded at the edge
    assert found.dense(5000) == pytest.approx(wanted, abs=5e-4)


@pytest.mark.parametrize(("top_k", "top_p", "min_p"), [(40, 0.95, 0.05), (0, 0.95, 0.0), (0, 1.0, 0.05), (0, 1.0, 0.0)])
def test_a_vocabulary_of_152_thousand(top_k: int, top_p: float, min_p: float) -> None:
    row = np.random.default_rng(2).normal(0, 4, 152_064).astype(np.float32)
    row[[7, 70_000, 152_063]] = 25.0
    wanted = slow([float(x) for x in row], 0.8, top_k, top_p, min_p)
    found = reference.distribution(row, 0.8, top_k, top_p, min_p).dense(len(row))
    assert found == pytest.approx(wanted, abs=1e-6)
    assert found[7] == found[70_000] == found[152_063]


def test_the_token_that_crosses_top_p_stays() -> None:
    row = np.log(np.array([0.5, 0.3, 0.2])).astype(np.float32)
    assert reference.distribution(row, 1.0, 0, 0.51, 0.0).dense(3) == pytest.approx([0.625, 0.375, 0.0])
    assert reference.distribution(row, 1.0, 0, 0.49, 0.0).dense(3) == pytest.approx([1.0, 0.0, 0.0])
    assert reference.distribution(row, 1.0, 0, 0.81, 0.0).dense(3) == pytest.approx([0.5, 0.3, 0.2])


def test_stages_come_in_order() -> None:
    # Each pair would give another set in the other order.
    row = np.log(np.array([0.4, 0.3, 0.2, 0.1]))
    # Temperature before top-p: at 0.5 the first token has 0.16 / 0.30 of the mass.
    assert np.flatnonzero(reference.distribution(row.astype(np.float32), 0.5, 0, 0.5, 0.0).dense(4)).tolist() == [0]
    assert np.flatnonzero(reference.distribution(row.astype(np.float32), 1.0, 0, 0.5, 0.0).dense(4)).tolist() == [0, 1]
    # Top-k before top-p: of two survivors the first has 4/7.
    assert np.flatnonzero(reference.distribution(row.astype(np.float32), 1.0, 2, 0.57, 0.0).dense(4)).tolist() == [0]
    # Temperature before min-p: at 2 the last has half the probability of the first.
    assert np.count_nonzero(reference.distribution(row.astype(np.float32), 2.0, 0, 1.0, 0.45).dense(4)) == 4
    assert np.count_nonzero(reference.distribution(row.astype(np.float32), 1.0, 0, 1.0, 0.45).dense(4)) == 3


def test_top_k_keeps_the_lowest_ids_of_a_tie() -> None:
    row = np.array([1.0, 2.0, 1.0, 2.0, 1.0], np.float32)
    assert reference.largest(row, 3).tolist() == [1, 3, 0]
    assert reference.largest(row, 0).tolist() == []
    assert reference.largest(row, 9).tolist() == [1, 3, 0, 2, 4]
    assert reference.distribution(row, 1.0, 3, 1.0, 0.0).dense(5)[[2, 4]].tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("error")  # numpy's would be written across the screen
def test_D09_temperatures_near_zero_leave_the_most_probable_token() -> None:
    row = np.array([0.1, 0.7, 0.69, -500.0], np.float32)
    for temperature, (top_k, top_p, min_p) in itertools.product(
        [1e-3, 1e-6, 1e-30, 1e-60, 5e-324],
        [(0, 1.0, 0.0), (2, 1.0, 0.0), (0, 0.9, 0.0), (0, 1.0, 0.1), (40, 0.95, 0.05)],
    ):
        found = reference.distribution(row, temperature, top_k, top_p, min_p).dense(4)
        assert found == pytest.approx([0.0, 1.0, 0.0, 0.0], abs=1e-4), (temperature, top_k, top_p, min_p)


def test_log_softmax_is_that_of_the_raw_row() -> None:
    row = np.random.default_rng(3).normal(0, 5, 400).astype(np.float32)
    wide = row.astype(np.float64)
    wanted = wide - math.log(math.fsum(math.exp(x) for x in wide))
    assert reference.log_softmax(row, np.arange(400)) == pytest.approx(wanted, abs=1e-5)
    assert np.exp(reference.log_softmax(row, np.arange(400))).sum() == pytest.approx(1.0, abs=1e-6)


# Penalties


def test_D07_penalties_by_hand() -> None:
    row = np.array([2.0, -2.0, 1.0, 0.0, 3.0, 4.0], np.float32)
    seen = Seen(np.array([0, 1, 4], np.int64), np.array([2.0, 0.0, 1.0], np.float32))
    bias = (np.array([4, 5], np.int64), np.array([10.0, -np.inf], np.float32))
    found = reference.penalise(row, seen, 2.0, 0.5, 0.25, bias)
    #      2/2 - 2·0.5 - 0.25,  -2·2 (prompt alone: no count),  …,  3/2 - 0.5 - 0.25 + 10
    assert found.tolist() == [-0.25, -4.0, 1.0, 0.0, 10.75, -np.inf]
    assert row.tolist() == [2.0, -2.0, 1.0, 0.0, 3.0, 4.0], "the runtime's own row must not change"


def test_no_penalty_copies_nothing() -> None:
    row = np.zeros(4, np.float32)
    seen = Seen(np.array([1], np.int64), np.array([1.0], np.float32))
    assert reference.penalise(row, seen, 1.0, 0.0, 0.0, None) is row
    assert reference.penalise(row, NOTHING_SEEN, 1.5, 1.0, 1.0, None) is row


def test_penalties_ignore_ids_past_a_smaller_vocabulary() -> None:
    seen = Seen(np.array([1, 9], np.int64), np.array([1.0, 1.0], np.float32))
    assert reference.penalise(np.ones(3, np.float32), seen, 1.0, 1.0, 0.0, None).tolist() == [1.0, 0.0, 1.0]


def test_history_counts_the_answer_and_remembers_the_prompt() -> None:
    history = History([3, 5, 3])
    for token in (5, 8, 8, 3):
        history.push(token)
    assert counts(history) == {3: 1.0, 5: 1.0, 8: 2.0}
    for _ in range(3):
        history.pop()
    assert counts(history) == {3: 0.0, 5: 1.0}
    history.pop()
    assert counts(history) == {3: 0.0, 5: 0.0}


def test_history_against_a_recount_through_growth() -> None:
    rng = np.random.default_rng(4)
    prompt = [int(t) for t in rng.integers(0, 2000, 50)]
    history, answer = History(prompt), list[int]()
    for _ in range(3000):
        if answer and rng.random() < 0.3:
            answer.pop()
            history.pop()
        else:
            answer.append(int(rng.integers(0, 2000)))
            history.push(answer[-1])
    assert counts(history) == {t: float(answer.count(t)) for t in {*prompt, *answer}}


def counts(history: History) -> Mapping[int, float]:
    seen = history.seen()
    assert len(set(seen.ids.tolist())) == len(seen.ids)
    return dict(zip(seen.ids.tolist(), seen.counts.tolist(), strict=True))


# Distribution


def some_distributions() -> list[Distribution]:
    """Dense ones, also shorter than the vocabulary, and sparse ones with ids in the order of probability."""
    return [
        Distribution(None, np.array([0.1, 0.2, 0.3, 0.4])),
        Distribution(None, np.array([0.7, 0.0, 0.3])),
        Distribution(None, np.array([0.0, 0.25, 0.25, 0.0, 0.25, 0.25])),
        Distribution(np.array([2, 0]), np.array([0.6, 0.4])),
        Distribution(np.array([5, 1, 3]), np.array([0.5, 0.3, 0.2])),
        Distribution(np.array([4]), np.array([1.0])),
    ]


def test_minus_is_the_normalised_positive_part() -> None:
    for p, q in itertools.product(some_distributions(), repeat=2):
        left = np.maximum(p.dense(8) - q.dense(8), 0.0)
        wanted = left / left.sum() if left.sum() > 0 else p.dense(8)
        assert p.minus(q).dense(8) == pytest.approx(wanted, abs=1e-15)


def test_without_masks_and_renormalises() -> None:
    for q, token in itertools.product(some_distributions(), range(7)):
        left = q.dense(8)
        left[token] = 0.0
        wanted = left / left.sum() if left.sum() > 0 else q.dense(8)
        assert q.without(token).dense(8) == pytest.approx(wanted, abs=1e-15)


def test_neither_changes_its_operands() -> None:
    for p, q in itertools.product(some_distributions(), repeat=2):
        before = p.dense(8), q.dense(8)
        p.minus(q), q.without(0)
        assert (p.dense(8) == before[0]).all()
        assert (q.dense(8) == before[1]).all()


def test_probability_of_tokens_inside_and_outside() -> None:
    for p, token in itertools.product(some_distributions(), range(8)):
        assert p.probability(token) == p.dense(8)[token]


def test_quantile_inverts_the_cumulated_weights() -> None:
    exact = Distribution(np.array([6, 2, 4, 9]), np.array([0.5, 0.0, 0.25, 0.25]))
    points = [0.0, 0.25, math.nextafter(0.5, 0), 0.5, math.nextafter(0.75, 0), 0.75, math.nextafter(1.0, 0)]
    assert [exact.quantile(u) for u in points] == [6, 6, 6, 4, 4, 9, 9]
    first_is_empty = Distribution(None, np.array([0.0, 1.0, 0.0]))
    assert [first_is_empty.quantile(u) for u in (0.0, 0.5, math.nextafter(1.0, 0))] == [1, 1, 1]


def test_quantile_gives_each_token_its_share() -> None:
    n = 10_000
    for p in some_distributions():
        found = np.bincount([p.quantile((i + 0.5) / n) for i in range(n)], minlength=8) / n
        assert found == pytest.approx(p.dense(8), abs=1.5 / n)


def test_quantile_never_gives_an_impossible_token() -> None:
    tiny = Distribution(None, np.array([0.1] * 10 + [0.0, 0.0]))
    assert tiny.quantile(math.nextafter(1.0, 0)) == 9


# The sampler on top


def test_sampler_bans_and_biases_within_the_row() -> None:
    sampler = Sampler(SamplingParams(temperature=0, logit_bias={1: 5.0, 99: 3.0}), [], banned=[2, 77])
    row = np.array([4.0, 0.0, 9.0], np.float32)
    assert sampler.scores(row).tolist() == [4.0, 5.0, -np.inf]
    assert sampler.choose(row) == 1


def test_D07_sampler_penalises_prompt_and_answer_each_as_it_should() -> None:
    params = SamplingParams(temperature=0, repeat_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25)
    sampler = Sampler(params, [0, 1])
    row = np.array([4.0, 4.0, 4.0, 4.0], np.float32)
    assert sampler.scores(row).tolist() == [2.0, 2.0, 4.0, 4.0]
    for token in (1, 2, 2):
        sampler.push(token)
    assert sampler.scores(row).tolist() == [2.0, 1.25, 0.75, 4.0]
    assert sampler.for_draft([3]).scores(row).tolist() == [2.0, 1.25, 0.75, -np.inf]
    sampler.pop(2)
    assert sampler.scores(row).tolist() == [2.0, 1.25, 4.0, 4.0]


def test_sampler_takes_the_lowest_id_of_a_tie_at_temperature_0() -> None:
    sampler = Sampler(SamplingParams(temperature=0), [])
    assert sampler.choose(np.array([0.0, 2.0, 2.0], np.float32)) == 1


def test_D08_same_seed_same_draws_and_fresh_ones_without_a_seed() -> None:
    row = np.zeros(1000, np.float32)
    params = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=7)
    one, other = Sampler(params, []), Sampler(params, [])
    assert [one.choose(row) for _ in range(8)] == [other.choose(row) for _ in range(8)]
    fresh = [Sampler(SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0), []) for _ in range(2)]
    assert [fresh[0].choose(row) for _ in range(8)] != [fresh[1].choose(row) for _ in range(8)]


def test_D08_a_draft_sampler_draws_from_a_stream_of_its_own() -> None:
    row = np.zeros(1000, np.float32)
    params = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=7)
    alone, together = Sampler(params, []), Sampler(params, [])
    draft = together.for_draft([])
    expected = [alone.choose(row) for _ in range(20)]
    found = []
    for _ in range(20):
        draft.choose(row)
        found.append(together.choose(row))
    assert found == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"min_p": -0.1},
        {"min_p": 1.5},
        {"repeat_penalty": 0.0},
        {"frequency_penalty": math.nan},
        {"presence_penalty": -101.0},
        {"seed": -1},
    ],
    ids=str,
)
def test_settings_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadSetting) as caught:
        SamplingParams(**wrong)  # type: ignore[arg-type]
    assert next(iter(wrong)) in caught.value.what
