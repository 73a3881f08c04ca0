"""The controller on simulated machines: hardware that is not here, on a clock of its own.

Speeds are those to expect of the depths it chose: the luck of single draws is no merit and no fault of a choice.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from statistics import mean

import pytest

from pardec_chat.backends.base import Draft, Method
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.knowledge import Knowledge
from pardec_chat.tests.machines import CPU, FLAT, MACHINES, STEPS, SWITCH, Machine, Run, simulate

SEEDS = range(4)
#: Steps in which it may find out.
FIRST = 64
by_name = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def steady(rate: float, position: int) -> float:
    """The same chance everywhere."""
    return rate


def parts(run: Run, machine: Machine, rates: tuple[float, ...], length: int) -> list[float]:
    """Of each part of the text with a rate of its own: speed behind its first steps over that of the best fixed depth."""

    def acceptance(position: int) -> float:
        return rates[min(len(rates) - 1, position // length)]

    shares = []
    for i, rate in enumerate(rates):
        first = bisect_left(run.positions, i * length) + FIRST
        last = bisect_left(run.positions, (i + 1) * length)
        shares.append(run.expected(machine, acceptance, first, last) / machine.best_fixed(rate)[0])
    return shares


@by_name
@pytest.mark.parametrize("rate", [0.2, 0.4, 0.6, 0.8, 0.95])
def test_D16_it_finds_the_best_depth_and_is_never_slower_than_plain(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, rate: float
) -> None:
    shares, worst = [], []
    for seed in SEEDS:
        run = simulate(monkeypatch, machine, lambda position: rate, 2000, seed=seed)
        shares += parts(run, machine, (rate,), 2000)
        worst.append(run.worst(machine, lambda position: rate))
    assert mean(shares) > 0.95, shares
    assert min(shares) > 0.9, shares
    assert mean(worst) > 0.97, worst
    assert min(worst) > 0.95, worst


@by_name
@pytest.mark.parametrize("rates", [(0.9, 0.2), (0.2, 0.9), (0.95, 0.3, 0.95), (0.6, 0.9, 0.4)], ids=str)
def test_D16_it_follows_sudden_changes(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, rates: tuple[float, ...]
) -> None:
    length = 1200
    shares, worst = [], []
    for seed in SEEDS:
        run = simulate(
            monkeypatch, machine, lambda position: rates[min(len(rates) - 1, position // length)],
            length * len(rates), seed=seed,
        )  # fmt: skip
        shares += parts(run, machine, rates, length)
        worst.append(run.worst(machine, lambda position: rates[min(len(rates) - 1, position // length)]))
    assert mean(shares) > 0.95, shares
    assert mean(worst) > 0.965, worst
    assert min(worst) > 0.94, worst


@by_name
@pytest.mark.parametrize("conversations", [1, 2, 4, 8, 16, 32])
def test_several_conversations_never_lose_by_it(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, conversations: int
) -> None:
    speedups = {}
    for rate in (0.3, 0.9):
        run = simulate(monkeypatch, machine, partial(steady, rate), 300, conversations=conversations, seed=1)
        plain = conversations / machine.ms(conversations)
        speedups[rate] = len(run.token_ms) / run.token_ms[-1] / plain
    # What trying costs is in it: 2 % at most.
    assert min(speedups.values()) > 0.975, speedups
    if conversations == 1 and machine is not CPU:
        assert speedups[0.9] > 2.0, speedups


def test_speculation_fades_as_more_conversations_share_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    depths = []
    for conversations in (1, 4, 16):
        run = simulate(monkeypatch, FLAT, lambda position: 0.9, 300, conversations=conversations, seed=1)
        depths.append(mean(run.depths[len(run.depths) // 2 :]))
    assert depths[0] > 6 > depths[1] > 2.5 > depths[2], depths


def test_trying_takes_two_percent_at_most_where_nothing_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in (0.2, 0.9):
        run = simulate(monkeypatch, CPU, partial(steady, rate), 3000, seed=3)
        assert run.expected(CPU, partial(steady, rate), 0, len(run.depths)) * CPU.ms(1) > 0.98


def test_what_is_known_from_before_is_used_from_the_second_step_on(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = Controller()
    simulate(monkeypatch, STEPS, lambda position: 0.9, 2000, controller=learned)
    known = Controller(Knowledge.load(learned.knowledge.dump()))
    run = simulate(monkeypatch, STEPS, lambda position: 0.9, 600, controller=known, seed=5)
    best = STEPS.best_fixed(0.9)[0]
    assert run.expected(STEPS, lambda position: 0.9, 0, FIRST) / best > 0.95


def test_a_machine_that_slows_down_changes_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Machine("slow", {rows: 3 * ms for rows, ms in SWITCH.pass_ms.items()}, 3 * SWITCH.draft_ms, "three times")
    controller = Controller()
    simulate(monkeypatch, SWITCH, lambda position: 0.8, 2000, controller=controller)
    run = simulate(monkeypatch, slow, lambda position: 0.8, 1500, controller=controller, seed=2)
    assert run.expected(slow, lambda position: 0.8, FIRST, len(run.depths)) / slow.best_fixed(0.8)[0] > 0.95


def test_D14_every_step_has_a_choice_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Method, bool]] = []

    class Watched(Controller):
        def learn(self, live, drafts: list[Draft], *rest) -> None:  # type: ignore[no-untyped-def,override]
            choice = live[0].choice
            if self.knowledge.costs.passes(1).sizes:
                seen.append((choice.taken.method, choice.rejected is not None))
                assert (choice.taken.method == Method.DRAFT) == (len(drafts[0]) > 0)
            super().learn(live, drafts, *rest)

    simulate(monkeypatch, STEPS, lambda position: 0.9 if position < 300 else 0.1, 800, controller=Watched())
    assert {method for method, _ in seen} == {Method.DRAFT, Method.PLAIN}
    assert all(rejected for method, rejected in seen[-50:] if method == Method.PLAIN), "what was not chosen is known"
