"""The figures of a conversation's answers: what they say, how they are laid out, what the page looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations.conversation import Node
from pardec_chat.app.conversations.record import AnswerRecord, StepRecord
from pardec_chat.app.lines import plain
from pardec_chat.app.screens.history import HistoryScreen
from pardec_chat.app.screens.steps import StepsScreen
from pardec_chat.app.widgets import answer_words, speed_plot
from pardec_chat.app.widgets.answer_table import AnswerTable
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.helpers import screen_text, until

MakeApp = Callable[..., PardecChat]

RECORD = AnswerRecord(
    model="Qwen2.5 Coder 1.5B Instruct",
    draft="Qwen2.5 Coder 0.5B Instruct",
    runtime="llamacpp",
    method=Method.AUTO,
    depth=3,
    using=Method.DRAFT,
    state="active",
    reason="checking 4 costs 1.1 steps and 84 % hold",
    temperature=0.7,
    predicted_n=134,
    predicted_ms=2454.0,
    steps=40,
    draft_n=112,
    draft_n_accepted=94,
    accepted_per_position=(0.93, 0.85, 0.57),
    prompt_n=512,
    cache_n=31,
    prompt_ms=310.0,
    ttft_ms=420.0,
    total_ms=3100.0,
    plain_per_second=31.4,
    context_used=677,
    context_size=8192,
    finish_reason="stop",
)
PLAIN = replace(
    RECORD,
    draft=None,
    method=Method.PLAIN,
    using=Method.PLAIN,
    depth=0,
    state="off",
    reason="plain decoding was chosen",
    temperature=0.0,
    predicted_n=64,
    predicted_ms=2000.0,
    steps=64,
    draft_n=0,
    draft_n_accepted=0,
    accepted_per_position=(),
    prompt_n=38,
    cache_n=0,
    prompt_ms=90.0,
    plain_per_second=32.1,
    finish_reason="length",
)
NGRAM = replace(
    RECORD,
    method=Method.NGRAM,
    using=Method.NGRAM,
    depth=15,
    draft_n=300,
    draft_n_accepted=120,
    accepted_per_position=tuple(0.9 - 0.05 * i for i in range(15)),
    predicted_n=180,
    predicted_ms=1900.0,
    steps=60,
    plain_per_second=None,
)
NOTHING = replace(
    RECORD, predicted_n=0, predicted_ms=0.0, steps=0, draft_n=0, draft_n_accepted=0, accepted_per_position=()
)


def branch(*records: AnswerRecord | None) -> list[Node]:
    """A conversation with these answers."""
    nodes: list[Node] = []
    for i, record in enumerate(records):
        question = Node("user", f"Question {i}", parent=nodes[-1].id if nodes else None)
        state = {"length": "length", "cancelled": "stopped"}.get(record.finish_reason if record else "", "whole")
        answer = Node("assistant", f"Answer {i}", parent=question.id, record=record, state=state)  # type: ignore[arg-type]
        nodes += [question, answer]
    return nodes


def many(n: int) -> list[Node]:
    """`n` answers whose speed goes up and down."""
    kinds = (RECORD, PLAIN, NGRAM)
    records = [
        replace(kinds[i % 3], predicted_ms=kinds[i % 3].predicted_ms * (1 + i % 7 / 6), total_ms=3100 + 10 * i)
        for i in range(n)
    ]
    return branch(*records)


NODES = branch(PLAIN, RECORD, None, NGRAM, replace(RECORD, finish_reason="cancelled", predicted_n=12, predicted_ms=300))


def details(record: AnswerRecord, width: int = 90) -> list[str]:
    """What stands below the table about an answer."""
    return [plain(line) for line in answer_words.details(answer_words.answered(branch(record))[0], width)]


def words(nodes: Sequence[Node]) -> list[str]:
    """The totals."""
    return list(answer_words.totals(answer_words.answered(nodes)))


# ---- words ----


def test_M03_times_stand_apart() -> None:
    assert details(RECORD) == [
        "answer    1: auto → draft, 3 · temperature 0.7 · active: checking 4 costs 1.1 steps and 8…",
        "models    Qwen2.5 Coder 1.5B Instruct + Qwen2.5 Coder 0.5B Instruct · llamacpp",
        "speed     54.6 tok/s · 1.7x plain decoding, which has 31.4 · 134 tokens in 2.45 s",
        "guesses   84 % of 112 accepted (94) · 3.4 tokens a step in 40 steps",
        "by place  1st 93 %   2nd 85 %   3rd 57 %",
        "times     first token after 0.42 s · whole answer 3.10 s · done",
        "prompt    512 in 0.31 s · 31 from the cache · context 677 of 8,192",
    ]


def test_plain_decoding_is_not_compared_with_itself() -> None:
    assert details(PLAIN)[2:4] == [
        "speed     32.0 tok/s · 64 tokens in 2.00 s",
        "guesses   nothing guessed · 1.0 tokens a step in 64 steps",
    ]
    assert answer_words.speedup(PLAIN) == "–"
    assert answer_words.speedup(NGRAM) == "–"
    assert answer_words.speedup(RECORD) == "1.7x"


def test_many_places_become_a_curve() -> None:
    assert details(NGRAM)[4].startswith("by place  1st 90 %  ")
    assert details(NGRAM)[4].endswith("  15th 20 %")


def test_M01_no_division_by_zero() -> None:
    assert details(NOTHING)[2:4] == [
        "speed     – tok/s · – plain decoding, which has 31.4 · 0 tokens in 0.00 s",
        "guesses   nothing guessed · – tokens a step in 0 steps",
    ]
    assert words(branch(NOTHING)) == [
        "1 answer",
        "0 tokens in 0.00 s of decoding",
        "– tok/s",
        "– a step",
        "prompts 512 in 0.31 s",
    ]
    assert plain(speed_plot.lines(answer_words.answered(branch(NOTHING)), 0, 40, 3)[-1]) == "   ▴1"


def test_M01_accepted_never_exceeds_drafted() -> None:
    odd = replace(RECORD, draft_n=10, draft_n_accepted=12, accepted_per_position=(1.2, -0.5))
    assert answer_words.accepted(odd) == "100 % of 10"
    assert details(odd)[4] == "by place  1st 100 %   2nd 0 %"
    assert "100 % of 10 accepted" in words(branch(odd))


def test_totals_add_counters_and_not_rates() -> None:
    # 64 + 134 + 180 tokens, 2.000 + 2.454 + 1.900 s, 64 + 40 + 60 steps, 94 + 120 of 112 + 300, 38 + 512 + 512 in 710 ms
    assert words(branch(PLAIN, RECORD, NGRAM)) == [
        "3 answers",
        "378 tokens in 6.35 s of decoding",
        "59.5 tok/s",
        "2.3 a step",
        "52 % of 412 accepted",
        "prompts 1,062 in 0.71 s",
    ]


def test_answers_are_numbered_as_in_the_conversation() -> None:
    assert [one.number for one in answer_words.answered(NODES)] == [1, 2, 4, 5]


# ---- the table and the plot ----


def table(width: int) -> list[str]:
    """The table of `NODES`."""
    answers = answer_words.answered(NODES)
    made = AnswerTable(answers)
    return [plain(made.heading(width)), *(plain(made.row(i, width)[0]) for i in range(len(answers)))]


def test_table_at_80() -> None:
    assert table(76) == [
        "no.  method           tok/s  x plain  a step     accepted  tokens  end",
        "  1  plain             32.0        –     1.0            –      64  limit",
        "  2  auto → draft, 3   54.6     1.7x     3.4  84 % of 112     134  done",
        "  4  ngram, 15 deep    94.7        –     3.0  40 % of 300     180  done",
        "  5  auto → draft, 3   40.0     1.3x     0.3  84 % of 112      12  stopped",
    ]


def test_table_with_room() -> None:
    assert table(196)[2] == (
        "  2  auto → draft, 3   54.6     1.7x     3.4  84 % of 112       0.42 s  512 in 0.31 s     134  done"
        "     Qwen2.5 Coder 1.5B Instruct + Qwen2.5 Coder 0.5B Instruct"
    )


@pytest.mark.parametrize("width", [10, 20, 40, 60, 76, 96, 116, 130, 196])
def test_rows_fit(width: int) -> None:
    lines = table(width)
    assert all(cell_len(line) <= width for line in lines)
    assert lines[0].startswith("no.")


def test_plot() -> None:
    answers = answer_words.answered(NODES)
    assert [plain(line) for line in speed_plot.lines(answers, 1, 20, 4)] == [
        "100         ▆▆",
        "        ▁▁  ██",
        "    ▂▂▁▁██▁▁██  ▅▅▁▁",
        "  0 ██  ██  ██  ██",
        "    1   ▴2  4   5",
    ]


def test_plot_of_more_answers_than_fit() -> None:
    answers = answer_words.answered(many(200))
    for marked, shows in ((0, "▴1  2   3"), (100, "▴101"), (199, "199 ▴200")):
        drawn = speed_plot.lines(answers, marked, 76, 5)
        assert shows in plain(drawn[-1])
        assert all(cell_len(plain(line)) <= 76 for line in drawn)
        assert len(drawn) == 6


# ---- the screen ----


def test_few_answers_have_wide_bars() -> None:
    answers = answer_words.answered(branch(RECORD, RECORD))
    drawn = [plain(line) for line in speed_plot.lines(answers, 0, 60, 3)]
    assert drawn == ["60 ▆▆▆▆▆▆  ▆▆▆▆▆▆", "   ██████──██████──", " 0 ██████  ██████", "   ▴1      2"]


async def opened(pilot: Pilot[None], nodes: Sequence[Node], title: str = "Merging lists") -> HistoryScreen:
    """Push the screen and wait for it."""
    screen = HistoryScreen(title, nodes)
    pilot.app.push_screen(screen)
    await until(pilot, lambda: "Figures over time" in screen_text(pilot.app))  # type: ignore[arg-type]
    return screen


async def test_the_marked_answer_is_told_in_full(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, NODES)
        await until(pilot, lambda: "answer    5: auto" in screen_text(app))
        await pilot.press("up")
        await until(pilot, lambda: "answer    4: ngram, 15 deep" in screen_text(app))
        assert "4 answers" in screen_text(app)
        await pilot.press("home")
        await until(pilot, lambda: "answer    1: plain" in screen_text(app) and "▴1" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


async def test_enter_shows_the_steps(make_app: MakeApp) -> None:
    nodes = branch(RECORD, RECORD)
    nodes[-1].steps = (StepRecord(12, (" a",), 1, " b", Method.DRAFT, 2, 3.0, 31.0),)
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, nodes)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StepsScreen) and "step 12 " in screen_text(app))
        assert "Step by step   Answer 2" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_no_answer_yet(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, branch(None))
        await until(pilot, lambda: "No answer of this conversation has figures yet." in screen_text(app))
        await pilot.press("down", "enter", "escape")
        await until(pilot, lambda: app.screen is app.chat)


async def test_U01_X05_names_are_text(make_app: MakeApp) -> None:
    odd = replace(RECORD, model="[b]x[/b]\x1b[2J", draft="[/", runtime="[b +", reason="a[0] [bold\x9b")
    app = make_app()
    async with app.run_test(size=(200, 30)) as pilot:
        await opened(pilot, branch(odd), title="[/INST]\x1b]0;t")
        await until(pilot, lambda: "[b]x[/b]␛[2J + [/ · [b +" in screen_text(app))
        text = screen_text(app)
        assert "[/INST]␛]0;t" in text
        assert "a[0] [bold\ufffd" in text


@pytest.mark.parametrize("size", [(80, 24), (44, 24), (100, 19), (200, 60)])
async def test_everything_has_its_place(make_app: MakeApp, size: tuple[int, int]) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, many(80))
        await until(pilot, lambda: "answer    80:" in screen_text(app))
        lines = screen_text(app).splitlines()
        assert lines[-1].strip() == "↑↓ answer · enter its steps · esc back"
        assert any(line.startswith(" 80 answers") for line in lines)
        marked = next(line for line in lines if "▸" in line)
        assert marked.split()[1] == "80"
        assert screen.query_one(Choices).size.height >= 3
        assert any("▴80" in line for line in lines) == (size in [(80, 24), (200, 60)])
        for part in ("#plot", "#columns", "Choices", "#totals"):
            assert screen.query_one(part).region.bottom <= screen.query_one("#detail").region.y


# ---- pictures ----

SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 40), id="120x40"),
    pytest.param("pardec-light", (80, 24), id="light"),
]


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_snapshot_figures(snap_compare: Any, make_app: MakeApp, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, many(24), "図書館の開館時間を教えてください。")
        await pilot.press("up")
        await pilot.pause()

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_snapshot_wide(snap_compare: Any, make_app: MakeApp) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, NODES)

    assert snap_compare(make_app(), terminal_size=(200, 60), run_before=run)


def test_snapshot_no_figures(snap_compare: Any, make_app: MakeApp) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, ())

    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=run)
