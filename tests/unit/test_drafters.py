"""What the drafters propose, what they evaluate for it, and when they keep still."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pardec_chat.backends.base import Draft, GoOn, Method, Outcome, Verdict
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import MIN_MATCH, Ngram
from pardec_chat.backends.drafters.suffix import SuffixAutomaton
from pardec_chat.tests.decode import GREEDY, begin, generate, greedy, never
from pardec_chat.tests.fakes import ScriptedSlot, ScriptedTarget
from pardec_chat.tests.rows import Rows, noise, script, sure

SIZE = 10
PROMPT = [3, 1, 4, 1, 5]


def scripted(rows: Rows, *, size: int = SIZE, n_ctx: int = 512, ends: frozenset[int] = frozenset()) -> ScriptedTarget:
    return ScriptedTarget(rows, [b"%d" % i for i in range(size)], ends, n_ctx)


def slot_with(tokens: list[int], size: int = SIZE) -> ScriptedSlot:
    slot = scripted(noise(size, 0), size=size, n_ctx=len(tokens) + 64).open()
    slot.prefill(tokens, never)
    return slot


# Drafts


def test_a_draft_checks_its_shape() -> None:
    assert list(Draft.chain([5, 6, 7], Method.NGRAM).parents) == [-1, 0, 1]
    assert Draft.chain([5, 6, 7], Method.NGRAM).is_chain
    assert not Draft([5, 6], [-1, -1], Method.DRAFT).is_chain
    with pytest.raises(ValueError, match="one parent for each"):
        Draft([5, 6], [-1], Method.DRAFT)
    with pytest.raises(ValueError, match="before their children"):
        Draft([5, 6], [1, -1], Method.DRAFT)
    with pytest.raises(ValueError, match="one row"):
        Draft.chain([5, 6], Method.DRAFT, [object()])


# The draft model


@pytest.mark.parametrize("rewind", ["trim", "snapshot"])
def test_D15_the_draft_model_catches_up_at_once(rewind: str) -> None:
    rows = noise(SIZE, 1)
    sure_text = greedy(rows, PROMPT, 60)
    wrong_at = len(PROMPT) + 1

    def mistaken(prefix: tuple[int, ...]) -> list[float]:
        row = list(rows(prefix))
        return sure(SIZE, (sure_text[1] + 1) % SIZE) if len(prefix) == wrong_at else row

    draft = ScriptedTarget(mistaken, [b"x"] * SIZE, rewind=rewind)  # type: ignore[arg-type]
    target = scripted(rows)
    drafter = DraftModel(draft)
    generation, controller = begin(target, PROMPT, drafter=drafter, depth=4), Controller()
    draft.evaluations.clear()

    (first,) = step(target, [generation], controller)
    assert (len(first.proposed), first.n_accepted) == (4, 1), "one rejection is forced in the first round"
    assert draft.ids("propose") == [PROMPT[-1], *first.proposed[:3]]

    generation.depth = 0
    draft.evaluations.clear()
    for _ in range(30):
        step(target, [generation], controller)
    assert draft.evaluations == [], "a step without a draft costs the draft model nothing"
    assert generation.token_ids == sure_text[:32]

    generation.depth = 4
    (later,) = step(target, [generation], controller)
    assert (len(later.proposed), later.n_accepted) == (4, 4)
    # After the prompt and the one accepted guess come the tokens that were skipped, then the new guesses.
    at_first = draft.evaluations[0]
    kept = len(PROMPT) + (1 if rewind == "trim" else 0)
    assert at_first.tokens == tuple([*PROMPT, *sure_text[:32]][kept:])
    assert [e.tokens for e in draft.evaluations[1:]] == [(token,) for token in later.proposed[:3]]
    for _ in range(5):
        (later,) = step(target, [generation], controller)
        assert later.n_accepted == 4
    assert generation.token_ids == greedy(rows, PROMPT, len(generation.token_ids))


def test_D15_after_a_full_acceptance_two_ids_are_new_to_the_draft_model() -> None:
    rows = noise(SIZE, 1)
    target, draft = scripted(rows), scripted(rows)
    generation, controller = begin(target, PROMPT, drafter=DraftModel(draft), depth=3), Controller()
    step(target, [generation], controller)
    draft.evaluations.clear()
    step(target, [generation], controller)
    # The last guess was never evaluated, the target's own token neither.
    assert [e.tokens for e in draft.evaluations] == [
        tuple(generation.token_ids[2:4]),
        *((t,) for t in generation.token_ids[4:6]),
    ]


def test_a_second_turn_evaluates_only_what_is_new() -> None:
    rows = noise(SIZE, 1)
    target, draft = scripted(rows), scripted(rows)
    drafter = DraftModel(draft)
    slot = target.open()
    first = generate(target, PROMPT, drafter=drafter, max_tokens=10, slot=slot)
    second_prompt = [*PROMPT, *first.ids, 7, 7, 7]
    draft.evaluations.clear()
    target.evaluations.clear()
    begin(target, second_prompt, drafter=drafter, slot=slot)
    assert target.ids("prefill") == [first.ids[-1], 7, 7]
    assert draft.ids("prefill")[-3:] == [first.ids[-1], 7, 7]
    assert len(draft.ids("prefill")) <= 5


def test_D14_the_draft_model_drafts_as_many_as_asked() -> None:
    for depth in range(1, 9):
        answer = generate(
            scripted(noise(SIZE, 1)),
            PROMPT,
            drafter=DraftModel(scripted(noise(SIZE, 1))),
            depth=depth,
            max_tokens=1 + depth,
        )
        assert answer.generation.stats.draft_n == depth
        assert answer.generation.stats.draft_kind == Method.DRAFT


@pytest.mark.parametrize("n_ctx", range(len(PROMPT) - 1, len(PROMPT) + 12))
def test_K07_a_draft_model_with_a_smaller_context_stops_at_its_own_edge(n_ctx: int) -> None:
    rows = noise(SIZE, 1)
    draft = scripted(rows, n_ctx=n_ctx)
    answer = generate(scripted(rows), PROMPT, drafter=DraftModel(draft), depth=4, max_tokens=30)
    assert answer.ids == greedy(rows, PROMPT, 30)
    assert (answer.generation.stats.draft_n > 0) == (n_ctx > len(PROMPT))


def test_D11_banned_ids_are_never_drafted() -> None:
    rows = noise(SIZE, 2)
    banned = {2, 5, 8}
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, seed=1)
        drafter = DraftModel(scripted(rows), banned)
        answer = generate(scripted(rows), PROMPT, params=params, drafter=drafter, max_tokens=80)
        assert answer.generation.stats.draft_n > 0
        assert not banned & {token for one in answer.steps for token in one.proposed}
        assert banned & set(answer.ids), "the target may still say them"


@pytest.mark.parametrize("prompt", [[3, SIZE, 4], [3, 4]], ids=["in the prompt", "in the answer"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_D11_ids_that_the_draft_model_lacks_do_not_stop_it(temperature: float, prompt: list[int]) -> None:
    # The target's file has two ids more.
    rows = noise(SIZE + 2, 4, order=2)
    target, draft = scripted(rows, size=SIZE + 2), scripted(noise(SIZE, 5))
    drafter = DraftModel(draft)
    params = SamplingParams(temperature=temperature, seed=2)
    answer = generate(target, prompt, params=params, drafter=drafter, max_tokens=60)
    assert {SIZE, SIZE + 1} & set(answer.ids)
    assert answer.generation.stats.draft_n > 60
    if temperature == 0.0:
        assert answer.ids == greedy(rows, prompt, 60)


def test_closing_gives_the_draft_models_place_back() -> None:
    draft = scripted(noise(SIZE, 1))
    for _ in range(3):
        DraftModel(draft).close()
    assert draft.live == set()


def test_a_stopped_prompt_leaves_the_draft_model_usable() -> None:
    rows = noise(SIZE, 1)
    target, draft = scripted(rows), scripted(rows)
    drafter = DraftModel(draft)
    prompt = PROMPT * 8
    slot = target.open()
    slot.prefill(prompt, never)
    calls = itertools.count()
    drafter.begin(slot, Sampler(GREEDY, prompt), never)
    assert draft.evaluations == [], "the prompt is read by prepare, or with the first draft"
    drafter.prepare(lambda: next(calls) >= 2)
    assert 0 < len(draft.ids("prefill")) < len(prompt) - 1
    answer = generate(target, prompt, drafter=drafter, max_tokens=20, slot=slot)
    assert answer.ids == greedy(rows, prompt, 20)
    assert answer.generation.stats.acceptance_rate == 1.0


# The draft model: what it says about itself


def on(rows: Rows, prompt: list[int] = PROMPT, params: SamplingParams = GREEDY, n_ctx: int = 512) -> DraftModel:
    """A draft model that was begun behind `prompt`, and has read it."""
    drafter = DraftModel(scripted(rows, n_ctx=n_ctx))
    drafter.begin(slot_with(prompt), Sampler(params, prompt), never)
    drafter.prepare(never)
    return drafter


def asking(up_to: int = 99) -> tuple[list[tuple[int, float]], GoOn]:
    """A rule that lets a draft have `up_to` tokens, and what it was asked."""
    asked: list[tuple[int, float]] = []

    def go_on(n: int, confidence: float) -> bool:
        asked.append((n, confidence))
        return n < up_to

    return asked, go_on


def follow(drafter: DraftModel, verdict: Verdict) -> None:
    """The target commits `verdict`, and the drafter hears of it."""
    slot = drafter._slot
    assert isinstance(slot, ScriptedSlot)
    slot.follow([*slot.tokens, *verdict.tokens])
    drafter.accept(verdict)


def judged(drafter: DraftModel, n: int, accepted: int, own: int | None = 0) -> DraftModel:
    """One step: `n` guesses of which `accepted` are right, then `own`, unless the answer ends before it."""
    tokens = list(drafter.draft(n).tokens)[:accepted]
    follow(drafter, Verdict([*tokens, *([] if own is None else [own])], range(accepted)))
    return drafter


@pytest.mark.parametrize("accepted", range(5))
def test_D15_outcomes_are_what_the_verdict_said_of_each_place(accepted: int) -> None:
    drafter = judged(on(noise(SIZE, 1)), 4, accepted)
    right = [Outcome(place, right=True) for place in range(1, accepted + 1)]
    # Behind a rejected guess nothing was checked, and behind the last one nothing was guessed.
    wrong = [Outcome(accepted + 1, right=False)] if accepted < 4 else []
    assert list(drafter.outcomes()) == right + wrong


@pytest.mark.parametrize("accepted", range(1, 5))
def test_D05_an_accepted_end_token_says_nothing_of_the_guesses_behind_it(accepted: int) -> None:
    drafter = judged(on(noise(SIZE, 1)), 4, accepted, own=None)
    assert list(drafter.outcomes()) == [Outcome(place, right=True) for place in range(1, accepted + 1)]


def test_D15_a_step_without_a_draft_says_nothing() -> None:
    drafter = judged(on(noise(SIZE, 1)), 4, 2)
    assert len(drafter.outcomes()) == 3
    follow(drafter, Verdict([7], []))
    assert list(drafter.outcomes()) == []


def test_outcomes_have_the_confidence_that_was_asked_for() -> None:
    drafter = on(noise(SIZE, 1))
    asked, go_on = asking()
    draft = drafter.draft(4, go_on)
    follow(drafter, Verdict([*draft.tokens[:2], 0], range(2)))
    confidence = [confidence for _, confidence in asked]
    assert list(drafter.outcomes()) == [
        Outcome(1, right=True, confidence=confidence[0]),
        Outcome(2, right=True, confidence=confidence[1]),
        Outcome(3, right=False, confidence=confidence[2]),
    ]


def test_the_place_in_the_draft_is_a_draft_models_evidence() -> None:
    assert list(on(noise(SIZE, 1)).evidence(4)) == [1, 2, 3, 4]


def test_D15_behind_is_what_the_next_draft_has_to_read() -> None:
    drafter = DraftModel(scripted(noise(SIZE, 1)))
    assert drafter.behind == 0, "there is no text yet"
    drafter.begin(slot_with(PROMPT), Sampler(GREEDY, PROMPT), never)
    assert drafter.behind == len(PROMPT)
    drafter.prepare(never)
    assert drafter.behind <= 1
    # The rejected guesses were read in vain; the target's own token was not.
    assert judged(drafter, 4, 0).behind == 1
    assert judged(drafter, 4, 2).behind == 1
    assert judged(drafter, 4, 3).behind == 1
    # The last guess was never read: nothing was asked to follow it.
    assert judged(drafter, 4, 4).behind == 2
    assert judged(drafter, 1, 1).behind == 2
    assert judged(drafter, 1, 0).behind == 1
    for skipped in range(1, 6):
        follow(drafter, Verdict([7], []))
        assert drafter.behind == 1 + skipped
    assert judged(drafter, 3, 1).behind == 1
    assert judged(drafter, 4, 4, own=None).behind == 1
    assert judged(drafter, 4, 2, own=None).behind == 0


@pytest.mark.parametrize("seed", range(3))
def test_D15_behind_is_what_was_really_read(seed: int) -> None:
    # Right and wrong guesses, with steps in between that ask for none.
    target, draft = scripted(noise(SIZE, 1)), scripted(noise(SIZE, 1 if seed else 2, order=1 + seed))
    drafter = DraftModel(draft)
    generation, controller = begin(target, PROMPT, drafter=drafter), Controller()
    rng = np.random.default_rng(seed)
    for _ in range(60):
        generation.depth = int(rng.choice([0, 1, 2, 5]))
        behind = drafter.behind
        draft.evaluations.clear()
        step(target, [generation], controller)
        if generation.depth:
            # At least the last committed id, which no cache holds.
            assert len(draft.evaluations[0].tokens) == max(1, behind)


def test_D15_a_second_turn_is_behind_by_what_is_new() -> None:
    rows = noise(SIZE, 1)
    target, drafter = scripted(rows), DraftModel(scripted(rows))
    slot = target.open()
    first = generate(target, PROMPT, drafter=drafter, max_tokens=10, slot=slot)
    prompt = [*PROMPT, *first.ids, 7, 7, 7]
    slot.prefill(prompt, never)
    drafter.begin(slot, Sampler(GREEDY, prompt), never)
    assert 3 <= drafter.behind <= 5 + 3  # what the last step committed may be new to it as well
    drafter.begin(slot_with([9, 9, 9]), Sampler(GREEDY, [9, 9, 9]), never)
    assert drafter.behind == 3


def test_D15_a_prompt_that_is_not_prepared_is_read_with_the_first_draft() -> None:
    draft = scripted(noise(SIZE, 1))
    drafter = DraftModel(draft)
    drafter.begin(slot_with(PROMPT), Sampler(GREEDY, PROMPT), never)
    assert draft.evaluations == []
    tokens = list(drafter.draft(3).tokens)
    assert tokens == greedy(noise(SIZE, 1), PROMPT, 3)
    assert [e.tokens for e in draft.evaluations] == [tuple(PROMPT), (tokens[0],), (tokens[1],)]


@pytest.mark.parametrize("temperature", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("up_to", [1, 2, 3, 9])
def test_a_draft_ends_behind_the_token_that_it_was_asked_about(up_to: int, temperature: float) -> None:
    asked, go_on = asking(up_to)
    drafter = on(noise(SIZE, 1), params=SamplingParams(temperature=temperature, seed=1))
    draft = drafter.draft(5, go_on)
    assert len(draft) == min(up_to, 5)
    assert [n for n, _ in asked] == list(range(1, len(draft) + 1))
    assert list(draft.confidence) == [confidence for _, confidence in asked]
    assert (draft.probabilities is None) == (temperature <= 0.5)
    assert draft.probabilities is None or len(draft.probabilities) == len(draft)


def test_a_rule_that_never_ends_a_draft_changes_nothing() -> None:
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, seed=1)
        plain, asked = (on(noise(SIZE, 1), params=params).draft(5, go_on) for go_on in (None, asking()[1]))
        assert list(plain.tokens) == list(asked.tokens)
        assert list(plain.confidence) == [], "nobody asked for it"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_D08_confidence_is_that_in_the_best_token_whichever_was_drawn(temperature: float) -> None:
    rows, other_than_best = noise(SIZE, 1), 0
    for seed in range(8):
        params = SamplingParams(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0, seed=seed)
        draft = on(rows, params=params).draft(4, asking()[1])
        for i, (token, confidence) in enumerate(zip(draft.tokens, draft.confidence, strict=True)):
            logits = np.array(rows((*PROMPT, *draft.tokens[:i])))
            weights = np.exp(logits) / np.exp(logits).sum()
            assert confidence == pytest.approx(weights.max(), abs=1e-5)
            other_than_best += token != int(weights.argmax())
    assert (other_than_best > 0) == (temperature > 0)


def test_K07_a_draft_model_at_its_own_edge_says_nothing() -> None:
    drafter = on(noise(SIZE, 1), n_ctx=len(PROMPT) + 2)
    assert len(drafter.draft(4)) == 2
    follow(drafter, Verdict([1, 1], [0]))
    assert len(drafter.draft(4)) == 0
    follow(drafter, Verdict([1], []))
    assert list(drafter.outcomes()) == []


def test_D14_a_draft_model_at_its_own_edge_has_nothing_to_offer() -> None:
    # Else the method auto plans with it, and says so, while nothing is drafted.
    drafter = on(noise(SIZE, 1), n_ctx=len(PROMPT) + 2)
    assert list(drafter.evidence(4)) == [1, 2]
    follow(drafter, Verdict([1, 1], []))
    assert list(drafter.evidence(4)) == []


# The suffix automaton


def longest_earlier(text: list[int]) -> tuple[int, int]:
    """Length of the longest suffix that also ends earlier, and the index behind its newest earlier occurrence."""
    n = len(text)
    for length in range(n - 1, 0, -1):
        for end in range(n - 1, length - 1, -1):
            if text[end - length : end] == text[n - length :]:
                return length, end
    return 0, 0


def texts() -> list[list[int]]:
    rng = np.random.default_rng(0)
    found = [rng.integers(0, size, 60).tolist() for size in (1, 2, 2, 3, 5) for _ in range(6)]
    for period in range(1, 8):
        unit = rng.integers(0, 3, period).tolist()
        found.append(unit * (60 // period))
        found.append([*rng.integers(0, 3, 10).tolist(), *(unit * 5), 9, *(unit * 3), 8, *unit])
    fibonacci, other = [0, 1], [0]
    while len(fibonacci) < 60:
        fibonacci, other = fibonacci + other, fibonacci
    return [*found, fibonacci]


def test_suffix_automaton_against_looking_everywhere() -> None:
    for text in texts():
        automaton = SuffixAutomaton()
        assert automaton.longest_match() == (0, 0)
        for n, token in enumerate(text, 1):
            automaton.append(token)
            length, end = automaton.longest_match()
            wanted, newest = longest_earlier(text[:n])
            assert length == wanted, (text[:n], "length")
            if length:
                assert text[end - length : end] == text[n - length : n], (text[:n], "an occurrence")
                assert end == newest, (text[:n], "the newest")


def test_suffix_automaton_in_very_periodic_text() -> None:
    # Updating every shorter suffix would cost the square of the length: far behind, an older occurrence may do.
    text = [0] * 400 + [1] + [0] * 3 + [1] + [0] * 100
    automaton = SuffixAutomaton()
    for n, token in enumerate(text, 1):
        automaton.append(token)
        length, end = automaton.longest_match()
        assert 0 <= end < n
        assert text[end - length : end] == text[n - length : n]
        assert length == longest_earlier_zeros(text[:n])


def longest_earlier_zeros(text: list[int]) -> int:
    joined = bytes(text)
    low = 0
    while low + 1 < len(joined) and joined[: len(joined) - 1].rfind(joined[len(joined) - low - 1 :]) >= 0:
        low += 1
    return low


# Repetition


def ngram_on(text: list[int], min_match: int = MIN_MATCH) -> Ngram:
    drafter = Ngram(min_match)
    drafter.begin(slot_with(text), Sampler(GREEDY, text), never)
    return drafter


def test_ngram_copies_what_followed_the_newest_occurrence() -> None:
    #        match · old continuation ·  match · newest continuation · match
    drafter = ngram_on([1, 2, 3, 4, 5, 5, 1, 2, 3, 4, 6, 7, 8, 9, 1, 2, 3, 4])
    draft = drafter.draft(8)
    assert list(draft.tokens) == [6, 7, 8, 9]  # no longer than the match that speaks for it
    assert (draft.is_chain, draft.source, draft.probabilities) == (True, Method.NGRAM, None)
    assert list(drafter.draft(2).tokens) == [6, 7]


def test_ngram_lets_a_period_repeat() -> None:
    drafter = ngram_on([1, 2, 3] * 4)
    assert list(drafter.draft(8).tokens) == [1, 2, 3, 1, 2, 3, 1, 2]
    assert list(ngram_on([7] * 12).draft(8).tokens) == [7] * 8


@pytest.mark.parametrize("min_match", [1, 2, 3, 4, 6])
def test_D17_ngram_keeps_still_below_its_shortest_match(min_match: int) -> None:
    for length in range(8):
        match = [1, 2, 3, 4, 5, 6, 7][:length]
        draft = ngram_on([*match, 8, 9, *match], min_match).draft(4)
        wanted = [8, 9, *match][: min(length, 4)] if length >= min_match else []
        assert list(draft.tokens) == wanted


def test_D17_misses_back_off_and_one_hit_brings_it_back() -> None:
    drafter = ngram_on([0, 0], min_match=1)
    miss, hit = Verdict([1], []), Verdict([0, 0], [0])
    required = []
    for _ in range(5):
        drafter._drafted = True
        required.append(drafter._required)
        drafter.accept(miss)
    assert required == [1, 2, 4, 8, 8]
    drafter._drafted = False
    drafter.accept(hit)
    assert drafter._required == 8, "only a draft of its own counts"
    drafter._drafted = True
    drafter.accept(hit)
    assert drafter._required == 1
    drafter._required = 8
    drafter.begin(slot_with([0, 0]), Sampler(GREEDY, [0, 0]), never)
    assert drafter._required == 1, "another answer starts afresh"


def de_bruijn(size: int, order: int) -> list[int]:
    """Each run of `order` ids once: whatever stood there before goes on otherwise."""
    text = [0] * order
    seen = {tuple(text)}
    while True:
        for token in range(size - 1, -1, -1):
            if (run := (*text[len(text) - order + 1 :], token)) not in seen:
                seen.add(run)
                text.append(token)
                break
        else:
            return text


@pytest.mark.parametrize(("min_match", "rounds"), [(1, 2), (2, 1), (3, 0)])
def test_D17_text_that_never_repeats_costs_nearly_nothing(min_match: int, rounds: int) -> None:
    text = de_bruijn(6, 3)
    assert len(text) == 6**3 + 2
    target = scripted(script(6, text[3:], 3), size=6)
    answer = generate(target, text[:3], drafter=Ngram(min_match), depth=8, max_tokens=len(text) - 3)
    assert answer.ids == text[3:]
    assert answer.generation.stats.draft_rounds == rounds
    assert answer.generation.stats.draft_n_accepted == 0


MARKUP = [w for i in range(10) for w in (0, 0, 1, 2, 3, 4 + i % 5, 9)]  # "<", "<", "a", "=", … ten times


@pytest.mark.parametrize("min_match", [1, 2, 3, MIN_MATCH])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", [1, 2, 4])
def test_D17_repeated_markup_gives_plain_text_for_every_match_length(order: int, seed: int, min_match: int) -> None:
    rows = noise(SIZE, seed, order=order)
    answer = generate(scripted(rows), MARKUP, drafter=Ngram(min_match), depth=8, max_tokens=80)
    assert answer.ids == greedy(rows, MARKUP, 80)


def test_D14_repetition_is_found_and_accepted() -> None:
    target = scripted(script(SIZE, MARKUP, len(MARKUP)))
    answer = generate(target, MARKUP, drafter=Ngram(), depth=8, max_tokens=len(MARKUP))
    stats = answer.generation.stats
    assert answer.ids == MARKUP
    assert stats.draft_kind == Method.NGRAM
    assert stats.draft_n_accepted > 40
    assert stats.steps < 30


def test_ngram_follows_a_conversation_that_grows_shrinks_and_changes() -> None:
    rng = np.random.default_rng(1)
    drafter, text = Ngram(min_match=1), [0]
    for _ in range(200):
        if rng.random() < 0.3:
            del text[1 + int(rng.integers(0, len(text))) :]
        if rng.random() < 0.2:
            text[int(rng.integers(0, len(text)))] = int(rng.integers(0, 3))
        text = text + rng.integers(0, 3, 4).tolist()
        drafter.begin(slot_with(text), Sampler(GREEDY, text), never)
        assert list(drafter.draft(6).tokens) == list(ngram_on(text, 1).draft(6).tokens)


def test_ngram_goes_on_after_a_cut() -> None:
    rows = noise(SIZE, 3, order=1)
    target, drafter = scripted(rows), Ngram(min_match=1)
    slot = target.open()
    first = generate(target, PROMPT, drafter=drafter, depth=8, max_tokens=30, slot=slot)
    first.generation.cut(11)
    prompt = [*slot.tokens, 2, 2]
    second = generate(target, prompt, drafter=drafter, depth=8, max_tokens=30, slot=slot)
    assert second.ids == greedy(rows, prompt, 30)


# Repetition: what it says about itself


def guided_on(text: list[int]) -> Ngram:
    drafter = Ngram(guided=True)
    drafter.begin(slot_with(text), Sampler(GREEDY, text), never)
    return drafter


def test_D17_guided_it_drafts_behind_every_match_as_far_as_asked() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 9, 1]
    drafter = guided_on(text)
    assert list(drafter.draft(6).tokens) == [2, 3, 4, 5, 6, 7]
    assert list(drafter.draft(10).tokens) == [*text[1:], 2, 3], "past the end of the text it repeats itself"
    assert list(ngram_on(text, 1).draft(6).tokens) == [2], "unguided no longer than the match"


def test_D17_the_length_of_the_match_is_its_evidence_and_grows_with_each_guess() -> None:
    assert list(guided_on([1, 2, 3, 8, 1, 2, 3]).evidence(4)) == [3, 4, 5, 6]
    assert list(guided_on([1, 2, 3, 8, 3]).evidence(2)) == [1, 2]
    assert list(guided_on([1, 2, 3, 8, 9]).evidence(4)) == []
    assert list(ngram_on([1, 2, 3, 8, 1, 2, 3], 4).evidence(4)) == [], "too short to act on"
    assert list(ngram_on([1, 2, 3, 8, 1, 2, 3], 3).evidence(4)) == [3, 4, 5, 6]


@pytest.mark.parametrize("drafted", [True, False], ids=["drafted", "not drafted"])
@pytest.mark.parametrize("guided", [True, False])
def test_D17_outcomes_are_those_of_each_match_whoever_drafted(guided: bool, drafted: bool) -> None:
    text = [1, 2, 3, 4, 5, 6, 8, 1, 2, 3]
    drafter = guided_on(text) if guided else ngram_on(text, 3)
    if drafted:
        assert list(drafter.draft(3).tokens) == [4, 5, 6]
    # All right, then the target's own token, which goes on as before too.
    drafter.accept(Verdict([4, 5, 6, 8], range(3)))
    assert list(drafter.outcomes()) == [Outcome(length, right=True) for length in (3, 4, 5, 6)]


def test_D17_a_rejected_guess_is_one_wrong_outcome() -> None:
    drafter = guided_on([1, 2, 3, 4, 5, 6, 8, 1, 2, 3])
    assert list(drafter.draft(3).tokens) == [4, 5, 6]
    drafter.accept(Verdict([4, 7], [0]))
    assert list(drafter.outcomes()) == [Outcome(3, right=True), Outcome(4, right=False)]
    # Behind what never stood there before there is no match and nothing to be right about.
    drafter.accept(Verdict([3], []))
    assert list(drafter.outcomes()) == []
    drafter.accept(Verdict([4], []))
    assert list(drafter.outcomes()) == [Outcome(1, right=True)]


def test_D05_an_accepted_end_token_is_the_last_that_a_match_was_right_about() -> None:
    drafter = guided_on([1, 2, 3, 4, 5, 6, 8, 1, 2, 3])
    assert list(drafter.draft(3).tokens) == [4, 5, 6]
    drafter.accept(Verdict([4, 5], range(2)))
    assert list(drafter.outcomes()) == [Outcome(3, right=True), Outcome(4, right=True)]


def test_D17_outcomes_without_drafting_foretell_those_with_it() -> None:
    """What a shadow learns of text that another method wrote is what drafts of its own would have shown."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        text = rng.integers(0, 3, 60).tolist()
        shadow, drafting = guided_on(text[:20]), guided_on(text[:20])
        at = 20
        while at < 50:
            evidence, draft = list(drafting.evidence(4)), list(drafting.draft(4).tokens)
            n = next((i for i, token in enumerate(draft) if token != text[at + i]), len(draft))
            shown = [Outcome(evidence[i], right=i < n) for i in range(min(n + 1, len(draft)))]
            drafting.accept(Verdict(text[at : at + n + 1], range(n)))
            told: list[Outcome] = []
            for token in text[at : at + n + 1]:
                shadow.accept(Verdict([token], []))
                told += shadow.outcomes()
            assert told == list(drafting.outcomes())
            assert told[: len(shown)] == shown
            at += n + 1


def test_ngram_has_nothing_to_read() -> None:
    drafter = guided_on(MARKUP)
    drafter.accept(Verdict([1, 2, 3], []))
    assert drafter.behind == 0
