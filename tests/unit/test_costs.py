"""What passes and guesses take: measured sizes stand for themselves, a machine that changes is followed, noise is not."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from pardec_chat.backends.decoding.costs import Costs, Curve
from pardec_chat.tests.machines import MACHINES, Machine

#: Kernels change at 2, at 9 and at 16 rows, and 16 rows take less than 12 (two cores with stock kernels).
JAGGED = {1: 29.0, 2: 57.0, 3: 79.0, 8: 218.0, 9: 234.0, 12: 271.0, 16: 263.0, 24: 396.0, 32: 442.0}

#: What a file that holds something else may raise; whoever reads one starts anew then.
REFUSED = (ValueError, TypeError, KeyError, AttributeError)


def measured(curve: dict[int, float], times: int = 4) -> Curve:
    found = Curve()
    for _ in range(times):
        for size, ms in curve.items():
            found.observe(size, ms)
    return found


def exactly(ms: float) -> Any:
    return pytest.approx(ms, rel=1e-9)


# The shape


@pytest.mark.parametrize("times", [1, 2, 3, 4, 50])
def test_a_jagged_curve_is_kept_exactly(times: int) -> None:
    curve = measured(JAGGED, times)
    assert list(curve.sizes) == sorted(JAGGED)
    assert [curve.ms(size) for size in JAGGED] == exactly(list(JAGGED.values()))  # type: ignore[arg-type]
    assert [curve.count(size) for size in JAGGED] == [times] * len(JAGGED)
    assert curve.count(4) == 0


def test_between_two_measured_sizes_time_lies_on_their_line() -> None:
    curve = measured(JAGGED)
    assert curve.ms(4) == exactly(79.0 + (218.0 - 79.0) / 5)
    assert curve.ms(14) == exactly(267.0)  # down again, as measured
    assert curve.ms(28) == exactly(419.0)


def test_beyond_the_largest_measured_size_the_last_slope_goes_on() -> None:
    assert measured(JAGGED).ms(40) == exactly(442.0 + 8 * (442.0 - 396.0) / 8)
    # More rows take no less, whatever the last two say.
    assert measured({1: 10.0, 12: 50.0, 16: 40.0}).ms(32) == exactly(40.0)


def test_one_measured_size_makes_time_proportional() -> None:
    assert measured({1: 30.0}).ms(5) == exactly(150.0)
    assert measured({4: 30.0}).ms(8) == exactly(60.0)


def test_below_the_smallest_measured_size_half_is_paid_in_any_case() -> None:
    curve = measured({4: 40.0, 8: 60.0})
    assert [curve.ms(size) for size in (1, 2, 3)] == exactly([25.0, 30.0, 35.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_table_of_single_steps_is_the_curve_over_its_first_entry(machine: Machine) -> None:
    curve = measured(machine.pass_ms)
    table = curve.relative(40)
    assert table[0] == 0.0
    assert table[1] == exactly(1.0)
    wanted = [machine.ms(rows) / machine.ms(1) for rows in range(1, 41)]
    assert table[1:41] == pytest.approx(wanted, rel=1e-9)
    assert curve.relative(64)[64] == exactly(machine.ms(64) / machine.ms(1))


def test_a_table_follows_what_is_measured_after_it_was_drawn() -> None:
    curve = measured({1: 10.0, 4: 40.0})
    assert curve.relative(8)[2] == exactly(2.0)
    curve.observe(2, 12.0)
    assert curve.relative(8)[:5] == exactly([0.0, 1.0, 1.2, 2.6, 4.0])  # type: ignore[arg-type]


def test_a_size_hardly_known_may_take_as_little_as_the_next_smaller_one() -> None:
    curve = measured({1: 10.0, 4: 40.0})
    assert curve.least(8) == exactly(40.0)
    curve.observe(8, 200.0)  # the first time is the slowest
    assert curve.least(8) == exactly(40.0)
    curve.observe(8, 60.0)
    assert curve.least(8) == exactly(60.0)
    assert curve.least(4) == exactly(40.0)


# What changes


def test_the_first_slow_sample_is_forgotten() -> None:
    curve = measured({1: 10.0})
    curve.observe(2, 500.0)
    assert curve.ms(2) == exactly(500.0)
    curve.observe(2, 12.0)
    assert curve.ms(2) == exactly(12.0)


@pytest.mark.parametrize("size", [1, 4])
def test_D16_hiccups_hardly_move_it(size: int) -> None:
    steady = {1: 20.0, 4: 50.0, 8: 70.0}
    curve = measured(steady, 20)
    curve.observe(size, 5.0 * steady[size])
    assert [curve.ms(n) / ms for n, ms in steady.items()] == pytest.approx([1.0] * 3, abs=0.06)
    for _ in range(20):
        curve.observe(size, steady[size])
    assert [curve.ms(n) / ms for n, ms in steady.items()] == pytest.approx([1.0] * 3, abs=0.02)


def test_D16_a_hiccup_each_now_and_then_does_not_add_up() -> None:
    curve, rng = Curve(), random.Random(3)
    for i in range(600):
        size = rng.choice([1, 2, 4])
        curve.observe(size, 10.0 * size * rng.lognormvariate(0.0, 0.03) * (5.0 if i % 25 == 24 else 1.0))
    assert [curve.ms(size) / (10.0 * size) for size in (1, 2, 4)] == pytest.approx([1.0] * 3, abs=0.1)


@pytest.mark.parametrize("factor", [0.7, 1.5, 2.0])
def test_D16_a_machine_that_changes_its_speed_carries_sizes_along_that_are_not_in_use(factor: float) -> None:
    steady = {1: 20.0, 4: 50.0, 8: 70.0}
    curve = measured(steady, 60)
    for _ in range(60):
        curve.observe(4, factor * steady[4])
    assert curve.ms(4) == pytest.approx(factor * 50.0, rel=0.02)
    for size in (1, 8):
        # Most of the change is taken for the machine's, not for the one size's.
        assert math.log(curve.ms(size) / steady[size]) == pytest.approx(math.log(factor), rel=0.25)
    # When one of them is in use again, little is left to learn.
    for _ in range(20):
        curve.observe(1, factor * steady[1])
    assert curve.ms(1) == pytest.approx(factor * 20.0, rel=0.05)


def test_a_size_that_alone_became_slower_is_told_from_a_slow_machine() -> None:
    steady = {1: 20.0, 4: 50.0, 8: 70.0}
    curve = measured(steady, 10)
    for _ in range(300):
        for size, ms in steady.items():
            curve.observe(size, ms * (2.0 if size == 4 else 1.0))
    assert curve.ms(4) == pytest.approx(100.0, rel=0.05)
    assert curve.ms(1) == pytest.approx(20.0, rel=0.05)


def test_times_that_cannot_be_are_left_out() -> None:
    curve = measured({1: 10.0})
    for ms in (0.0, -1.0):
        curve.observe(1, ms)
        curve.observe(2, ms)
    assert (curve.ms(1), curve.count(1), list(curve.sizes)) == (exactly(10.0), 4, [1])


# Context length


def test_passes_are_kept_by_context_in_bands_of_a_factor_of_two() -> None:
    costs = Costs()
    for n_context in (0, 1024, 2048, 4096):
        costs.observe_pass(n_context, 1, 10.0)
    bands = [costs.passes(n) for n in (0, 1023, 1024, 2047, 2048, 4095, 4096)]
    assert [bands[i] is bands[i + 1] for i in range(6)] == [True, False, True, False, True, False]
    assert costs.passes(512) is bands[0]


def test_a_band_seen_for_the_first_time_begins_as_its_neighbour_is_and_is_quick_to_leave_it() -> None:
    costs = Costs()
    for size, ms in {1: 20.0, 4: 30.0}.items():
        for _ in range(50):
            costs.observe_pass(100, size, ms)
    assert [costs.passes(3000).ms(size) for size in (1, 4)] == exactly([20.0, 30.0])  # type: ignore[arg-type]
    for _ in range(12):
        costs.observe_pass(3000, 4, 60.0)
    longer = costs.passes(3000)
    assert longer.ms(4) == pytest.approx(60.0, rel=0.1)
    assert [costs.passes(100).ms(size) for size in (1, 4)] == exactly([20.0, 30.0])  # type: ignore[arg-type]
    assert costs.passes(9000).ms(4) == exactly(longer.ms(4)), "the nearest neighbour, not the first"


def test_a_band_that_was_only_asked_about_takes_what_its_neighbour_learned_since() -> None:
    costs = Costs()
    assert list(costs.passes(1).sizes) == []
    costs.observe_pass(2000, 1, 20.0)
    assert costs.passes(1).ms(1) == exactly(20.0)


# Guesses


def drafting() -> Costs:
    costs = Costs()
    for _ in range(4):
        for n in (1, 2, 4):
            costs.observe_draft("draft", n, n % 3, 3.0 + 2.0 * n)
    return costs


def test_the_time_of_a_draft_is_what_it_was_measured_to_be() -> None:
    costs = drafting()
    assert [costs.draft_ms("draft", n) for n in range(6)] == exactly([0.0, 5.0, 7.0, 9.0, 11.0, 13.0])  # type: ignore[arg-type]
    assert costs.draft_ms("ngram", 4) == 0.0, "nothing is known of it"


def test_D15_up_to_two_ids_behind_are_part_of_every_draft() -> None:
    costs = drafting()
    assert [costs.late_ms("draft", behind) for behind in (0, 1, 2)] == [0.0, 0.0, 0.0]
    assert costs.late_ms("draft", 3) > 0.0


def test_D15_catching_up_costs_what_was_measured_and_does_not_count_as_drafting() -> None:
    costs = drafting()
    costs.observe_draft("draft", 4, 100, 11.0 + 50.0)
    assert costs.reading["draft"] == exactly(0.5)
    assert costs.draft_ms("draft", 4) == exactly(11.0)
    assert costs.draft_ms("draft", 2) + costs.late_ms("draft", 40) == exactly(7.0 + 20.0)
    for _ in range(30):
        costs.observe_draft("draft", 1, 10, 5.0 + 2.0)
    assert costs.reading["draft"] == pytest.approx(0.2, rel=0.01)


def test_D15_before_any_catching_up_an_id_to_read_costs_as_much_as_a_guess() -> None:
    assert drafting().draft_ms("draft", 2) + drafting().late_ms("draft", 10) == exactly(7.0 + 10 * 5.0)


def test_a_draft_quicker_than_expected_counts_though_it_had_to_read_first() -> None:
    costs = Costs()
    costs.observe_draft("draft", 1, 0, 230.0)
    for _ in range(2):
        costs.observe_draft("draft", 1, 5, 50.0)
    assert costs.draft_ms("draft", 1) == exactly(50.0)
    assert costs.reading.get("draft", 0.0) == pytest.approx(0.0, abs=1e-9)


def test_reading_a_prompt_tells_what_reading_takes() -> None:
    costs = drafting()
    costs.observe_reading("draft", 40, 300.0)
    assert costs.late_ms("draft", 10) == exactly(75.0)


def test_D15_a_first_draft_that_reads_the_prompt_is_corrected_by_the_next() -> None:
    costs = Costs()
    costs.observe_draft("draft", 2, 500, 900.0)
    assert costs.draft_ms("draft", 2) == exactly(900.0)
    costs.observe_draft("draft", 2, 1, 7.0)
    assert costs.draft_ms("draft", 2) == exactly(7.0)


# On file


def learned() -> Costs:
    costs = drafting()
    costs.observe_draft("draft", 4, 100, 61.0)
    costs.observe_draft("ngram", 8, 0, 0.01)
    for context in (100, 3000):
        for size, ms in JAGGED.items():
            for _ in range(5):
                costs.observe_pass(context, size, ms * (1 + context / 1e4))
    return costs


def test_costs_come_back_from_a_file() -> None:
    costs = learned()
    data = json.loads(json.dumps(costs.dump()))
    twin = Costs.load(data)
    assert twin.dump() == data
    for context in (100, 3000):
        found, wanted = twin.passes(context), costs.passes(context)
        assert list(found.sizes) == list(wanted.sizes)
        assert [found.ms(n) for n in range(1, 41)] == pytest.approx([wanted.ms(n) for n in range(1, 41)], rel=1e-4)
        assert [found.count(n) for n in JAGGED] == [wanted.count(n) for n in JAGGED]
    assert [twin.draft_ms("draft", n) + twin.late_ms("draft", 30) for n in range(5)] == pytest.approx(
        [costs.draft_ms("draft", n) + costs.late_ms("draft", 30) for n in range(5)], rel=1e-4
    )
    assert twin.draft_ms("ngram", 8) == exactly(0.01)


def test_what_was_only_asked_about_is_not_written() -> None:
    costs = Costs()
    costs.passes(100)
    assert costs.dump() == {"passes": {}, "drafting": {}, "reading": {}}
    assert Costs.load(costs.dump()).dump() == costs.dump()


@pytest.mark.parametrize(
    "curve",
    [
        None,
        7,
        {"x": [10.0, 3]},
        {"0": [10.0, 3]},
        {"-1": [10.0, 3]},
        {"1": [0.0, 3]},
        {"1": [-5.0, 3]},
        {"1": [math.nan, 3]},
        {"1": [math.inf, 3]},
        {"1": [10.0, 0]},
        {"1": [10.0, math.nan]},
        {"1": [10.0, math.inf]},
        {"1": [10.0]},
        {"1": 10.0},
        {"1": ["10", 3]},
        {"1": None},
        [[1, 10.0]],
        "curve",
    ],
    ids=str,
)
def test_a_curve_that_is_none_is_refused(curve: Any) -> None:
    data = learned().dump()
    for place in ("passes", "drafting"):
        with pytest.raises(REFUSED):
            Costs.load({**data, place: {"1": curve}})


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"passes": {}},
        {"passes": {"x": {}}, "drafting": {}, "reading": {}},
        {"passes": [], "drafting": {}, "reading": {}},
        {"passes": {}, "drafting": 3, "reading": {}},
        {"passes": {}, "drafting": {}, "reading": {"draft": "slow"}},
        {"passes": {}, "drafting": {}, "reading": {"draft": math.nan}},
        {"passes": {}, "drafting": {}, "reading": {"draft": math.inf}},
        {"passes": {}, "drafting": {}, "reading": {"draft": -1.0}},
    ],
    ids=str,
)
def test_a_file_that_is_none_is_refused(data: Any) -> None:
    with pytest.raises(REFUSED):
        Costs.load(data)
