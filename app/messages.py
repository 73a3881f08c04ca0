"""Messages that cross module borders. Other threads only ever post them; `@on` handlers own all state."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from pardec_chat.app.chat.request import Event, Loaded
    from pardec_chat.app.screens.session import EngineLike
    from pardec_chat.backends.decoding.explain import Explanation


def post(pump: MessagePump, message: Message) -> None:
    """Post from any thread; nothing happens when the app is gone already."""
    with suppress(RuntimeError):  # the event loop was closed between the question and the answer
        pump.post_message(message)


class Mailbox:
    """Where the engine's thread leaves the events of one answer.

    At hundreds of tokens a second a message for each would be work for nothing: the first event wakes `pump` with one
    TurnEvents, the ones behind it wait until they are taken together.
    """

    def __init__(self, turn: int, pump: MessagePump) -> None:
        self.turn = turn
        self._pump = pump
        self._events: deque[Event] = deque()
        self._lock = threading.Lock()
        self._woken = False

    def put(self, event: Event) -> None:
        """The engine's sink: returns at once."""
        with self._lock:
            self._events.append(event)
            wake, self._woken = not self._woken, True
        if wake:
            post(self._pump, TurnEvents(self))

    def take(self) -> list[Event]:
        """All events so far, in order."""
        with self._lock:
            self._woken = False
            events = list(self._events)
            self._events.clear()
        return events


@dataclass
class TurnEvents(Message):
    """Events of an answer wait in its mailbox."""

    mailbox: Mailbox


@dataclass
class EngineReady(Message):
    """The engine was made, away from the first paint."""

    engine: EngineLike


@dataclass
class EngineMissing(Message):
    """There will be no engine: the installation is broken."""

    error: Exception


@dataclass
class LoadProgress(Message):
    """A model is being read; `done` goes from 0 to 1. `load` counts the loads of a session."""

    load: int
    done: float


@dataclass
class ModelLoaded(Message):
    """A load ended well."""

    load: int
    loaded: Loaded


@dataclass
class LoadFailed(Message):
    """A load ended with an error."""

    load: int
    error: BaseException


@dataclass
class EarlierChanged(Message):
    """Earlier answers are kept from now on, or were forgotten; or why not."""

    agreed: bool
    error: BaseException | None


@dataclass
class PromptSubmitted(Message):
    """The user sends this text."""

    text: str


@dataclass
class Explained(Message):
    """The engine tells what its choices rest on."""

    explanation: Explanation


@dataclass
class ExplainFailed(Message):
    """There is no explanation, or a measurement failed."""

    error: BaseException


@dataclass
class CalibrationProgress(Message):
    """Passes are being measured; `done` goes from 0 to 1."""

    done: float


@dataclass
class Calibrated(Message):
    """A measurement is over; the explanation is that of a short context."""

    explanation: Explanation
