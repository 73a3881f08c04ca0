"""S02: stop strings over any cuts."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from pardec_chat.app.chat.stop import StopStrings


def _stream(stops: list[str], pieces: list[str]) -> tuple[str, int | None]:
    matcher = StopStrings(stops)
    shown = []
    for piece in pieces:
        text, end = matcher.push(piece)
        shown.append(text)
        if end is not None:
            return "".join(shown), end
    shown.append(matcher.finish())
    return "".join(shown), None


@pytest.mark.parametrize(
    ("stops", "text", "kept"),
    [
        (["beta gamma"], "alpha beta gamma delta", "alpha "),
        (["\nUser:"], "Hello\nUser: hi", "Hello"),
        (["aab", "ab"], "xaab", "x"),
        (["ab", "aab"], "xaab", "x"),
        (["abcd", "bc"], "xabcd", "xa"),
        (["aaa"], "baaaa", "b"),
        (["日本"], "これは日本語", "これは"),
    ],
)
def test_S02_the_text_ends_before_the_stop_that_is_complete_first_at_every_cut(
    stops: list[str], text: str, kept: str
) -> None:
    for n_cuts in range(4):
        for cuts in combinations(range(1, len(text)), n_cuts):
            edges = [0, *cuts, len(text)]
            pieces = [text[a:b] for a, b in pairwise(edges)]
            # A piece that holds the stop's end and more must not matter: the match is the same as letter by letter.
            assert _stream(stops, pieces) == (kept, len(kept)) == _stream(stops, list(text))


def test_S02_only_a_true_possible_beginning_is_held_back() -> None:
    matcher = StopStrings(["beta gamma"])
    assert matcher.push("alpha bet") == ("alpha ", None)
    assert matcher.push("ter") == ("better", None)
    assert matcher.push(" beta g") == (" ", None)
    assert matcher.finish() == "beta g"


def test_S02_without_stops_nothing_is_held_back() -> None:
    assert StopStrings([]).push("anything") == ("anything", None)
    assert StopStrings([""]).push("anything") == ("anything", None)
