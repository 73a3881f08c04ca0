"""The app on a fake engine, without blinking, animation or waiting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pardec_chat.app.app import ChatOptions, PardecChat
from pardec_chat.app.widgets import pacer
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.fake_engine import DRAFT, ENTRIES, LARGE, FakeEngine


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what happened without waiting for the next picture."""
    monkeypatch.setattr(pacer, "SECONDS", 0.001)
    monkeypatch.setattr(pacer, "PAUSES", 3)
    monkeypatch.setattr(pacer, "PAUSES_WITH_ROOM", 3)


@pytest.fixture
def engine() -> FakeEngine:
    """What the app of `make_app` asks."""
    return FakeEngine()


@pytest.fixture
def make_app(engine: FakeEngine) -> Callable[..., PardecChat]:
    """Makes the app with a pair of models and the method draft; options replace single ones."""

    def make(**changes: object) -> PardecChat:
        options = ChatOptions(LARGE, DRAFT, Method.DRAFT, choices=lambda: ENTRIES)
        app = PardecChat(replace(options, **changes), lambda: engine)  # type: ignore[arg-type]
        app.animation_level = "none"
        return app

    return make
