"""`pardec-chat bench`: how fast is each method here, plain decoding measured beside it in the same run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pardec_chat.app.cli import explained, options
from pardec_chat.app.cli.output import print_json, print_table

if TYPE_CHECKING:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.chat.prompts import Prompt
    from pardec_chat.app.chat.request import Finished, Loaded, ModelChoice
    from pardec_chat.backends.base import Method


#: What is said about the prompts' answers, and means nothing where there are none.
_OF_ANSWERS = ("methods", "categories", "prompts", "max_tokens", "depth", "ngram_min_match", "rounds")


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt with one method; medians over the rounds.

    depth: None where it changed as the answer was written. speedup: against plain, round by round.
    """

    category: str
    prompt: str
    method: str
    depth: int | None
    tokens: int
    tokens_per_second: float | None
    tokens_per_step: float | None
    acceptance_rate: float | None
    speedup: float | None


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The word and its flags."""
    words = "measure every method on prompts by category"
    parser = subparsers.add_parser(
        "bench",
        help=words,
        description=f"{words.capitalize()}, with plain decoding as the baseline of the same run. Tokens per second is "
        "decoding alone, without the prompt.",
    )
    options.add_measuring_options(parser, max_tokens=128)
    parser.add_argument(
        "--rounds", type=int, default=1, metavar="N", help="times each is measured, in turn (default: 1)"
    )
    group = parser.add_argument_group("does it pay here?")
    group.add_argument(
        "--explain", action="store_true", help="tell behind the rows what checking and guessing cost, and what follows"
    )
    group.add_argument(
        "--calibrate", action="store_true", help="the same without prompts: measure passes directly, in half a minute"
    )
    group.add_argument("--svg", type=Path, metavar="FILE", help="save that picture as SVG")
    options.add_model_options(parser)
    options.add_sampling_options(parser, temperature=0.0)
    parser.set_defaults(func=run, of_answers={name: parser.get_default(name) for name in _OF_ANSWERS})


def run(arguments: argparse.Namespace) -> int:
    """Raises UserError."""
    from pardec_chat.app.chat.prompts import load_prompts
    from pardec_chat.backends.base import Method

    _refuse(arguments)
    if arguments.calibrate:
        return _calibrate(arguments)
    has_draft = arguments.draft not in (None, "none")
    asked = options.methods(arguments.methods, has_draft=has_draft)
    methods = [Method.PLAIN, *(m for m in asked if m != Method.PLAIN)]
    prompts = load_prompts(options.names(arguments.categories), per_category=arguments.prompts)
    rows: list[Row] = []
    with options.opened(arguments) as (engine, loaded, choice):
        _measure(engine, prompts[0], Method.PLAIN, arguments, max_tokens=8)  # the first pages of weights come from disk
        for number, prompt in enumerate(prompts, 1):
            if sys.stderr.isatty():
                print(f"\r\033[K{number}/{len(prompts)} {prompt.category}: {prompt.id}", end="", file=sys.stderr)
            rows.extend(_rows(engine, prompt, methods, arguments))
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        explanation = engine.explain().result() if arguments.explain else None
    if arguments.json:
        document = {
            **_models(loaded, choice),
            "max_tokens": arguments.max_tokens,
            "rounds": arguments.rounds,
            "rows": [_row(row) for row in rows],
        }
        if explanation is not None:
            document["explanation"] = explained.document(explanation, loaded)
        print_json(document)
    else:
        _print(rows)
        print(f"Kernels for the CPU: {loaded.kernels.described()}.")
        if explanation is not None:
            print()
            explained.show(explanation, loaded)
    return 0 if explanation is None else explained.save(explanation, loaded, arguments.svg)


def _refuse(arguments: argparse.Namespace) -> None:
    """Raises BadSetting for what cannot be meant."""
    from pardec_chat.backends.errors import BadSetting

    if arguments.rounds < 1 or arguments.max_tokens < 1:
        raise BadSetting("--rounds and --max-tokens count from 1.", "Give 1 or more.")
    if arguments.svg is not None:
        if not (arguments.explain or arguments.calibrate):
            raise BadSetting("--svg saves what --explain or --calibrate finds.", "Add one of them.")
        explained.check_path(arguments.svg)
    if arguments.calibrate:
        for name, default in arguments.of_answers.items():
            if getattr(arguments, name) != default:
                option = f"--{name.replace('_', '-')}"
                raise BadSetting(
                    f"--calibrate runs no prompts, so {option} means nothing.", "Leave it out, or use --explain."
                )


def _calibrate(arguments: argparse.Namespace) -> int:
    with options.opened(arguments) as (engine, loaded, choice):
        explanation = explained.calibrate(engine)
    if arguments.json:
        print_json({**_models(loaded, choice), "explanation": explained.document(explanation, loaded)})
    else:
        explained.show(explanation, loaded)
    return explained.save(explanation, loaded, arguments.svg)


def _models(loaded: Loaded, choice: ModelChoice) -> dict[str, Any]:
    return {
        "model": choice.model.stem,
        "draft": choice.draft.stem if choice.draft is not None else None,
        "runtime": loaded.runtime,
        "kernels": asdict(loaded.kernels),
    }


def _measure(
    engine: Engine, prompt: Prompt, method: Method, arguments: argparse.Namespace, *, max_tokens: int | None = None
) -> Finished:
    from pardec_chat.app.chat.request import Request
    from pardec_chat.backends.base import Method

    return options.answer(
        engine,
        Request(
            messages=prompt.messages,
            sampling=options.sampling(arguments),
            max_tokens=max_tokens or arguments.max_tokens,
            method=method,
            # Auto finds it, and plain has none: a depth is meant for the methods beside them.
            depth=None if method in (Method.AUTO, Method.PLAIN) else options.depth(arguments.depth),
            ngram_min_match=arguments.ngram_min_match,
            draft_tree=arguments.tree,
        ),
    )


def _rows(engine: Engine, prompt: Prompt, methods: list[Method], arguments: argparse.Namespace) -> list[Row]:
    """The methods take turns, so that a machine that slows down does so for all of them."""
    from pardec_chat.backends.base import Method

    runs: dict[Method, list[Finished]] = {method: [] for method in methods}
    for _ in range(arguments.rounds):
        for method in methods:
            runs[method].append(_measure(engine, prompt, method, arguments))
    plain = [run.figures.tokens_per_second for run in runs[methods[0]]]
    rows = []
    for method, finished in runs.items():
        last = finished[-1]
        rates = [run.figures.tokens_per_second for run in finished]
        ratios = [rate / base for rate, base in zip(rates, plain, strict=True) if rate and base]
        rows.append(
            Row(
                category=prompt.category,
                prompt=prompt.id,
                method=method.value,
                depth=None if method == Method.AUTO else last.figures.depth,
                tokens=len(last.token_ids),
                tokens_per_second=_median(rates),
                tokens_per_step=_median([run.figures.tokens_per_step for run in finished]),
                acceptance_rate=_median([run.figures.acceptance_rate for run in finished]),
                speedup=_median(ratios),
            )
        )
    return rows


def _median(values: list[float | None] | list[float]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 4) if known else None


def _row(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__slots__}


def _print(rows: list[Row]) -> None:
    def show(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    table = [
        [
            row.category,
            row.prompt,
            row.method,
            "auto" if row.depth is None else str(row.depth),
            str(row.tokens),
            show(row.tokens_per_second, ".1f"),
            show(row.tokens_per_step, ".2f"),
            show(row.acceptance_rate, ".0%"),
            show(row.speedup, ".2f") + ("x" if row.speedup is not None else ""),
        ]
        for row in rows
    ]
    header = ("category", "prompt", "method", "depth", "tokens", "tok/s", "tok/step", "accepted", "speed-up")
    print_table(header, table, left=3)
    print()
    for method in dict.fromkeys(row.method for row in rows):
        known = [row.speedup for row in rows if row.method == method and row.speedup is not None]
        if known:
            print(f"{method}: {sum(known) / len(known):.2f}x plain on average, {min(known):.2f}x to {max(known):.2f}x")
