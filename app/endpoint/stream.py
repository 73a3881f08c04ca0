"""From the engine's thread to the event loop: events are put down without waiting, and taken up in one go."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

from pardec_chat.app.chat.request import Delta, Event, Failed, Figures, Finished, Notice, Prefilling, Queued, Thinking
from pardec_chat.app.endpoint.timings import Tally
from pardec_chat.backends.base import TokenLogprobs


class Bell:
    """Wakes one coroutine from other threads; however often it is rung, the loop is told once until somebody has listened."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """From any thread; returns at once."""
        if self._rung:
            return
        self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop has ended, and with it whoever would listen
            return

    async def wait(self, seconds: float) -> bool:
        """Whether it was rung since the last time, or is within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        # Whatever is put down from here on rings again, and what was put down before is taken after this.
        self._rung = False
        return True


@dataclass(slots=True)
class Taken:
    """What has come since the last time.

    ahead: requests that come first. reading: tokens of the prompt that are in the cache, and all. text and tokens of several
    steps are joined: a slow client gets fewer and longer pieces, and holds up nobody.
    """

    text: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    figures: Figures | None = None
    ahead: int | None = None
    reading: tuple[int, int] | None = None
    end: Finished | Failed | None = None


class Feed:
    """The sink of one request. What it holds is bounded by the answer itself."""

    def __init__(self, bell: Bell, tally: Tally) -> None:
        self.tally = tally
        self._bell = bell
        self._lock = threading.Lock()
        self._taken = Taken()

    def __call__(self, event: Event) -> None:
        """On the engine's thread."""
        with self._lock:
            taken = self._taken
            if isinstance(event, Delta):
                self.tally.count(event)
                taken.text.append(event.text)
                taken.tokens.extend(event.step.tokens)
                taken.logprobs.extend(event.step.logprobs or ())
                taken.figures = event.figures
            elif isinstance(event, Queued):
                taken.ahead = event.ahead
            elif isinstance(event, Prefilling):
                taken.reading = (event.done, event.total)
            elif isinstance(event, Notice):
                taken.notices.append(event.text)
            elif not isinstance(event, Thinking):
                taken.end = event
        self._bell.ring()

    def take(self) -> Taken:
        """All that has come since the last time."""
        with self._lock:
            taken, self._taken = self._taken, Taken()
        return taken
