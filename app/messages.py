"""Messages that cross module borders. Other threads only ever post them; `@on` handlers own all state."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.message_pump import MessagePump

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.chat.request import Event, Loaded
    from pardec_chat.app.conversations.conversation import Conversation, Summary
    from pardec_chat.app.downloads.fit import Proposal
    from pardec_chat.app.downloads.repository import Repository
    from pardec_chat.app.downloads.wizard import Row
    from pardec_chat.app.screens.downloads import Chosen
    from pardec_chat.app.screens.endpoint import Switching
    from pardec_chat.app.screens.session import EngineLike
    from pardec_chat.app.settings import Problem, Settings
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


@dataclass
class ErrandFailed(Message):
    """What `errand` was to bring could not be had; `number` as in its other messages."""

    errand: str
    number: int
    error: BaseException


@dataclass
class MachineSeen(Message):
    """What this machine is, in words, and the choices of a first start."""

    number: int
    machine: str
    proposals: tuple[Proposal, ...]


@dataclass
class RowsRead(Message):
    """All models, judged for a context of `n_ctx` tokens."""

    number: int
    n_ctx: int
    rows: tuple[Row, ...]


@dataclass
class RepositoryRead(Message):
    """What a repository on the Hub holds."""

    number: int
    repository: Repository


@dataclass
class OfferTaken(Message):
    """The download of all files of an offer has begun; `first` is the id of the first one."""

    number: int
    first: str


@dataclass
class FilesNeeded(Message):
    """What of a choice is still to be fetched; `chosen` is what it comes to when nothing is."""

    number: int
    missing: tuple[Model, ...]
    chosen: Chosen


@dataclass
class FileAdded(Message):
    """A file of the user's is listed from now on."""

    number: int
    path: Path


@dataclass
class PathsFound(Message):
    """Paths that begin like `typed`, folders with a slash behind them."""

    typed: str
    found: tuple[str, ...]


@dataclass
class LoggedIn(Message):
    """The Hub knows the user as `account`."""

    number: int
    account: str


@dataclass
class EndpointSwitched(Message):
    """The endpoint went on or off, or did not: `change.error` says why."""

    change: Switching


@dataclass
class AttachmentDropped(Message):
    """The last file is not to go with the next message."""


@dataclass
class SummariesRead(Message):
    """The list of conversations, or what a search found; `number` counts the questions of the list."""

    number: int
    query: str
    summaries: Sequence[Summary]


@dataclass
class ConversationRead(Message):
    """A conversation was read, and is to be shown."""

    conversation: Conversation


@dataclass
class KeepingFailed(Message):
    """Conversations cannot be read or written at present."""

    error: BaseException


@dataclass
class Progressed(Message):
    """The conversation that is shown, its answer, or what answers, is another now; the screen around it may say so."""


@dataclass
class SettingsChanged(Message):
    """The user's file says something else than before."""

    settings: Settings
    problems: Sequence[Problem]
