"""Waiting that can be called off: blocking work goes to a thread, and whoever waits for it looks up often."""

from __future__ import annotations

import contextlib
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")

#: Seconds between two looks at the cancel flag.
POLL = 0.2
_AHEAD = 16  # items fetched but not yet written


class Cancel(Protocol):
    """What is needed of a `threading.Event` that somebody sets to stop the work."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Waits so many seconds, less when set; returns whether it is set."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to hope. Pauses and `stall` are seconds; `stall` None is HF_HUB_DOWNLOAD_TIMEOUT.

    `tries` counts failures in a row: one that brought a mebibyte and more starts the count anew.
    """

    tries: int = 5
    first_pause: float = 1.0
    longest_pause: float = 30.0
    stall: float | None = None

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return float(min(self.first_pause * 2 ** (failures - 1), self.longest_pause))


class Stopped(Exception):
    """The cancel flag was set."""


class _Abandoned(Exception):
    """Tells the working thread that nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _End:
    pass


def check(cancel: Cancel) -> None:
    """Raises Stopped if the flag is set."""
    if cancel.is_set():
        raise Stopped


def pause(seconds: float, cancel: Cancel) -> None:
    """Waits, for a back-off; raises Stopped as soon as the flag is set."""
    if cancel.wait(seconds):
        raise Stopped


def result(work: Callable[[], T], cancel: Cancel) -> T:
    """What `work` returns or raises, or Stopped. Work that is called off goes on unheeded in its thread."""

    def once(send: Callable[[T], None]) -> None:
        send(work())

    with contextlib.closing(stream(once, cancel)) as items:
        return next(items)


def stream(
    work: Callable[[Callable[[T], None]], None], cancel: Cancel, unblock: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """Runs `work(send)` in a thread and yields what it sends, with bounded read-ahead.

    Raises what `work` raises, or Stopped. `unblock` is called when the items are no longer wanted before `work` has
    ended, to end a read that it may be blocked in.
    """
    items: queue.Queue[T | _Failure | _End] = queue.Queue(_AHEAD)
    unwanted = threading.Event()

    def put(item: T | _Failure | _End) -> None:
        while not unwanted.is_set():
            with contextlib.suppress(queue.Full):
                items.put(item, timeout=POLL)
                return
        raise _Abandoned

    def run() -> None:
        with contextlib.suppress(_Abandoned):
            try:
                work(put)
            except _Abandoned:
                raise
            except BaseException as error:  # noqa: BLE001  # handed on whole to whoever waits
                put(_Failure(error))
            else:
                put(_End())

    check(cancel)
    ended = False
    threading.Thread(target=run, name="download", daemon=True).start()
    try:
        while True:
            try:
                item = items.get(timeout=POLL)
            except queue.Empty:
                check(cancel)
                continue
            check(cancel)
            if isinstance(item, (_End, _Failure)):
                ended = True
                if isinstance(item, _Failure):
                    raise item.error
                return
            yield item
    finally:
        unwanted.set()
        if not ended:
            unblock()
