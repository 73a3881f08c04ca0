"""Pictures of the endpoint's screen; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.screens.endpoint import EndpointScreen
from pardec_chat.app.widgets.header import Header
from pardec_chat.backends.errors import OutOfMemory
from pardec_chat.tests.ui.fake_endpoint import KEY, FakeEndpoint, busy, taken
from pardec_chat.tests.ui.helpers import ready, screen_text, until

SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 36), id="120x36"),
]
LIGHT = [
    pytest.param("pardec-light", (80, 24), id="light-80x24"),
    pytest.param("pardec-light", (120, 36), id="light-120x36"),
]
WIDE = [pytest.param("pardec-dark", (200, 60), id="200x60")]
seen = pytest.mark.parametrize(("theme", "size"), SEEN)
seen_in_all = pytest.mark.parametrize(("theme", "size"), [*SEEN, *LIGHT, *WIDE])


@pytest.fixture
def shown(snap_compare: Any, make_app: Callable[..., PardecChat]) -> Callable[..., bool]:
    """Whether the screen looks as before once these keys were pressed and it shows `shows`."""

    def compare(endpoint: FakeEndpoint, theme: str, size: tuple[int, int], shows: str, *keys: str) -> bool:
        async def run(pilot: Pilot[None]) -> None:
            app = pilot.app
            assert isinstance(app, PardecChat)
            await ready(pilot)
            app.push_screen(EndpointScreen(endpoint, 8080))
            await until(pilot, lambda: "esc back" in screen_text(app))
            await pilot.press(*keys)
            await until(pilot, lambda: shows in " ".join(screen_text(app).split()))

        return bool(snap_compare(make_app(theme=theme), terminal_size=size, run_before=run))

    return compare


@seen_in_all
def test_off(shown: Any, theme: str, size: Any) -> None:
    assert shown(FakeEndpoint(), theme, size, "○ off")


@seen
def test_starting(shown: Any, theme: str, size: Any) -> None:
    assert shown(FakeEndpoint(held=True), theme, size, "◐ starting", "space")


@seen
def test_stopping(shown: Any, theme: str, size: Any) -> None:
    assert shown(busy(FakeEndpoint(held=True).on()), theme, size, "◐ stopping", "space")


@seen_in_all
def test_on_without_a_request(shown: Any, theme: str, size: Any) -> None:
    assert shown(FakeEndpoint(key=KEY).on(), theme, size, "● on")


@seen
def test_the_key(shown: Any, theme: str, size: Any) -> None:
    assert shown(FakeEndpoint(key=KEY).on(), theme, size, KEY, "k")


@seen_in_all
def test_busy(shown: Any, theme: str, size: Any) -> None:
    assert shown(busy(FakeEndpoint().on(), 40), theme, size, "39 done")


@seen_in_all
def test_a_failed_one(shown: Any, theme: str, size: Any) -> None:
    assert shown(busy(FakeEndpoint().on()), theme, size, "Error: The prompt", "down", "down", "down")


@seen
def test_off_again(shown: Any, theme: str, size: Any) -> None:
    assert shown(busy(FakeEndpoint(), live=False), theme, size, "○ off")


@seen_in_all
def test_port_taken(shown: Any, theme: str, size: Any) -> None:
    endpoint = FakeEndpoint()
    endpoint.failures = [taken(8080, 8081)]
    assert shown(endpoint, theme, size, "Take 8081?", "space")


@seen
def test_failed(shown: Any, theme: str, size: Any) -> None:
    endpoint = busy(FakeEndpoint(), 3, live=False)
    endpoint.failures = [
        OutOfMemory(
            "Qwen2.5 Coder 1.5B Instruct with room for 4 answers takes 3.1 GB, and 2.2 GB are free.",
            "Choose a smaller context, or a smaller model with F3.",
        )
    ]
    assert shown(endpoint, theme, size, "Error:", "space")


@seen
def test_title_line(snap_compare: Any, make_app: Any, theme: str, size: Any) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ready(pilot)
        pilot.app.chat.query_one(Header).endpoint = "127.0.0.1:8080"  # type: ignore[attr-defined]
        await pilot.pause()

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)
