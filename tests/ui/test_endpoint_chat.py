"""The endpoint in the chat: its key, its place in the title line, and what it keeps others from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pardec_chat.app.app import PardecChat
from pardec_chat.app.screens.endpoint import EndpointScreen
from pardec_chat.tests.ui.fake_endpoint import FakeEndpoint, taken
from pardec_chat.tests.ui.fake_engine import FakeEngine
from pardec_chat.tests.ui.helpers import notifications, ready, screen_text, until

MakeApp = Callable[..., PardecChat]


@pytest.fixture
def endpoint() -> FakeEndpoint:
    return FakeEndpoint()


async def test_it_is_switched_with_one_key_and_told_in_the_title_line(
    make_app: MakeApp, endpoint: FakeEndpoint
) -> None:
    app = make_app(endpoint=lambda *_: endpoint, port=8123)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        app.chat.prompt.text = "a text that stays"
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: endpoint.running)
        assert endpoint.starts == [8123]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert "● endpoint 127.0.0.1:8123" in screen_text(app).splitlines()[0]
        assert app.chat.prompt.text == "a text that stays"
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space", "escape")
        await until(pilot, lambda: app.screen is app.chat and "endpoint" not in screen_text(app).splitlines()[0])


async def test_the_port_that_was_taken_instead_is_kept(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    endpoint.failures = [taken(8080, 8081)]
    app = make_app(endpoint=lambda *_: endpoint)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: "8081" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: endpoint.running)
        await pilot.press("escape", "ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: not endpoint.running)
        await pilot.press("escape", "ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: endpoint.running)
        assert endpoint.starts == [8080, 8081, 8081]


async def test_left_while_it_starts_the_title_line_tells_when_it_is_on(
    make_app: MakeApp, endpoint: FakeEndpoint
) -> None:
    endpoint.held = True
    app = make_app(endpoint=lambda *_: endpoint)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: endpoint.starts == [8080])
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert "endpoint" not in screen_text(app).splitlines()[0]
        endpoint.end()
        await until(pilot, lambda: "● endpoint 127.0.0.1:8080" in screen_text(app))


async def test_a_start_that_fails_behind_the_chat_is_told_without_what_may_hold_the_key(
    make_app: MakeApp, endpoint: FakeEndpoint
) -> None:
    endpoint.held = True
    endpoint.failures = [RuntimeError("sk-0123456789abcdefghij")]
    app = make_app(endpoint=lambda *_: endpoint)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: endpoint.starts == [8080])
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        endpoint.end()
        await until(pilot, lambda: "RuntimeError" in notifications(app))
        assert "sk-0123" not in notifications(app) + screen_text(app)


async def test_a_race_waits_until_the_endpoint_is_off(
    make_app: MakeApp, endpoint: FakeEndpoint, engine: FakeEngine
) -> None:
    app = make_app(endpoint=lambda *_: endpoint)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: endpoint.running)
        await pilot.press("escape", "f6")
        await until(pilot, lambda: "needs the machine for itself" in notifications(app))
        assert app.screen is app.chat
        assert len(engine.loads) == 1


@pytest.mark.parametrize("there", [False, True])
async def test_without_models_or_a_way_the_key_says_so(make_app: MakeApp, endpoint: FakeEndpoint, there: bool) -> None:
    app = make_app(endpoint=(lambda *_: endpoint) if there else None, model=None, draft=None)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.state == "no model")
        await pilot.press("ctrl+e")
        await until(pilot, lambda: "Not yet: no model." in notifications(app))
        assert app.screen is app.chat


async def test_U04_leaving_the_app_ends_it(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app(endpoint=lambda *_: endpoint)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+e")
        await until(pilot, lambda: isinstance(app.screen, EndpointScreen))
        await pilot.press("space")
        await until(pilot, lambda: endpoint.running)
        await pilot.press("ctrl+q")
        await pilot.pause()
    assert not endpoint.running
