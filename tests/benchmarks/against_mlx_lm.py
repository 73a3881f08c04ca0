"""The mlx runtime beside mlx-lm: the same weights in the same memory, one process, taking turns, greedy.

    python -m pardec_chat.tests.benchmarks.against_mlx_lm TARGET [DRAFT] [--tokens 96] [--rounds 5] [--depth 3]

TARGET and DRAFT: paths or ids of models on disk; without DRAFT the target guesses for itself, which shows what drafting costs
and that everything is accepted. mlx-lm runs as its own generators, `generate_step` and `speculative_generate_step`: what
`stream_generate` adds to them, text and figures, would only slow it down. Speeds are of decoding alone, from the end of the
first forward pass on to the end of the last whole one, on either side. n-gram has no counterpart there and is set beside plain.
The last column is what a step takes here outside of MLX: passes and the choice of their best tokens are computed at once, and
the time of all else is taken.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step, speculative_generate_step

from pardec_chat.app.downloads.library import Library
from pardec_chat.backends.base import Drafter, LoadOptions, Method
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.mlx import target as target_module
from pardec_chat.backends.mlx.memory import Memory
from pardec_chat.backends.mlx.runtime import make
from pardec_chat.backends.mlx.slot import Ahead
from pardec_chat.backends.mlx.target import MlxTarget
from pardec_chat.tests.decode import begin

_PROMPT = "Write a Python function that merges two sorted lists, then the same function again with type hints."
_OUTSIDE_STEPS = 24


@dataclass
class Run:
    """tokens of one answer. ends: when each whole forward pass ended, and how many tokens there were then."""

    tokens: list[int] = field(default_factory=list)
    accepted: int = 0
    ends: list[tuple[float, int]] = field(default_factory=list)

    def add(self, tokens: Iterable[int], accepted: int, *, whole: bool) -> None:
        """What a pass gave, or mlx-lm's part of it."""
        self.tokens += tokens
        self.accepted += accepted
        if whole:
            self.ends.append((perf_counter(), len(self.tokens)))

    @property
    def speed(self) -> float:
        """Tokens a second."""
        (first, before), (last, after) = self.ends[0], self.ends[-1]
        return (after - before) / (last - first)


def _ours(target: MlxTarget, ids: list[int], n: int, drafter: Drafter | None, depth: int) -> Run:
    run = Run()
    generation = begin(target, ids, drafter=drafter, depth=depth, max_tokens=n)
    controller = Controller()
    while generation.finish_reason is None:
        (done,) = step(target, [generation], controller)
        run.add(done.tokens, done.n_accepted, whole=done.origins[-1] == Method.PLAIN)
    generation.slot.close()
    return run


def _theirs(model: Any, draft: Any | None, ids: list[int], n: int, depth: int) -> Run:
    run = Run()
    prompt = mx.array(ids)
    if draft is None:
        for token, _ in generate_step(prompt, model, max_tokens=n):
            run.add([int(token)], 0, whole=True)
    else:
        for token, _, guessed in speculative_generate_step(prompt, model, draft, num_draft_tokens=depth, max_tokens=n):
            run.add([int(token)], int(guessed), whole=not guessed)
    return run


@contextmanager
def _computed_at_once() -> Iterator[list[float]]:
    """What is asked of MLX is computed there and then; gives a list whose sum is the time that took."""
    took: list[float] = []

    def at_once(function: Any) -> Any:
        def timed(*arguments: Any) -> Any:
            start = perf_counter()
            found = function(*arguments)
            mx.eval((found.row, found.best) if isinstance(found, Ahead) else found)
            took.append(perf_counter() - start)
            return found

        return timed

    forward, begun = Memory.forward, target_module._begun
    Memory.forward = at_once(forward)  # type: ignore[method-assign]
    target_module._begun = at_once(begun)
    try:
        yield took
    finally:
        Memory.forward = forward  # type: ignore[method-assign]
        target_module._begun = begun


def _outside(target: MlxTarget, ids: list[int], drafter: Drafter | None, depth: int) -> float:
    """Median milliseconds of a step outside of MLX."""
    found: list[float] = []
    generation = begin(target, ids, drafter=drafter, depth=depth)
    controller = Controller()
    with _computed_at_once() as took:
        while generation.finish_reason is None and len(found) < _OUTSIDE_STEPS:
            took.clear()
            start = perf_counter()
            step(target, [generation], controller)
            found.append((perf_counter() - start - sum(took)) * 1e3)
    generation.slot.close()
    return median(found[4:])


def main() -> None:
    """Print one line for each way to decode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("draft", nargs="?")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, default=3)
    arguments = parser.parse_args()
    runtime, library = make(), Library()
    paths = [library.resolve(name) for name in (arguments.target, arguments.draft or arguments.target)]
    target, draft = (runtime.load(LoadOptions(path, n_ctx=2048, draft=i == 1)) for i, path in enumerate(paths))
    assert isinstance(target, MlxTarget)
    assert isinstance(draft, MlxTarget)
    # An end token ends ours; mlx-lm's generators go on.
    target.vocabulary.end_ids = frozenset()
    text = f"<|im_start|>user\n{_PROMPT}<|im_end|>\n<|im_start|>assistant\n"
    ids = target.vocabulary.encode(text, add_special=target.vocabulary.begins_with_bos, parse_special=True)
    depth, model, guesser = arguments.depth, target.model, draft.model

    def drafter(way: str) -> Drafter | None:
        return {"draft": lambda: DraftModel(draft), "ngram": lambda: Ngram(2)}.get(way, lambda: None)()

    described = runtime.describe()
    print(f"mlx {described['version']}; {described['features']}")
    print(f"{target.name}, drafts by {draft.name}; {len(ids)} + {arguments.tokens} tokens, {depth} drafted a step")
    print("way     here tok/s  mlx-lm tok/s  ratio (of each round)               same text  accepted     outside MLX")
    for way in ("plain", "draft", "ngram"):
        pairs: list[tuple[Run, Run]] = []
        for round_ in range(arguments.rounds + 1):  # the first one warms up
            n = arguments.tokens if round_ else 3 * depth
            runs = {}
            for side in ("ours", "theirs") if round_ % 2 else ("theirs", "ours"):
                if side == "theirs":
                    runs[side] = _theirs(model, guesser if way == "draft" else None, ids, n, depth)
                else:
                    used = drafter(way)
                    runs[side] = _ours(target, ids, n, used, depth)
                    if used is not None:
                        used.close()
            if round_:
                pairs.append((runs["ours"], runs["theirs"]))
        used = drafter(way)
        outside = _outside(target, ids, used, depth)
        if used is not None:
            used.close()
        ratios = [ours.speed / theirs.speed for ours, theirs in pairs]
        same = "yes" if all(ours.tokens == theirs.tokens for ours, theirs in pairs) else "no"
        accepted = (
            f"{pairs[-1][0].accepted} / {pairs[-1][1].accepted}" if way == "draft" else f"{pairs[-1][0].accepted}"
        )
        print(
            f"{way:6} {median(ours.speed for ours, _ in pairs):11.2f} {median(theirs.speed for _, theirs in pairs):13.2f} "
            f"{median(ratios):6.3f} {' '.join(f'{ratio:.2f}' for ratio in ratios):29} {same:10} {accepted:12} {outside:.2f} ms",
            flush=True,
        )
    target.close()
    draft.close()


if __name__ == "__main__":
    main()
