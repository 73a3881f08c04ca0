"""How often is drawn: by what drawing takes, and by whether decoding leaves a core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pardec_chat.app.widgets import pacer
from pardec_chat.app.widgets.pacer import Pacer


class _Pump:
    """Takes what is to be called."""

    def __init__(self) -> None:
        self.next: list[Callable[[], Any]] = []
        self.drawn: list[Callable[[], Any]] = []

    def call_next(self, callback: Callable[[], Any]) -> None:
        """See `MessagePump`."""
        self.next.append(callback)

    def call_after_refresh(self, callback: Callable[[], Any]) -> None:
        """See `MessagePump`."""
        self.drawn.append(callback)


@pytest.fixture(autouse=True)
def numbers(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    """Those of the module, whatever the other tests of screens draw with."""
    for name, value in (("SECONDS", 0.1), ("PAUSES", 69), ("PAUSES_WITH_ROOM", 9), ("LONGEST", 1.5)):
        monkeypatch.setattr(pacer, name, value)


@pytest.mark.parametrize(
    ("took", "has_room", "pause"),
    [
        (0.0, False, 0.1),
        (0.01, False, 0.69),
        (0.5, False, 1.5),
        (0.01, True, 0.1),
        (0.02, True, 0.18),
        (1.0, True, 1.5),
    ],
)
def test_the_pause_follows_what_drawing_takes(
    monkeypatch: pytest.MonkeyPatch, took: float, has_room: bool, pause: float
) -> None:
    clock = iter([5.0, 5.0 + took])
    monkeypatch.setattr(pacer, "thread_time", lambda: next(clock))

    async def draw_one() -> float:
        pump = _Pump()
        draws: list[int] = []

        async def draw() -> None:
            draws.append(1)

        pace = Pacer(pump, draw, lambda: has_room)  # type: ignore[arg-type]
        pace()
        pace()  # while the first one waits: one picture is enough for both
        assert len(pump.next) == 1
        await pump.next.pop()()
        assert draws == [1]
        assert pace.rests
        pump.drawn.pop()()
        assert pace.rests
        assert not pump.next
        return pace.pause

    assert asyncio.run(draw_one()) == pytest.approx(pause)


def test_what_comes_in_the_pause_is_drawn_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer, "SECONDS", 0.0)
    monkeypatch.setattr(pacer, "thread_time", lambda: 0.0)

    async def drawings(*, dropped: bool) -> int:
        pump = _Pump()
        n = 0

        async def draw() -> None:
            nonlocal n
            n += 1

        pace = Pacer(pump, draw)  # type: ignore[arg-type]
        pace()
        await pump.next.pop()()
        pace()
        if dropped:
            pace.drop()
        pump.drawn.pop()()
        await asyncio.sleep(0)  # the pause, which is none
        await asyncio.sleep(0)
        while pump.next:
            await pump.next.pop()()
        return n

    assert asyncio.run(drawings(dropped=False)) == 2
    assert asyncio.run(drawings(dropped=True)) == 1
