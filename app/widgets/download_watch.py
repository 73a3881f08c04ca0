"""Looking at downloads now and then, however often they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pardec_chat.app.widgets.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.message_pump import MessagePump

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.queue import Item


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


class DownloadWatch(Watch):
    """See `Watch`; `items` is what was seen last."""

    def __init__(self, pump: MessagePump, downloads: DownloadsLike, changed: Callable[[], None]) -> None:
        super().__init__(pump, changed)
        self.items: tuple[Item, ...] = ()
        self._downloads = downloads

    def look(self) -> None:
        """Look now."""
        items = self._downloads.items()
        if items != self.items:
            self.items = items
            self._changed()

    def item(self, model_id: str) -> Item | None:
        """The download of a model, where there is one."""
        return next((item for item in self.items if item.model.id == model_id), None)
