"""The mlx runtime beside mlx-lm: the same file in one process, taking turns, greedy.

    python -m pardec_chat.tests.benchmarks.against_mlx_lm TARGET [DRAFT] [--tokens 96] [--rounds 5] [--depth 3] [--only …]

TARGET and DRAFT: paths or ids of models on disk; without DRAFT the target guesses for itself, which shows what drafting costs
and that everything is accepted. mlx-lm runs as its own generators, `generate_step` and `speculative_generate_step`: what
`stream_generate` adds to them, text and figures, would only slow it down. Speeds are of decoding alone, from the end of the
first forward pass on to the end of the last whole one, on either side. n-gram has no counterpart there and is set beside plain.
Last, four plain answers at once: in one pass, in a pass each, and by mlx-lm's `BatchGenerator`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import mlx.core as mx
from mlx_lm.generate import BatchGenerator, generate_step, speculative_generate_step

from pardec_chat.app.downloads.library import Library
from pardec_chat.backends.base import Drafter, LoadOptions, Method
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.mlx import device, memory
from pardec_chat.backends.mlx.memory import Part, forward
from pardec_chat.backends.mlx.model import open_model, read_weights
from pardec_chat.backends.mlx.runtime import make
from pardec_chat.backends.mlx.target import MlxTarget
from pardec_chat.tests.decode import begin

#: Tokens of several answers after which their time is taken: ours run ahead after eight.
_WARM = 10
_WAYS = ("plain", "draft", "ngram", "several")
PROMPT = "Write a Python function that merges two sorted lists, then the same function again with type hints."


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


def untouched(path: Path) -> Any:
    """mlx-lm's model of a file as mlx-lm runs it, with weights of its own."""
    model = open_model(path).model
    read_weights(model, device.number_type("auto"), None)
    return model


def chat(target: MlxTarget, text: str) -> list[int]:
    """Ids of a conversation that begins with `text`."""
    written = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    return list(target.vocabulary.encode(written, add_special=target.vocabulary.begins_with_bos, parse_special=True))


def _apart(parts: Sequence[Part]) -> list[Any]:
    return [forward([part])[0] for part in parts]


def _several(target: MlxTarget, prompts: Sequence[list[int]], n: int) -> tuple[float, list[list[int]]]:
    """Tokens a second of all answers together, from where each pass is begun ahead, and the answers."""
    live = [begin(target, ids, max_tokens=n) for ids in prompts]
    controller, start = Controller(), 0.0
    while live[0].finish_reason is None:
        step(target, live, controller)
        if len(live[0].token_ids) == _WARM:
            start = perf_counter()
    speed = len(live) * (n - _WARM) / (perf_counter() - start)
    for one in live:
        one.slot.close()
    return speed, [one.token_ids for one in live]


def _several_of_theirs(model: Any, prompts: Sequence[list[int]], n: int) -> tuple[float, list[list[int]]]:
    generator = BatchGenerator(model, max_tokens=n)
    uids = generator.insert([list(ids) for ids in prompts])
    answers: dict[int, list[int]] = {uid: [] for uid in uids}
    start = 0.0
    while found := generator.next_generated():
        for one in found:
            answers[one.uid].append(int(one.token))
        if len(answers[uids[0]]) == _WARM:
            start = perf_counter()
    speed = len(uids) * (n - _WARM) / (perf_counter() - start)
    generator.close()
    return speed, [answers[uid] for uid in uids]


def _print_several(target: MlxTarget, model: Any, n: int, rounds: int) -> None:
    prompts = [chat(target, text) for text in (PROMPT, "Hello!", "Write a haiku.", "Count from one to ten, please.")]
    speeds: dict[str, list[float]] = {}
    answers: dict[str, list[list[int]]] = {}
    for _ in range(rounds):
        for way in ("one pass", "a pass each", "mlx-lm"):
            if way == "mlx-lm":
                speed, answers[way] = _several_of_theirs(model, prompts, n)
            else:
                with patch.object(memory, "forward", forward if way == "one pass" else _apart):
                    speed, answers[way] = _several(target, prompts, n)
            speeds.setdefault(way, []).append(speed)
    lengths = ", ".join(str(len(ids)) for ids in prompts)
    print(f"{len(prompts)} plain answers at once behind {lengths} tokens, tokens a second of all together:")
    for way, found in speeds.items():
        ratios = " ".join(f"{one / other:.2f}" for one, other in zip(speeds["one pass"], found, strict=True))
        same = "yes" if answers[way] == answers["one pass"] else "no"
        print(f"{way:12} {median(found):8.2f}   one pass over it: {ratios}   same text: {same}", flush=True)


def main() -> None:
    """Print one line for each way to decode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("draft", nargs="?")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=_WAYS, default=_WAYS)
    arguments = parser.parse_args()
    runtime, library = make(), Library()
    paths = [library.resolve(name) for name in (arguments.target, arguments.draft or arguments.target)]
    target, draft = (runtime.load(LoadOptions(path, n_ctx=2048, draft=i == 1, slots=4)) for i, path in enumerate(paths))
    assert isinstance(target, MlxTarget)
    assert isinstance(draft, MlxTarget)
    # An end token ends ours; mlx-lm's generators go on.
    target.vocabulary.end_ids = frozenset()
    ids = chat(target, PROMPT)
    depth, model = arguments.depth, untouched(paths[0])
    guesser = untouched(paths[1])

    def drafter(way: str) -> Drafter | None:
        return {"draft": lambda: DraftModel(draft), "ngram": lambda: Ngram(2)}.get(way, lambda: None)()

    described = runtime.describe()
    print(f"mlx {described['version']}; {described['features']}")
    print(f"{target.name}, drafts by {draft.name}; {len(ids)} + {arguments.tokens} tokens, {depth} drafted a step")
    print("way     here tok/s  mlx-lm tok/s  ratio (of each round)               same text  accepted")
    for way in [way for way in arguments.only if way != "several"]:
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
        ratios = [ours.speed / theirs.speed for ours, theirs in pairs]
        same = "yes" if all(ours.tokens == theirs.tokens for ours, theirs in pairs) else "no"
        accepted = (
            f"{pairs[-1][0].accepted} / {pairs[-1][1].accepted}" if way == "draft" else f"{pairs[-1][0].accepted}"
        )
        print(
            f"{way:6} {median(ours.speed for ours, _ in pairs):11.2f} {median(theirs.speed for _, theirs in pairs):13.2f} "
            f"{median(ratios):6.3f} {' '.join(f'{ratio:.2f}' for ratio in ratios):29} {same:10} {accepted}",
            flush=True,
        )
    if "several" in arguments.only:
        _print_several(target, model, arguments.tokens, arguments.rounds)
    target.close()
    draft.close()


if __name__ == "__main__":
    main()
