"""Simulated machines: a target whose forward passes take their time from a table, on a clock of their own.

They stand in for hardware that is not here. Each curve names where it comes from.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

from pardec_chat.backends.base import (
    NO_DRAFT,
    Capabilities,
    Draft,
    Drafter,
    GoOn,
    Method,
    Outcome,
    Prefill,
    Slot,
    Target,
    Verdict,
)
from pardec_chat.backends.decoding import loop
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Machine:
    """pass_ms: by rows, linear between the entries and beyond the last two. draft_ms: of one guess of the draft model.

    source: where the figures come from.
    """

    name: str
    pass_ms: dict[int, float]
    draft_ms: float
    source: str

    def ms(self, rows: int) -> float:
        """Time of one forward pass."""
        sizes = sorted(self.pass_ms)
        high = next((size for size in sizes if size >= rows), sizes[-1])
        low = max((size for size in sizes if size < high), default=high)
        if rows in self.pass_ms or low == high:
            return self.pass_ms.get(rows, self.pass_ms[high])
        slope = (self.pass_ms[high] - self.pass_ms[low]) / (high - low)
        return self.pass_ms[low] + slope * (rows - low)

    def best_fixed(self, acceptance: float, deepest: int = 16) -> tuple[float, int]:
        """Tokens a millisecond of the best fixed depth for guesses that are right with `acceptance` each, and that depth."""
        rates = []
        for n in range(deepest + 1):
            tokens = sum(acceptance**k for k in range(n + 1))
            rates.append(tokens / (self.ms(n + 1) + n * self.draft_ms))
        return max(rates), rates.index(max(rates))


#: A large GPU: weights are read once a pass, whatever the rows; slope and draft cost of records' table for v = 0.03, c = 0.05.
FLAT = Machine(
    "flat, like an RTX 4090",
    {1: 20.0, 2: 20.6, 16: 29.0, 33: 39.2, 64: 60.0, 512: 400.0},
    1.0,
    "Leviathan et al. 2023 with a verify slope of 0.03 a row; published cycles of 1.05 (n-gram) to 1.3 (68M draft)",
)
#: Rows are padded to 8 and to 16 (mlx-vlm's README), a cycle of 8 rows costs about 1.5 steps (ReDrafter on M1 Max, M2 Ultra).
STEPS = Machine(
    "steps at 8 and 16, like an M4 Max",
    {1: 30.0, 2: 42.0, 8: 44.0, 9: 62.0, 16: 65.0, 17: 95.0, 32: 105.0, 33: 150.0, 64: 210.0, 512: 1600.0},
    3.5,
    "mlx-vlm README (8 verify rows fill a threadgroup, 9 pad to 16); apple/ml-recurrent-drafter's cycle of 1.5 to 1.7",
)
#: llama.cpp on CUDA before and after its kernel switch at nine rows (a 34B model in Q8_0).
SWITCH = Machine(
    "a kernel switch at 9 rows, like llama.cpp on CUDA",
    {1: 28.8, 2: 30.9, 4: 36.9, 5: 37.0, 6: 44.5, 8: 49.7, 9: 112.0, 16: 118.0, 33: 140.0, 512: 1200.0},
    2.0,
    "llama.cpp PR #5625",
)
#: Two AVX-512 cores with stock kernels: Qwen2.5-Coder 1.5B with its 0.5B draft.
CPU = Machine(
    "two cores with stock kernels",
    {
        1: 29,
        2: 57,
        3: 79,
        4: 98,
        5: 122,
        6: 143,
        8: 218,
        10: 250,
        12: 271,
        16: 263,
        24: 396,
        32: 442,
        64: 880,
        512: 7000,
    },
    19.0,
    "measured with llama.cpp 0.3.36, Q4_K_M",
)
MACHINES = (FLAT, STEPS, SWITCH, CPU)


@dataclass(slots=True)
class Clock:
    """Seconds that pass only when something is said to take time."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class SimulatedSlot(Slot):
    """Holds ids and no cache."""

    def __init__(self, n_ctx: int) -> None:
        self.n_ctx = n_ctx
        self.ids = [0]

    @property
    def tokens(self) -> Sequence[int]:
        """See `Slot`."""
        return self.ids

    def prefill(self, ids: Sequence[int], should_stop: Callable[[], bool]) -> Prefill:
        """See `Slot`."""
        self.ids = list(ids)
        return Prefill(0, len(ids), complete=True)

    def rewind(self, length: int) -> None:
        """See `Slot`."""
        del self.ids[length:]

    def fork(self) -> NoReturn:
        """Not needed."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to give back."""


class SimulatedTarget(Target):
    """What comes next is the position's own number; a pass takes the machine's time, a little more or less."""

    path = Path("simulated.gguf")
    chat_template = None
    name = "simulated"

    def __init__(self, machine: Machine, clock: Clock, noise: float = 0.03, seed: int = 0) -> None:
        self.machine, self.clock, self.noise = machine, clock, noise
        self.capabilities = Capabilities("trim", tree=False, max_slots=64, n_ctx=1 << 30)
        self._rng = random.Random(seed)

    def open(self) -> SimulatedSlot:
        """See `Target`."""
        return SimulatedSlot(self.capabilities.n_ctx)

    def spend(self, ms: float) -> None:
        """Time passes."""
        self.clock.now += ms * self._rng.lognormvariate(0.0, self.noise) / 1e3

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self.spend(self.machine.ms(sum(1 + len(draft) for _, draft, _ in items)))
        verdicts = []
        for slot, draft, _ in items:
            assert isinstance(slot, SimulatedSlot)
            at = len(slot.ids)
            n = next((i for i, token in enumerate(draft.tokens) if token != at + i), len(draft))
            tokens = list(range(at, at + n + 1))
            slot.ids += tokens
            verdicts.append(Verdict(tokens, range(n)))
        return verdicts

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> NoReturn:
        """Not needed: the drafters here know the truth."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to free."""


class SimulatedDraftModel(Drafter):
    """Right with the chance that `acceptance` gives for a position of the text; each guess takes the machine's time."""

    method = Method.DRAFT

    def __init__(self, target: SimulatedTarget, acceptance: Callable[[int], float], seed: int = 0) -> None:
        self._target, self._acceptance = target, acceptance
        self._rng = random.Random(seed)
        self._slot: Slot | None = None
        self._drafted = NO_DRAFT
        self._outcomes: list[Outcome] = []

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`."""
        self._slot = slot

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`. The confidence says nothing: it is the same for all guesses."""
        assert self._slot is not None
        at = len(self._slot.tokens)
        tokens: list[int] = []
        while len(tokens) < n_max:
            right = self._rng.random() < self._acceptance(at + len(tokens))
            tokens.append(at + len(tokens) if right else -1)
            if go_on is not None and not go_on(len(tokens), 0.5):
                break
        self._target.spend(len(tokens) * self._target.machine.draft_ms)
        self._drafted = Draft.chain(tokens, self.method, confidence=[0.5] * len(tokens))
        return self._drafted

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`."""
        n, drafted = verdict.n_accepted, len(self._drafted)
        self._outcomes = [Outcome(i + 1, i < n, 0.5) for i in range(min(drafted, n + 1))]
        self._drafted = NO_DRAFT

    def outcomes(self) -> Sequence[Outcome]:
        """See `Drafter`."""
        return self._outcomes


@dataclass(slots=True)
class Run:
    """Milliseconds at which each token of all conversations together was there, and for each
    step of the first one where it began and what it drafted."""

    token_ms: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def expected(self, machine: Machine, acceptance: Callable[[int], float], first: int, last: int) -> float:
        """Tokens a millisecond to expect of the depths chosen in steps `first` to `last`, without the luck of the draw."""
        steps = self._steps(machine, acceptance)[first:last]
        return sum(tokens for tokens, _ in steps) / sum(ms for _, ms in steps)

    def worst(self, machine: Machine, acceptance: Callable[[int], float], window: float = 256.0) -> float:
        """Lowest speed to expect of any `window` tokens in a row, over that of plain decoding."""
        steps = self._steps(machine, acceptance)
        worst, first, tokens, ms = 1.0, 0, 0.0, 0.0
        for more_tokens, more_ms in steps:
            tokens, ms = tokens + more_tokens, ms + more_ms
            while tokens - steps[first][0] >= window:
                tokens, ms, first = tokens - steps[first][0], ms - steps[first][1], first + 1
            if tokens >= window:
                worst = min(worst, tokens / ms * machine.ms(1))
        return worst

    def _steps(self, machine: Machine, acceptance: Callable[[int], float]) -> list[tuple[float, float]]:
        steps = []
        for position, depth in zip(self.positions, self.depths, strict=True):
            rate = acceptance(position)
            ms = machine.ms(depth + 1) + depth * machine.draft_ms
            steps.append((sum(rate**k for k in range(depth + 1)), ms))
        return steps


def simulate(
    monkeypatch: pytest.MonkeyPatch,
    machine: Machine,
    acceptance: Callable[[int], float],
    n_tokens: int,
    *,
    conversations: int = 1,
    controller: Controller | None = None,
    seed: int = 0,
    noise: float = 0.03,
) -> Run:
    """Decode `n_tokens` in each of some conversations with the real loop and the real controller."""
    clock = Clock()
    monkeypatch.setattr(loop, "perf_counter", clock)
    target = SimulatedTarget(machine, clock, noise, seed)
    live = []
    for i in range(conversations):
        slot = target.open()
        sampler = Sampler(SamplingParams(temperature=0.0), [0])
        drafter = SimulatedDraftModel(target, acceptance, seed * 100 + i)
        drafter.begin(slot, sampler, lambda: False)
        live.append(Generation(slot, sampler, [drafter], None, n_tokens))
    controller = controller or Controller()
    run = Run()
    first = live[0]
    while all(generation.finish_reason is None for generation in live):
        run.positions.append(len(first.slot.tokens))
        steps = loop.step(target, live, controller)
        now = clock.now * 1e3
        for step in steps:
            run.token_ms += [now] * len(step.tokens)
        run.depths.append(len(steps[0].proposed))
    return run
