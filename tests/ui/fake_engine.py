"""An engine whose answers the test writes, and short ways to write them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pardec_chat.app.chat import earlier
from pardec_chat.app.chat.request import (
    Delta,
    Event,
    Figures,
    Finished,
    Loaded,
    ModelChoice,
    Request,
    Sink,
    Status,
)
from pardec_chat.app.screens.session import ModelEntry
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.explain import Explanation
from pardec_chat.backends.decoding.loop import Step
from pardec_chat.backends.errors import UserError

SMALL = Path("/models/smollm2-135m.gguf")
LARGE = Path("/models/qwen2.5-1.5b.gguf")
DRAFT = Path("/models/qwen2.5-0.5b.gguf")

ENTRIES = (
    ModelEntry("smollm2-135m", "SmolLM2 135M Instruct", SMALL, 98_362_432),
    ModelEntry("qwen2.5-1.5b", "Qwen2.5 Coder 1.5B Instruct", LARGE, 1_117_320_768),
    ModelEntry("qwen2.5-0.5b", "Qwen2.5 Coder 0.5B Instruct", DRAFT, 491_400_064),
    ModelEntry("gemma-3-270m", "Gemma 3 270M", Path("/models/gemma-3-270m.gguf"), 253_113_024, "base"),
)


def on_thread(work: Callable[[], None]) -> None:
    """Run `work` on another thread, to its end."""
    thread = threading.Thread(target=work, name="fake engine")
    thread.start()
    thread.join()


class FakeTurn:
    """A request that was submitted; the test plays the engine's thread with `send`."""

    def __init__(self, request: Request, sink: Sink) -> None:
        self.request = request
        self.cancelled = False
        self._sink = sink

    def send(self, *events: Event) -> None:
        """Hand events to the sink, from another thread."""

        def deliver() -> None:
            for event in events:
                self._sink(event)

        on_thread(deliver)

    def cancel(self) -> None:
        """See `Ticket`."""
        self.cancelled = True


class FakeEngine:
    """See `Engine`. held: loads wait until the test ends them. failures: what loading a path raises, taken once each."""

    def __init__(self, *, held: bool = False, notices: tuple[str, ...] = ()) -> None:
        self.held = held
        self.notices = notices
        self.failures: dict[Path, list[UserError]] = {}
        self.names: dict[Path, str] = {}
        self.loads: list[tuple[ModelChoice, Callable[[float], object] | None, Future[Loaded]]] = []
        self.turns: list[FakeTurn] = []
        self.closed: list[float] = []
        self.no_earlier: UserError | None = None
        self.refusal: UserError | None = None
        #: What `explain` tells, and what it raises instead; the contexts it was asked for.
        self.explanation = Explanation((), None, None, None, ())
        self.no_explanation: BaseException | None = None
        self.contexts: list[int] = []
        self.calibrations: list[tuple[Callable[[float], bool], Future[Explanation]]] = []

    def load(self, choice: ModelChoice, progress: Callable[[float], object] | None = None) -> Future[Loaded]:
        """See `Engine.load`."""
        future: Future[Loaded] = Future()
        self.loads.append((choice, progress, future))
        if not self.held:
            on_thread(lambda: self.end_load())
        return future

    def end_load(self, number: int = -1) -> None:
        """End a load as the test has it."""
        choice, _, future = self.loads[number]
        if failures := self.failures.get(choice.model):
            future.set_exception(failures.pop(0))
            return
        draft = self.names.get(choice.draft, choice.draft.stem) if choice.draft else None
        name = self.names.get(choice.model, choice.model.stem)
        future.set_result(Loaded(name, draft, "fake", choice.n_ctx or 4096, self.notices))

    def submit(self, request: Request, sink: Sink) -> FakeTurn:
        """See `Engine.submit`."""
        if self.refusal is not None:
            raise self.refusal
        self.turns.append(FakeTurn(request, sink))
        return self.turns[-1]

    def explain(self, n_context: int = 512) -> Future[Explanation]:
        """See `Engine.explain`."""
        self.contexts.append(n_context)
        future: Future[Explanation] = Future()
        error = self.no_explanation
        if error is None:
            on_thread(lambda: future.set_result(self.explanation))
        else:
            on_thread(lambda: future.set_exception(error))
        return future

    def calibrate(self, progress: Callable[[float], bool], seconds: float = 25.0) -> Future[Explanation]:
        """See `Engine.calibrate`; the test plays the engine's thread."""
        future: Future[Explanation] = Future()
        self.calibrations.append((progress, future))
        return future

    def use_earlier(self, agreed: bool) -> Future[None]:
        """See `Engine.use_earlier`."""
        future: Future[None] = Future()
        error = self.no_earlier
        if error is not None:
            on_thread(lambda: future.set_exception(error))
            return future
        earlier.agree(agreed)
        on_thread(lambda: future.set_result(None))
        return future

    def count(self, text: str) -> Future[int]:
        """See `Engine.count`: a token a character."""
        future: Future[int] = Future()
        on_thread(lambda: future.set_result(len(text)))
        return future

    def close(self, timeout: float = 10.0) -> None:
        """See `Engine.close`."""
        self.closed.append(timeout)


def figures(
    n: int = 0,
    ms: float = 0.0,
    *,
    method: Method = Method.DRAFT,
    depth: int = 3,
    steps: int | None = None,
    drafted: int = 0,
    positions: Sequence[float] = (),
    accepted: int = 0,
    state: Literal["active", "idle", "off"] = "active",
    reason: str | None = None,
    context: int = 412,
) -> Figures:
    """Counters of an answer; what is not given follows from the rest."""
    return Figures(
        method=method,
        depth=depth,
        status=Status(state, f"{accepted} of {drafted} drafted tokens accepted" if reason is None else reason),
        using=method,
        plain_per_second=31.4,
        predicted_n=n,
        predicted_ms=ms,
        steps=n if steps is None else steps,
        draft_n=drafted,
        draft_n_accepted=accepted,
        accepted_per_position=tuple(positions),
        prompt_n=512,
        cache_n=31,
        prompt_ms=310.0,
        ttft_ms=420.0,
        context_used=context,
        context_size=4096,
    )


def delta(text: str, at: Figures | None = None, origin: Method = Method.PLAIN) -> Delta:
    """One step of one token."""
    step = Step((1,), (origin,), (), 0, 0.0, 1.0)
    return Delta(text, step, at or figures(1, 20.0), ((text, origin),), own=text.encode())


def finished(
    text: str,
    at: Figures | None = None,
    reason: Literal["stop", "length", "cancelled"] = "stop",
    tail: str = "",
    total_ms: float = 3100.0,
) -> Finished:
    """The end of an answer."""
    pieces = ((tail, Method.PLAIN),) if tail else ()
    return Finished(text, tail, (), (), reason, at or figures(1, 20.0), {"total_ms": total_ms}, pieces)


def run_of(total: int, ms: float, *, rates: Sequence[float] = (0.93, 0.85, 0.74)) -> list[Figures]:
    """Counters of an answer with a draft model, step by step; `total` tokens in `ms`, a little faster towards the end."""
    per_step = 1 + sum(rates)
    steps = max(1, round(total / per_step))
    run = []
    for step in range(1, steps + 1):
        n = round(step * per_step)
        share = step / steps
        run.append(
            replace(
                figures(n, ms * share * (1.15 - 0.15 * share), steps=step, drafted=step * len(rates), positions=rates),
                draft_n_accepted=n - step,
                status=Status("active", f"{n - step} of {step * len(rates)} drafted tokens accepted"),
            )
        )
    return run
