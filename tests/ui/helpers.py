"""Waiting without sleeping, and reading the screen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Let the app work until `true()`; fails when that takes longer than any machine needs."""
    for _ in range(2000):
        await pilot.pause()
        if true():
            await pilot.pause()
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came true")


async def ready(pilot: Pilot[None]) -> None:
    """The models are loaded."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await until(pilot, lambda: app.chat.state == "ready")


async def ask(pilot: Pilot[None], text: str) -> None:
    """Load, then send a prompt."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await ready(pilot)
    app.chat.prompt.text = text
    await pilot.press("enter")
    await until(pilot, lambda: app.chat.dialogue.busy)


def screen_text(app: PardecChat) -> str:
    """All lines of the screen, as they go to the terminal but without styles."""
    height = app.size.height
    strips = app.screen._compositor.render_strips()
    assert len(strips) == height
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def notifications(app: PardecChat) -> str:
    """All that the app has to tell at the moment."""
    return " ".join(notification.message for notification in app._notifications)
