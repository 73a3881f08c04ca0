"""Which draft model fits which target, by what their files say."""

from __future__ import annotations

import pytest

from pardec_chat.backends.decoding.pairing import Difference, TokenTable, compare

WORDS = [b"<s>", b"</s>", b"<pad>", *(b"word%d" % i for i in range(997))]
SPECIAL = frozenset({0, 1, 2})


def table(texts: list[bytes], special: frozenset[int] = SPECIAL) -> TokenTable:
    return TokenTable(texts, special)


def test_the_same_vocabulary_is_exact() -> None:
    found = compare(table(WORDS), table(list(WORDS)))
    assert (found.verdict, found.masked_ids, found.reasons, found.first_difference) == ("exact", (), (), None)


def test_D10_two_swapped_ids_are_impossible_and_named() -> None:
    swapped = list(WORDS)
    swapped[10], swapped[500] = swapped[500], swapped[10]
    found = compare(table(WORDS), table(swapped))
    assert found.verdict == "impossible"
    assert found.masked_ids == ()
    assert found.first_difference == Difference(10, "word7", "word497")
    assert found.reasons == ("2 of 1,000 common ids have other texts (1,000 and 1,000 ids)",)


def test_D10_a_wholly_other_vocabulary_of_the_same_size() -> None:
    other = [b"<s>", b"</s>", b"<pad>", *(b"mot%d" % i for i in range(997))]
    found = compare(table(WORDS), table(other))
    assert found.verdict == "impossible"
    assert found.first_difference == Difference(3, "word0", "mot0")
    assert found.reasons == ("997 of 1,000 common ids have other texts (1,000 and 1,000 ids)",)


def test_D10_another_size_and_another_order_names_both_sizes() -> None:
    found = compare(table(WORDS), table([b"<unk>", *WORDS, b"<end>"], frozenset({0, 1, 2, 3})))
    assert found.verdict == "impossible"
    assert "1,000 and 1,002 ids" in found.reasons[0]
    # The first written text that differs says more than a special token's name.
    assert found.first_difference == Difference(4, "word1", "word0")


def test_D10_a_written_id_is_never_masked_away() -> None:
    other = list(WORDS)
    other[999] = b"something else"
    assert compare(table(WORDS), table(other)).verdict == "impossible"


@pytest.mark.parametrize("extra", [1, 128])
def test_D11_a_padded_draft_is_fine_and_its_extra_ids_are_masked(extra: int) -> None:
    padded = table([*WORDS, *(b"[PAD%d]" % i for i in range(extra))])
    found = compare(table(WORDS), padded)
    assert found.verdict == "tolerable"
    assert found.masked_ids == tuple(range(1000, 1000 + extra))
    assert found.reasons == (f"padded differently (1,000 and {1000 + extra:,} ids)",)
    assert found.first_difference is None


def test_D11_a_padded_target_is_fine_with_nothing_to_mask() -> None:
    padded = table([*WORDS, *(b"[PAD%d]" % i for i in range(128))])
    found = compare(padded, table(WORDS))
    assert (found.verdict, found.masked_ids) == ("tolerable", ())
    assert found.reasons == ("padded differently (1,128 and 1,000 ids)",)


def test_D11_one_special_token_may_differ_and_is_never_drafted() -> None:
    other = list(WORDS)
    other[2] = b"<fill>"
    found = compare(table(WORDS), table(other))
    assert found.verdict == "tolerable"
    assert found.masked_ids == (2,)
    assert found.reasons == ("1 special tokens differ and are never drafted",)
    assert found.first_difference == Difference(2, "<pad>", "<fill>")


def test_D11_special_in_one_file_only_counts_as_special() -> None:
    other = list(WORDS)
    other[700] = b"<|tool|>"
    assert compare(table(WORDS), table(other, SPECIAL | {700})).masked_ids == (700,)
    assert compare(table(WORDS, SPECIAL | {700}), table(other)).masked_ids == (700,)


def test_D11_the_kind_of_a_token_alone_makes_no_difference() -> None:
    assert compare(table(WORDS), table(list(WORDS), SPECIAL | {5, 6})).verdict == "exact"


def test_D11_both_kinds_of_small_differences_at_once() -> None:
    other = [*WORDS, b"[PAD]"]
    other[1] = b"<|end|>"
    found = compare(table(WORDS), table(other))
    assert found.masked_ids == (1, 1000)
    assert len(found.reasons) == 2


@pytest.mark.parametrize(("n", "verdict"), [(64, "tolerable"), (65, "impossible")])
def test_D11_many_differing_special_tokens_are_another_vocabulary(n: int, verdict: str) -> None:
    special = frozenset(range(100))
    other = [b"<other%d>" % i if i < n else text for i, text in enumerate(WORDS)]
    assert compare(table(WORDS, special), table(other, special)).verdict == verdict


def test_texts_that_are_no_text_can_be_named() -> None:
    broken = table([b"\xff\xfe", b"a"])
    assert broken.text(0) == "��"
    assert broken.text(7) == "(no such id)"
    found = compare(table([b"\xc3\xa9", b"a"]), broken)
    assert found.first_difference is not None
    assert found.first_difference.target == "é"
