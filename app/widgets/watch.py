"""Looking at something now and then that changes on other threads, however often it changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message_pump import MessagePump
    from textual.timer import Timer

#: Figures that change more often than this cannot be read.
SECONDS = 0.2


class Watch(ABC):
    """Calls `changed` on the UI thread when there is something else to see, a few times a second at most.

    It asks instead of being told: what comes a thousand times a second costs the screen nothing.
    """

    def __init__(self, pump: MessagePump, changed: Callable[[], None]) -> None:
        self._pump = pump
        self._changed = changed
        self._timer: Timer | None = None

    @abstractmethod
    def look(self) -> None:
        """Look now."""

    def start(self) -> None:
        """Begin, or go on behind `stop`."""
        self.look()
        if self._timer is None:
            self._timer = self._pump.set_interval(SECONDS, self.look)
        else:
            self._timer.resume()

    def stop(self) -> None:
        """Nobody sees it."""
        if self._timer is not None:
            self._timer.pause()
