"""Verdicts on pairs of files, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pardec_chat.backends.decoding.pairing import TokenTable
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.model_file import Kind, ModelFile
from pardec_chat.backends.pairs import judge

WORDS = [b"<s>", b"</s>", *(b"word%d" % i for i in range(98))]


def file(name: str, size: int = 10**9, words: list[bytes] = WORDS, kind: Kind = "model", **more: object) -> ModelFile:
    return replace(
        ModelFile(
            path=Path(f"{name}.gguf"),
            name=name,
            kind=kind,
            architecture="llama",
            size=size,
            shape=Shape(name, size, 10, 1000, len(words)),
            cache="full",
            tokenizer="gpt2 qwen2",
            width=64,
            vocabulary=lambda: TokenTable(words, frozenset({0, 1})),
        ),
        **more,  # type: ignore[arg-type]
    )


def test_an_exact_pair_says_what_it_can_gain() -> None:
    found = judge(file("t", 8 * 10**9), file("d", 10**9))
    assert (found.verdict, found.method, found.masked_ids, found.first_difference) == ("exact", "draft", (), None)
    assert found.reasons == ("Both have the same 100 ids.", "1.0 GB guesses for 8.0 GB, 8.0 to 1.")


def test_a_draft_that_is_too_large_is_told_what_it_can_gain() -> None:
    found = judge(file("t", 2 * 10**9), file("d", 10**9))
    assert found.verdict == "exact"
    assert found.reasons[-1] == "1.0 GB guesses for 2.0 GB, 2.0 to 1: a smaller draft would gain more."
    found = judge(file("t", 15 * 10**8), file("d", 10**9))
    assert found.reasons[-1] == "1.0 GB guesses for 1.5 GB, 1.5 to 1: too alike to gain much."


def test_D11_padding_and_a_special_token_are_tolerable_and_masked() -> None:
    other = [b"<s>", b"<end>", *WORDS[2:], b"[PAD0]", b"[PAD1]"]
    found = judge(file("t"), file("d", words=other, tokenizer="llama default"))
    assert found.verdict == "tolerable"
    assert found.masked_ids == (1, 100, 101)
    assert found.reasons[:2] == (
        "Padded differently (100 and 102 ids).",
        "1 special tokens differ and are never drafted.",
    )
    assert "The tokenizers call themselves 'gpt2 qwen2' and 'llama default'." in found.reasons


def test_D10_an_impossible_pair_names_sizes_tokenizers_and_the_first_difference() -> None:
    other = list(WORDS)
    other[5], other[9] = other[9], other[5]
    found = judge(file("t"), file("d", words=other, tokenizer="gpt2 smollm"))
    assert found.verdict == "impossible"
    assert found.masked_ids == ()
    assert found.reasons == (
        "2 of 100 common ids have other texts (100 and 100 ids).",
        "Id 5 is 'word3' in the target, 'word7' in the draft.",
        "The tokenizers call themselves 'gpt2 qwen2' and 'gpt2 smollm'.",
    )
    assert found.first_difference is not None
    assert found.first_difference.id == 5


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("vision projector", "shows pictures"),
        ("adapter", "changes a model"),
        ("importance matrix", "quantised with it"),
        ("vocabulary", "no weights"),
    ],
)
def test_L08_helpers_are_explained_on_either_side(kind: Kind, words: str) -> None:
    for found in (judge(file("t"), file("x", kind=kind)), judge(file("x", kind=kind), file("d"))):
        assert found.verdict == "impossible"
        assert found.reasons[0].startswith("x.gguf ")
        assert words in found.reasons[0]


def test_D13_a_head_of_another_target_is_told_apart_by_its_width() -> None:
    head = file("h", kind="draft head", architecture="eagle3", width=128)
    found = judge(file("t"), head)
    assert (found.verdict, found.method) == ("impossible", "eagle")
    assert found.reasons == ("h.gguf is a head of the method eagle (eagle3) for a model of width 128; t.gguf has 64.",)


def test_D18_a_head_of_prediction_layers_is_explained() -> None:
    head = file("h", kind="draft head", architecture="qwen35", mtp_promised=1, mtp_present=1)
    found = judge(file("t"), head)
    assert (found.verdict, found.method) == ("impossible", "mtp")
    assert "this version has no method mtp" in found.reasons[0]
    assert judge(head, file("d")).reasons[0].endswith("it is no target.")


@pytest.mark.parametrize(("present", "words"), [(1, "the file holds them"), (0, "the file holds 0")])
def test_D18_promised_and_present_layers_are_both_told(present: int, words: str) -> None:
    found = judge(file("t", mtp_promised=1, mtp_present=present), file("d"))
    assert found.verdict == "exact"
    assert found.reasons[-1] == f"The target's metadata promises 1 MTP layers; {words}."


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ("hybrid", "saved before each check"),
        ("recurrent", "saved before each check"),
        ("sliding window", "shorter than it"),
    ],
)
def test_K01_D01_what_the_cache_means_for_guessing(cache: str, words: str) -> None:
    assert words in judge(file("t", cache=cache), file("d")).reasons[-1]
