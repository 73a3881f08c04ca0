"""Measuring directly: every row count, on a clock that the target moves, in a slot that is given back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pytest

from pardec_chat.backends.decoding.calibration import ROWS, calibrate
from pardec_chat.backends.decoding.costs import Costs
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.tests.fakes import ScriptedTarget
from pardec_chat.tests.machines import CPU, Clock
from pardec_chat.tests.rows import noise

SIZE = 20
Kind = Literal["prefill", "verify", "propose", "replay"]


class Timed(ScriptedTarget):
    """Its passes take their time on a clock, by kind and rows."""

    def __init__(self, clock: Clock, ms: Callable[[str, int], float], n_ctx: int = 512, rewind: str = "trim") -> None:
        pieces = [b"%d" % i for i in range(SIZE)]
        super().__init__(noise(SIZE, 0), pieces, {3}, n_ctx, rewind=rewind)  # type: ignore[arg-type]
        self._clock, self._ms = clock, ms

    def note(self, kind: Kind, tokens: Sequence[int]) -> None:
        """Time passes."""
        super().note(kind, tokens)
        self._clock.now += self._ms(kind, len(tokens)) / 1e3


@dataclass
class Progress:
    """Notes what it is told, and says no from the `ends`-th time on."""

    ends: int | None = None
    told: list[float] = field(default_factory=list)

    def __call__(self, done: float) -> bool:
        self.told.append(done)
        return self.ends is None or len(self.told) < self.ends


def cpu(kind: str, rows: int) -> float:
    return CPU.ms(rows) if kind == "verify" else 70.0 if kind in ("prefill", "replay") else 7.0


@pytest.mark.parametrize("rewind", ["trim", "snapshot"])
def test_every_row_count_is_measured_and_nothing_else_counts(rewind: str) -> None:
    clock, costs = Clock(), Costs()
    # Reading the filler again, where the memory cannot be trimmed, is no part of a pass that accepts nothing.
    target = Timed(clock, lambda kind, rows: 0.0 if kind == "replay" else cpu(kind, rows), rewind=rewind)
    calibrate(target, None, costs, seconds=1e6, progress=Progress(), clock=clock)
    curve = costs.passes(256)
    assert tuple(curve.sizes) == ROWS
    assert [curve.ms(rows) for rows in ROWS] == pytest.approx([CPU.ms(rows) for rows in ROWS])
    assert len({curve.count(rows) for rows in ROWS}) == 1
    assert costs.drafting == {}


def test_the_first_pass_behind_another_size_is_not_the_one_that_counts() -> None:
    clock, costs = Clock(), Costs()
    last = 0

    def ms(kind: str, rows: int) -> float:
        nonlocal last
        switched, last = rows != last, rows
        return CPU.ms(rows) * (3.0 if switched else 1.0)

    calibrate(Timed(clock, ms), None, costs, seconds=1e6, progress=Progress(), clock=clock)
    assert [costs.passes(256).ms(rows) for rows in ROWS] == pytest.approx([CPU.ms(rows) for rows in ROWS])


def test_D14_guesses_of_the_draft_model_are_measured_beside_it() -> None:
    clock, costs = Clock(), Costs()
    target, draft = Timed(clock, cpu), Timed(clock, cpu)
    drafter = DraftModel(draft)
    calibrate(target, drafter, costs, seconds=1e6, progress=Progress(), clock=clock)
    curve = costs.drafting["draft"]
    assert {1, 2, 4} <= set(curve.sizes)
    assert [curve.ms(n) for n in curve.sizes] == pytest.approx([7.0 * n for n in curve.sizes])
    assert tuple(costs.passes(256).sizes) == ROWS
    drafter.close()
    assert draft.live == set()


def test_every_size_comes_up_once_however_little_time_there_is() -> None:
    clock, costs, progress = Clock(), Costs(), Progress()
    calibrate(Timed(clock, cpu), None, costs, seconds=1e-3, progress=progress, clock=clock)
    assert tuple(costs.passes(256).sizes) == ROWS
    assert len(progress.told) == len(ROWS) + 1, "the first one after the time is over is the last"


def test_it_takes_no_longer_than_it_was_given() -> None:
    clock, costs = Clock(), Costs()
    calibrate(Timed(clock, cpu), None, costs, seconds=30.0, progress=Progress(), clock=clock)
    assert 30.0 < clock.now < 31.0
    rounds = {costs.passes(256).count(rows) for rows in ROWS}
    assert max(rounds) - min(rounds) == 1


def test_progress_goes_from_0_to_1_and_never_back() -> None:
    for seconds in (1e-3, 30.0, 1e6):
        clock, progress = Clock(), Progress()
        calibrate(Timed(clock, cpu), None, Costs(), seconds=seconds, progress=progress, clock=clock)
        assert progress.told == sorted(progress.told)
        assert progress.told[0] > 0.0
        assert progress.told[-1] == 1.0


@pytest.mark.parametrize("ends", [1, 5, len(ROWS) + 3])
def test_it_ends_early_when_progress_says_so_and_keeps_what_was_measured(ends: int) -> None:
    clock, costs = Clock(), Costs()
    target = Timed(clock, cpu)
    calibrate(target, None, costs, seconds=1e6, progress=Progress(ends), clock=clock)
    curve = costs.passes(256)
    assert sum(curve.count(rows) for rows in ROWS) == ends
    assert tuple(curve.sizes) == ROWS[:ends]
    assert curve.ms(1) == pytest.approx(CPU.ms(1))
    assert target.live == set()


def test_the_slot_is_given_back_whatever_happens() -> None:
    clock = Clock()
    target = Timed(clock, cpu)
    calibrate(target, None, Costs(), seconds=1e-3, progress=Progress(), clock=clock)
    assert target.live == set()
    target.failures.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        calibrate(target, None, Costs(), seconds=1e-3, progress=Progress(), clock=clock)
    assert target.live == set()


def test_K01_a_memory_that_cannot_be_rewound_is_measured_in_single_steps() -> None:
    clock, costs, progress = Clock(), Costs(), Progress()
    target = Timed(clock, cpu, rewind="none")
    calibrate(target, None, costs, seconds=1e6, progress=progress, clock=clock)
    assert list(costs.passes(256).sizes) == [1]
    assert costs.passes(256).ms(1) == pytest.approx(CPU.ms(1))
    assert target.live == set()
    assert progress.told[-1] == 1.0


@pytest.mark.parametrize("n_ctx", [34, 289, 290, 512])
def test_K07_a_small_context_is_not_left(n_ctx: int) -> None:
    clock, costs = Clock(), Costs()
    calibrate(Timed(clock, cpu, n_ctx), None, costs, seconds=1e-3, progress=Progress(), clock=clock)
    assert tuple(costs.passes(256).sizes) == ROWS
    assert costs.passes(256).ms(1) == pytest.approx(CPU.ms(1))
