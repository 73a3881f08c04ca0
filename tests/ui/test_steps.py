"""The step view: what stands in it, what its keys do, what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations.record import StepRecord
from pardec_chat.app.lines import plain
from pardec_chat.app.screens.steps import StepsScreen
from pardec_chat.app.widgets import step_words
from pardec_chat.app.widgets.step_sheet import StepSheet
from pardec_chat.app.widgets.token_text import shown
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.helpers import screen_text, until

MakeApp = Callable[..., PardecChat]


def step(
    number: int,
    *proposed: str,
    held: int = 0,
    own: str = "",
    source: Method = Method.DRAFT,
    n_tokens: int | None = None,
    draft_ms: float = 33.0,
) -> StepRecord:
    """A step; what is not given follows from the rest."""
    n = held + bool(own) if n_tokens is None else n_tokens
    return StepRecord(number, proposed, held, own, source, n, draft_ms, 31.24)


def guessless(number: int, own: str) -> StepRecord:
    """A step of plain decoding."""
    return step(number, own=own, source=Method.PLAIN, draft_ms=0.0)


WHOLE = step(41, " i", " +=", " 1", "\n", held=4, own="else")
BROKEN = step(42, " result", ".append", "(", " a", "[i", "])", held=3, own=" b")
FIRST = step(43, " the", " quick", held=0, own="\n\n", source=Method.NGRAM, draft_ms=0.0123)
CUT = step(44, " done", ".", "<end>", " no", held=3)
ANSWER = (WHOLE, BROKEN, guessless(43, " while"), replace(FIRST, number=44), replace(CUT, number=45))
WIDE = (
    step(7, "図書館", "は", "午前", "九", "時", held=2, own="午後"),
    step(8, "から", "\t", "八時", "まで", held=4, own="開いています。"),
)


def long_answer(n: int) -> list[StepRecord]:
    """`n` steps of all kinds."""
    kinds = (WHOLE, BROKEN, guessless(0, " while"), FIRST)
    return [replace(kinds[i % len(kinds)], number=i + 1) for i in range(n)]


def lines(one: StepRecord, width: int = 76) -> list[str]:
    """What is drawn of a step."""
    return [plain(line) for line in step_words.lines(one, width)]


# ---- words ----


@pytest.mark.parametrize(
    ("token", "shows"),
    [
        (" the", "␣the"),
        ("  ", "␣␣"),
        ("\n", "↵"),
        ("\r\n", "↵"),
        ("\r", "␍"),
        ("\t\tx", "⇥⇥x"),
        ("\u3000\xa0", "␣␣"),
        ("", "∅"),
        ("\u0301", "◌\u0301"),
        ("é", "é"),
        ("図", "図"),
    ],
)
def test_blanks_are_seen(token: str, shows: str) -> None:
    assert shown(token) == shows


@pytest.mark.parametrize("token", ["\x1b]52;c;ZWNobw==\x07", "\x1b[2J", "\x9b31m", "\x1b]0;t", "\u202eabc", "\ud800"])
def test_X05_control_bytes_are_seen(token: str) -> None:
    text = shown(token)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 or c == "\u202e" for c in text)
    assert len(text) == len(token)


def test_all_held() -> None:
    assert lines(WHOLE) == [
        "step 41    draft  33.0 ms   check  31.2 ms   5 tokens",
        "  proposed   ␣i    ␣+=    ␣1    ↵",
        "  target     ␣i ✓  ␣+= ✓  ␣1 ✓  ↵ ✓  + else",
    ]


def test_broken_in_the_middle() -> None:
    assert lines(BROKEN)[1:] == [
        "  proposed   ␣result    .append    (    ␣a      [i  ])",
        "  target     ␣result ✓  .append ✓  ( ✓  ✗ → ␣b  ·   ·",
    ]


def test_broken_at_the_first() -> None:
    assert lines(FIRST) == [
        "step 43    ngram  0.01 ms   check  31.2 ms   1 token",
        "  proposed   ␣the    ␣quick",
        "  target     ✗ → ↵↵  ·",
    ]


def test_nothing_guessed() -> None:
    assert lines(guessless(9, " a")) == [
        "step 9                      check  31.2 ms   1 token",
        "  target     ␣a   nothing guessed",
    ]


def test_M01_the_end_of_an_answer_is_no_break() -> None:
    assert lines(CUT) == [
        "step 44    draft  33.0 ms   check  31.2 ms   3 tokens   the answer ends here",
        "  proposed   ␣done    .    <end>    ␣no",
        "  target     ␣done ✓  . ✓  <end> ✓  ·",
    ]
    assert not step_words.broke(CUT)


def test_a_token_without_text_is_still_a_break() -> None:
    half = step(1, "é", held=0, own="", n_tokens=1)
    assert step_words.broke(half)
    assert lines(half)[2] == "  target     ✗ → ∅"


@pytest.mark.parametrize(("claimed", "held"), [(9, 2), (-3, 0)])
def test_M01_never_more_accepted_than_guessed(claimed: int, held: int) -> None:
    odd = step(1, "a", "b", held=claimed, own="c", n_tokens=1)
    assert step_words.n_accepted(odd) == held
    assert plain(step_words.lines(odd, 80)[2]).count("✓") == held
    first = plain(step_words.summary([odd], 80, live=False, only_breaks=False)[0])
    assert first == f"1 step   1.0 tokens a step   {'100' if held else '0'} % of 2 accepted"


def test_columns_stand_below_each_other_with_wide_characters() -> None:
    for one in WIDE:
        above, below = lines(one)[1:]
        for token in one.proposed[: one.n_accepted]:
            cells_above = cell_len(above[: above.index(shown(token))])
            cells_below = cell_len(below[: below.index(f"{shown(token)} ✓")])
            assert cells_above == cells_below
    assert lines(WIDE[0])[1:] == [
        "  proposed   図書館    は    午前      九  時",
        "  target     図書館 ✓  は ✓  ✗ → 午後  ·   ·",
    ]


@pytest.mark.parametrize("width", [20, 30, 44, 76, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    long = step(3, *["x" * 300, "図" * 200, *"abcdefghij"], held=5, own="y" * 100)
    for one in (long, WHOLE, BROKEN, FIRST, CUT, guessless(5, "z" * 300), *WIDE):
        drawn = step_words.lines(one, width)
        assert len(drawn) == step_words.height(one, width)
        assert all(sum(cell_len(text) for text, _ in line[1:-1]) <= width for line in drawn)
        assert all(cell_len(plain(line)) <= width for line in drawn)


def test_long_drafts_go_on_in_further_bands() -> None:
    long = step(3, *[f"t{i:02}" for i in range(15)], held=15, own="own")
    drawn = lines(long, 60)
    assert [line.split()[0] for line in drawn] == ["step", *["proposed", "target"] * 3]
    bands = [line.split()[1:] for line in drawn[1::2]]
    assert bands == [[f"t{i:02}" for i in band] for band in (range(7), range(7, 14), range(14, 15))]
    assert drawn[-1].endswith("t14 ✓  + own")


def test_summary() -> None:
    first, second = (plain(one) for one in step_words.summary(ANSWER, 90, live=False, only_breaks=False))
    # 5 + 4 + 1 + 1 + 3 tokens; 4 + 3 + 0 + 3 of 4 + 6 + 2 + 4 guesses.
    assert first == "the last 5 steps   2.8 tokens a step   62 % of 16 accepted"
    assert second == "broke at  1st ▅▅ 1   2nd ▁▁ 0   3rd ▁▁ 0   4th ▅▅ 1   nowhere ██ 2"


def test_summary_with_too_many_places_for_names() -> None:
    steps = [step(i, *"abcdefghijklmno", held=i % 15, own="x") for i in range(20)]
    drawn = [plain(one) for one in step_words.summary(steps, 78, live=False, only_breaks=True)]
    assert drawn[0] == "20 of 20 steps: where a guess broke   6.8 tokens a step   38 % of 300 accepted"
    assert drawn[1] == "broke at  █████▅▅▅▅▅▅▅▅▅▅ 1st–15th   most at the 1st: 2   nowhere 0"
    assert all(cell_len(one) <= 78 for one in drawn)


def test_M01_no_division_by_zero() -> None:
    nothing = step(1, source=Method.PLAIN, draft_ms=0.0, n_tokens=0)
    assert plain(step_words.summary([nothing], 80, live=False, only_breaks=False)[0]) == "1 step   0.0 tokens a step"
    assert plain(step_words.summary([nothing], 80, live=False, only_breaks=False)[1]) == "nothing guessed"
    assert plain(step_words.summary([], 80, live=True, only_breaks=False)[0]) == step_words.NOT_YET
    assert plain(step_words.summary([], 80, live=False, only_breaks=True)[0]) == step_words.NO_STEPS


# ---- the screen ----


async def opened(
    pilot: Pilot[None], steps: Callable[[], Any], *, live: bool = False, title: str = "Merging"
) -> StepSheet:
    """Push the screen and wait for it."""
    screen = StepsScreen(title, steps, live)
    pilot.app.push_screen(screen)
    await until(pilot, lambda: bool(screen.query("StepSheet")) and pilot.app.focused is screen.query_one(StepSheet))
    return screen.query_one(StepSheet)


async def test_it_shows_steps_and_goes_back(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, lambda: ANSWER)
        text = screen_text(app)
        assert "step 41 " in text and "␣+= ✓" in text and "✗ → ␣b" in text
        assert "the last 5 steps" in text
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


async def test_U01_brackets_in_tokens_and_titles(make_app: MakeApp) -> None:
    app = make_app()
    tokens = ("[/INST]", "[/", "a[0] [bold", "[b +")
    async with app.run_test(size=(120, 24)) as pilot:
        await opened(pilot, lambda: [step(1, *tokens, held=4, own="[/]")], title="[b]evil[/b]\x1b[2J [/")
        text = screen_text(app)
        assert "Step by step   [b]evil[/b]␛[2J [/" in text
        assert "[/INST] ✓  [/ ✓  a[0]␣[bold ✓  [b␣+ ✓  + [/]" in text


async def test_only_breaks(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, lambda: ANSWER)
        await pilot.press("b")
        await until(pilot, lambda: "2 of 5 steps: where a guess broke" in screen_text(app))
        text = screen_text(app)
        assert "step 42" in text and "step 44" in text
        assert "step 41" not in text and "step 43" not in text and "step 45" not in text
        assert "b all steps" in text
        await pilot.press("b")
        await until(pilot, lambda: "step 41" in screen_text(app))


@pytest.mark.parametrize(("steps", "shows"), [((), step_words.NO_STEPS), ((WHOLE,), step_words.NO_BREAKS)])
async def test_nothing_to_show_is_said(make_app: MakeApp, steps: tuple[StepRecord, ...], shows: str) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, lambda: steps)
        await pilot.press("b")
        await until(pilot, lambda: shows in screen_text(app))


async def test_it_follows_until_the_reader_scrolls_up(make_app: MakeApp) -> None:
    app = make_app()
    all_steps = long_answer(300)
    n = 64

    def read() -> list[str]:
        return [line[:-2] for line in screen_text(app).splitlines()[5:-3]]  # without the scrollbar

    async with app.run_test(size=(80, 24)) as pilot:
        sheet = await opened(pilot, lambda: all_steps[n - 64 : n], live=True)
        assert sheet.scroll_y == sheet.max_scroll_y
        assert "step 64 " in screen_text(app)
        n = 70
        await until(pilot, lambda: "step 70 " in screen_text(app))
        assert sheet.scroll_y == sheet.max_scroll_y

        await pilot.press("up")
        await until(pilot, lambda: sheet.scroll_y < sheet.max_scroll_y)
        before = read()
        n = 90  # the oldest ones are gone, and what is read stays where it is
        await until(pilot, lambda: sheet._steps[-1].number == 90)
        assert read() == before

        await pilot.press("end")
        n = 120
        await until(pilot, lambda: "step 120 " in screen_text(app))
        # What is read is gone: the oldest one that there is comes in its place.
        await pilot.press("home")
        await until(pilot, lambda: "step 57 " in screen_text(app))
        n = 300
        await until(pilot, lambda: "step 237 " in screen_text(app))


async def test_another_width_keeps_the_newest_in_sight(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        sheet = await opened(pilot, lambda: long_answer(64), live=True)
        await pilot.resize_terminal(44, 20)
        await until(pilot, lambda: sheet.scroll_y == sheet.max_scroll_y and "step 64 " in screen_text(app))


async def test_whole_answers_begin_at_the_top(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        sheet = await opened(pilot, lambda: long_answer(64))
        assert sheet.scroll_y == 0
        assert "step 1 " in screen_text(app)
        await pilot.press("pagedown")
        await until(pilot, lambda: "step 1 " not in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: "step 64 " in screen_text(app))


async def test_only_what_is_seen_is_drawn(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    original = step_words.lines

    def counted(one: StepRecord, width: int) -> Any:
        drawn.append(one.number)
        return original(one, width)

    monkeypatch.setattr(step_words, "lines", counted)
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, lambda: long_answer(2000))
        assert max(drawn) < 12


# ---- pictures ----

SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 40), id="120x40"),
    pytest.param("pardec-light", (80, 24), id="light"),
]


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_snapshot_steps(snap_compare: Any, make_app: MakeApp, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        steps = [
            *ANSWER[:-1],
            *WIDE,
            step(52, *"abcdefghijklmno", held=9, own="x", source=Method.NGRAM),
            *long_answer(9),
        ]
        steps = [replace(one, number=41 + i) for i, one in enumerate(steps)]
        await opened(pilot, lambda: steps, title="Write a Python function that merges two sorted lists.")

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_snapshot_live(snap_compare: Any, make_app: MakeApp) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, lambda: long_answer(64), live=True, title="図書館の開館時間を教えてください。")

    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=run)


def test_snapshot_no_steps(snap_compare: Any, make_app: MakeApp) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, tuple)

    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=run)
