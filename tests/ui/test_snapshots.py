"""Pictures of every screen and state; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat.request import Notice, Prefilling
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import ContextFull, ModelUnreadable
from pardec_chat.tests.ui.fake_engine import LARGE, FakeEngine, delta, figures, finished, run_of
from pardec_chat.tests.ui.helpers import ask, ready, screen_text, until

Run = Callable[[Pilot[None]], Awaitable[None]]
SIZES = {"80x24": (80, 24), "120x36": (120, 36)}
THEMES = ("pardec-dark", "pardec-light")

QUESTION = "Write a Python function that merges two sorted lists."
MERGE = """Here is a function that merges two **sorted** lists in one pass:

```python
def merge(a, b):
    result = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            result.append(a[i])
            i += 1
        else:
            result.append(b[j])
            j += 1
    return result + a[i:] + b[j:]
```

It runs in `O(n + m)`:

- each element is looked at once
- the rest of the longer list is added *as it is*
"""
JAPANESE_QUESTION = "図書館の開館時間を教えてください。"
JAPANESE = """図書館は**午前九時**から午後八時まで開いています。

| 曜日 | 時間 |
|---|---|
| 月曜日 | 休館 |
| 火曜日〜日曜日 | 9:00–20:00 |

1. 入口は北側です。
2. カードをお持ちください。
"""


async def _stream(pilot: Pilot[None], engine: FakeEngine, text: str, *, end: bool) -> None:
    app = pilot.app
    assert isinstance(app, PardecChat)
    run = run_of(120, 2200.0)
    pieces = [text[i * len(text) // len(run) : (i + 1) * len(text) // len(run)] for i in range(len(run))]
    engine.turns[-1].send(*(delta(piece, at) for piece, at in zip(pieces, run, strict=True)))
    if end:
        engine.turns[-1].send(finished(text, run[-1]))
        await until(pilot, lambda: not app.chat.dialogue.busy)
    await until(pilot, lambda: app.chat.query("Reply").last().source == text)  # type: ignore[attr-defined]


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(SIZES.values()), ids=list(SIZES))
def size(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_empty(snap_compare: Any, make_app: Any, theme: str, size: Any) -> None:
    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=ready)


def test_streaming(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, QUESTION)
        await _stream(pilot, engine, MERGE[: MERGE.index("        else:")], end=False)

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_finished(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, QUESTION)
        await _stream(pilot, engine, MERGE, end=True)

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_japanese(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, JAPANESE_QUESTION)
        await _stream(pilot, engine, JAPANESE, end=True)
        await pilot.click("Prompt")
        pilot.app.chat.prompt.text = "日本語の入力\n二行目"  # type: ignore[attr-defined]
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_reading_the_prompt(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, QUESTION)
        engine.turns[-1].send(Notice("The oldest 2 messages no longer fit the context and were left out."))
        engine.turns[-1].send(Prefilling(512, 1024))
        await until(pilot, lambda: "were left" in screen_text(pilot.app))  # type: ignore[arg-type]
        await until(pilot, lambda: "512" in pilot.app.chat.state)  # type: ignore[attr-defined]

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_auto(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, QUESTION)
        at = replace(
            figures(
                96, 2050.0, method=Method.AUTO, depth=15, steps=41, drafted=75, accepted=55, positions=(0.9, 0.8, 0.7, 0.7),
                reason="15 guesses give 9.8 tokens for 4.1 steps",
            ),
            using=Method.NGRAM,
        )  # fmt: skip
        engine.turns[-1].send(delta(MERGE[:120], at))
        await until(pilot, lambda: pilot.app.chat.query("Reply").last().source == MERGE[:120])  # type: ignore[attr-defined]

    assert snap_compare(make_app(theme=theme, method=Method.AUTO), terminal_size=size, run_before=run)


def test_ngram_idle(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, "Say hello.")
        at = figures(9, 400.0, method=Method.NGRAM, depth=15, state="idle", reason="no repeated text to copy so far")
        engine.turns[-1].send(delta("Hello, how are you?", at), finished("Hello, how are you?", at))
        await until(pilot, lambda: not pilot.app.chat.dialogue.busy)  # type: ignore[attr-defined]

    assert snap_compare(make_app(method=Method.NGRAM), terminal_size=size, run_before=run)


def test_error_in_a_turn(snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str, size: Any) -> None:
    from pardec_chat.app.chat.request import Failed

    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, "A very long text …")
        error = ContextFull("The conversation has 9,120 tokens; the context holds 4,096.", "Shorten the message.")
        engine.turns[-1].send(Failed(error))
        await until(pilot, lambda: not pilot.app.chat.dialogue.busy)  # type: ignore[attr-defined]

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_load_failed(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any) -> None:
    engine.failures[LARGE] = [ModelUnreadable("/models/qwen2.5-1.5b.gguf is cut off.", "Pull it again.")]

    async def run(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(pilot.app.query("Note")))

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_loading(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any) -> None:
    engine.held = True

    async def run(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(engine.loads))
        progress = engine.loads[0][1]
        assert progress is not None
        progress(0.4)
        await until(pilot, lambda: "40 %" in pilot.app.chat.state)  # type: ignore[attr-defined]

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_no_model(snap_compare: Any, make_app: Any, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: pilot.app.chat.state == "no model")  # type: ignore[attr-defined]

    assert snap_compare(make_app(model=None, draft=None), terminal_size=size, run_before=run)


def test_more_below(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, QUESTION)
        await _stream(pilot, engine, MERGE * 3, end=True)
        await pilot.press("pageup")
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


@pytest.mark.parametrize("presses", [1, 2], ids=["once", "twice"])
def test_figures_elsewhere(snap_compare: Any, make_app: Any, engine: FakeEngine, size: Any, presses: int) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ask(pilot, QUESTION)
        await _stream(pilot, engine, MERGE, end=True)
        await pilot.press(*["f5"] * presses)

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_method_picker(snap_compare: Any, make_app: Any, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await pilot.press("f2")
        await pilot.pause()

    assert snap_compare(make_app(theme=theme, draft=None), terminal_size=size, run_before=run)


def test_model_picker(snap_compare: Any, make_app: Any, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await pilot.press("f3")
        await pilot.pause()

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_draft_picker(snap_compare: Any, make_app: Any, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await pilot.press("f3", "enter")
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_help(snap_compare: Any, make_app: Any, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ready(pilot)
        await pilot.press("f1")
        await pilot.pause()

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)
