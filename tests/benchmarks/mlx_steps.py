"""What a step takes on the mlx runtime beside MLX's evaluation, and what of it MLX has to wait for; mlx-lm's beside it.

    python -m pardec_chat.tests.benchmarks.mlx_steps TARGET [DRAFT] [--depth 3] [--steps 24]

outside: with all that is asked of MLX computed there and then, a step without that and without its building.
warm: the same where the models' rows are given, so that nothing is built, and nothing waited for but what is asked of the
rows: the work itself. The difference to the column before is what code and data take to come from memory again, where the
core that waited for a pass has slept, or worked for somebody else.
building: the graphs of its passes, made by the model's modules; on a CPU most of it are MLX's own stand-ins for what is one
operation on a GPU.
waits: in a step as it really runs, the time for which MLX had nothing to do, from the end of an evaluation that was waited for
until the next is begun. What is built while something is being computed costs nothing, and is not in it.
Milliseconds, medians. n-gram has no counterpart in mlx-lm.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import mlx.core as mx
from mlx_lm.generate import generate_step, speculative_generate_step

from pardec_chat.app.downloads.library import Library
from pardec_chat.backends.base import Drafter, LoadOptions
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.mlx import attention
from pardec_chat.backends.mlx import passes as passes_module
from pardec_chat.backends.mlx.runtime import make
from pardec_chat.backends.mlx.target import MlxTarget
from pardec_chat.tests.benchmarks.against_mlx_lm import PROMPT, chat, untouched
from pardec_chat.tests.decode import begin

#: Steps before a measurement: plain decoding runs ahead after eight.
_WARM = 10


@dataclass(slots=True)
class _Spent:
    """Seconds since the step began."""

    building: float = 0.0
    evaluating: float = 0.0
    waiting: float = 0.0


class _Meter:
    """Watches what is asked of MLX, and when.

    at_once: it is computed there and then. row: float32 [1, 1, V], what the models say of every token; None runs them.
    """

    def __init__(self, *, at_once: bool, row: Any | None = None) -> None:
        self.spent = _Spent()
        self._at_once = at_once
        self._row = row
        self._idle_since: float | None = None

    @contextmanager
    def watching(self, *models: Any) -> Iterator[None]:
        """While this lasts; of `models` building is timed."""
        evaluate: Callable[..., None] = mx.eval
        begin_: Callable[..., None] = mx.async_eval

        def timed(*arrays: Any) -> None:
            self._begins()
            start = perf_counter()
            evaluate(*arrays)
            self.spent.evaluating += perf_counter() - start
            self.idle()

        def begun(*arrays: Any) -> None:
            self._begins()
            begin_(*arrays)

        with ExitStack() as stack:
            stack.enter_context(patch.object(mx, "eval", timed))
            ahead = timed if self._at_once else begun
            stack.enter_context(patch.object(mx, "async_eval", ahead))
            for module in (passes_module, attention):
                stack.enter_context(patch.object(module, "begin", ahead))
            # It reads a row without `eval`.
            stack.enter_context(patch.object(MlxTarget, "_next", self._waited(MlxTarget._next)))
            for kind in {type(model) for model in models}:
                stack.enter_context(patch.object(kind, "__call__", self._built(kind.__call__, timed)))
            yield

    def _begins(self) -> None:
        if self._idle_since is not None:
            self.spent.waiting += perf_counter() - self._idle_since
            self._idle_since = None

    def idle(self) -> None:
        """All that was begun has been waited for."""
        self._idle_since = perf_counter()

    def _waited(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            found = own(*arguments)
            self.idle()
            return found

        return call

    def _built(self, own: Callable[..., Any], evaluate: Callable[..., None]) -> Callable[..., Any]:
        def call(model: Any, ids: Any, cache: Any = None) -> Any:
            start, evaluating = perf_counter(), self.spent.evaluating
            logits = own(model, ids, cache=cache) if self._row is None else _given(self._row, ids.shape[1], cache)
            self.spent.building += perf_counter() - start - (self.spent.evaluating - evaluating)
            if self._at_once:
                evaluate(logits)
            return logits

        return call


def _given(row: Any, n: int, cache: Iterable[Any]) -> Any:
    """`n` times `row`. The caches know of as many tokens, of which nothing is kept."""
    nothing = mx.zeros((1, 1, n, 1))
    for one in cache:
        one.update_and_fetch(nothing, nothing)
    return mx.broadcast_to(row, (1, n, row.shape[2]))


def _ours(
    target: MlxTarget, guesser: MlxTarget, ids: list[int], drafter: Drafter | None, depth: int, meter: _Meter
) -> Iterator[None]:
    """A step each time that it goes on."""
    generation = begin(target, ids, drafter=drafter, depth=depth)
    controller = Controller()
    try:
        with meter.watching(target.model, guesser.model):
            while generation.finish_reason is None:
                step(target, [generation], controller)
                yield
    finally:
        generation.slot.close()


def _theirs(model: Any, guesser: Any | None, ids: list[int], depth: int, meter: _Meter) -> Iterator[None]:
    with meter.watching(model, *([] if guesser is None else [guesser])):
        if guesser is None:
            for _ in generate_step(mx.array(ids), model, max_tokens=10_000):
                yield
        else:
            tokens = speculative_generate_step(mx.array(ids), model, guesser, num_draft_tokens=depth, max_tokens=10_000)
            for _, _, guessed in tokens:
                if not guessed:
                    yield


def _spent(steps: Iterator[None], meter: _Meter, n: int) -> list[tuple[float, _Spent]]:
    """Seconds of each of `n` steps, and what of them went where."""
    found = []
    for _ in range(_WARM):
        next(steps)
    for _ in range(n):
        meter.spent = _Spent()
        start = perf_counter()
        next(steps)
        found.append((perf_counter() - start, replace(meter.spent)))
    steps.close()  # type: ignore[attr-defined]
    return found


def _columns(steps_of: Callable[[_Meter], Iterator[None]], n: int, row: Any) -> str:
    meter = _Meter(at_once=True)
    at_once = _spent(steps_of(meter), meter, n)
    outside = _outside(at_once)
    meter = _Meter(at_once=True, row=row)
    warm = _outside(_spent(steps_of(meter), meter, n))
    building = median(one.building for _, one in at_once)
    meter = _Meter(at_once=False)
    waits = median(one.waiting for _, one in _spent(steps_of(meter), meter, n))
    return " ".join(f"{seconds * 1e3:9.2f}" for seconds in (outside, warm, building, waits))


def _outside(steps: Sequence[tuple[float, _Spent]]) -> float:
    return median(wall - one.building - one.evaluating for wall, one in steps)


def main() -> None:
    """Print one line for each way to decode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("draft", nargs="?")
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24)
    arguments = parser.parse_args()
    runtime, library = make(), Library()
    paths = [library.resolve(name) for name in (arguments.target, arguments.draft or arguments.target)]
    target, draft = (runtime.load(LoadOptions(path, n_ctx=2048, draft=i == 1)) for i, path in enumerate(paths))
    assert isinstance(target, MlxTarget)
    assert isinstance(draft, MlxTarget)
    target.vocabulary.end_ids = draft.vocabulary.end_ids = frozenset()
    model, guesser = (untouched(path) for path in paths)
    ids = chat(target, PROMPT)
    print(f"{target.name}, drafts by {draft.name}, {arguments.depth} a step; milliseconds a step")
    row = mx.random.normal((1, 1, target.vocabulary.size), key=mx.random.key(0))
    mx.eval(row)
    print("way            outside      warm  building     waits")
    for way in ("plain", "draft", "ngram"):
        made = {"draft": lambda: DraftModel(draft), "ngram": lambda: Ngram(2)}.get(way, lambda: None)()

        def ours(meter: _Meter, made: Drafter | None = made) -> Iterator[None]:
            return _ours(target, draft, ids, made, arguments.depth, meter)

        def theirs(meter: _Meter, way: str = way) -> Iterator[None]:
            return _theirs(model, guesser if way == "draft" else None, ids, arguments.depth, meter)

        print(f"{way:5} here   {_columns(ours, arguments.steps, row)}", flush=True)
        if made is not None:
            made.close()
        if way != "ngram":
            print(f"{way:5} mlx-lm {_columns(theirs, arguments.steps, row)}", flush=True)
    target.close()
    draft.close()


if __name__ == "__main__":
    main()
