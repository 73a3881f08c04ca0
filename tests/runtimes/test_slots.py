"""Places, edges and errors of every runtime: what a caller may do wrong, and that nothing is lost by it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from pardec_chat.backends.base import NO_DRAFT, Draft, Method, Runtime
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.errors import BadSetting, ContextFull, QueueFull
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import Fixed, generate, never
from pardec_chat.tests.runtimes.conftest import Load
from pardec_chat.tests.runtimes.test_contract import ARCHS, ON, PROMPT, N, plain, wrong_at
from pardec_chat.tests.tiny_models import BOS, EOS, TEMPLATE, TURN, UNUSED, VOCABULARY

pytestmark = pytest.mark.usefixtures("in_float32")


@pytest.mark.parametrize("arch", ARCHS)
def test_K01_what_a_cache_can_do_is_known_at_load(load: Load, tiny: Tiny, arch: str) -> None:
    found = load(tiny(arch), slots=2, branches=2).capabilities
    stateful = arch in ("mamba", "jamba")
    assert found.rewind == ("snapshot" if stateful else "trim")
    assert found.tree == (not stateful)
    assert (found.max_slots, found.n_ctx) == (2, 256)
    assert not load(tiny(arch)).capabilities.tree, "no branches were asked for"


def test_context_length_defaults_to_what_the_model_knows(load: Load, tiny: Tiny) -> None:
    assert load(tiny("llama"), n_ctx=None).capabilities.n_ctx == 1024
    with pytest.raises(BadSetting):
        load(tiny("llama"), n_ctx=8)


def test_slots_are_counted(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"), slots=2)
    first, second = target.open(), target.open()
    with pytest.raises(QueueFull):
        target.open()
    with pytest.raises(QueueFull):
        first.fork()
    second.close()
    target.open()


def test_closing_a_slot_twice_takes_nothing_from_the_next_one(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    wanted = plain(target)
    first = target.open()
    first.close()
    second = target.open()
    head = generate(target, PROMPT, params=ON, max_tokens=10, slot=second)
    first.close()
    rest = generate(target, list(second.tokens), params=ON, max_tokens=N - 10, slot=second)
    assert head.ids + rest.ids == wanted
    with pytest.raises(QueueFull):
        target.open()


@pytest.mark.parametrize("arch", ARCHS)
def test_K05_a_slot_that_was_given_back_starts_empty(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch))
    wanted = plain(target)
    for _ in range(3):
        slot = target.open()
        assert list(slot.tokens) == []
        assert slot.prefill(PROMPT, never).n_cached == 0
        assert generate(target, PROMPT, params=ON, max_tokens=N, slot=slot).ids == wanted
        slot.close()


@pytest.mark.parametrize("arch", ARCHS)
def test_K07_a_prompt_that_does_not_fit_is_refused_and_costs_nothing(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch), n_ctx=32)
    slot = target.open()
    head = generate(target, PROMPT, params=ON, max_tokens=5, slot=slot).ids
    before = list(slot.tokens)
    with pytest.raises(ContextFull) as caught:
        slot.prefill([1] * 33, never)
    assert "33" in caught.value.what
    assert "32" in caught.value.what
    assert list(slot.tokens) == before
    rest = generate(target, before, params=ON, max_tokens=10, slot=slot).ids
    assert head + rest == plain(load(tiny(arch)))[:15]
    assert slot.prefill([1] * 32, never).complete


@pytest.mark.parametrize("arch", ARCHS)
def test_K07_a_draft_that_does_not_fit_is_refused_and_costs_nothing(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch), n_ctx=16, slots=2)
    wanted = plain(load(tiny(arch)))
    slot, other = target.open(), target.open()
    slot.prefill(PROMPT, never)
    other.prefill(PROMPT[:3], never)
    sampler = Sampler(ON, PROMPT)
    with pytest.raises(ContextFull):
        target.verify([(other, NO_DRAFT, Sampler(ON, [])), (slot, Draft.chain([5] * 7, Method.DRAFT), sampler)])
    assert (list(slot.tokens), list(other.tokens)) == (PROMPT, PROMPT[:3])
    (verdict,) = target.verify([(slot, Draft.chain(wanted[:5], Method.DRAFT), sampler)])
    assert list(verdict.tokens) == wanted[:6]


def test_a_tree_with_more_leaves_than_asked_for_is_refused_and_costs_nothing(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"), branches=2)
    wanted = plain(target)
    slot = target.open()
    slot.prefill(PROMPT, never)
    sampler = Sampler(ON, PROMPT)
    for _ in range(3):
        with pytest.raises(BadSetting):
            target.verify([(slot, Draft([5, 6, 7, 8], [-1] * 4, Method.DRAFT), sampler)])
    draft = Draft([5, 6, wanted[0]], [-1] * 3, Method.DRAFT)
    (verdict,) = target.verify([(slot, draft, sampler)])
    assert (list(verdict.tokens), list(verdict.path)) == (wanted[:2], [2])
    rest = generate(target, list(slot.tokens), params=ON, max_tokens=N - 2, slot=slot)
    assert rest.ids == wanted[2:]


def test_K05_a_refused_tree_leaves_nothing_in_the_next_conversations_branches(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"), branches=2)
    other = [1, *range(60, 80)]
    wanted = plain(target, other)
    first = target.open()
    first.prefill(PROMPT, never)
    with pytest.raises(BadSetting):
        target.verify([(first, Draft([5, 6, 7, 8], [-1] * 4, Method.DRAFT), Sampler(ON, PROMPT))])
    first.close()
    second = target.open()
    second.prefill(other, never)
    draft = Draft([5, 6, wanted[0]], [-1] * 3, Method.DRAFT)
    (verdict,) = target.verify([(second, draft, Sampler(ON, other))])
    assert list(verdict.tokens) == wanted[:2]
    assert generate(target, list(second.tokens), params=ON, max_tokens=N - 2, slot=second).ids == wanted[2:]


def test_closing_a_model_twice_is_harmless(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    slot = target.open()
    slot.prefill(PROMPT, never)
    target.close()
    target.close()
    slot.close()
    again = load(tiny("llama"))
    assert generate(again, PROMPT, params=ON, max_tokens=2).ids == generate(again, PROMPT, params=ON, max_tokens=2).ids


@pytest.mark.parametrize("depth", [1, 8, 32])
def test_the_longest_drafts_in_every_slot_at_once(load: Load, tiny: Tiny, depth: int) -> None:
    target = load(tiny("llama"), slots=4)
    wanted = plain(target, n=80)
    slots = [target.open() for _ in range(4)]
    for slot in slots:
        slot.prefill(PROMPT, never)
    verdicts = target.verify([(slot, Draft.chain(wanted[:depth], Method.DRAFT), Sampler(ON, PROMPT)) for slot in slots])
    assert [list(verdict.tokens) for verdict in verdicts] == [wanted[: depth + 1]] * 4


# Log-probabilities


@pytest.mark.parametrize("arch", ARCHS)
def test_S05_log_probabilities_are_a_softmax_and_do_not_depend_on_the_method(load: Load, tiny: Tiny, arch: str) -> None:
    size = len(VOCABULARY)
    params = SamplingParams(temperature=0, repeat_penalty=1.1, logit_bias=ON.logit_bias, logprobs=size)
    target = load(tiny(arch))
    first = generate(target, PROMPT, params=params, max_tokens=20)
    assert len(first.logprobs) == 20
    for token, entry in zip(first.ids, first.logprobs, strict=True):
        assert math.fsum(math.exp(value) for _, value in entry.top) == pytest.approx(1.0, abs=1e-5)
        assert [value for _, value in entry.top] == sorted((value for _, value in entry.top), reverse=True)
        assert sorted(i for i, _ in entry.top) == list(range(size))
        assert dict(entry.top)[token] == pytest.approx(entry.logprob, abs=1e-6)
    drafter = Fixed(PROMPT + wrong_at(first.ids, 3))
    drafted = generate(target, PROMPT, params=params, max_tokens=20, drafter=drafter, depth=5)
    assert drafted.ids == first.ids
    for one, other in zip(first.logprobs, drafted.logprobs, strict=True):
        assert other.logprob == pytest.approx(one.logprob, abs=1e-4)
        a, b = dict(one.top), dict(other.top)
        assert np.array([b[i] for i in range(size)]) == pytest.approx(np.array([a[i] for i in range(size)]), abs=1e-4)


# Vocabularies


def test_T04_every_end_token_of_the_file_is_known(load: Load, tiny: Tiny) -> None:
    vocabulary = load(tiny("llama")).vocabulary
    assert vocabulary.end_ids == {EOS, TURN}
    assert (vocabulary.bos, vocabulary.eos, vocabulary.begins_with_bos) == ("<s>", "</s>", True)
    assert vocabulary.size == len(VOCABULARY)


def test_vocabulary_encodes_and_gives_the_bytes_back(load: Load, tiny: Tiny) -> None:
    vocabulary = load(tiny("llama")).vocabulary
    for text in ("the cat sat", "héé", "emoji 👩‍👩‍👧 한글", "tabs\tand\nlines", "", " " * 70):
        ids = vocabulary.encode(text, add_special=False, parse_special=True)
        assert b"".join(vocabulary.piece(i) for i in ids).decode() == (" " + text if text else "")
    assert vocabulary.encode("a", add_special=True, parse_special=False)[0] == BOS
    assert TURN in vocabulary.encode("a<end_of_turn>", add_special=False, parse_special=True)
    assert TURN not in vocabulary.encode("a<end_of_turn>", add_special=False, parse_special=False)


def test_T04_markers_add_nothing_to_a_text(load: Load, tiny: Tiny) -> None:
    vocabulary = load(tiny("llama")).vocabulary
    for token in (BOS, EOS, TURN, UNUSED):
        assert vocabulary.piece(token) == b""
        assert vocabulary.text(token) == VOCABULARY.texts[token]
    assert [vocabulary.piece(6 + byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]


def test_metadata(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    assert (target.chat_template, target.name, target.path) == (TEMPLATE, "tiny llama", tiny("llama"))


def test_D10_a_vocabulary_is_read_without_the_weights(runtime: Runtime, load: Load, tiny: Tiny) -> None:
    path = tiny("llama", 0, VOCABULARY.padded(3))
    alone, loaded = runtime.read_model(path).vocabulary(), load(path).vocabulary
    assert list(alone.texts) == [text.encode() for text in VOCABULARY.padded(3).texts]
    assert [alone.text(i) for i in range(loaded.size)] == [loaded.text(i) for i in range(loaded.size)]
    assert {BOS, EOS, TURN, UNUSED, len(VOCABULARY), len(VOCABULARY) + 2} <= alone.special
    assert not {6, 262, 291} & alone.special


@pytest.mark.parametrize("extra", [-128, 0, 128])
def test_D11_a_padded_pair_decodes(load: Load, tiny: Tiny, extra: int) -> None:
    # Rows that only one of the two has: of the draft they are masked, of the target they come up in the text.
    target = load(tiny("llama", 0, VOCABULARY.padded(max(0, -extra))))
    draft = load(tiny("llama", 1, VOCABULARY.padded(max(0, extra))), draft=True)
    drafter = DraftModel(draft, banned=range(len(VOCABULARY), len(VOCABULARY) + max(0, extra)))
    prompt = [*PROMPT, target.vocabulary.size - 1]
    answer = generate(target, prompt, params=ON, max_tokens=N, drafter=drafter)
    assert answer.ids == plain(target, prompt)
    assert answer.generation.stats.draft_n > N
    assert all(token < len(VOCABULARY) for one in answer.steps for token in one.proposed)


def test_describe_names_the_version(runtime: Runtime) -> None:
    assert runtime.describe()["version"]


def test_path_is_what_was_asked_for(load: Load, tiny: Tiny, tmp_path: Path) -> None:
    odd = tmp_path / "ö ü 'q' 漢字.gguf"
    odd.write_bytes(tiny("llama").read_bytes())
    assert load(odd).path == odd
