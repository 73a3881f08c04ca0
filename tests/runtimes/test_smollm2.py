"""The built-in model, as users run it: quantised weights, a cache in half precision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pardec_chat.app import locations
from pardec_chat.backends import registry
from pardec_chat.backends.base import Drafter, LoadOptions, Target
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.tests.decode import Answer, generate

PATH = locations.models() / "smollm2-135m-instruct-q4_1.gguf"
#: Where the texts part, plain decoding's two best tokens must be nearer than this, in natural logarithms.
NEAR_TIE = 0.1
GREEDY = SamplingParams(temperature=0, logprobs=2)
N = 24
PROMPTS = {
    "repeats": "Repeat this three times: The quick brown fox jumps over the lazy dog. It was not amused.",
    "code": "Add a docstring:\ndef add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n",
    "chat": "What is the capital of France, and what is it known for?",
    "markup": "Continue: <li>one</li>\n<li>two</li>\n<li>three</li>\n<li>four</li>\n",
}

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not PATH.is_file(), reason="the built-in model is not on this disk"),
    pytest.mark.skipif(not registry.installed("llamacpp"), reason="llama.cpp is not installed"),
]


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    loaded = registry.load("llamacpp").load(LoadOptions(PATH, n_ctx=256, threads=1))
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def plain(target: Target) -> dict[str, Answer]:
    return {name: generate(target, ids(target, name), params=GREEDY, max_tokens=N) for name in PROMPTS}


def ids(target: Target, name: str) -> list[int]:
    text = f"<|im_start|>user\n{PROMPTS[name]}<|im_end|>\n<|im_start|>assistant\n"
    return target.vocabulary.encode(text, add_special=True, parse_special=True)


def assert_same_up_to_near_ties(found: Answer, wanted: Answer) -> None:
    for i, (a, b) in enumerate(zip(found.ids, wanted.ids, strict=False)):
        # The same prefix up to here, so the same distribution up to the arithmetic's own tolerance.
        assert abs(found.logprobs[i].top[0][1] - wanted.logprobs[i].top[0][1]) < NEAR_TIE
        if a != b:
            (_, best), (_, second) = wanted.logprobs[i].top
            assert best - second < NEAR_TIE, f"token {i}: {a} for {b}, {best - second:.3f} apart"
            return
    assert len(found.ids) == len(wanted.ids)


def test_the_vocabulary_names_its_end_tokens(target: Target) -> None:
    vocabulary = target.vocabulary
    names = {vocabulary.text(token) for token in vocabulary.end_ids}
    assert "<|im_end|>" in names
    assert all(vocabulary.piece(token) == b"" for token in vocabulary.end_ids)
    assert target.chat_template is not None


def test_plain_decoding_says_something_sensible(target: Target, plain: dict[str, Answer]) -> None:
    text = b"".join(target.vocabulary.piece(token) for token in plain["chat"].ids).decode()
    assert "Paris" in text
    assert plain["chat"].generation.stats.draft_n == 0


@pytest.mark.parametrize(
    ("method", "name"),
    [("ngram", "repeats"), ("ngram", "code"), ("ngram", "markup"), ("draft", "chat"), ("draft", "code")],
)
def test_D02_greedy_ids_equal_plain_or_part_at_a_near_tie(
    target: Target, plain: dict[str, Answer], method: str, name: str
) -> None:
    model = None
    drafter: Drafter = Ngram(min_match=2)
    if method == "draft":
        model = registry.load("llamacpp").load(LoadOptions(PATH, n_ctx=256, threads=1, draft=True))
        drafter = DraftModel(model)
    found = generate(target, ids(target, name), params=GREEDY, max_tokens=N, drafter=drafter, depth=5)
    if model is not None:
        model.close()
    assert_same_up_to_near_ties(found, plain[name])
    stats = found.generation.stats
    assert method == "ngram" or (stats.acceptance_rate or 0.0) > 0.9
    assert name != "repeats" or stats.draft_n_accepted > 0


def test_D08_same_seed_same_text(target: Target) -> None:
    params = SamplingParams(seed=7)
    texts = [generate(target, ids(target, "chat"), params=params, max_tokens=12).ids for _ in range(2)]
    assert texts[0] == texts[1]


def test_K05_a_warm_slot_answers_as_a_cold_one(target: Target, plain: dict[str, Answer]) -> None:
    slot = target.open()
    for name in ("code", "chat"):
        prompt = ids(target, name)
        assert_same_up_to_near_ties(generate(target, prompt, params=GREEDY, max_tokens=N, slot=slot), plain[name])
    assert slot.prefill(ids(target, "chat"), lambda: False).n_evaluated == 0
    slot.close()
