"""The sampler of one answer: its settings, what the penalties remember, its stream of random numbers."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable

import numpy as np

from pardec_chat.backends.decoding.constraint import Constraint, NothingAllowed, masked
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.kernels.sampling import reference
from pardec_chat.kernels.sampling.reference import Distribution, Logits, Seen

#: Above this temperature drafts are drawn and checked by rejection, below it chosen and checked by walking: the walk accepts
#: more of a greedy draft there, and rejection more of a drawn one (exactness is the same).
GREEDY_DRAFT_UP_TO = 0.5


class History:
    """Distinct tokens of prompt and answer with their counts in the answer, kept as tokens come and go."""

    def __init__(self, prompt: Iterable[int]) -> None:
        self._index = {token: i for i, token in enumerate(dict.fromkeys(prompt))}
        n = len(self._index)
        self._ids = np.zeros(n + 256, np.int64)
        self._ids[:n] = list(self._index)
        self._counts = np.zeros(n + 256, np.float32)
        self._log: list[tuple[int, bool]] = []

    def push(self, token: int) -> None:
        """The answer grows by `token`."""
        index = self._index.get(token)
        new = index is None
        if index is None:
            index = len(self._index)
            if index == len(self._ids):
                self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._index[token] = index
            self._ids[index] = token
            self._counts[index] = 0.0
        self._counts[index] += 1.0
        self._log.append((token, new))

    def pop(self) -> None:
        """Take the last pushed token back."""
        token, new = self._log.pop()
        self._counts[self._index[token]] -= 1.0
        if new:  # the newest entry is the last one, so the arrays stay dense
            del self._index[token]

    def seen(self) -> Seen:
        """Views for the penalties, valid until the next push or pop."""
        n = len(self._index)
        return Seen(self._ids[:n], self._counts[:n])


class Sampler:
    """Turns rows of logits into tokens for one answer; implements `Chance` for the acceptance rules.

    constraint: what the answer's grammar allows, at the place where the answer stands.
    """

    #: Whether it serves a draft model; one that serves the target finds a token whatever happens.
    _guesses = False

    def __init__(
        self,
        params: SamplingParams,
        prompt: Iterable[int],
        *,
        ends: frozenset[int] = frozenset(),
        banned: Iterable[int] = (),
        constraint: Constraint | None = None,
    ) -> None:
        seed = params.seed if params.seed is not None else secrets.randbits(48)
        self._setup(params, History(prompt), np.random.default_rng((seed, 0)), ends, banned, constraint)
        self._seed = seed

    def _setup(
        self,
        params: SamplingParams,
        history: History,
        rng: np.random.Generator,
        ends: frozenset[int],
        banned: Iterable[int],
        constraint: Constraint | None,
    ) -> None:
        self.params = params
        self.ends = ends
        self.constraint = constraint
        self._history = history
        self._rng = rng
        bias = dict.fromkeys(banned, -math.inf) or None
        merged = {**params.logit_bias, **(bias or {})}
        self._bias = (np.fromiter(merged, np.int64), np.fromiter(merged.values(), np.float32)) if merged else None
        self._penalised = (params.repeat_penalty, params.frequency_penalty, params.presence_penalty) != (1.0, 0.0, 0.0)

    def for_draft(self, banned: Iterable[int]) -> Sampler:
        """A sampler for the draft model of the same answer: same settings, history and grammar, random numbers of its own.

        Its own stream keeps the target's draws where they would be without a draft. `banned` ids are never drafted. It
        raises NothingAllowed where the grammar leaves no token that may be drafted.
        """
        sampler = Sampler.__new__(Sampler)
        rng = np.random.default_rng((self._seed, 1))
        sampler._setup(self.params, self._history, rng, self.ends, banned, self.constraint)
        sampler._seed = self._seed
        sampler._guesses = True
        return sampler

    @property
    def draws_drafts(self) -> bool:
        """Whether a draft model should draw its tokens (rejection) instead of choosing them (walk)."""
        return self.params.temperature > GREEDY_DRAFT_UP_TO

    @property
    def bare(self) -> bool:
        """Whether a token depends on its row alone: no penalties, no bias, no grammar."""
        return not self._penalised and self._bias is None and self.constraint is None

    def peek(self, n: int) -> list[float]:
        """The next `n` random numbers of the stream, which stay there until `use`."""
        state = self._rng.bit_generator.state
        found: list[float] = self._rng.random(n).tolist()
        self._rng.bit_generator.state = state
        return found

    def use(self, n: int) -> None:
        """Take the next `n` random numbers from the stream."""
        self._rng.random(n)

    def scores(self, logits: Logits) -> Logits:
        """`logits` [V] after penalties, bias and grammar, for the position after everything pushed so far."""
        if self.constraint is not None:
            return self._allowed(self._adjusted(logits), self.constraint)
        return self._adjusted(logits)

    def _allowed(self, scores: Logits, constraint: Constraint) -> Logits:
        allowed = constraint.mask(len(scores))
        try:
            return masked(scores, allowed)
        except NothingAllowed:
            if self._guesses:
                raise
            # A model that rules out all of its grammar's tokens by itself says nothing about which is better.
            return masked(np.zeros_like(scores), allowed)

    def _adjusted(self, logits: Logits) -> Logits:
        if not self._penalised and self._bias is None:
            return logits
        bias = self._bias
        if bias is not None and len(bias[0]) and int(bias[0].max()) >= len(logits):
            inside = bias[0] < len(logits)
            bias = (bias[0][inside], bias[1][inside])
        p = self.params
        return reference.penalise(
            logits, self._history.seen(), p.repeat_penalty, p.frequency_penalty, p.presence_penalty, bias
        )

    def distribution(self, logits: Logits) -> Distribution:
        """What the next token is drawn from, after the whole chain; temperature above 0."""
        p = self.params
        return reference.distribution(self.scores(logits), p.temperature, p.top_k, p.top_p, p.min_p)

    def best(self, logits: Logits) -> int:
        """The most probable token after penalties, bias and grammar; the lowest id of equal ones."""
        return int(self.scores(logits).argmax())

    def choose(self, logits: Logits) -> int:
        """The target's own token for this position: one random number, none at temperature 0."""
        return self.best(logits) if self.params.greedy else self.pick(self.distribution(logits))

    def coin(self, probability: float) -> bool:
        """See `Chance`."""
        return float(self._rng.random()) < probability

    def pick(self, distribution: Distribution) -> int:
        """See `Chance`."""
        return distribution.quantile(float(self._rng.random()))

    def push(self, token: int) -> None:
        """The answer grows by `token`."""
        if self._penalised:
            self._history.push(token)
        if self.constraint is not None:
            self.constraint.push(token)

    def pop(self, n: int) -> None:
        """Take the last `n` tokens back."""
        if self._penalised:
            for _ in range(n):
                self._history.pop()
        if self.constraint is not None:
            self.constraint.pop(n)
