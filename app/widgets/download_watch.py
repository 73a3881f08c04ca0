"""Looking at downloads now and then, however often they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.message_pump import MessagePump
    from textual.timer import Timer

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.queue import Item

#: Figures that change more often than this cannot be read.
SECONDS = 0.2


class DownloadsLike(Protocol):
    """The part of `Downloads` that the screens use."""

    def items(self) -> tuple[Item, ...]:
        """See `Downloads.items`."""

    def start(self, models: Sequence[Model]) -> None:
        """See `Downloads.start`."""

    def pause(self, model_id: str) -> None:
        """See `Downloads.pause`."""

    def cancel(self, model_id: str) -> None:
        """See `Downloads.cancel`."""

    def close(self, seconds: float = 1.0) -> None:
        """See `Downloads.close`."""


class DownloadWatch:
    """Calls `changed` on the UI thread when the downloads are others than before, a few times a second at most.

    It asks instead of being told: bytes that come a thousand times a second cost the screen nothing.
    """

    def __init__(self, pump: MessagePump, downloads: DownloadsLike, changed: Callable[[], None]) -> None:
        self.items: tuple[Item, ...] = ()
        self._pump = pump
        self._downloads = downloads
        self._changed = changed
        self._timer: Timer | None = None

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

    def look(self) -> None:
        """Look now."""
        items = self._downloads.items()
        if items != self.items:
            self.items = items
            self._changed()

    def item(self, model_id: str) -> Item | None:
        """The download of a model, where there is one."""
        return next((item for item in self.items if item.model.id == model_id), None)
