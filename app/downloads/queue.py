"""Downloads side by side: each can be paused, gone on with and called off without the others."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from pardec_chat.app.downloads import files
from pardec_chat.app.downloads.errors import PullStopped
from pardec_chat.app.downloads.partial import part_path
from pardec_chat.app.downloads.pull import Tools, pull
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.partial import Progress

_log = logging.getLogger(__name__)

_WINDOW = 3.0  # seconds over which a speed is taken
_GRAIN = 0.1  # seconds between two samples
_SHORTEST = 0.3  # seconds; over less a speed says nothing
_QUIET = 0.1  # seconds between two calls of `changed` for flowing bytes

State = Literal["waiting", "asking", "downloading", "verifying", "paused", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Item:
    """One download as it stands now.

    `have` of `size` bytes are here; `speed` in bytes a second over the last seconds, `seconds_left` at that speed, None
    while nothing flows. `note` is the newest thing worth telling (a retry, another source); `error` says why it failed.
    """

    model: Model
    state: State
    have: int
    speed: float | None = None
    seconds_left: float | None = None
    note: str = ""
    error: UserError | None = None

    @property
    def percent(self) -> int:
        """How much is here, rounded down."""
        return min(100, self.have * 100 // self.model.size)


class Downloads:
    """Thread-safe. `changed` is called from the downloading threads, several times a second while bytes flow."""

    def __init__(
        self,
        folder: Path,
        *,
        tools: Tools | None = None,
        at_once: int = 2,
        changed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._tools, self._at_once = folder, tools or Tools(), at_once
        self._changed, self._clock = changed, clock
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        # A pull that was told to stop takes a moment: until then it counts, and nobody else may have its file.
        self._running: dict[str, _Run] = {}
        self._closed = False

    def items(self) -> tuple[Item, ...]:
        """All that were started or kept, in the order in which they came."""
        with self._lock:
            now = self._clock()
            return tuple(job.item(now) for job in self._jobs.values())

    def start(self, models: Sequence[Model]) -> None:
        """Fetch these; one that is paused or failed goes on, one that runs is left alone."""
        with self._lock:
            for model in () if self._closed else models:
                job = self._jobs.get(model.id)
                if job is None or job.state in ("paused", "failed", "done"):
                    self._jobs[model.id] = _Job(model, "waiting", self._here(model))
            self._fill()
        self._tell()

    def keep(self, models: Sequence[Model]) -> None:
        """List these as paused: what an earlier run of the program left unfinished."""
        with self._lock:
            for model in models:
                if model.id not in self._jobs:
                    whole = files.size_of(self._folder / model.file_name) == model.size  # such as some parts of many
                    self._jobs[model.id] = _Job(model, "done" if whole else "paused", self._here(model))
        self._tell()

    def pause(self, model_id: str) -> None:
        """Stop within half a second; it stays listed, and what came stays on disk."""
        with self._lock:
            job = self._jobs.get(model_id)
            if job is None or job.state in ("paused", "done", "failed"):
                return
            job.become("paused")
            self._stop(model_id)
        self._tell()

    def cancel(self, model_id: str) -> None:
        """Stop within half a second and take it off the list; what came stays on disk for another time."""
        with self._lock:
            if self._jobs.pop(model_id, None) is None:
                return
            self._stop(model_id)
        self._tell()

    def close(self, seconds: float = 1.0) -> None:
        """Stop all, waiting so long at most; harmless when done twice."""
        end = time.monotonic() + seconds
        with self._lock:
            self._closed = True
            for job in self._jobs.values():
                if job.state not in ("done", "failed"):
                    job.become("paused")
            for model_id in self._running:
                self._stop(model_id)
            threads = [run.thread for run in self._running.values()]
        for thread in threads:
            if thread is not threading.current_thread():  # `changed` may close us
                thread.join(max(0.0, end - time.monotonic()))

    def _here(self, model: Model) -> int:
        """Bytes of the model on this disk; a folder that cannot be read is the pull's to complain of."""
        final = self._folder / model.file_name
        with contextlib.suppress(OSError):
            whole = files.size_of(final) == model.size
            return model.size if whole else min(files.size_of(part_path(final)), model.size)
        return 0

    def _stop(self, model_id: str) -> None:
        if run := self._running.get(model_id):
            run.cancel.set()

    def _fill(self) -> None:
        """Starts waiting pulls as far as there is room; the lock is held."""
        for model_id, job in self._jobs.items():
            if len(self._running) >= self._at_once or self._closed:
                return
            if job.state == "waiting" and model_id not in self._running:
                job.become("asking")
                run = _Run(job)
                run.thread = threading.Thread(target=self._pull, args=(run,), name=f"pull {model_id}", daemon=True)
                self._running[model_id] = run
                run.thread.start()

    def _pull(self, run: _Run) -> None:
        """The work of one thread; nothing is raised out of it."""
        model, outcome, error = run.job.model, "done", None
        try:
            tools = replace(self._tools, promised=partial(self._promised, run))
            pull(model, self._folder, report=partial(self._report, run), cancel=run.cancel, tools=tools)
        except PullStopped:
            outcome = "paused"
        except UserError as problem:
            outcome, error = "failed", problem
        except Exception as fault:  # noqa: BLE001  # a thread has nobody to raise it to
            _log.exception("the download of %s broke", model.id)
            outcome = "failed"
            error = UserError(
                f"The download of {model.id} broke: {type(fault).__name__}: {fault}.",
                "Start it again: what has come is kept. The log has the details.",
            )
        with self._lock:
            del self._running[model.id]
            job = run.job
            if outcome == "done":
                job.have = model.size
                job.become("done")
            elif not run.cancel.is_set():
                job.become("paused" if error is None else "failed", error)
            self._fill()
        self._tell()

    def _report(self, run: _Run, progress: Progress) -> None:
        with self._lock:
            job, now = run.job, self._clock()
            stage_before = job.state
            job.learn(progress, now, stopping=run.cancel.is_set())
            worth_telling = job.state != stage_before or bool(progress.note) or now - run.told >= _QUIET
            if worth_telling:
                run.told = now
        if worth_telling:
            self._tell()

    def _promised(self, run: _Run) -> int:
        """Bytes that the other running pulls are still going to write."""
        with self._lock:
            others = [other.job for other in self._running.values() if other is not run and not other.cancel.is_set()]
            return sum(max(0, job.model.size - job.have) for job in others)

    def _tell(self) -> None:
        try:
            self._changed()
        except Exception:  # noqa: BLE001  # a fault of whoever looks on must not end a download
            _log.exception("whoever watches the downloads broke")


@dataclass(slots=True)
class _Job:
    """What is known of one download. `samples` are (seconds, bytes here), the newest last, while bytes flow."""

    model: Model
    state: State
    have: int
    note: str = ""
    error: UserError | None = None
    samples: deque[tuple[float, int]] = field(default_factory=deque)

    def become(self, state: State, error: UserError | None = None) -> None:
        self.state, self.error = state, error
        self.samples.clear()

    def learn(self, progress: Progress, now: float, *, stopping: bool) -> None:
        """Takes in a report; one that comes while the pull is being stopped changes no state."""
        if progress.note:
            self.note = progress.note
        # While a hash is taken, the bytes are all here already.
        self.have = progress.total if progress.stage == "verifying" else progress.done
        if stopping:
            return
        if self.state != progress.stage:
            self.become(progress.stage)
        if self.samples and progress.done < self.samples[-1][1]:
            self.samples.clear()  # what had come was thrown away
        if len(self.samples) > 1 and now - self.samples[-2][0] < _GRAIN:
            self.samples.pop()
        if progress.stage != "asking":
            self.samples.append((now, progress.done))
        while len(self.samples) > 2 and now - self.samples[1][0] >= _WINDOW:
            self.samples.popleft()

    def item(self, now: float) -> Item:
        speed = self._speed(now)
        left = (self.model.size - self.samples[-1][1]) / speed if speed else None
        shown = speed if self.state == "downloading" else None
        return Item(self.model, self.state, self.have, shown, left, self.note, self.error)

    def _speed(self, now: float) -> float | None:
        """Bytes a second over the window; it falls while nothing comes, and is None once nothing has for a window."""
        if len(self.samples) < 2 or now - self.samples[-1][0] >= _WINDOW:
            return None
        (began, first), (_, last) = self.samples[0], self.samples[-1]
        return (last - first) / (now - began) if now - began >= _SHORTEST and last > first else None


@dataclass(slots=True)
class _Run:
    """A pull in its thread; `told` is when `changed` was last called for its bytes."""

    job: _Job
    cancel: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread = field(default_factory=threading.Thread)
    told: float = float("-inf")
