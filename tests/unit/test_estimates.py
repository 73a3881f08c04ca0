"""Rates of right guesses: followed as they drift, left as they jump, filled in where little was seen."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from statistics import median

import pytest

from pardec_chat.backends.decoding.estimates import N_BUCKETS, Record, Share, bucket, lower_bound

#: Of a source whose evidence says much about it before anything was seen.
PRIORS = [i / N_BUCKETS for i in range(N_BUCKETS)]


def seen(rate: float, n: int, seed: int, share: Share | None = None) -> Share:
    rng = random.Random(seed)
    share = share or Share()
    for _ in range(n):
        share.observe(rng.random() < rate)
    return share


def fed(record: Record, evidence: int, hits: Sequence[bool]) -> Record:
    for hit in hits:
        record.observe(evidence, hit)
    return record


def means(record: Record) -> list[float]:
    return [record.mean(index) for index in range(N_BUCKETS)]


# Buckets


def test_buckets_begin_where_their_bound_says_and_the_last_has_no_end() -> None:
    bounds = [lower_bound(index) for index in range(N_BUCKETS)]
    assert bounds == sorted(set(bounds))
    assert bounds[0] == 1
    for index, bound in enumerate(bounds):
        assert bucket(bound) == index
        assert bucket(bound - 1) == index - 1
    assert bucket(10**6) == N_BUCKETS - 1


# One rate


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_steady_rate_is_found_and_kept(rate: float) -> None:
    errors = []
    for seed in range(10):
        share = seen(rate, 150, seed)
        rng = random.Random(100 + seed)
        for _ in range(350):
            share.observe(rng.random() < rate)
            errors.append(share.mean(0.5, 4.0) - rate)
    # 100 draws alone would scatter by sqrt(r(1 - r)/100), 0.05 at the most.
    assert math.sqrt(sum(error * error for error in errors) / len(errors)) < 0.05


def test_a_mean_counts_the_prior_as_so_many_observations() -> None:
    assert Share().mean(0.3, 4.0) == 0.3
    assert Share(6.0, 8.0).mean(0.5, 2.0) == pytest.approx(0.7)
    assert Share(6.0, 8.0).mean(0.5, 1e9) == pytest.approx(0.5, abs=1e-6)


def test_the_hope_is_standard_errors_above_the_mean_and_never_certain() -> None:
    share = Share(6.0, 8.0)
    hopes = [share.at_best(0.5, 2.0, 2.0, errors) for errors in (0.0, 1.0, 2.0)]
    assert hopes[0] == share.mean(0.5, 2.0) == pytest.approx(0.7)
    # The error of a rate of 0.7 in ten observations.
    assert hopes[1] - hopes[0] == pytest.approx(math.sqrt(0.7 * 0.3 / 10), rel=0.2)
    assert 1.0 > hopes[2] > hopes[1]
    assert Share(50.0, 50.0).at_best(0.9, 4.0, 4.0, 3.0) < 1.0
    few, many = Share(2.0, 4.0), Share(200.0, 400.0)
    assert few.at_best(0.5, 4.0, 4.0, 1.0) - 0.5 > 5 * (many.at_best(0.5, 4.0, 4.0, 1.0) - 0.5)


@pytest.mark.parametrize("before", [True, False])
def test_D16_a_jump_is_left_within_few_observations(before: bool) -> None:
    share = Share()
    assert not any(share.observe(before) for _ in range(200))
    jumps = [share.observe(not before) for _ in range(12)]
    assert any(jumps[:6])
    # An average over the last hundred would still be within 0.15 of the old rate.
    assert abs(share.mean(0.5, 4.0) - before) > 0.7


@pytest.mark.parametrize(("old", "new"), [(0.9, 0.1), (0.1, 0.9), (0.8, 0.3)])
def test_D16_a_noisy_jump_is_left_as_well(old: float, new: float) -> None:
    needed = []
    for seed in range(41):
        share, rng = seen(old, 200, seed), random.Random(1000 + seed)
        needed.append(0)
        while abs(share.mean(0.5, 4.0) - new) > abs(share.mean(0.5, 4.0) - old):
            share.observe(rng.random() < new)
            needed[-1] += 1
    assert median(needed) <= 12
    assert max(needed) <= 40


def test_what_is_faded_counts_less_at_the_same_rate() -> None:
    share = Share(30.0, 40.0)
    share.fade(0.1)
    assert [share.right, share.seen] == pytest.approx([3.0, 4.0])
    assert share.mean(0.25, 4.0) == pytest.approx(0.5)


# The rates of a source


def test_before_anything_was_seen_the_priors_hold() -> None:
    assert means(Record(PRIORS)) == PRIORS
    places = means(Record(None))
    assert places == [places[0]] * N_BUCKETS
    assert 0.0 < places[0] < 1.0


def test_a_place_in_a_draft_is_as_good_as_the_one_before_until_it_was_seen() -> None:
    record = fed(Record(None), 1, [True] * 300)
    first = record.mean(0)
    assert first > 0.95
    assert means(record) == [first] * N_BUCKETS
    fed(record, 3, [False] * 300)
    found = means(record)
    assert found[:2] == [first, first]
    assert found[2] < 0.05
    assert found[3:] == [found[2]] * (N_BUCKETS - 3)


def test_evidence_of_one_length_says_nothing_of_another() -> None:
    record = fed(Record(PRIORS), 4, [True] * 300)
    found = means(record)
    assert found[3] > 0.95
    assert found[:3] + found[4:] == PRIORS[:3] + PRIORS[4:]


@pytest.mark.parametrize("priors", [None, PRIORS])
def test_the_general_record_stands_in_for_a_kind_of_which_nothing_was_seen(priors: list[float] | None) -> None:
    general = Record(priors)
    fed(Record(priors, general), 1, [False] * 300)
    other = Record(priors, general)
    assert general.mean(0) < 0.05
    assert other.mean(0) == general.mean(0)
    # What was seen of the kind itself counts for more.
    fed(other, 1, [True] * 60)
    assert other.mean(0) > 0.85


def test_the_general_record_stands_in_at_every_length_of_match() -> None:
    general = Record(PRIORS)
    one = Record(PRIORS, general)
    for index in range(N_BUCKETS):
        fed(one, lower_bound(index), [index % 2 == 0] * 200)
    assert means(Record(PRIORS, general)) == means(general)
    assert [round(mean) for mean in means(general)] == [1 - index % 2 for index in range(N_BUCKETS)]


@pytest.mark.parametrize("priors", [None, [0.1] * N_BUCKETS], ids=["places", "matches"])
def test_D16_neighbours_follow_a_jump(priors: list[float] | None) -> None:
    record = Record(priors)
    for _ in range(200):
        for evidence in (1, 2, 3, 4):
            record.observe(evidence, True)
    before = means(record)
    assert min(before[:4]) > 0.95
    # Only one of them is tried from now on: the others are no longer believed in as they were.
    fed(record, 1, [False] * 12)
    after = means(record)
    assert after[0] < 0.3
    assert max(after[1:4]) < 0.75
    assert all(now.seen < 10.0 for now in record.shares[1:4])


def test_a_kind_hears_of_what_the_others_showed_since_it_was_last_asked() -> None:
    general = Record(PRIORS)
    one, other = Record(PRIORS, general), Record(PRIORS, general)
    assert other.mean(7) == PRIORS[7]
    fed(one, lower_bound(7), [False] * 300)
    assert other.mean(7) == general.mean(7) < 0.05


def test_what_is_faded_is_nearer_to_the_prior_but_not_forgotten() -> None:
    record = fed(Record(PRIORS), 6, [False] * 300)
    before, seen_before = record.mean(5), record.shares[5].seen
    record.fade(0.5, 4.0)
    assert record.shares[5].seen == pytest.approx(seen_before / 2)
    for _ in range(50):
        record.fade(0.5, 4.0)
    assert record.shares[5].seen == pytest.approx(4.0)
    assert before < record.mean(5) < PRIORS[5]
    assert [share.seen for share in record.shares[:5]] == [0.0] * 5


def test_the_hope_of_a_bucket_shrinks_as_it_is_seen() -> None:
    record = Record(PRIORS)
    unseen = record.at_best(4) - record.mean(4)
    fed(record, 5, [i % 2 == 0 for i in range(200)])
    assert 0.0 < record.at_best(4) - record.mean(4) < unseen / 2


# On file


@pytest.mark.parametrize("priors", [None, PRIORS])
def test_a_record_comes_back_from_a_file(priors: list[float] | None) -> None:
    record = Record(priors)
    rng = random.Random(5)
    for _ in range(500):
        record.observe(rng.randint(1, 40), rng.random() < 0.6)
    data = json.loads(json.dumps(record.dump()))
    twin = Record(priors)
    twin.restore(data)
    assert means(twin) == pytest.approx(means(record), abs=1e-3)
    assert twin.dump() == data


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [],
        [[1.0, 2.0]] * (N_BUCKETS - 1),
        [[1.0, 2.0]] * (N_BUCKETS + 1),
        [[1.0]] * N_BUCKETS,
        [[1.0, 2.0, 3.0]] * N_BUCKETS,
        [[3.0, 2.0]] * N_BUCKETS,
        [[-1.0, 2.0]] * N_BUCKETS,
        [[1.0, 1e9]] * N_BUCKETS,
        [[1.0, math.nan]] * N_BUCKETS,
        [[math.nan, 2.0]] * N_BUCKETS,
        [[1.0, math.inf]] * N_BUCKETS,
        [["a", "b"]] * N_BUCKETS,
        [[None, 2.0]] * N_BUCKETS,
        ["12"] * (N_BUCKETS - 1) + ["x"],
    ],
    ids=str,
)
def test_anything_else_is_refused_and_changes_nothing(data: object) -> None:
    record = fed(Record(PRIORS), 2, [True] * 50)
    before = means(record)
    with pytest.raises((ValueError, TypeError)):
        record.restore(data)  # type: ignore[arg-type]
    assert means(record) == before
