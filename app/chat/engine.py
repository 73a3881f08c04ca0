"""The engine: one thread owns the runtime; loads, requests and answers pass through its queue."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TypeVar

from pardec_chat.app.chat import earlier
from pardec_chat.app.chat.kind import kind_of
from pardec_chat.app.chat.loaded import LoadedModels, Place, pair
from pardec_chat.app.chat.request import (
    Failed,
    Loaded,
    ModelChoice,
    Prefilling,
    Queued,
    Request,
    Sink,
    default_depth,
)
from pardec_chat.app.chat.template import TemplateWorker
from pardec_chat.app.chat.turn import Turn
from pardec_chat.backends import memory, registry
from pardec_chat.backends.base import Runtime
from pardec_chat.backends.decoding.explain import Explanation, explain
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, DoesNotFit, LoadGivenUp, QueueFull, UserError
from pardec_chat.backends.machine import Machine, inspect, own_memory
from pardec_chat.backends.memory import Plan
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.units import size

logger = logging.getLogger(__name__)
_T = TypeVar("_T")
#: How many times the queue's length may wait in all, called off or not.
_LEAVERS = 8
#: Seconds between two times that what was learned is written down, apart from the end.
_KEEP_EVERY = 20.0
_CLOSED = UserError("The engine was closed.", "Start the app again.")


class Ticket:
    """A request on its way; `cancel` ends it within one step or one chunk of the prompt."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the answer; what came so far stays."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled.is_set()


@dataclass(slots=True)
class _Waiting:
    request: Request
    sink: Sink
    ticket: Ticket
    submitted: float


@dataclass(frozen=True, slots=True)
class _Command:
    """Work for the owner thread, and what tells whoever asked that it will not be done."""

    run: Callable[[], None]
    give_up: Callable[[], object]


@dataclass(slots=True)
class _Live:
    turn: Turn
    ticket: Ticket
    place: Place


class Engine:
    """Thread-safe front of the owner thread.

    runtime: a name of `registry`, or what makes a runtime (on the owner thread).
    queue_limit: requests that may wait; one more is refused with QueueFull. machine: what there is to load into.
    """

    def __init__(
        self,
        runtime: str | Callable[[], Runtime] = "llamacpp",
        *,
        queue_limit: int = 32,
        machine: Callable[[], Machine] | None = None,
    ) -> None:
        self._make: Callable[[], Runtime] = partial(registry.load, runtime) if isinstance(runtime, str) else runtime
        self._queue_limit = queue_limit
        self._machine = machine or inspect
        self._commands: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        #: Tickets of requests that have not started, cancelled ones among them.
        self._pending: set[Ticket] = set()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        # Only the owner thread touches what follows.
        self._runtime: Runtime | None = None
        #: Those beside it that somebody asked for, by name.
        self._others: dict[str, Runtime] = {}
        self._models: LoadedModels | None = None
        self._waiting: deque[_Waiting] = deque()
        self._live: list[_Live] = []
        self._when_idle: deque[_Command] = deque()
        self._kept = perf_counter()
        self._worker = TemplateWorker()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # ---- from any thread ----

    def load(self, choice: ModelChoice, progress: Callable[[float], object] | None = None) -> Future[Loaded]:
        """Load models in place of the loaded ones; answers that are being written end as cancelled.

        What is unchanged stays loaded. The future raises UserError; a draft model that cannot be loaded is left out with a
        notice, one of another vocabulary is refused before anything changes. progress: called on the owner thread, 0…1;
        returning False gives the load up, and the future raises LoadGivenUp. The choice may name another runtime.
        """
        return self._call(lambda: self._load(choice, progress))

    def describe(self) -> Future[dict[str, str]]:
        """Version, features and devices of the runtime."""
        return self._call(lambda: self._get_runtime().describe())

    def explain(self, n_context: int = 512) -> Future[Explanation]:
        """What method and depth are chosen by, with so many tokens in the context. Raises UserError without a model."""
        return self._call(lambda: explain(self._need_models().controller.knowledge, n_context))

    def calibrate(self, progress: Callable[[float], bool], seconds: float = 25.0) -> Future[Explanation]:
        """Measure passes and guesses directly; answers that are being written wait meanwhile.

        progress: called on the owner thread with 0…1; returning False ends it early, with what was measured so far.
        """
        return self._call(lambda: self._calibrate(progress, seconds), when_idle=True)

    def use_earlier(self, agreed: bool) -> Future[None]:
        """Keep answers of now on for n-grams to copy from, or forget all that were kept. Raises UserError."""
        return self._call(lambda: self._use_earlier(agreed))

    def make_room(self, slots: int) -> Future[Loaded]:
        """Let so many answers be written at the same time, behind those that are being written now.

        Raises DoesNotFit where there is no memory for it, and leaves everything as it is then; UserError without a model.
        """

        def load() -> Loaded:
            return self._load(replace(self._need_models().choice, slots=slots), None)

        return self._call(load, when_idle=True)

    def pieces(self, ids: Sequence[int]) -> Future[list[bytes]]:
        """The bytes that each of these tokens of the loaded model adds to a text.

        Raises BadSetting for an id that the vocabulary does not have, UserError without a model.
        """

        def read() -> list[bytes]:
            vocabulary = self._need_models().target.vocabulary
            if unknown := [token for token in ids if not 0 <= token < vocabulary.size]:
                raise BadSetting(
                    f"There is no token {unknown[0]} in this model.", f"Give 0 to {vocabulary.size - 1:,}."
                )
            return [vocabulary.piece(token) for token in ids]

        return self._call(read)

    def count(self, text: str) -> Future[int]:
        """Tokens that `text` has for the loaded model. Raises UserError without one."""
        return self._call(
            lambda: len(self._need_models().target.vocabulary.encode(text, add_special=False, parse_special=False))
        )

    def submit(self, request: Request, sink: Sink) -> Ticket:
        """Ask for an answer; `sink` gets its events on the owner thread. Raises QueueFull."""
        waiting = _Waiting(request, sink, Ticket(), perf_counter())
        with self._lock:
            if self._closing.is_set():
                raise _CLOSED
            # Whoever left keeps nobody out; but even those who come only to leave are bounded.
            if self.n_waiting >= self._queue_limit or len(self._pending) >= _LEAVERS * self._queue_limit:
                raise QueueFull(f"{self.n_waiting} requests wait already.", "Try again when one has finished.")
            self._pending.add(waiting.ticket)
            self._commands.put(_Command(lambda: self._queue(waiting), lambda: sink(Failed(_CLOSED))))
        return waiting.ticket

    @property
    def n_waiting(self) -> int:
        """Requests that have not started and are still wanted."""
        return sum(not ticket.cancelled for ticket in tuple(self._pending))

    def close(self, timeout: float = 10.0) -> None:
        """Cancel everything, free the models and end the thread; harmless when done twice."""
        with self._lock:  # whatever was asked for before this is answered, if only by its giving up
            self._closing.set()
        self._commands.put(_Command(lambda: None, lambda: None))  # wakes the thread
        self._thread.join(timeout)

    def _call(self, work: Callable[[], _T], *, when_idle: bool = False) -> Future[_T]:
        """Work for the owner thread. when_idle: behind the answers that are being written, before those that wait."""
        future: Future[_T] = Future()

        def command() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # the caller gets it; the thread lives on
                future.set_exception(error)

        with self._lock:
            if self._closing.is_set():
                raise _CLOSED
            self._commands.put(
                _Command(partial(self._put_off, command, future.cancel) if when_idle else command, future.cancel)
            )
        return future

    # ---- on the owner thread ----

    @property
    def _slots(self) -> int:
        return 1 if self._models is None else self._models.choice.slots

    def _run(self) -> None:
        while not self._closing.is_set():
            idle = not self._live and not self._waiting and not self._when_idle
            try:
                command = self._commands.get(block=idle)
            except queue.Empty:
                self._advance()
                continue
            if self._closing.is_set():
                command.give_up()
            else:
                command.run()
        self._cancel_live()
        for put_off in self._when_idle:
            put_off.give_up()
        for waiting in self._waiting:
            waiting.sink(Failed(_CLOSED))
        if self._models is not None:
            self._models.close()
        self._worker.close()
        while not self._commands.empty():
            self._commands.get().give_up()

    def _queue(self, waiting: _Waiting) -> None:
        ahead = len(self._waiting) + len(self._live)
        if ahead >= self._slots:
            waiting.sink(Queued(ahead - self._slots + 1))
        self._waiting.append(waiting)

    def _put_off(self, run: Callable[[], None], give_up: Callable[[], object]) -> None:
        self._when_idle.append(_Command(run, give_up))

    def _advance(self) -> None:
        """Start what can start, then one forward pass for all live answers."""
        while self._when_idle and not self._live:
            self._when_idle.popleft().run()
        while self._waiting and not self._when_idle and len(self._live) < self._slots:
            with self._lock:
                waiting = self._waiting.popleft()
                self._pending.discard(waiting.ticket)
            try:
                self._start(waiting)
            except Exception as error:  # noqa: BLE001  # whoever asked gets it; the thread lives on
                waiting.sink(Failed(_as_user_error(error)))
        for live in [live for live in self._live if live.ticket.cancelled]:
            self._finish(live, cancelled=True)
        if self._live and self._models is not None:
            try:
                self._step(self._models)
            except Exception as error:  # noqa: BLE001  # likewise
                self._fail_all(_as_user_error(error))

    def _start(self, waiting: _Waiting) -> None:
        models = self._need_models()
        request, sink, ticket = waiting.request, waiting.sink, waiting.ticket
        ids = models.encode(request, sink)
        constraint = models.constraint(request)
        place = models.take_place(ids)
        start = perf_counter()

        def should_stop() -> bool:
            # The last id is evaluated with the first step.
            sink(Prefilling(len(place.slot.tokens) - 1, len(ids) - 1, (perf_counter() - start) * 1e3))
            return ticket.cancelled or self._closing.is_set()

        try:
            drafters = models.drafters(place, request)
            start = perf_counter()
            prefill = place.slot.prefill(ids, should_stop)
            ends = models.target.vocabulary.end_ids
            sampler = Sampler(request.sampling, ids, ends=ends, constraint=constraint)
            depth = default_depth(request.method) if request.depth is None else request.depth
            kind = kind_of(request.messages, request.prompt)
            for drafter in drafters:
                drafter.begin(place.slot, sampler, should_stop)
                if depth is not None or models.controller.expects(drafter, kind):
                    behind, begin = drafter.behind, perf_counter()
                    drafter.prepare(should_stop)
                    models.controller.read(drafter, behind - drafter.behind, (perf_counter() - begin) * 1e3)
            generation = Generation(place.slot, sampler, drafters, depth, request.max_tokens, kind)
            stats = generation.stats
            # The last id of the prompt is evaluated with the first step, so it counts as neither.
            stats.cache_n, stats.prompt_n = prefill.n_cached, prefill.n_evaluated
            stats.prompt_ms = (perf_counter() - start) * 1e3
        except BaseException:
            place.busy = False
            raise
        off = models.why_off(request.method)
        turn = Turn(request, generation, models.target.vocabulary, sink, waiting.submitted, off)
        live = _Live(turn, ticket, place)
        self._live.append(live)
        if not prefill.complete or generation.finish_reason is not None:
            self._finish(live, cancelled=not prefill.complete)

    def _step(self, models: LoadedModels) -> None:
        alone = [[live] for live in self._live if live.turn.alone]
        shared = [live for live in self._live if not live.turn.alone]
        for together in [*alone, shared] if shared else alone:
            steps = step(models.target, [live.turn.generation for live in together], models.controller)
            for live, one in zip(together, steps, strict=True):
                live.turn.feed(one)
                if live.turn.generation.finish_reason is not None:
                    self._finish(live)

    def _finish(self, live: _Live, *, cancelled: bool = False) -> None:
        self._live.remove(live)
        live.place.busy = False
        live.turn.finish(cancelled=cancelled)
        if self._models is not None and not live.turn.alone:  # a race would keep its text twice
            self._models.remember(live.turn.generation.token_ids)
        if self._models is not None and not self._live and perf_counter() - self._kept > _KEEP_EVERY:
            self._kept = perf_counter()
            self._models.keep()

    def _cancel_live(self) -> None:
        for live in list(self._live):
            self._finish(live, cancelled=True)

    def _fail_all(self, error: UserError) -> None:
        for live in self._live:
            live.place.busy = False
            live.place.slot.rewind(0)
            live.turn.fail(error)
        self._live.clear()

    def _need_models(self) -> LoadedModels:
        if self._models is None:
            raise UserError("No model is loaded.", "Choose one first.")
        return self._models

    def _use_earlier(self, agreed: bool) -> None:
        try:
            earlier.agree(agreed)
        except OSError as error:
            raise UserError(f"The folder of earlier answers: {error.strerror}.", "Check its rights.") from error
        if self._models is not None:
            self._models.use_earlier(agreed)

    def _calibrate(self, progress: Callable[[float], bool], seconds: float) -> Explanation:
        models = self._need_models()
        models.calibrate(lambda done: progress(done) and not self._closing.is_set(), seconds)
        return explain(models.controller.knowledge)

    def _get_runtime(self, name: str | None = None) -> Runtime:
        """The engine's own runtime, or the one of that name."""
        if self._runtime is None:
            self._runtime = self._make()
        if name is None or name == self._runtime.name:
            return self._runtime
        if name not in self._others:
            self._others[name] = registry.load(name)
        return self._others[name]

    def _load(self, choice: ModelChoice, progress: Callable[[float], object] | None) -> Loaded:
        self._worker.start()
        runtime = self._get_runtime(choice.runtime)
        target = runtime.read_model(choice.model, choice.dtype)
        draft = None if choice.draft is None else runtime.read_model(choice.draft, choice.dtype, draft=True)
        masked, notices = pair(target, draft)
        plan, off = self._plan(choice, target, draft)
        if off:
            notices.append(off)
        if target.shape.context and plan.n_ctx > target.shape.context:
            notices.append(
                f"{target.name} was trained for {target.shape.context:,} tokens; beyond them its answers get worse."
            )
        self._cancel_live()

        given_up = False

        def report(done: float) -> bool:
            nonlocal given_up
            given_up = given_up or (progress is not None and progress(done) is False)
            return not (given_up or self._closing.is_set())

        try:
            if self._models is None or not self._models.serves(choice):
                if self._models is not None:
                    self._models.close()
                    self._models = None
                self._models = LoadedModels(runtime, choice, target, self._worker, report, plan)
            self._models.set_draft(choice, masked, notices, plan, report, off)
        except UserError:
            if given_up:
                raise LoadGivenUp() from None
            raise
        if given_up:  # while the draft model was read, without which the target would do
            raise LoadGivenUp()
        return self._models.describe()

    def _plan(self, choice: ModelChoice, target: ModelFile, draft: ModelFile | None) -> tuple[Plan, str]:
        """What a load will take, and why the draft model has to be left out for it. Raises DoesNotFit."""
        held = memory.NOTHING if self._models is None else self._models.plan.given_back()
        here = self._get_runtime(choice.runtime).usable(self._machine())
        program = max(0, own_memory() - (0 if self._models is None else self._models.plan.need_of_models()))
        wish = memory.Wish(
            target.shape,
            None if draft is None else draft.shape,
            choice.n_ctx,
            choice.slots,
            choice.cache_type,
            self._get_runtime(choice.runtime).kernels(choice.kernels, None if here.devices else 0).own,
        )
        planned = memory.plan(wish, here, program=program, reclaimed=held)
        if planned.fits or choice.unchecked:
            return planned, ""
        others = memory.alternatives(wish, here, program=program, reclaimed=held)
        alone = memory.plan(replace(wish, draft=None), here, program=program, reclaimed=held)
        if alone.fits:
            keeping = next((other.words for other in others if other.wish.draft is not None), "")
            rest = f" {keeping} there is room for it." if keeping else ""
            return alone, f"The draft model does not fit beside the target: {size(planned.short)} are missing.{rest}"
        ways = "; ".join(f"{other.words[0].lower()}{other.words[1:]} it fits" for other in others)
        raise DoesNotFit(
            f"{target.name} needs {size(planned.need())} and {size(sum(planned.free.values()))} are free.",
            f"{ways[0].upper()}{ways[1:]}." if ways else "Take a smaller model or quantisation.",
            planned,
            others,
        )


def _as_user_error(error: Exception) -> UserError:
    if isinstance(error, UserError):
        return error
    logger.exception("a fault of this program", exc_info=error)
    return UserError(f"A fault of this program: {type(error).__name__}.", "The log says where (pardec-chat doctor).")
