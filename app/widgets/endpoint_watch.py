"""Looking at the endpoint now and then, however often its requests change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pardec_chat.app.widgets import endpoint_row
from pardec_chat.app.widgets.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message_pump import MessagePump

    from pardec_chat.app.widgets.endpoint_row import EntryLike, Row
    from pardec_chat.app.widgets.endpoint_words import AddressLike


class Watched(Protocol):
    """The part of the endpoint that is looked at."""

    @property
    def running(self) -> bool:
        """Whether it is on."""

    @property
    def address(self) -> AddressLike | None:
        """Where, while it is on."""

    def entries(self) -> tuple[EntryLike, ...]:
        """Its requests."""


class EndpointWatch(Watch):
    """See `Watch`; `address` and `rows` are what was seen last."""

    def __init__(self, pump: MessagePump, endpoint: Watched, changed: Callable[[], None]) -> None:
        super().__init__(pump, changed)
        self.address: AddressLike | None = None
        self.rows: tuple[Row, ...] = ()
        self._endpoint = endpoint
        self._entries: tuple[EntryLike, ...] = ()
        self._key: str | None = None
        # By number: what was shown of an entry is worked out once.
        self._known: dict[int, tuple[EntryLike, Row]] = {}

    def look(self) -> None:
        """Look now."""
        endpoint = self._endpoint
        address, entries = endpoint.address if endpoint.running else None, endpoint.entries()
        if (address, entries) == (self.address, self._entries):
            return
        key = address.key if address is not None else self._key  # texts from before may hold it when it is off
        if key != self._key:
            self._known.clear()
        known, self._known, self._key = self._known, {}, key
        for entry in entries:
            before = known.get(entry.number)
            if before is None or before[0] is not entry:
                before = entry, endpoint_row.of(entry, key)
            self._known[entry.number] = before
        self.address, self._entries = address, entries
        self.rows = endpoint_row.ordered(row for _, row in self._known.values())
        self._changed()
