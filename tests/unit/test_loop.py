"""The decoding loop: where a text ends, what is counted, what stays in the cache, at every place in a block."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.tests.decode import GREEDY, Answer, Fixed, begin, finish, generate, greedy
from pardec_chat.tests.fakes import ScriptedSlot, ScriptedTarget
from pardec_chat.tests.rows import Rows, noise, script

PROMPT = [9, 8]
TEXT = [1, 2, 3, 4, 5, 6, 7, 0, 9, 8]
SIZE = 10


def scripted(
    ends: frozenset[int] = frozenset(), n_ctx: int = 256, rows: Rows | None = None, slots: int = 1
) -> ScriptedTarget:
    pieces = [b"%d" % i for i in range(SIZE)]
    return ScriptedTarget(rows or script(SIZE, TEXT, len(PROMPT)), pieces, ends, n_ctx, slots)


def cells(answer: Answer) -> list[int]:
    slot = answer.generation.slot
    assert isinstance(slot, ScriptedSlot)
    return slot.cells


# D05: the end token


@pytest.mark.parametrize("position", range(6))
def test_D05_nothing_follows_an_end_token(position: int) -> None:
    # A block of five guesses and the target's own token: the end token is at each of these six places.
    target = scripted(ends=frozenset({TEXT[position]}))
    answer = generate(target, PROMPT, drafter=Fixed(PROMPT + TEXT), depth=5, slot=target.open())
    kept = TEXT[: position + 1]
    accepted = min(position + 1, 5)
    assert answer.ids == kept
    assert answer.generation.finish_reason == "stop"
    assert len(answer.steps) == 1
    assert answer.steps[0].tokens == kept
    assert answer.steps[0].origins == [Method.DRAFT] * accepted + [Method.PLAIN] * (len(kept) - accepted)
    stats = answer.generation.stats
    assert (stats.predicted_n, stats.draft_n, stats.draft_n_accepted) == (position + 1, 5, accepted)
    assert list(answer.generation.slot.tokens) == PROMPT + kept
    assert cells(answer) == (PROMPT + kept)[:-1]


@pytest.mark.parametrize("position", range(6))
def test_D05_a_draft_model_stops_drafting_behind_an_end_token(position: int) -> None:
    ends = frozenset({TEXT[position]})
    draft = scripted(ends)
    answer = generate(scripted(ends), PROMPT, drafter=DraftModel(draft), depth=5)
    assert answer.ids == TEXT[: position + 1]
    assert answer.generation.stats.draft_n == min(position + 1, 5)
    assert len(draft.ids("propose")) == min(position + 1, 5)  # the last prompt id, then all guesses but the last


@pytest.mark.parametrize("position", range(12))
def test_D05_repetition_drafts_past_an_end_token_in_vain(position: int) -> None:
    # The prompt shows the whole text with an end token inside, as an earlier turn does.
    past = [1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4]
    ends = frozenset({5})
    rows = script(SIZE, [*past[:position], 5, 1, 2, 3], len(past) + len(past))
    target = scripted(ends, rows=rows)
    wanted = greedy(rows, past + past, 30, ends)
    answer = generate(target, past + past, drafter=Ngram(min_match=2), depth=8)
    assert answer.ids == wanted
    assert answer.generation.finish_reason == "stop"


def test_T04_every_end_token_counts() -> None:
    for end in (3, 6):
        target = scripted(ends=frozenset({end, 8}))
        answer = generate(target, PROMPT, drafter=Fixed(PROMPT + TEXT), depth=5)
        assert answer.ids == TEXT[: TEXT.index(end) + 1]


# D06: the limit


@pytest.mark.parametrize("depth", [0, 1, 3, 5, 8])
@pytest.mark.parametrize("limit", range(1, 9))
def test_D06_never_more_than_the_limit(limit: int, depth: int) -> None:
    target = scripted()
    drafter = Fixed(PROMPT + TEXT)
    answer = generate(target, PROMPT, drafter=drafter, depth=depth, max_tokens=limit, slot=target.open())
    assert answer.ids == TEXT[:limit]
    assert answer.generation.finish_reason == "length"
    assert cells(answer) == (PROMPT + TEXT[:limit])[:-1]
    assert len(target.ids("verify")) <= limit, "rows past what may be emitted"


@pytest.mark.parametrize("limit", range(1, 8))
@pytest.mark.parametrize("stop", range(7))
def test_D06_a_stop_inside_the_limit_wins(stop: int, limit: int) -> None:
    answer = generate(
        scripted(ends=frozenset({TEXT[stop]})), PROMPT, drafter=Fixed(PROMPT + TEXT), depth=5, max_tokens=limit
    )
    inside = stop < limit
    assert answer.ids == TEXT[: stop + 1 if inside else limit]
    assert answer.generation.finish_reason == ("stop" if inside else "length")


def test_D06_repetition_and_a_limit_of_two() -> None:
    past = [1, 2, 3, 4] * 4
    target = scripted(rows=script(SIZE, [1, 2, 3, 4] * 4, len(past)))
    answer = generate(target, past, drafter=Ngram(), depth=3, max_tokens=2)
    assert answer.ids == [1, 2]
    assert answer.generation.finish_reason == "length"


def test_D06_a_limit_of_nothing_ends_before_the_first_step() -> None:
    target = scripted()
    answer = generate(target, PROMPT, max_tokens=0)
    assert (answer.ids, answer.generation.finish_reason, answer.steps) == ([], "length", [])
    assert target.ids("verify") == []


# S04: a stop string cuts where the text ends


@pytest.mark.parametrize("rewind", ["trim", "snapshot"])
@pytest.mark.parametrize("kept", range(7))
def test_S04_a_cut_takes_ids_counts_and_cache_alike(kept: int, rewind: str) -> None:
    target = ScriptedTarget(script(SIZE, TEXT, len(PROMPT)), [b"x"] * SIZE, rewind=rewind)  # type: ignore[arg-type]
    slot = target.open()
    generation = begin(target, PROMPT, drafter=Fixed(PROMPT + TEXT), depth=5, max_tokens=6, slot=slot)
    finish(target, generation)
    assert (generation.token_ids, generation.finish_reason) == (TEXT[:6], "length")
    generation.cut(kept)
    assert generation.token_ids == TEXT[:kept]
    assert generation.finish_reason == "stop"
    assert list(slot.tokens) == PROMPT + TEXT[:kept]
    assert slot.cells == (PROMPT + TEXT[:kept])[:-1]
    stats = generation.stats
    assert (stats.predicted_n, stats.draft_n_accepted, stats.draft_n) == (kept, min(kept, 5), 5)
    # The slot goes on as if nothing else had ever been there.
    again = generate(target, PROMPT + TEXT[:kept], max_tokens=3, slot=slot)
    assert again.ids == TEXT[kept : kept + 3]


def test_S04_a_cut_in_an_earlier_block_than_the_last() -> None:
    target = scripted()
    answer = generate(
        target, PROMPT, drafter=Fixed([*PROMPT, 1, 2, 0, 4, 5, 6]), depth=3, max_tokens=8, slot=target.open()
    )
    assert [one.n_accepted for one in answer.steps] == [2, 3, 0]
    answer.generation.cut(1)
    stats = answer.generation.stats
    assert (stats.predicted_n, stats.draft_n_accepted, stats.accepted_at) == (1, 1, [1, 0, 0])
    assert cells(answer) == PROMPT


# K07: the context's edge


@pytest.mark.parametrize("method", ["plain", "fixed", "draft", "ngram"])
@pytest.mark.parametrize("room", range(1, 10))
def test_K07_drafts_are_clipped_to_the_room_left(room: int, method: str) -> None:
    prompt = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]
    n_ctx = len(prompt) + room
    rows = script(SIZE, [4, 1, 2, 3, 4, 1, 2, 3, 4, 1], len(prompt))
    target = scripted(n_ctx=n_ctx, rows=rows)
    wanted = greedy(rows, prompt, room)
    fixed = Fixed(prompt + wanted + [0] * 20)
    drafter = {
        "plain": None,
        "fixed": fixed,
        "draft": DraftModel(scripted(n_ctx=n_ctx, rows=rows)),
        "ngram": Ngram(min_match=2),
    }[method]
    answer = generate(target, prompt, drafter=drafter, depth=8)
    assert answer.ids == wanted
    assert answer.generation.finish_reason == "length"
    assert method != "fixed" or fixed.asked == ([min(8, room - 1)] if room > 1 else [])


def test_K07_a_full_context_ends_before_the_first_step() -> None:
    target = scripted(n_ctx=4)
    answer = generate(target, [1, 2, 3, 4], drafter=Fixed([]), depth=4)
    assert (answer.ids, answer.generation.finish_reason) == ([], "length")


# D07, D08, D09: settings


@pytest.mark.parametrize("depth", range(1, 9))
def test_D07_penalties_see_every_token_of_a_block(depth: int) -> None:
    params = SamplingParams(temperature=0, frequency_penalty=1.0, repeat_penalty=1.3, presence_penalty=0.2)
    rows = noise(SIZE, 3, order=1, scale=1.5)
    plain = generate(scripted(rows=rows), PROMPT, params=params, max_tokens=60)
    drafted = generate(
        scripted(rows=rows), PROMPT, params=params, max_tokens=60, depth=depth, drafter=DraftModel(scripted(rows=rows))
    )
    assert drafted.ids == plain.ids
    assert drafted.generation.stats.acceptance_rate == 1.0
    assert plain.ids != greedy(rows, PROMPT, 60), "the penalties change this text"


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_D07_penalties_with_drawn_drafts_all_accepted(depth: int) -> None:
    params = SamplingParams(temperature=1.0, frequency_penalty=1.0, repeat_penalty=1.3, seed=3)
    rows = noise(SIZE, 3, order=1, scale=1.5)
    answer = generate(
        scripted(rows=rows), PROMPT, params=params, max_tokens=60, depth=depth, drafter=DraftModel(scripted(rows=rows))
    )
    assert answer.generation.stats.acceptance_rate == 1.0  # only if both saw the same penalties


def repetitive(seed: int) -> Rows:
    """Texts that repeat themselves now and then, so that repetition finds something, right and wrong."""
    return noise(SIZE, seed, order=1, scale=3.0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.2])
def test_D08_same_seed_same_text_with_and_without_repetition(temperature: float, seed: int) -> None:
    params = SamplingParams(temperature=temperature, frequency_penalty=0.1, seed=seed)
    plain = generate(scripted(rows=repetitive(1)), PROMPT, params=params, max_tokens=100)
    again = generate(scripted(rows=repetitive(1)), PROMPT, params=params, max_tokens=100)
    drafted = generate(
        scripted(rows=repetitive(1)), PROMPT, params=params, max_tokens=100, drafter=Ngram(min_match=1), depth=6
    )
    assert plain.ids == again.ids == drafted.ids
    assert drafted.generation.stats.draft_n > 0
    other = SamplingParams(temperature=temperature, frequency_penalty=0.1, seed=seed + 100)
    assert generate(scripted(rows=repetitive(1)), PROMPT, params=other, max_tokens=100).ids != plain.ids


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_D08_same_seed_same_text_with_a_draft_model(temperature: float) -> None:
    def text(seed: int) -> list[int]:
        drafter = DraftModel(scripted(rows=noise(SIZE, 2)))
        params = SamplingParams(temperature=temperature, seed=seed)
        return generate(scripted(rows=noise(SIZE, 1)), PROMPT, params=params, max_tokens=60, drafter=drafter).ids

    assert text(5) == text(5)
    assert text(5) != text(6)


def test_D08_an_empty_draft_consumes_no_random_numbers() -> None:
    params = SamplingParams(temperature=1.0, seed=11)
    plain = generate(scripted(rows=noise(SIZE, 1)), PROMPT, params=params, max_tokens=80)
    never_matches = Ngram(min_match=1000)
    found = generate(scripted(rows=noise(SIZE, 1)), PROMPT, params=params, max_tokens=80, drafter=never_matches)
    assert found.ids == plain.ids
    assert found.generation.stats.draft_rounds == 0
    draft = DraftModel(scripted(rows=noise(SIZE, 2)))
    found = generate(scripted(rows=noise(SIZE, 1)), PROMPT, params=params, max_tokens=80, drafter=draft, depth=0)
    assert found.ids == plain.ids


@pytest.mark.parametrize("depth", [1, 4, 8])
@pytest.mark.parametrize("temperature", [0.0, 1e-6])
def test_D09_no_temperature_and_hardly_any_accept_everything(temperature: float, depth: int) -> None:
    rows = noise(SIZE, 4)
    params = SamplingParams(temperature=temperature)
    answer = generate(
        scripted(rows=rows), PROMPT, params=params, max_tokens=50, depth=depth, drafter=DraftModel(scripted(rows=rows))
    )
    assert answer.ids == greedy(rows, PROMPT, 50)
    assert answer.generation.stats.acceptance_rate == 1.0


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("rewind", ["trim", "snapshot"])
@pytest.mark.parametrize("seed", range(3))
def test_D02_greedy_text_does_not_depend_on_the_draft(seed: int, rewind: str, depth: int) -> None:
    rows = noise(SIZE, seed)
    target, draft = (
        ScriptedTarget(r, [b"x"] * SIZE, frozenset({7}), rewind=rewind)  # type: ignore[arg-type]
        for r in (rows, noise(SIZE, seed + 50, order=1))
    )
    answer = generate(target, PROMPT, max_tokens=40, depth=depth, drafter=DraftModel(draft))
    assert answer.ids == greedy(rows, PROMPT, 40, {7})


def test_what_a_pass_took_for_a_draft_still_on_its_way_counts_as_drafting(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(drafting_ms: float) -> tuple[float, float]:
        ticks = itertools.count()
        monkeypatch.setattr("pardec_chat.backends.decoding.loop.perf_counter", lambda: next(ticks) / 1e3)
        target = scripted()
        verify = target.verify
        monkeypatch.setattr(
            target, "verify", lambda items: [replace(one, drafting_ms=drafting_ms) for one in verify(items)]
        )
        generation = begin(target, PROMPT, drafter=Fixed(PROMPT + list(TEXT)), depth=5)
        (one,) = step(target, [generation], Controller())
        return one.draft_ms, one.verify_ms

    draft_ms, verify_ms = times(0.0)
    assert times(0.25) == pytest.approx((draft_ms + 0.25, verify_ms - 0.25))


@pytest.mark.parametrize("accepted", range(6))
def test_every_block_boundary(accepted: int) -> None:
    # Of five guesses the first `accepted` are right; then one token of the target's own.
    wrong = [*TEXT[:accepted], *[(t + 1) % SIZE for t in TEXT[accepted:]]]
    target = scripted()
    generation = begin(target, PROMPT, drafter=Fixed(PROMPT + wrong), depth=5, slot=target.open())
    (one,) = step(target, [generation], Controller())
    assert one.tokens == TEXT[: accepted + 1]
    assert one.n_accepted == accepted
    assert one.proposed == wrong[:5]
    slot = generation.slot
    assert isinstance(slot, ScriptedSlot)
    assert slot.cells == PROMPT + TEXT[:accepted]
    assert generation.stats.accepted_at == [1] * accepted


# Several answers in one pass


def test_K05_answers_in_one_pass_equal_each_alone() -> None:
    rows = noise(SIZE, 6)
    prompts = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 5, 6, 7, 8]]
    params = [
        GREEDY,
        SamplingParams(temperature=0.9, seed=1),
        SamplingParams(temperature=0.4, seed=2, repeat_penalty=1.2),
    ]

    def drafters() -> list[Fixed | Ngram | DraftModel | None]:
        return [DraftModel(scripted(rows=noise(SIZE, 7))), None, Ngram(min_match=1)]

    alone = [
        generate(scripted(rows=rows), p, params=s, drafter=d, max_tokens=20 + 5 * i)
        for i, (p, s, d) in enumerate(zip(prompts, params, drafters(), strict=True))
    ]
    target = scripted(rows=rows, slots=3)
    together = [
        begin(target, p, params=s, drafter=d, max_tokens=20 + 5 * i)
        for i, (p, s, d) in enumerate(zip(prompts, params, drafters(), strict=True))
    ]
    controller = Controller()
    while live := [g for g in together if g.finish_reason is None]:
        passes = target.passes
        assert len(step(target, live, controller)) == len(live)
        assert target.passes == passes + 1
    assert [g.token_ids for g in together] == [a.ids for a in alone]
    assert [g.stats.draft_n for g in together] == [a.generation.stats.draft_n for a in alone]


# Log-probabilities


@pytest.mark.parametrize("method", ["plain", "draft", "ngram"])
@pytest.mark.parametrize("temperature", [0.0, 0.4, 1.0])
def test_S05_log_probabilities_are_the_raw_softmax_for_every_method(temperature: float, method: str) -> None:
    rows = repetitive(2)
    params = SamplingParams(temperature=temperature, seed=4, repeat_penalty=1.2, top_k=3, logprobs=2)
    drafter = {"plain": None, "draft": DraftModel(scripted(rows=noise(SIZE, 8))), "ngram": Ngram(min_match=1)}[method]
    answer = generate(scripted(rows=rows), PROMPT, params=params, drafter=drafter, max_tokens=50)
    assert len(answer.logprobs) == len(answer.ids) == 50
    for i, (token, entry) in enumerate(zip(answer.ids, answer.logprobs, strict=True)):
        logits = np.array(rows((*PROMPT, *answer.ids[:i])))
        wanted = logits - np.log(np.exp(logits).sum())
        assert entry.logprob == pytest.approx(wanted[token], abs=1e-5)
        best = np.argsort(-wanted, kind="stable")[:2]
        assert [t for t, _ in entry.top] == best.tolist()
        assert [v for _, v in entry.top] == pytest.approx(wanted[best].tolist(), abs=1e-5)


def test_no_log_probabilities_unless_asked_for() -> None:
    assert generate(scripted(), PROMPT, max_tokens=3).steps[0].logprobs is None
    none_on_top = generate(scripted(), PROMPT, params=SamplingParams(temperature=0, logprobs=0), max_tokens=3)
    assert [list(entry.top) for entry in none_on_top.logprobs] == [[], [], []]
