"""The screen behind F4: what it asks, what its keys do, what it looks like."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app import locations, pays
from pardec_chat.app.app import PardecChat
from pardec_chat.app.screens.pays import PaysScreen
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.explanations import CPU, GPU
from pardec_chat.tests.ui.fake_engine import LARGE, FakeEngine, figures, finished, on_thread
from pardec_chat.tests.ui.helpers import ask, ready, screen_text, until

MakeApp = Callable[..., PardecChat]
Run = Callable[[Pilot[None]], Awaitable[None]]
SIZES = {"80x24": (80, 24), "120x36": (120, 36)}
THEMES = ("pardec-dark", "pardec-light")


def words(app: PardecChat) -> str:
    """The screen without line breaks."""
    return " ".join(screen_text(app).split())


def told(app: PardecChat) -> str:
    """The notifications."""
    return " ".join(notification.message for notification in app._notifications)


async def opened(pilot: Pilot[None], shows: str) -> None:
    """Open the screen and wait until it shows that."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await ready(pilot)
    await pilot.press("f4")
    await until(pilot, lambda: isinstance(app.screen, PaysScreen) and shows in words(app))


async def measured(pilot: Pilot[None], engine: FakeEngine, *done: float) -> None:
    """Press m, and let the engine's thread tell how far it is."""
    await pilot.press("m")
    progress = engine.calibrations[-1][0]

    def tell() -> None:
        for share in done:
            progress(share)

    on_thread(tell)
    await pilot.pause()


@pytest.mark.parametrize("width", [80, 100, 120])
async def test_all_keys_fit_in_the_line_at_the_bottom(make_app: MakeApp, width: int) -> None:
    app = make_app()
    async with app.run_test(size=(width, 24)) as pilot:
        await ready(pilot)
        last = screen_text(app).splitlines()[-1]
        assert ("F4 pays?" in last) == (width >= 100)
        assert "^Q quit" in last
        assert last.rstrip().endswith("^P menu")
        assert ("F5 panel" in last) == (width >= 120)


async def test_it_explains_for_the_context_of_the_conversation(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.explanation = CPU
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, "With auto, plain decoding is used, n-gram where text repeats.")
        assert engine.contexts == [512]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await ask(pilot, "Hello?")
        engine.turns[0].send(finished("Hi.", figures(context=1412)))
        await until(pilot, lambda: app.chat.state == "ready")
        await pilot.press("f4")
        await until(pilot, lambda: "with 1,412 tokens in the context" in words(app))
        await pilot.press("f4")
        await until(pilot, lambda: app.screen is app.chat)
        assert engine.contexts == [512, 1412]


async def test_nothing_measured_says_what_to_do(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, pays.NOTHING)
        assert pays.HOW_TO_MEASURE in words(app)


async def test_measuring(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, pays.NOTHING)
        await measured(pilot, engine, 0.1, 0.43)
        await until(pilot, lambda: "43 % answers wait · esc ends it" in words(app))
        await pilot.press("m")
        assert len(engine.calibrations) == 1
        engine.explanation = GPU
        on_thread(lambda: engine.calibrations[0][1].set_result(CPU))
        await until(pilot, lambda: "the draft model is used for code" in words(app))
        assert "answers wait" not in words(app)
        assert engine.contexts == [512, 512]


async def test_escape_ends_a_measurement_and_stays(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, pays.NOTHING)
        await measured(pilot, engine, 0.2)
        progress, future = engine.calibrations[0]
        assert progress(0.3)
        await pilot.press("escape")
        assert not progress(0.4)
        await until(pilot, lambda: pays.ENDING in words(app))
        engine.explanation = CPU
        on_thread(lambda: future.set_result(CPU))
        await until(pilot, lambda: "With auto, plain decoding is used" in words(app))
        await pilot.press("m")
        assert len(engine.calibrations) == 2
        assert engine.calibrations[1][0](0.1)


async def test_leaving_ends_a_measurement(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, pays.NOTHING)
        await measured(pilot, engine, 0.2)
        progress, future = engine.calibrations[0]
        await pilot.press("f4")
        await until(pilot, lambda: app.screen is app.chat)
        assert not progress(0.4)
        on_thread(lambda: future.set_result(CPU))  # comes too late, for nobody
        await pilot.pause()
        assert app.chat.state == "ready"


async def test_a_failed_measurement_leaves_the_picture(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.explanation = CPU
    app = make_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(pilot, "With auto")
        await measured(pilot, engine, 0.2)
        on_thread(lambda: engine.calibrations[0][1].set_exception(UserError("The cache is full.", "Start anew.")))
        await until(pilot, lambda: told(app) == "The cache is full. Start anew.")
        assert "With auto" in words(app)
        assert "answers wait" not in words(app)


@pytest.mark.parametrize(
    ("error", "shows"),
    [
        (UserError("The [b]runtime[/b] is gone.\x1b[2J", "Start again."), "Error: The [b]runtime[/b] is gone.␛[2J"),
        (ZeroDivisionError("x"), "Error: A fault of this program: ZeroDivisionError"),
        (CancelledError(), "Error: A fault of this program: CancelledError"),
    ],
)
async def test_engine_errors_are_told(make_app: MakeApp, engine: FakeEngine, error: Exception, shows: str) -> None:
    engine.no_explanation = error
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, shows)
        engine.no_explanation, engine.explanation = None, CPU
        await measured(pilot, engine, 0.2)
        on_thread(lambda: engine.calibrations[0][1].set_result(CPU))
        await until(pilot, lambda: "With auto" in words(app) and "Error" not in words(app))


async def test_no_model(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(model=None, draft=None)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.state == "no model")
        await pilot.press("f4")
        await until(pilot, lambda: pays.NO_MODEL in words(app))
        await pilot.press("m", "s")
        await until(pilot, lambda: told(app) == pays.NOTHING_TO_SAVE)
        assert not engine.contexts and not engine.calibrations


async def test_names_are_text(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.names[LARGE] = "[b]evil[/b]\x1b[2J"
    app = make_app(choices=tuple)
    async with app.run_test() as pilot:
        await opened(pilot, "[b]evil[/b]␛[2J")


async def test_saved_as_svg(
    make_app: MakeApp, engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations, "pictures", lambda: tmp_path)
    engine.names[LARGE] = "<b>&[red]"
    engine.explanation = GPU
    app = make_app(choices=tuple)
    async with app.run_test(size=(120, 30)) as pilot:
        await opened(pilot, "With auto")
        await pilot.press("s")
        await until(pilot, lambda: told(app).startswith("Saved as "))
        (path,) = tmp_path.iterdir()
        assert told(app) == f"Saved as {path}"
        assert re.fullmatch(r"pardec-chat-pays-\d{8}-\d{6}\.svg", path.name)
        svg = path.read_text(encoding="utf-8")
        assert "&lt;b&gt;&amp;[red]" in svg
        assert "used&#160;for&#160;code" in svg
        assert "url(&" not in svg and "https://" not in svg

        monkeypatch.setattr(locations, "pictures", lambda: tmp_path / "gone")
        await pilot.press("s")
        await until(pilot, lambda: "could not be written: No such file or directory." in told(app))
        assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(params=list(SIZES.values()), ids=list(SIZES))
def size(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_snapshot_nothing_measured(snap_compare: Any, make_app: MakeApp, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, pays.NOTHING)

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_snapshot_does_not_pay(snap_compare: Any, make_app: MakeApp, engine: FakeEngine, theme: str, size: Any) -> None:
    engine.explanation = CPU

    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, "With auto")

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_snapshot_pays(snap_compare: Any, make_app: MakeApp, engine: FakeEngine, theme: str, size: Any) -> None:
    engine.explanation = GPU

    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, "With auto")

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_snapshot_read_on(snap_compare: Any, make_app: MakeApp, engine: FakeEngine, size: Any) -> None:
    engine.explanation = GPU

    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, "With auto")
        await pilot.press("pagedown")
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=size, run_before=run)


def test_snapshot_measuring(snap_compare: Any, make_app: MakeApp, engine: FakeEngine, theme: str, size: Any) -> None:
    engine.explanation = CPU

    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, "With auto")
        await measured(pilot, engine, 0.43)
        await until(pilot, lambda: "43 %" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)


def test_snapshot_no_model(snap_compare: Any, make_app: MakeApp, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: pilot.app.chat.state == "no model")  # type: ignore[attr-defined]
        await pilot.press("f4")
        await pilot.pause()

    assert snap_compare(make_app(model=None, draft=None), terminal_size=size, run_before=run)


def test_snapshot_engine_error(snap_compare: Any, make_app: MakeApp, engine: FakeEngine, size: Any) -> None:
    engine.no_explanation = UserError("The runtime is gone.", "Start the app again.")

    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, "The runtime is gone.")

    assert snap_compare(make_app(), terminal_size=size, run_before=run)
