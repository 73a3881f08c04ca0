"""Shown figures: their definitions (M01), their clock (M03), and the method's state with its reason (D14)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat.request import Figures, Prefilling
from pardec_chat.app.screens.answer import Answer
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.app.widgets.speed import Speed
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.fake_engine import FakeEngine, delta, figures, finished, run_of
from pardec_chat.tests.ui.helpers import ask, ready, screen_text, until

MakeApp = Callable[..., PardecChat]


def test_speed_is_tokens_over_time_of_the_last_second() -> None:
    speed = Speed()
    assert speed.now is None
    for step in range(1, 101):
        speed.feed(step, step * 10.0)
    assert speed.now == pytest.approx(100.0)
    for step in range(1, 51):
        speed.feed(100 + step, 1000.0 + step * 40.0)
    assert speed.now == pytest.approx(25.0)


def test_speed_never_exceeds_what_came() -> None:
    speed = Speed()
    feeds = [(4, 150.0), (8, 190.0), (9, 600.0), (17, 640.0), (18, 1900.0), (40, 2000.0)]
    for n, ms in feeds:
        speed.feed(n, ms)
        assert speed.now is None or speed.now <= n / min(ms, 200.0) * 1e3
    # A long step counts whole, though it began before the window.
    assert speed.now == pytest.approx((40 - 17) / (2000 - 640) * 1e3)


def test_speed_says_nothing_before_there_is_something_to_say() -> None:
    speed = Speed()
    speed.feed(5, 30.0)
    assert speed.now is None
    assert speed.curve == ()


def test_tokens_taken_back_do_not_make_it_negative() -> None:
    speed = Speed()
    for step in range(1, 31):
        speed.feed(step, step * 20.0)
    speed.feed(2, 600.0)
    assert speed.now is not None and speed.now >= 0
    assert all(value >= 0 for value in speed.curve)


@pytest.mark.parametrize("seconds", [1, 5, 60, 3000])
def test_curve_covers_the_answer_and_its_mean_is_the_average(seconds: int) -> None:
    speed = Speed(points=26)
    for step in range(1, seconds * 50 + 1):
        speed.feed(step, step * 20.0)
    assert 8 <= len(speed.curve) <= 26
    assert sum(speed.curve) / len(speed.curve) == pytest.approx(50.0, rel=0.15)


def test_curve_survives_one_enormous_step() -> None:
    speed = Speed(points=26)
    speed.feed(10, 1e6)
    speed.feed(20, 2e6)
    assert 13 <= len(speed.curve) <= 26
    assert speed.curve[-1] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("share", "shown"), [(None, "–"), (0, "0 %"), (0.001, "1 %"), (0.844, "84 %"), (0.999, "99 %"), (1, "100 %")]
)
def test_percent(share: float | None, shown: str) -> None:
    assert wording.percent(share) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0.00 s"), (421, "0.42 s"), (9994, "9.99 s"), (9996, "10.0 s"), (59940, "59.9 s"), (125000, "2 min 05 s")],
)
def test_seconds(ms: float, shown: str) -> None:
    assert wording.seconds(ms) == shown


def test_words() -> None:
    assert [wording.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 32)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "32nd",
    ]  # fmt: skip
    assert [wording.size(n) for n in (1, 98_362_432, 999_600_000, 1_117_320_768)] == [
        "1 MB",
        "98 MB",
        "1.0 GB",
        "1.1 GB",
    ]
    assert [wording.rate(r) for r in (None, 0.0, 54.63, 99.96, 1234.5)] == ["–", "0.0", "54.6", "100", "1,234"]


def test_wide_characters_are_measured() -> None:
    assert wording.fit("図書館の時間", 12) == "図書館の時間"
    assert wording.fit("図書館の時間", 11) == "図書館の時…"
    assert wording.fit("図書館の時間", 2) == "…"
    assert wording.fit("図", 0) == ""
    assert wording.spread("図書館", "98 MB", 14) == "図書館   98 MB"


def test_bars() -> None:
    assert blocks.bar(0.0, 10) == ("", "┄" * 10)
    assert blocks.bar(1.0, 10) == ("━" * 10, "")
    assert [len(blocks.bar(share, 10)[0]) for share in (0.001, 0.5, 0.999)] == [1, 5, 9]
    assert blocks.curve([0, 1, 2], 2) == "▁▅█"
    assert [blocks.round_top(v) for v in (0, 1, 1.2, 54, 60.5, 99, 1001)] == [1, 1, 1.5, 60, 80, 100, 1500]


def test_an_answer_takes_no_time_of_its_own() -> None:
    """3 s of prompt, 100 tokens in 1 s: 100 tok/s, however slowly the events are taken."""
    answer = Answer()
    answer.take(Prefilling(512, 1024))
    assert answer.state == "reading the prompt 512 / 1,024"
    for n in range(1, 101):
        answer.take(delta("x", replace(figures(n, n * 10.0), prompt_ms=3000.0, ttft_ms=3010.0)))
    readout = answer.readout("draft", 3, 4096)
    assert readout.average == pytest.approx(100.0)
    assert readout.now == pytest.approx(100.0)
    assert readout.figures is not None
    assert (readout.figures.prompt_ms, readout.figures.ttft_ms) == (3000.0, 3010.0)


async def test_panel_shows_the_times_apart(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "x")
        at = replace(figures(100, 1000.0), prompt_ms=3000.0, ttft_ms=3200.0, prompt_n=1024, cache_n=7)
        engine.turns[0].send(delta("y", at), finished("y", at, total_ms=4200.0))
        await ready(pilot)
        rows = [" ".join(line.split("│")[-1].split()) for line in screen_text(app).splitlines()]
        for row in (
            "100 tok/s avg 100",
            "first token 3.20 s",
            "prompt 1,024 in 3.00 s",
            "from the cache 7",
            "whole answer 4.20 s",
            "context 412 / 4,096",
        ):
            assert row in rows


async def test_acceptance_is_shown_as_it_is_defined(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "x")
        # 10 steps of 3 drafted; a block of 3 was cut at an end token, so fewer count as accepted than were checked.
        at = figures(27, 1000.0, steps=10, drafted=30, accepted=17, positions=(0.9, 0.5, 0.3))
        engine.turns[0].send(delta("y", at), finished("y", at))
        await ready(pilot)
        rows = [" ".join(line.split("│")[-1].split()) for line in screen_text(app).splitlines()]
        assert "tokens a step 2.7" in rows
        assert "accepted 57 % of 30" in rows
        bars = {row.split()[0]: row.split()[-2] for row in rows if row.startswith(("1st", "2nd", "3rd"))}
        assert bars == {"1st": "90", "2nd": "50", "3rd": "30"}
        assert "27.0 tok/s · 0.9x plain · 2.7 a step · 57 % of 30 accepted · first token 0.42 s" in screen_text(app)


async def test_nothing_drafted_divides_by_nothing(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "x")
        at = figures(0, 0.0, steps=0, state="idle", reason="nothing drafted so far")
        engine.turns[0].send(finished("", at, reason="cancelled"))
        await ready(pilot)
        assert "stopped · draft, 3 deep" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["line", "panel"])
@pytest.mark.parametrize(
    ("at", "words"),
    [
        (run_of(120, 2000.0)[-1], ("draft", "active")),
        (figures(5, 100.0, method=Method.NGRAM, state="idle", reason="no repeats"), ("ngram", "idle: no repeats")),
        (figures(5, 100.0, state="off", reason="out of memory"), ("draft", "off: out of memory")),
    ],
    ids=["active", "idle", "off"],
)
async def test_state_comes_with_its_reason(
    make_app: MakeApp, engine: FakeEngine, size: tuple[int, int], at: Figures, words: tuple[str, str]
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await ask(pilot, "x")
        engine.turns[0].send(delta("y", at), finished("y", at))
        await ready(pilot)
        shown = screen_text(app)
        for word in words:
            assert word in shown


async def test_panel_does_not_move_while_it_counts(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "x")

        def rows() -> dict[str, int]:
            words = ("tok/s", "tokens a step", "1st", "3rd", "method", "first token", "whole answer", "context")
            panel = [line.split("│")[-1].strip() for line in screen_text(app).splitlines()]
            return {word: y for word in words for y, row in enumerate(panel) if row.split("  ")[0].endswith(word)}

        before = rows()
        assert len(before) == 8
        for number, at in enumerate(run_of(400, 9000.0)[::20]):
            engine.turns[0].send(delta(f"{number} ", at))
            await until(pilot, lambda: app.query_one(Reply).source.endswith(f"{number} "))  # noqa: B023
            assert rows() == before


async def test_a_draft_of_many_tokens_stays_on_its_line(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "Hello?")
        at = figures(40, 1000.0, method=Method.NGRAM, depth=32, steps=10, drafted=320, positions=[0.5] * 32)
        engine.turns[0].send(delta("Hello", at))
        await until(pilot, lambda: "7–32" in screen_text(app))
        lines = screen_text(app).splitlines()
        row = next(i for i, line in enumerate(lines) if "7–32" in line)
        assert "▅" in lines[row] or "▄" in lines[row]
        assert lines[row + 2].split("│")[-1].strip().startswith("method")
