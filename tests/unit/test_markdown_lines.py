"""Lines fit their width, say how they are copied, and lose nothing."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len
from textual.content import Content, Span

from pardec_chat.app.markdown.document import Document
from pardec_chat.app.markdown.lines import untabbed, wrapped
from pardec_chat.app.markdown.table import fitted
from pardec_chat.tests.ui.column import BLOCKS, SCRIPTS, TABLE


def _lines(text: str, width: int) -> list[str]:
    document = Document()
    document.append(text)
    return [document.line(n).content.plain.rstrip() for n in range(document.height(width))]


@pytest.mark.parametrize(
    "text", [BLOCKS, SCRIPTS, TABLE, "- a\n" + "".join(f"{'  ' * n}- b{n} words\n" for n in range(1, 20))]
)
@pytest.mark.parametrize("width", range(20, 100, 7))
def test_every_line_fits_and_nothing_is_lost(text: str, width: int) -> None:
    lines = _lines(text, width)
    assert all(cell_len(line) <= width for line in lines)
    # All letters of the widest drawing are in the narrow one; what stands around them is cut elsewhere.
    letters = sorted(c for line in _lines(text, 300) for c in line if c.isalnum())
    assert sorted(c for line in lines for c in line if c.isalnum()) == letters


def test_wrapped_text_is_copied_as_it_was() -> None:
    rng = random.Random(1)
    for _ in range(200):
        words = ["".join(rng.choice("ab日ק👍🏽") for _ in range(rng.randint(1, 30))) for _ in range(rng.randint(1, 9))]
        text = rng.choice([" ", "  ", "\n"]).join(words)
        copied = "".join(line.joint + line.content.plain for line in wrapped(Content(text), rng.randint(4, 40)))
        assert copied == "\n" + text


def test_tabs_go_to_the_next_stop_and_keep_the_looks() -> None:
    content = untabbed(Content("a\t日\tb", [Span(2, 3, "em"), Span(4, 5, "strong"), Span(1, 2, "code")]))
    assert content.plain == "a   日  b"
    assert content.spans == [Span(4, 5, "em"), Span(7, 8, "strong"), Span(1, 4, "code")]


def test_no_emoji_is_cut_in_two() -> None:
    text = "👩‍👩‍👧‍👦" * 30
    assert _lines(text, 21) == ["👩‍👩‍👧‍👦" * 10] * 3


@pytest.mark.parametrize(
    ("wanted", "room", "widths"),
    [
        ([3, 5, 8], 20, [3, 5, 8]),
        ([3, 50, 80], 43, [3, 20, 20]),
        ([3, 50, 80], 44, [3, 21, 20]),
        ([30, 10, 80], 60, [25, 10, 25]),
        ([9, 9, 9], 12, [4, 4, 4]),
        ([1, 9, 9], 9, [1, 4, 4]),
        ([9, 9, 9], 11, None),
    ],
)
def test_columns_share_the_room(wanted: list[int], room: int, widths: list[int] | None) -> None:
    assert fitted(wanted, room, 4) == widths


def test_a_table_has_columns_and_one_rule() -> None:
    assert _lines("| a | b | c |\n|---|:-:|--:|\n| 1 | x | 日本 |\n| 22 | long | 3 |\n| only |\n", 40) == [
        "a       b        c",
        "────   ────   ────",
        "1       x     日本",
        "22     long      3",
        "only",
    ]


def test_cells_that_are_too_long_go_on_below() -> None:
    lines = _lines("| short | long |\n|---|---|\n| 日本語 | " + "word " * 12 + "|\n| x | y |\n", 40)
    assert lines[2].startswith("日本語   word word")
    assert lines[3].startswith("         word word")
    assert lines[-1] == "x        y"


def test_a_table_that_cannot_fit_stands_cell_by_cell() -> None:
    head, row = "|".join(f"h{n}" for n in range(12)), "|".join(f"cell {n}" for n in range(12))
    lines = _lines(f"|{head}|\n{'|-' * 12}|\n|{row}|\n|{row}|\n", 40)
    assert lines[:3] == ["h0    cell 0", "h1    cell 1", "h2    cell 2"]
    assert lines[12] == "─" * 40
    assert len(lines) == 25


def test_code_that_is_too_long_goes_on_below() -> None:
    document = Document()
    document.append("```\n" + "word " * 12 + "\n\tx\n```\n")
    lines = [document.line(n) for n in range(document.height(30))]
    assert [line.content.plain.rstrip() for line in lines] == [
        "  word word word word word",
        "  ↳ word word word word word",
        "  ↳ word word",
        "      x",
    ]
    assert all(line.content.cell_length == 30 for line in lines)
    copied = "".join(line.joint + line.content.plain[line.lead :].rstrip() for line in lines)
    assert copied == "\n" + ("word " * 12).rstrip() + "\n    x"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        (
            "二分探索を Python で書いて、テストも書いてください。",
            30,
            ["二分探索を Python で書いて、テ", "ストも書いてください。"],
        ),
        # Neither a mark that closes nor a small or long kana begins a line, none that opens ends one.
        ("猫（ねこ）は「にゃあ」と鳴く。", 10, ["猫（ねこ）", "は「にゃ", "あ」と鳴", "く。"]),
        ("データを「読む」", 4, ["デー", "タを", "「読", "む」"]),
        # Blanks are left out where a line ends, and words in other letters stay whole.
        ("使う words と https://example.org", 10, ["使う words", "と", "https://ex", "ample.org"]),
        # Korean ends its lines at blanks.
        ("공백이 있습니다 정말로", 12, ["공백이", "있습니다", "정말로"]),
        ("か\u3099" * 4, 4, ["か\u3099か\u3099"] * 2),
    ],
)
def test_chinese_and_japanese_end_a_line_between_characters(text: str, width: int, lines: list[str]) -> None:
    found = list(wrapped(Content(text), width))
    assert [line.content.plain for line in found] == lines
    assert "".join(line.joint + line.content.plain for line in found) == "\n" + text
