from __future__ import annotations

import time
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pardec_chat.app.conversations.reasoning import Kind, Part, Reasoning, begins_inside, split

Pieces = list[tuple[Kind, str]]

PIECES = (
    *("<think>", "</think>", "<thinking>", "</thinking>", "<thi", "</", "<", ">", "`", "```", "~~~", "````", "```py"),
    *("\n", "\r\n", " ", "    ", "\t", "a", "日本", "think", "/think>", "> "),
)


def shown(text: str, opened: bool = False, *, whole: bool = False) -> Pieces:
    return [(part.kind, text[part.start : part.end]) for part in split(text, opened, whole=whole)]


def joined(pieces: Pieces) -> Pieces:
    return [(kind, "".join(text for _, text in same)) for kind, same in groupby(pieces, lambda piece: piece[0])]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello.", [("text", "Hello.")]),
        ("<think>why</think>so", [("thinking", "why"), ("text", "so")]),
        ("<think>\nwhy\n</think>\n\nso", [("thinking", "\nwhy\n"), ("text", "\n\nso")]),
        ("<thinking>why</thinking>so", [("thinking", "why"), ("text", "so")]),
        ("\n\n  <think>why</think>so", [("text", "\n\n  "), ("thinking", "why"), ("text", "so")]),
        ("<think></think>so", [("text", "so")]),
        ("<think>why", [("thinking", "why")]),
        ("a\n<think>why</think>b", [("text", "a\n"), ("thinking", "why"), ("text", "b")]),
        ("<think>a</think><think>b</think>", [("thinking", "a"), ("thinking", "b")]),
        # The mark that another one opened with closes, too: models mix them.
        ("<think>why</thinking>so", [("thinking", "why"), ("text", "so")]),
        ("<think>the `</think>` mark</think>so", [("thinking", "the `</think>` mark"), ("text", "so")]),
    ],
)
def test_what_stands_between_the_marks_is_reasoning(text: str, pieces: Pieces) -> None:
    assert shown(text) == pieces
    assert shown(text, whole=True) == pieces


@pytest.mark.parametrize(
    "text",
    [
        "The `<think>` mark opens it.",
        "It writes <think> first.",
        "`<think>`\nand `</think>`",
        "```\n<think>\n</think>\n```\n",
        "~~~~ html\n<think>\n~~~\n<think>\n~~~~\nend",
        "1. so:\n   ```html\n   <think>a</think>\n   ```\n",
        "    <think>\n",
        "\t<think>\n",
        "a </think> b",
        "<think",
        "<Think>",
    ],
)
def test_who_explains_the_mark_is_not_reasoning(text: str) -> None:
    assert joined(shown(text, whole=True)) == [("text", text)]


def test_reasoning_begins_again_behind_fenced_code() -> None:
    text = "```\n<think>\n```\n<think>why"
    assert joined(shown(text)) == [("text", "```\n<think>\n```\n"), ("thinking", "why")]
    assert joined(shown("```a `b`\n<think>why")) == [("text", "```a `b`\n"), ("thinking", "why")], "inline code"


def test_an_answer_may_begin_inside() -> None:
    assert shown("why</think>so", opened=True) == [("thinking", "why"), ("text", "so")]
    assert shown("why", opened=True) == [("thinking", "why")]
    assert shown("why</think>so") == [("text", "why</think>so")]


@pytest.mark.parametrize("end", ["<", "<t", "<thi", "<think", "<thinkin"])
def test_the_start_of_a_mark_is_held_back(end: str) -> None:
    assert shown("a\n" + end) == [("text", "a\n")]
    assert shown(end) == []
    assert shown("<think>a</" + end[1:]) == [("thinking", "a")]
    assert joined(shown("a\n" + end, whole=True)) == [("text", "a\n" + end)]
    assert shown("a\n" + end + " b") == [("text", "a\n" + end + " b")]
    assert shown("a " + end) == [("text", "a " + end)], "nothing opens inside a line"


def test_parts_are_characters_of_the_answer() -> None:
    assert split("日本<think>\n<think>a</think>b") == [
        Part("text", 0, 10),
        Part("thinking", 17, 18),
        Part("text", 26, 27),
    ]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.booleans())
@settings(max_examples=300, deadline=None)
def test_pieces_give_what_the_whole_gives_at_every_cut(text: str, opened: bool) -> None:
    growing, ended = joined(shown(text, opened)), joined(shown(text, opened, whole=True))
    for cut in range(len(text) + 1):
        reasoning = Reasoning(opened)
        pieces = reasoning.feed(text[:cut]) + reasoning.feed(text[cut:])
        assert joined(pieces) == growing
        assert joined(pieces + reasoning.finish()) == ended
    reasoning = Reasoning(opened)
    pieces = [piece for character in text for piece in reasoning.feed(character)]
    assert joined(pieces) == growing
    assert joined(pieces + reasoning.finish()) == ended


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.booleans())
@settings(max_examples=300, deadline=None)
def test_parts_cover_the_answer_apart_from_the_marks(text: str, opened: bool) -> None:
    parts = split(text, opened, whole=True)
    ends = [0, *(part.end for part in parts)]
    between = [text[end : part.start] for end, part in zip(ends, parts, strict=False)] + [text[ends[-1] :]]
    marks = ("<think>", "</think>", "<thinking>", "</thinking>")
    for gap in between:
        for mark in marks:
            gap = gap.replace(mark, "")
        assert gap == ""
    assert all(part.start < part.end for part in parts)


def test_twenty_thousand_tokens_cost_next_to_nothing() -> None:
    tokens = ["<think>", *["a < b </ "] * 10_000, "</think>", *["word " * 3] * 10_000]
    reasoning = Reasoning()
    start = time.process_time()
    pieces = [piece for token in tokens for piece in reasoning.feed(token)] + reasoning.finish()
    assert time.process_time() - start < 2.0
    assert joined(pieces) == [("thinking", "a < b </ " * 10_000), ("text", "word " * 30_000)]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("why\n</think>\n\nso", True),
        ("why.</think>", True),
        ("why.</thinking>\r\nso", True),
        ("<think>why\n</think>\nso", False),
        ("The mark </think> closes it.", False),
        ("The mark is `</think>`\n", False),
        ("```\n</think>\n```\n", False),
        ("Nothing.", False),
    ],
)
def test_an_answer_from_disk_tells_whether_it_begins_inside(text: str, inside: bool) -> None:
    assert begins_inside(text) is inside
