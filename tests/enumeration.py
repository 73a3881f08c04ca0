"""Exact laws instead of samples: everything random is replayed until each outcome was seen once, with its probability."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.kernels.sampling.reference import Distribution

T = TypeVar("T", bound=Hashable)


class Tape:
    """A `Chance` whose outcomes are written down; rewound, it gives the same ones up to the last, which then is the next."""

    def __init__(self) -> None:
        # For each choice made: the outcomes still to come, the first of them the present one.
        self._choices: list[list[tuple[int, float]]] = []
        self._at = 0

    def coin(self, probability: float) -> bool:
        """See `Chance`."""
        assert 0.0 <= probability <= 1.0
        return self._choose([(1, probability), (0, 1.0 - probability)]) == 1

    def pick(self, distribution: Distribution) -> int:
        """See `Chance`."""
        ids = range(len(distribution.weights)) if distribution.ids is None else distribution.ids.tolist()
        return self._choose(zip(ids, distribution.weights.tolist(), strict=True))

    def _choose(self, outcomes: Iterable[tuple[int, float]]) -> int:
        if self._at == len(self._choices):
            self._choices.append([outcome for outcome in outcomes if outcome[1] > 0.0])
        self._at += 1
        return self._choices[self._at - 1][0][0]

    @property
    def probability(self) -> float:
        """Of all that came out in this run."""
        assert self._at == len(self._choices), "a run that depends on more than the tape"
        return float(np.prod([choice[0][1] for choice in self._choices]))

    def advance(self) -> bool:
        """Rewind to the next run; False when there is none."""
        self._at = 0
        while self._choices:
            self._choices[-1].pop(0)
            if self._choices[-1]:
                return True
            self._choices.pop()
        return False


class TapedSampler(Sampler):
    """The sampler in use, drawing from a tape; so does its twin for the draft model."""

    def __init__(
        self, tape: Tape, params: SamplingParams, prompt: Iterable[int], *, ends: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(params, prompt, ends=ends)
        self.tape = tape

    def coin(self, probability: float) -> bool:
        """See `Chance`."""
        return self.tape.coin(probability)

    def pick(self, distribution: Distribution) -> int:
        """See `Chance`."""
        return self.tape.pick(distribution)

    def for_draft(self, banned: Iterable[int]) -> Sampler:
        """See `Sampler`."""
        twin = TapedSampler.__new__(TapedSampler)
        vars(twin).update(vars(super().for_draft(banned)), tape=self.tape)
        return twin


def law(run: Callable[[Tape], T]) -> dict[T, float]:
    """Outcome → probability of everything that `run` can give."""
    tape = Tape()
    result: dict[T, float] = {}
    while True:
        outcome = run(tape)
        result[outcome] = result.get(outcome, 0.0) + tape.probability
        if not tape.advance():
            return result


def distance(a: Mapping[T, float], b: Mapping[T, float]) -> float:
    """Total variation: the largest difference in probability of any event; both must be whole."""
    assert abs(sum(a.values()) - 1.0) < 1e-9
    assert abs(sum(b.values()) - 1.0) < 1e-9
    return 0.5 * sum(abs(a.get(outcome, 0.0) - b.get(outcome, 0.0)) for outcome in {*a, *b})


def continued(
    law_of_heads: Mapping[tuple[int, ...], float],
    following: Callable[[tuple[int, ...]], Sequence[float]],
    n: int,
) -> dict[tuple[int, ...], float]:
    """The law of the first `n` tokens, when each head is cut to them or goes on as `following` says."""
    result: dict[tuple[int, ...], float] = {}
    waiting = list(law_of_heads.items())
    while waiting:
        head, probability = waiting.pop()
        if len(head) >= n:
            result[head[:n]] = result.get(head[:n], 0.0) + probability
        else:
            waiting.extend(((*head, token), probability * p) for token, p in enumerate(following(head)) if p > 0.0)
    return result
