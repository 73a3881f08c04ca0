"""Earlier answers: kept only with the user's word, bounded, gone when it is taken back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pardec_chat.app import locations
from pardec_chat.app.chat import earlier
from pardec_chat.app.chat.earlier import Earlier
from pardec_chat.backends.base import Verdict
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.drafters.suffix import Follower, SuffixAutomaton
from pardec_chat.tests.machines import SimulatedSlot

MODEL = Path("/models/a.gguf")


def test_without_agreement_nothing_is_kept() -> None:
    place = Earlier(MODEL, 100)
    place.add([1, 2, 3])
    assert not locations.earlier().exists()
    assert list(place.text.tokens) == []


def test_answers_are_there_at_the_next_start_and_gone_when_forgotten() -> None:
    earlier.agree(True)
    Earlier(MODEL, 100).add([1, 2, 3])
    Earlier(MODEL, 100).add([4, 5])
    assert list(Earlier(MODEL, 100).text.tokens) == [-1, 1, 2, 3, -1, 4, 5]
    assert list(Earlier(Path("/models/b.gguf"), 100).text.tokens) == [], "each model has its own"
    earlier.agree(False)
    assert not locations.earlier().exists()
    assert list(Earlier(MODEL, 100).text.tokens) == []


def test_the_folder_is_the_users_alone() -> None:
    earlier.agree(True)
    assert locations.earlier().stat().st_mode & 0o777 == 0o700


def test_ids_that_the_model_does_not_have_are_left_out() -> None:
    earlier.agree(True)
    Earlier(MODEL, 100).add([1, 99, 2])
    assert list(Earlier(MODEL, 50).text.tokens) == [-1, 1, 2]


def test_a_file_that_was_cut_is_read_as_far_as_it_goes() -> None:
    earlier.agree(True)
    Earlier(MODEL, 100).add([1, 2, 3])
    (path,) = locations.earlier().iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    assert list(Earlier(MODEL, 100).text.tokens) == [-1, 1, 2]


def test_what_is_kept_is_bounded_on_disk_and_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "MOST", 64)
    earlier.agree(True)
    place = Earlier(MODEL, 100)
    for i in range(40):
        place.add([i] * 7)
        (path,) = locations.earlier().iterdir()
        assert path.stat().st_size <= 2 * 64 * 4 + 8 * 4
        assert len(place.text.tokens) <= 64
    assert list(Earlier(MODEL, 100).text.tokens)[-8:] == [-1, *[39] * 7]


def longest_by_hand(text: list[int], other: list[int]) -> int:
    """Length of the longest suffix of `other` that stands in `text` with something behind it."""
    return next(
        (n for n in range(len(other), 0, -1) if any(text[i : i + n] == other[-n:] for i in range(len(text) - n))), 0
    )


def test_a_follower_finds_the_longest_suffix_that_stands_in_the_other_text() -> None:
    rng = random.Random(1)
    for _ in range(30):
        text = [rng.randrange(3) for _ in range(60)]
        automaton = SuffixAutomaton()
        automaton.extend(text)
        follower = Follower(automaton)
        other: list[int] = []
        for _ in range(60):
            other.append(rng.randrange(4))
            follower.append(other[-1])
            length, start = follower.longest_match()
            wanted = longest_by_hand(text, other)
            # At the very end of the text nothing follows: then it may say nothing, though a shorter suffix would do.
            assert length in (wanted, 0)
            if length:
                assert text[start - length : start] == other[-length:]
                assert follower.copied(start, 3) == text[start : start + 3]


def test_ngram_copies_from_earlier_answers_where_those_match_longer() -> None:
    text = SuffixAutomaton()
    text.extend([-1, 10, 11, 12, 13, 14, 15])
    slot = SimulatedSlot(1000)
    slot.ids = [11, 90, 10, 11]
    drafter = Ngram(guided=True, earlier=text)
    drafter.begin(slot, Sampler(SamplingParams(temperature=0.0), slot.ids), lambda: False)
    assert list(drafter.evidence(4)) == [2, 3, 4, 5]
    assert list(drafter.draft(4).tokens) == [12, 13, 14, 15]
    slot.ids = [*slot.ids, 12, 13]
    drafter.accept(Verdict([12, 13], [0]))
    assert [outcome.right for outcome in drafter.outcomes()] == [True, True]
    assert list(drafter.draft(9).tokens) == [14, 15], "no further than the kept text goes"


def test_the_separator_is_never_guessed() -> None:
    text = SuffixAutomaton()
    text.extend([-1, 10, 11, 12, -1, 20, 21])
    slot = SimulatedSlot(1000)
    slot.ids = [10, 11]
    drafter = Ngram(guided=True, earlier=text)
    drafter.begin(slot, Sampler(SamplingParams(temperature=0.0), slot.ids), lambda: False)
    assert list(drafter.draft(9).tokens) == [12]


def test_an_automaton_forgets_its_older_half_and_stays_right() -> None:
    rng = random.Random(2)
    automaton = SuffixAutomaton(most=50)
    for _ in range(400):
        automaton.append(rng.randrange(3))
        length, start = automaton.longest_match()
        assert len(automaton.tokens) <= 50
        assert automaton.tokens[start - length : start] == automaton.tokens[len(automaton.tokens) - length :]
