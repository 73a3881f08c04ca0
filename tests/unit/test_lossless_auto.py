"""The law of the text when method and depth change from step to step: plain decoding's, however they are chosen."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache

import pytest

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, GoOn, Method, Verdict
from pardec_chat.backends.decoding import loop
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.options import Plan
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.kernels.sampling.reference import Distribution
from pardec_chat.tests.enumeration import Tape, TapedSampler, distance, law
from pardec_chat.tests.fakes import ScriptedTarget
from pardec_chat.tests.machines import Clock
from pardec_chat.tests.rows import noise
from pardec_chat.tests.unit.test_lossless import BIASED, CHAINS, EXACT, PROMPT, Law

SIZE = 3
WALK, REJECTION = (0.3, 0.5), (0.7, 1.2)
#: Tokens whose law is compared: a walk has one outcome for each text, rejection many.
N = {**dict.fromkeys(WALK, 5), **dict.fromkeys(REJECTION, 4)}


def model(seed: int, ends: frozenset[int] = frozenset()) -> ScriptedTarget:
    return ScriptedTarget(noise(SIZE, seed, scale=1.0), [b"%d" % i for i in range(SIZE)], ends)


def params(temperature: float, chain: str) -> SamplingParams:
    return SamplingParams(temperature=temperature, **CHAINS[chain])  # type: ignore[arg-type]


def drafters(draft: ScriptedTarget) -> list[Drafter]:
    """What the method auto has to choose from."""
    return [Ngram(guided=True), DraftModel(draft)]


def text_law(
    settings: SamplingParams,
    n: int,
    controller: Callable[[], Controller],
    make: Callable[[ScriptedTarget], list[Drafter]] = drafters,
    ends: frozenset[int] = frozenset(),
) -> tuple[Law, list[Method]]:
    """The law of an answer of up to `n` tokens, and every source that was drafted from on the way."""
    target, draft = model(1, ends), model(2, ends)
    sources: list[Method] = []

    def run(tape: Tape) -> tuple[int, ...]:
        slot = target.open()
        slot.prefill(PROMPT, lambda: False)
        chance = TapedSampler(tape, settings, PROMPT, ends=ends)
        used = make(draft)
        for drafter in used:
            drafter.begin(slot, chance, lambda: False)
        answer, chooses = Generation(slot, chance, used, None, n), controller()
        while answer.finish_reason is None:
            (one,) = step(target, [answer], chooses)
            sources.extend(origin for origin in one.origins if origin != Method.PLAIN)
        for drafter in used:
            drafter.close()
        slot.close()
        return tuple(answer.token_ids)

    return law(run), sources


@cache
def plain(temperature: float, chain: str, n: int, ends: frozenset[int] = frozenset()) -> Law:
    return text_law(params(temperature, chain), n, Controller, lambda _: [], ends)[0]


class Whim(Controller):
    """Who drafts, how far and whether to go on is anything that a seed makes of all that may be known.

    That is the committed tokens and what became of each guess so far; for `go_on` the number of guesses and the confidence.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._past: list[object] = []

    def _any(self, *known: object) -> random.Random:
        return random.Random(repr((self._seed, self._past, known)))

    def plan(self, live: Sequence[Generation]) -> list[Plan]:
        """See `Controller`."""
        (answer,) = live
        tokens = tuple(answer.slot.tokens)
        chance = self._any(tokens)
        drafter = chance.choice([None, *answer.drafters])
        depth = min(chance.randint(1, 3), answer.room - 1)

        def go_on(n: int, confidence: float) -> bool:
            return self._any(tokens, n, confidence).random() < 0.6

        return [Plan(drafter, depth, chance.choice([None, go_on])) if depth > 0 else Plan()]

    def learn(
        self,
        live: Sequence[Generation],
        drafts: Sequence[Draft],
        behind: Sequence[int],
        draft_ms: Sequence[float],
        verify_ms: float,
        verdicts: Sequence[Verdict],
    ) -> None:
        """See `Controller`. Times are no part of it: they are another in each run."""
        told = [tuple(drafter.outcomes()) for drafter in live[0].drafters]
        self._past.append((tuple(drafts[0].tokens), tuple(behind), verdicts[0].n_accepted, told))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("chain", ["softmax", "penalties", "all"])
@pytest.mark.parametrize("temperature", [*WALK, *REJECTION])
def test_D08_no_choice_of_method_and_depth_changes_anything(temperature: float, chain: str, seed: int) -> None:
    found, sources = text_law(params(temperature, chain), N[temperature], lambda: Whim(seed))
    assert distance(found, plain(temperature, chain, N[temperature])) < EXACT
    assert {Method.DRAFT, Method.NGRAM} <= set(sources), "one of them guessed nothing right"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("temperature", [WALK[0], REJECTION[1]])
def test_D05_end_tokens_change_nothing_either(temperature: float, seed: int) -> None:
    ends = frozenset({2})
    found, _ = text_law(params(temperature, "softmax"), N[temperature], lambda: Whim(seed), ends=ends)
    assert distance(found, plain(temperature, "softmax", N[temperature], ends)) < EXACT
    assert any(len(answer) < N[temperature] for answer in found)


def prepared() -> Controller:
    """One that has found guessing to pay: a pass and a draft take a millisecond each, whatever their size."""
    controller = Controller()
    for _ in range(4):
        for rows in (1, 2, 4, 8):
            controller.knowledge.costs.observe_pass(1, rows, 1.0)
            controller.knowledge.costs.observe_draft("draft", rows, 1, 1.0)
            controller.knowledge.costs.observe_draft("ngram", rows, 0, 0.1)
    return controller


@pytest.mark.parametrize("chain", ["softmax", "all"])
@pytest.mark.parametrize("temperature", [*WALK, *REJECTION])
def test_D08_the_controller_in_use_changes_nothing(
    temperature: float, chain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def tick() -> float:
        clock.now += 1e-3
        return clock()

    def fresh() -> Controller:
        clock.now = 0.0  # the same times in each run
        return prepared()

    monkeypatch.setattr(loop, "perf_counter", tick)
    found, sources = text_law(params(temperature, chain), N[temperature], fresh)
    assert distance(found, plain(temperature, chain, N[temperature])) < EXACT
    assert sources, "nothing was guessed right"


# Rules that look at the drawn token


class Peeking(DraftModel):
    """Asks whether to go on with the probability of the drawn token in place of that of the best one.

    keeps: whether the token that was asked about stays in the draft.
    """

    def __init__(self, model: ScriptedTarget, *, keeps: bool) -> None:
        super().__init__(model)
        self._keeps = keeps

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`."""
        draft = super().draft(n_max)
        rows = draft.probabilities
        if rows is None or go_on is None:
            return draft
        for i, (token, row) in enumerate(zip(draft.tokens, rows, strict=True)):
            assert isinstance(row, Distribution)
            if not go_on(i + 1, row.probability(token)):
                kept = i + self._keeps
                short = Draft.chain(draft.tokens[:kept], Method.DRAFT, rows[:kept]) if kept else NO_DRAFT
                self._drafted = short
                return short
        return draft


class Doubting(Controller):
    """Has the draft model guess, and go on as long as it is told of more than `least`."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self._least = least

    def plan(self, live: Sequence[Generation]) -> list[Plan]:
        """See `Controller`."""
        (answer,) = live
        depth = min(2, answer.room - 1)
        return [Plan(answer.drafters[0], depth, lambda _n, told: told > self._least) if depth > 0 else Plan()]


@pytest.mark.parametrize("least", [0.25, 0.4])
def test_D08_it_notices_a_rule_that_drops_a_drawn_token_for_its_own_probability(least: float) -> None:
    settings = params(1.2, "softmax")
    found, _ = text_law(settings, 3, lambda: Doubting(least), lambda draft: [Peeking(draft, keeps=False)])
    assert distance(found, plain(1.2, "softmax", 3)) > BIASED


@pytest.mark.parametrize("least", [0.25, 0.4])
def test_D08_a_rule_that_saw_the_drawn_token_is_harmless_while_that_token_stays(least: float) -> None:
    settings = params(1.2, "softmax")
    found, _ = text_law(settings, 3, lambda: Doubting(least), lambda draft: [Peeking(draft, keeps=True)])
    assert distance(found, plain(1.2, "softmax", 3)) < EXACT


@pytest.mark.parametrize("least", [0.25, 0.4])
def test_D08_a_rule_that_is_told_of_the_best_token_changes_nothing(least: float) -> None:
    settings = params(1.2, "softmax")
    found, sources = text_law(settings, 3, lambda: Doubting(least), lambda draft: [DraftModel(draft)])
    assert distance(found, plain(1.2, "softmax", 3)) < EXACT
    assert sources


class Fickle(DraftModel):
    """The mistake of a choice that comes after the draw: where the drawn token is not liked, another source guesses."""

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`."""
        draft = super().draft(n_max, go_on)
        return Draft.chain([1], Method.NGRAM) if draft.tokens[0] == 0 else draft


def test_D08_it_notices_a_source_that_is_chosen_after_the_draw() -> None:
    found, _ = text_law(params(1.2, "softmax"), 3, lambda: Doubting(0.0), lambda draft: [Fickle(draft)])
    assert distance(found, plain(1.2, "softmax", 3)) > BIASED
