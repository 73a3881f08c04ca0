"""The one thread that reads and writes conversations, so that nobody else ever waits for a disk."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import count, islice, takewhile
from pathlib import Path
from time import time
from typing import Any, TypeVar

from pardec_chat.app.conversations.conversation import Conversation, Node, Summary
from pardec_chat.app.conversations.record import Origin
from pardec_chat.app.conversations.schema import StoreBroken, StoreFailed, StoreTooNew
from pardec_chat.app.conversations.store import Store
from pardec_chat.backends.errors import UserError

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

#: Seconds for which a deletion can be taken back.
KEPT_DELETED = 24 * 3600.0
#: Writes that go to the disk together.
_AT_ONCE = 64
#: Writes that are kept while the disk does not take them; beyond that the oldest are given up.
_MOST_UNSAVED = 4096

#: What a job is about, and an id.
_Key = tuple[str, str]
_SEARCH: _Key = ("search", "")


class Keeper:
    """Thread-safe front of the owner thread, which opens the file at `path`.

    failed: called on the owner thread when the file cannot be opened or written; once for each kind of failure until all is
    written again. What could not be written is kept, and written with the next write.

    No method waits, apart from `close`. Futures raise what `Store` raises; those of writes are done when the disk has it.
    What is given may change afterwards: it is written as it was.
    """

    def __init__(self, path: Path, failed: Callable[[UserError], None]) -> None:
        self._path, self._failed = path, failed
        self._wake = threading.Condition()
        #: In the order in which they are done. Of writes, by what they write: a newer one takes the place of an older one.
        self._queue: _Jobs = {}
        self._numbers = count()
        self._closing = False
        # Only the owner thread touches what follows.
        self._store: Store | None = None
        self._refused: UserError | None = None
        self._unsaved: _Jobs = {}
        self._told: set[tuple[type, str]] = set()
        self._chores: Iterator[None] | None = None
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    # ---- from any thread ----

    def summaries(self) -> Future[list[Summary]]:
        """See `Store.summaries`."""
        return self._read(Store.summaries)

    def search(self, query: str) -> Future[list[Summary]]:
        """See `Store.search`. An earlier search that has not begun is cancelled."""
        with self._wake:
            earlier = self._queue.pop(_SEARCH, None)
        if earlier is not None:
            earlier.cancel()
        return self._add(_SEARCH, _Job(lambda store: store.search(query)))

    def read(self, id: str) -> Future[Conversation]:  # noqa: A002
        """See `Store.read`. The conversation is the caller's own."""
        return self._read(lambda store: store.read(id))

    def put(self, conversation: Conversation) -> Future[None]:
        """See `Store.put`."""
        own = replace(conversation, nodes={})
        return self._write("conversation", own.id, lambda store: store.put(own))

    def put_node(self, conversation_id: str, node: Node) -> Future[None]:
        """See `Store.put_node`."""
        own = replace(node)
        return self._write("node", own.id, lambda store: store.put_node(conversation_id, own))

    def progress(self, node_id: str, text: str, origins: Sequence[Origin]) -> Future[None]:
        """See `Store.progress`. It takes the place of an earlier one that was not written yet."""
        own = tuple(origins)
        return self._write("progress", node_id, lambda store: store.progress(node_id, text, own))

    def rename(self, id: str, title: str) -> Future[None]:  # noqa: A002
        """See `Store.rename`."""
        return self._write("title", id, lambda store: store.rename(id, title))

    def pin(self, id: str, pinned: bool) -> Future[None]:  # noqa: A002
        """See `Store.pin`."""
        return self._write("pin", id, lambda store: store.pin(id, pinned))

    def delete(self, id: str) -> Future[None]:  # noqa: A002
        """See `Store.delete`. It is removed for good at a start of the program, once it is a day old."""
        return self._write("deleted", id, lambda store: store.delete(id))

    def restore(self, id: str) -> Future[None]:  # noqa: A002
        """See `Store.restore`."""
        return self._write("deleted", id, lambda store: store.restore(id))

    def close(self, timeout: float = 10.0) -> bool:
        """Write all that was given, and end the thread; whether that was done in so many seconds. Harmless when done twice.

        Questions that were not answered yet are cancelled.
        """
        with self._wake:
            self._closing = True
            asked = [key for key, job in self._queue.items() if not job.writes]
            dropped = [self._queue.pop(key) for key in asked]
            self._wake.notify()
        for job in dropped:
            job.cancel()
        if threading.current_thread() is not self._thread:  # `failed`, or who waits for a future, may close us
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _read(self, work: Callable[[Store], _T]) -> Future[_T]:
        return self._add(("read", str(next(self._numbers))), _Job(work))

    def _write(self, what: str, id_: str, work: Callable[[Store], None]) -> Future[None]:
        return self._add((what, id_), _Job(work, writes=True))

    def _add(self, key: _Key, job: _Job) -> Future[Any]:
        future = job.futures[0]
        with self._wake:
            if not self._closing:
                _place(self._queue, key, job)
                self._wake.notify()
                return future
        future.set_exception(StoreFailed("The conversations are closed.", "Start the program again."))
        return future

    # ---- on the owner thread ----

    def _run(self) -> None:
        try:
            self._opened()
        except Exception as error:  # noqa: BLE001  # whoever asks next gets it again
            self._tell(error)
        while (jobs := self._next()) is not None:
            if not jobs:
                self._do_a_chore()
            elif all(job.writes for job in jobs.values()):
                self._save(jobs)
            else:
                self._answer(*jobs.values())
        if self._unsaved:
            self._save({})
        if self._unsaved:
            _log.error("%d changes of conversations could not be saved", len(self._unsaved))
        if self._store is not None:
            self._store.close()

    def _next(self) -> _Jobs | None:
        """A question, or writes that go together; none: there is time for other work; None: all is done."""
        with self._wake:
            while not self._queue:
                if self._closing:
                    return None
                if self._chores is not None:
                    return {}
                self._wake.wait()
            writes = takewhile(lambda key: self._queue[key].writes, self._queue)
            keys = list(islice(writes, _AT_ONCE)) or list(islice(self._queue, 1))
            return {key: self._queue.pop(key) for key in keys}

    def _opened(self) -> Store:
        """The store; where it could not be opened, it is tried again. Raises UserError."""
        if self._refused is not None:
            raise self._refused
        if self._store is None:
            try:
                self._store = Store(self._path)
            except (StoreTooNew, StoreBroken) as error:
                self._refused = error
                raise
            self._chores = _chores(self._store)
        return self._store

    def _answer(self, job: _Job) -> None:
        if not job.begin():
            return
        try:
            job.end(job.work(self._opened()))
        except BaseException as error:  # noqa: BLE001  # whoever asked gets it; the thread lives on
            job.fail(error)

    def _save(self, jobs: _Jobs) -> None:
        """Write these, behind what could not be written before; all at once if that can be, else one by one."""
        waiting, self._unsaved = self._unsaved, {}
        for key, job in jobs.items():
            job.begin()
            _place(waiting, key, job)
        error = self._try(*waiting.values())
        if error is None:
            self._told.clear()
            return
        for key, job in waiting.items():
            if not self._unsaved and (error := self._try(job)) is None:
                continue
            job.fail(error)
            if isinstance(error, StoreFailed | StoreBroken) and self._refused is None:
                self._unsaved[key] = job  # and all behind it, in their order
        for key in list(self._unsaved)[:-_MOST_UNSAVED]:
            del self._unsaved[key]

    def _try(self, *jobs: _Job) -> Exception | None:
        """Write these together; what came in the way."""
        try:
            store = self._opened()
            with store.together():
                for job in jobs:
                    job.work(store)
        except Exception as error:  # noqa: BLE001  # whoever asked gets it; the thread lives on
            self._tell(error)
            return error
        for job in jobs:
            job.end(None)
        return None

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, UserError):
            _log.error("conversations: a mistake of this program", exc_info=error)
        elif (kind := (type(error), error.what)) not in self._told:
            self._told.add(kind)
            _log.warning("%s", error)
            try:
                self._failed(error)
            except Exception:  # noqa: BLE001  # who listens may be gone; this thread has more to write
                _log.exception("a failure could not be told")

    def _do_a_chore(self) -> None:
        assert self._chores is not None
        try:
            next(self._chores)
        except StopIteration:
            self._chores = None
        except Exception as error:  # noqa: BLE001  # the next start of the program tries again
            self._chores = None
            _log.warning("conversations could not be tidied: %s", error)


@dataclass(slots=True, eq=False)
class _Job:
    """Something to do with the store, and who waits for it: of a write also those whose write it replaces."""

    work: Callable[[Store], Any]
    writes: bool = False
    futures: list[Future[Any]] = field(default_factory=lambda: [Future()])

    def begin(self) -> bool:
        """From now on it cannot be cancelled; whether anybody still waits for it."""
        self.futures = [future for future in self.futures if future.set_running_or_notify_cancel()]
        return bool(self.futures)

    def end(self, result: object) -> None:
        for future in self._let_go():
            future.set_result(result)

    def fail(self, error: BaseException | None) -> None:
        for future in self._let_go():
            future.set_exception(error)

    def cancel(self) -> None:
        for future in self._let_go():
            future.cancel()

    def _let_go(self) -> list[Future[Any]]:
        futures, self.futures = self.futures, []
        return futures


_Jobs = dict[_Key, _Job]


def _place(jobs: _Jobs, key: _Key, job: _Job) -> None:
    """Put a job behind the others, or a newer write in the place of the older one."""
    what, id_ = key
    replaced = [jobs[key]] if key in jobs else []
    if what == "node" and (progress := jobs.pop(("progress", id_), None)):
        replaced.append(progress)  # it is older, and would be written over the whole message
    for one in replaced:
        job.futures += one.futures
    jobs[key] = job


def _chores(store: Store) -> Iterator[None]:
    """What nobody waits for, piece by piece."""
    before = time() - KEPT_DELETED
    while store.purge(before):
        yield
    while store.tidy():
        yield
