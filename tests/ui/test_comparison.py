"""Two answers beside each other: what they have in common, where they differ, what the page looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations.conversation import Node, State
from pardec_chat.app.conversations.record import AnswerRecord
from pardec_chat.app.screens.comparison import ComparisonScreen
from pardec_chat.app.widgets import comparison_words
from pardec_chat.app.widgets.folded import folded
from pardec_chat.app.widgets.two_texts import TwoTexts
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.helpers import screen_text, until
from pardec_chat.tests.ui.test_history import NGRAM, PLAIN, RECORD
from pardec_chat.tests.ui.test_snapshots import JAPANESE, MERGE

MakeApp = Callable[..., PardecChat]

GREEDY = replace(RECORD, temperature=0.0)
OTHER_MODEL = replace(PLAIN, model="SmolLM2 135M")


def answer(text: str, record: AnswerRecord | None = None, state: State = "whole") -> Node:
    """An answer to the one message."""
    return Node("assistant", text, parent="question", record=record, state=state)


def verdict(left: Node, right: Node) -> str:
    """What stands above the two."""
    return comparison_words.verdict(left, right)


# ---- words ----


@pytest.mark.parametrize(
    ("left", "right", "n"),
    [
        ("", "", 0),
        ("abc", "abc", 3),
        ("abc", "abd", 2),
        ("ab", "abc", 2),
        ("x", "y", 0),
        ("a" * 9999 + "b", "a" * 9999, 9999),
    ],
)
def test_in_common(left: str, right: str, n: int) -> None:
    assert comparison_words.in_common(left, right) == n
    assert comparison_words.in_common(right, left) == n


def test_the_promise_is_said_plainly() -> None:
    assert verdict(answer(MERGE, PLAIN), answer(MERGE, GREEDY)) == (
        f"The same text, all {len(MERGE)} characters of it. At temperature 0, plain and auto → draft write the same: only the "
        "speed differs."
    )


@pytest.mark.parametrize(
    ("left", "right", "says"),
    [
        (answer("ab", RECORD), answer("ab", PLAIN), "The same text, all 2 characters of it."),
        (answer("a"), answer("a"), "The same text, all 1 character of it."),
        (answer("ab", OTHER_MODEL), answer("ab", GREEDY), "The same text, all 2 characters of it."),
        (answer("", PLAIN), answer("", GREEDY), "Both are empty."),
        (
            answer("ab", PLAIN),
            answer("ab", PLAIN),
            "The same text, all 2 characters of it. Both were written at temperature 0 with plain.",
        ),
        (answer("abc"), answer("abd"), "The same up to character 2."),
        (answer("abc"), answer("xbc"), "They differ from the first character on."),
        (answer("abc"), answer("ab"), "The same up to character 2, where the second one ends."),
        (
            answer("ab", PLAIN, "stopped"),
            answer("abc", GREEDY),
            "The same up to character 2, where the first one ends.",
        ),
        (
            answer("ab", RECORD),
            answer("ac", RECORD),
            "The same up to character 1. At temperature 0.7 each is drawn anew.",
        ),
        (answer("ab", PLAIN), answer("ac", GREEDY), f"The same up to character 1. {comparison_words._TIES}"),
        (answer("ab", PLAIN), answer("ac", OTHER_MODEL), "The same up to character 1."),
    ],
)
def test_verdict(left: Node, right: Node, says: str) -> None:
    assert verdict(left, right) == says


def test_one_answer_alone() -> None:
    node = answer("a")
    assert verdict(node, node) == "There is only this answer."


def test_heads() -> None:
    nodes = [answer("ab", PLAIN, "length"), answer("ac", GREEDY), answer("ac", NGRAM), answer("")]
    first = comparison_words.side(nodes, nodes[0], nodes[1])
    assert first.name == ("1 of 4", "plain", "temperature 0")
    other = comparison_words.side(nodes, nodes[0], answer("", OTHER_MODEL))
    assert other.name == ("1 of 4", "plain", "temperature 0", "Qwen2.5 Coder 1.5B Instruct")
    assert first.figures == ("32.0 tok/s", "1.0 a step", "nothing guessed", "limit")
    second = comparison_words.side(nodes, nodes[1], nodes[2])
    assert second.name == ("2 of 4", "auto → draft, 3", "temperature 0")
    assert second.figures == ("54.6 tok/s", "1.7x plain", "3.4 a step", "84 % of 112 accepted")
    assert second.mark is None
    assert comparison_words.side(nodes, nodes[3], nodes[0]).figures == ("no figures are kept",)


@pytest.mark.parametrize(
    ("mine", "other", "text", "mark"),
    [
        ("a\tb", "a\tc", "a    b", 5),
        ("a\r\nb", "a\r\nc", "a\nb", 2),
        ("\x1b[2Jb", "\x1b[2Jc", "␛[2Jb", 4),
        ("ab", "abc", "ab", 2),
        ("a\x80", "a\x81", "a\ufffd", 1),
    ],
)
def test_X05_the_mark_is_found_in_what_is_shown(mine: str, other: str, text: str, mark: int) -> None:
    node = answer(mine)
    side = comparison_words.side([node], node, answer(other))
    assert (side.text, side.mark) == (text, mark)


# ---- where lines break ----


def cut(text: str, width: int) -> list[str]:
    """The lines of a text."""
    return [text[start:end] for start, end in folded(text, width)]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 10, [""]),
        ("one two three", 8, ["one two ", "three"]),
        ("    indented code line", 12, ["    indented ", "code line"]),
        ("a\n\nb\n", 5, ["a", "", "b", ""]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("ab abcdefgh c", 4, ["ab ", "abcd", "efgh ", "c"]),
        ("図書館の開館", 5, ["図書", "館の", "開館"]),
        (" " * 30, 4, [" " * 30]),
    ],
)
def test_folded(text: str, width: int, lines: list[str]) -> None:
    assert cut(text, width) == lines


@pytest.mark.parametrize("width", [1, 2, 7, 20, 80])
@pytest.mark.parametrize("text", [MERGE, JAPANESE, "e\u0301" * 50, "a b  c   d " * 20])
def test_folded_loses_nothing(text: str, width: int) -> None:
    places = folded(text, width)
    assert "".join(text[start:end] for start, end in places) == text.replace("\n", "")
    assert all(cell_len(text[start:end].rstrip()) <= max(2, width) for start, end in places)


# ---- the screen ----


async def opened(pilot: Pilot[None], nodes: Sequence[Node], left: int = 0, right: int = 1) -> TwoTexts:
    """Push the screen and wait for it."""
    screen = ComparisonScreen(nodes, nodes[left].id, nodes[right].id)
    pilot.app.push_screen(screen)
    await until(pilot, lambda: bool(screen.query("TwoTexts")) and "Two answers" in screen_text(pilot.app))  # type: ignore[arg-type]
    return screen.query_one(TwoTexts)


def long(n: int, last: str) -> str:
    """A text of `n` lines that is different at its end."""
    return "".join(f"line {i}\n" for i in range(n)) + last


async def test_the_first_difference_is_in_sight_and_marked(make_app: MakeApp) -> None:
    nodes = [
        answer(long(200, "the same, then left\nend"), PLAIN),
        answer(long(200, "the same, then right\nend"), GREEDY),
    ]
    app = make_app()
    async with app.run_test(size=(120, 30)) as pilot:
        texts = await opened(pilot, nodes)
        await until(pilot, lambda: "then right" in screen_text(app))
        (line,) = [line for line in screen_text(app).splitlines() if "then right" in line]
        assert line.split("│")[0].strip() == "▸ the same, then left"
        assert line.split("│")[1].strip() == "▸ the same, then right"
        marked = [
            segment.text
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style is not None and segment.style.reverse
        ]
        assert [text for text in marked if text.isalpha()] == ["left", "right"]
        await pilot.press("home")
        await until(pilot, lambda: texts.scroll_y == 0 and "line 0 " in screen_text(app))
        await pilot.press("d")
        await until(pilot, lambda: "then right" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


@pytest.mark.parametrize("size", [(120, 30), (80, 24)])
async def test_both_scroll_together(make_app: MakeApp, size: tuple[int, int]) -> None:
    text = long(200, "")
    app = make_app()
    async with app.run_test(size=size) as pilot:
        texts = await opened(pilot, [answer(text, PLAIN), answer(text, GREEDY)])
        assert screen_text(app).count("line 0 ") == 2
        await pilot.press("pagedown", "down")
        await until(pilot, lambda: texts.scroll_y > 5)
        assert screen_text(app).count(f"line {texts.scroll_offset.y} ") == 2
        await pilot.press("end")
        await until(pilot, lambda: screen_text(app).count("line 199 ") == 2)


async def test_another_width_keeps_the_place(make_app: MakeApp) -> None:
    words = " ".join(f"word{i}" for i in range(2000))
    app = make_app()
    async with app.run_test(size=(140, 30)) as pilot:
        texts = await opened(pilot, [answer(words), answer(words)])
        texts.scroll_to(y=60, animate=False, immediate=True)
        await until(pilot, lambda: texts.scroll_y == 60)
        first = next(line for line in screen_text(app).splitlines() if "word" in line).split()[0]
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: texts.size.width < 90)
        assert first in next(line for line in screen_text(app).splitlines() if "word" in line)


@pytest.mark.parametrize(("texts", "signs"), [(("ab", "ab\ncd"), "∎↵"), (("a b", "a\nb"), "␣↵"), (("a", "a b"), "∎␣")])
async def test_what_has_no_letters_is_marked_by_a_sign(make_app: MakeApp, texts: tuple[str, str], signs: str) -> None:
    app = make_app()
    async with app.run_test(size=(120, 24)) as pilot:
        await opened(pilot, [answer(text) for text in texts])
        (line,) = [line for line in screen_text(app).splitlines() if "▸" in line]
        left, right = line.split("│")
        assert signs[0] in left and signs[1] in right


async def test_other_answers_by_keys_and_mouse(make_app: MakeApp) -> None:
    nodes = [answer(f"text {i}", record) for i, record in enumerate((PLAIN, GREEDY, NGRAM, RECORD))]
    app = make_app()

    def shown() -> list[str]:
        text = screen_text(app)
        return [f"{i + 1}" for i in range(4) if f"{i + 1} of 4" in text]

    async with app.run_test(size=(120, 24)) as pilot:
        await opened(pilot, nodes)
        assert shown() == ["1", "2"]
        for keys, expected in (
            (("right",), ["2", "3"]),  # not twice the same
            (("left_square_bracket",), ["1", "2"]),
            (("shift+right",), ["1", "3"]),
            (("right_curly_bracket",), ["1", "4"]),
            (("shift+left", "left_curly_bracket"), ["1", "2"]),
            (("left",), ["2", "4"]),
        ):
            await pilot.press(*keys)
            await until(pilot, lambda expected=expected: shown() == expected)  # type: ignore[misc]
        await pilot.click(TwoTexts, offset=(70, 0))
        await until(pilot, lambda: shown() == ["3", "4"])
        await pilot.click(TwoTexts, offset=(5, 0))
        await until(pilot, lambda: shown() == ["1", "3"])
        await pilot.click(TwoTexts, offset=(5, 8))
        await pilot.pause()
        assert shown() == ["1", "3"]


async def test_two_answers_leave_nothing_to_choose(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, [answer("a"), answer("a")])
        assert screen_text(app).splitlines()[-1].strip() == "↑↓ scroll · esc back"
        await pilot.press("right", "shift+right", "d")
        assert "1 of 2" in screen_text(app) and "2 of 2" in screen_text(app)


async def test_U01_X05_texts_and_names_are_text(make_app: MakeApp) -> None:
    odd = replace(PLAIN, model="[b]x[/b]\x1b]0;t")
    app = make_app()
    async with app.run_test(size=(160, 24)) as pilot:
        await opened(pilot, [answer("[/INST] [/ a[0] [bold \x1b[2J\x9b", odd), answer("[b +", GREEDY)])
        text = screen_text(app)
        assert "[/INST] [/ a[0] [bold ␛[2J\ufffd" in text
        assert "[b +" in text
        assert "[b]x[/b]␛]0;t" in text
        assert "\x1b" not in text


async def test_M01_figures_without_division(make_app: MakeApp) -> None:
    nothing = replace(RECORD, predicted_n=0, predicted_ms=0.0, steps=0, draft_n=0, method=Method.DRAFT)
    app = make_app()
    async with app.run_test(size=(120, 24)) as pilot:
        await opened(pilot, [answer("", nothing), answer("", None)])
        text = screen_text(app)
        assert "– tok/s · – a step · nothing guessed" in text
        assert "no figures are kept" in text


@pytest.mark.parametrize("size", [(60, 20), (99, 24), (100, 24), (101, 25), (200, 60)])
async def test_every_size(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        texts = await opened(pilot, [answer(JAPANESE, PLAIN), answer(JAPANESE.replace("北側", "南側"), GREEDY)])
        await until(pilot, lambda: screen_text(app).count("▸") == 2)
        assert all(cell_len(line) == size[0] for line in screen_text(app).splitlines())
        await pilot.press("end")
        await until(pilot, lambda: texts.scroll_y == texts.max_scroll_y)


# ---- pictures ----

TYPO = MERGE.replace("It runs in `O(n + m)`", "It needs `O(n + m)`")
SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 40), id="120x40"),
    pytest.param("pardec-light", (80, 24), id="light"),
]


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_snapshot_differ(snap_compare: Any, make_app: MakeApp, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        nodes = [answer(MERGE, PLAIN), answer(TYPO, GREEDY, "stopped"), answer(TYPO, NGRAM)]
        await opened(pilot, nodes)

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


@pytest.mark.parametrize(("theme", "size"), SEEN[:2])
def test_snapshot_same(snap_compare: Any, make_app: MakeApp, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, [answer(JAPANESE, PLAIN), answer(JAPANESE, GREEDY)])

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)
