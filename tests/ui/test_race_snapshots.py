"""Pictures of the race; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.chat.request import Figures
from pardec_chat.app.screens.race import RaceScreen
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.tests.ui.fake_engine import FakeEngine, delta, figures, finished, run_of
from pardec_chat.tests.ui.helpers import until
from pardec_chat.tests.ui.test_race import start, to_race
from pardec_chat.tests.ui.test_snapshots import JAPANESE, JAPANESE_QUESTION, MERGE, QUESTION

SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 36), id="120x36"),
    pytest.param("pardec-light", (80, 24), id="light"),
]
seen = pytest.mark.parametrize(("theme", "size"), SEEN)


def _plain(n: int) -> Figures:
    at = figures(n, n / 22.0 * 1e3, method=Method.PLAIN, depth=0, state="off", reason="plain decoding was chosen")
    return replace(at, ttft_ms=810.0)


def _auto(n: int) -> Figures:
    return replace(run_of(n, n / 31.2 * 1e3)[-1], method=Method.AUTO, using=Method.DRAFT, depth=3, ttft_ms=840.0)


async def _race(pilot: Pilot[None], engine: FakeEngine, prompt: str, text: str, *, end: bool) -> None:
    race = await start(pilot, engine, prompt)
    left, right = engine.turns
    half = text[: len(text) // (1 if end else 3)]
    left.send(delta(half, _plain(134 if end else 44)))
    right.send(delta(text if end else half + half, _auto(134 if end else 88)))
    if end:
        left.send(finished(text, _plain(134)))
        right.send(finished(text, _auto(134)))
    await until(pilot, lambda: race.contest.running != end)
    await until(pilot, lambda: all(runner.answer.text for runner in race.contest.runners))  # type: ignore[union-attr]


@seen
def test_before(snap_compare: Any, make_app: Any, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        race = await to_race(pilot)
        race.prompt.text = QUESTION
        await pilot.press("tab")
        await pilot.pause()

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


@seen
def test_running(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await _race(pilot, engine, QUESTION, MERGE, end=False)

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


@seen
def test_verdict(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await _race(pilot, engine, QUESTION, MERGE, end=True)

    app = make_app(theme=theme, sampling=SamplingParams(temperature=0.0))
    assert snap_compare(app, terminal_size=size, run_before=run)


@seen
def test_wide_characters(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await _race(pilot, engine, JAPANESE_QUESTION, JAPANESE, end=False)

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


@seen
def test_loading(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: pilot.app.chat.state == "ready")  # type: ignore[attr-defined]
        engine.held = True
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(pilot.app.screen, RaceScreen))
        progress = engine.loads[-1][1]
        assert progress is not None
        progress(0.4)
        await until(pilot, lambda: "40 %" in pilot.app.screen.contest.state)  # type: ignore[attr-defined]

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)
