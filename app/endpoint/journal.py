"""Who asked what of the endpoint, for the screen that shows it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pardec_chat.app.plain_text import visible_line

State = Literal["waiting", "reading", "writing", "done", "stopped", "failed"]
_ENTRIES = 500
_CLIENT, _ERROR = 60, 300
#: Seconds between two times that a growing answer is told about.
_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One request as it stands.

    when: seconds since the epoch. client: the user agent, shortened and printable. what: "chat", "completion", "response",
    or "refused" for what did not get past the door. tokens: written so far. method: asked for, empty where none was read.
    """

    number: int
    when: float
    client: str
    what: str
    state: State = "waiting"
    tokens: int = 0
    tokens_per_second: float | None = None
    acceptance: float | None = None
    method: str = ""
    error: str = ""


class Journal:
    """The last 500 requests. Thread-safe; `changed` is called after a change, on the thread that made it."""

    def __init__(self) -> None:
        self.changed: Callable[[], None] = lambda: None
        #: Never shown, wherever a client may have put it.
        self.secret: str | None = None
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, JournalEntry] = OrderedDict()
        self._last = 0
        self._told = 0.0

    def entries(self) -> tuple[JournalEntry, ...]:
        """Oldest first."""
        with self._lock:
            return tuple(self._entries.values())

    def open(self, what: str, client: str) -> int:
        """A request has come; gives its number."""
        with self._lock:
            self._last += 1
            number = self._last
            self._entries[number] = JournalEntry(number, time.time(), self._printable(client, _CLIENT), what)
            while len(self._entries) > _ENTRIES:
                self._entries.popitem(last=False)
        self.changed()
        return number

    def update(self, number: int, **changes: Any) -> None:
        """Change fields of an entry; a growing answer alone is told about a few times a second."""
        if "error" in changes:
            changes["error"] = self._printable(str(changes["error"]), _ERROR)
        with self._lock:
            before = self._entries.get(number)
            if before is None:
                return
            after = self._entries[number] = replace(before, **changes)
            now = time.monotonic()
            if after.state == before.state and now - self._told < _EVERY:
                return
            self._told = now
        self.changed()

    def _printable(self, text: str, length: int) -> str:
        text = visible_line(masked(text, self.secret))
        return text if len(text) <= length else text[: length - 1] + "…"


def masked(text: str, secret: str | None) -> str:
    """`text` without the key."""
    return text.replace(secret, "•••") if secret else text
