"""Raw counters and the rates made of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.stats import Stats


def counted(*steps: tuple[int, int, int]) -> Stats:
    stats = Stats(draft_kind=Method.DRAFT)
    for n_drafted, n_accepted, n_emitted in steps:
        stats.count(n_drafted, n_accepted, n_emitted, draft_ms=2.0, verify_ms=3.0)
    return stats


def test_M01_counts_by_hand() -> None:
    # All four accepted and one of the target's own; one of three; none of two; a step without a draft.
    stats = counted((4, 4, 5), (3, 1, 2), (2, 0, 1), (0, 0, 1))
    assert (stats.steps, stats.draft_rounds, stats.draft_n, stats.draft_n_accepted, stats.predicted_n) == (
        4,
        3,
        9,
        5,
        9,
    )
    assert stats.accepted_at == [2, 1, 1, 1]
    assert stats.depths == [1, 2, 3, 4, 0, 1, 0, 0, 0]
    assert stats.acceptance_rate == 5 / 9
    assert stats.tokens_per_step == 9 / 4
    assert stats.accepted_per_position == [0.5, 0.25, 0.25, 0.25]
    assert (stats.draft_ms, stats.predicted_ms) == (8.0, 20.0)
    assert stats.tokens_per_second == 9 / 0.020


def test_M01_nothing_divides_by_zero() -> None:
    stats = Stats()
    assert (stats.acceptance_rate, stats.tokens_per_step, stats.tokens_per_second) == (None, None, None)
    assert stats.accepted_per_position == []
    assert counted((0, 0, 1)).acceptance_rate is None
    assert counted((3, 0, 1)).acceptance_rate == 0.0
    json.dumps(stats.timings())


def test_M01_a_block_that_ends_in_an_accepted_end_token() -> None:
    # Drafted five, the third is the end token: three kept, none of the target's own.
    stats = counted((5, 3, 3))
    assert (stats.predicted_n, stats.draft_n_accepted, stats.draft_n, stats.tokens_per_step) == (3, 3, 5, 3.0)


@pytest.mark.parametrize("kept", range(10))
def test_M01_a_cut_counts_only_what_was_kept(kept: int) -> None:
    stats = counted((4, 4, 5), (3, 1, 2), (2, 0, 1), (0, 0, 1))
    stats.cut(kept)
    origins = [1, 2, 3, 4, 0, 1, 0, 0, 0][:kept]
    assert stats.depths == origins
    assert stats.predicted_n == kept
    assert stats.draft_n_accepted == sum(depth > 0 for depth in origins)
    assert stats.accepted_at == [origins.count(place) for place in (1, 2, 3, 4)]
    assert (stats.draft_n, stats.steps) == (9, 4)  # work that was done stays counted
    stats.cut(kept)
    assert stats.depths == origins


def test_M01_accepted_never_exceeds_drafted() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        stats = Stats()
        emitted = own = 0
        for _ in range(int(rng.integers(1, 30))):
            n_drafted = int(rng.integers(0, 9))
            n_accepted = int(rng.integers(0, n_drafted + 1))
            bonus = int(n_accepted == 0 or rng.random() < 0.8)
            stats.count(n_drafted, n_accepted, n_accepted + bonus, 1.0, 1.0)
            emitted, own = emitted + n_accepted + bonus, own + bonus
            assert stats.predicted_n == emitted == stats.draft_n_accepted + own
        stats.cut(int(rng.integers(0, emitted + 1)))
        assert 0 <= stats.draft_n_accepted <= stats.draft_n
        assert stats.draft_n_accepted <= stats.predicted_n
        assert all(0 <= rate <= 1 for rate in stats.accepted_per_position)
        assert stats.accepted_per_position == sorted(stats.accepted_per_position, reverse=True)


def test_M03_prompt_time_is_no_part_of_the_speed() -> None:
    stats = counted(*[(0, 0, 1)] * 100)
    before = stats.tokens_per_second
    stats.prompt_ms, stats.prompt_n, stats.ttft_ms, stats.total_ms = 3000.0, 500, 3005.0, 3500.0
    assert stats.tokens_per_second == before == 200.0


def test_timings_have_the_names_of_llama_cpp() -> None:
    stats = counted((4, 2, 3), (0, 0, 1))
    stats.prompt_n, stats.cache_n, stats.prompt_ms = 7, 5, 12.345678
    assert stats.timings() == {
        "prompt_n": 7,
        "prompt_ms": 12.3457,
        "predicted_n": 4,
        "predicted_ms": 10.0,
        "predicted_per_second": 400.0,
        "draft_n": 4,
        "draft_n_accepted": 2,
        "cache_n": 5,
        "draft_kind": "draft",
        "draft_rounds": 1,
        "draft_ms": 4.0,
        "steps": 2,
        "acceptance_rate": 0.5,
        "tokens_per_step": 2.0,
        "accepted_per_position": [0.5, 0.5],
        "ttft_ms": 0.0,
        "total_ms": 0.0,
    }


def test_M03_plain_decoding_is_compared_at_the_speed_that_it_had_at_each_moment() -> None:
    stats = Stats()
    stats.count(3, 3, 4, 0.0, 20.0)
    stats.compare(4, 10.0)
    stats.count(0, 0, 1, 0.0, 30.0)  # the machine has become slower
    stats.compare(1, 30.0)
    assert stats.plain_per_second == pytest.approx(5 / 70 * 1e3)
    assert stats.tokens_per_second == pytest.approx(5 / 50 * 1e3)
    stats.cut(2)
    assert stats.plain_per_second == pytest.approx(5 / 70 * 1e3), "of a token, whatever was cut"
