"""What the drafters propose, what they evaluate for it, and when they keep still."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pardec_chat.backends.base import Draft, Method, Verdict
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import MIN_MATCH, Ngram, SuffixAutomaton
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
    generation = begin(target, PROMPT, drafter=drafter, depth=4)
    draft.evaluations.clear()

    (first,) = step(target, [generation])
    assert (len(first.proposed), first.n_accepted) == (4, 1), "one rejection is forced in the first round"
    assert draft.ids("propose") == [PROMPT[-1], *first.proposed[:3]]

    generation.depth = 0
    draft.evaluations.clear()
    for _ in range(30):
        step(target, [generation])
    assert draft.evaluations == [], "a step without a draft costs the draft model nothing"
    assert generation.token_ids == sure_text[:32]

    generation.depth = 4
    (later,) = step(target, [generation])
    assert (len(later.proposed), later.n_accepted) == (4, 4)
    # After the prompt and the one accepted guess come the tokens that were skipped, then the new guesses.
    at_first = draft.evaluations[0]
    kept = len(PROMPT) + (1 if rewind == "trim" else 0)
    assert at_first.tokens == tuple([*PROMPT, *sure_text[:32]][kept:])
    assert [e.tokens for e in draft.evaluations[1:]] == [(token,) for token in later.proposed[:3]]
    for _ in range(5):
        (later,) = step(target, [generation])
        assert later.n_accepted == 4
    assert generation.token_ids == greedy(rows, PROMPT, len(generation.token_ids))


def test_D15_after_a_full_acceptance_two_ids_are_new_to_the_draft_model() -> None:
    rows = noise(SIZE, 1)
    target, draft = scripted(rows), scripted(rows)
    generation = begin(target, PROMPT, drafter=DraftModel(draft), depth=3)
    step(target, [generation])
    draft.evaluations.clear()
    step(target, [generation])
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
    drafter.begin(slot, Sampler(GREEDY, prompt), lambda: next(calls) >= 2)
    assert 0 < len(draft.ids("prefill")) < len(prompt) - 1
    answer = generate(target, prompt, drafter=drafter, max_tokens=20, slot=slot)
    assert answer.ids == greedy(rows, prompt, 20)
    assert answer.generation.stats.acceptance_rate == 1.0


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
