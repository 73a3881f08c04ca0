"""Options that several words share, and the engine they open."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.chat.request import Event, Finished, Loaded, ModelChoice, Request
    from pardec_chat.backends.base import Method
    from pardec_chat.backends.decoding.params import SamplingParams
    from pardec_chat.backends.errors import DoesNotFit

METHODS = ("auto", "plain", "draft", "ngram", "lookahead")
#: Methods that later versions bring: refused with a word about it.
_LATER = ("medusa", "eagle", "mtp")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Which models, and how they are loaded."""
    group = parser.add_argument_group("models")
    group.add_argument(
        "--model", metavar="ID", help="id from `pardec-chat models`, or a path (default: the built-in one)"
    )
    group.add_argument("--draft", metavar="ID", help="draft model, or `none`")
    group.add_argument("--ctx", type=int, metavar="N", help="tokens a conversation can hold (default: up to 4,096)")
    group.add_argument(
        "--cache-type", choices=("f16", "q8_0"), default="f16", help="numbers in the cache: 16 or 8 bits (default: f16)"
    )
    group.add_argument(
        "--no-memory-check", action="store_true", help="load it even if it does not seem to fit into memory"
    )
    group.add_argument("--threads", type=int, metavar="N", help="threads (default: one for each core)")
    group.add_argument(
        "--kernels",
        choices=("auto", "stock"),
        default="auto",
        help="on the CPU: own kernels where they are faster, or llama.cpp's alone (default: auto)",
    )
    group.add_argument(
        "--runtime",
        default="llamacpp",
        metavar="R",
        help="what runs the model: llamacpp, pytorch or mlx (default: llamacpp)",
    )
    group.add_argument(
        "--dtype",
        choices=("auto", "bf16", "fp16", "fp32"),
        default="auto",
        help="numbers of weights and cache with the pytorch and mlx runtimes (default: auto, bf16 with pytorch)",
    )


def add_method_options(parser: argparse.ArgumentParser) -> None:
    """How tokens are guessed."""
    group = parser.add_argument_group("parallel decoding")
    group.add_argument("--method", metavar="M", help=f"{', '.join(METHODS)} (default: auto)")
    _add_drafting_options(group)


def add_measuring_options(parser: argparse.ArgumentParser, max_tokens: int) -> None:
    """What `bench` and `check` run: methods, on prompts."""
    group = parser.add_argument_group("what to run")
    group.add_argument("--methods", metavar="M,…", help="methods (default: all that the models allow)")
    group.add_argument("--categories", metavar="C,…", help="prompt categories (default: all)")
    group.add_argument("--prompts", type=int, metavar="N", help="most prompts of each category")
    group.add_argument(
        "--max-tokens", type=int, default=max_tokens, metavar="N", help=f"tokens of each answer (default: {max_tokens})"
    )
    _add_drafting_options(group)
    add_tree_option(group)
    group.add_argument("--json", action="store_true", help="one JSON document on standard output")


def _add_drafting_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--depth",
        metavar="N",
        help="most tokens to draft in one step (default: 3 for draft, 15 for ngram; auto finds it)",
    )
    group.add_argument(
        "--ngram-min-match", type=int, metavar="N", help="shortest repeated text that ngram acts on, in tokens"
    )


def add_tree_option(group: argparse._ActionsContainer) -> None:
    """Where a single answer is asked for: the app and the endpoint guess chains."""
    group.add_argument(
        "--tree",
        type=int,
        default=0,
        metavar="N",
        help="let the draft model guess a tree of N tokens (pytorch and mlx; 0: a chain)",
    )


def add_sampling_options(parser: argparse.ArgumentParser, temperature: float) -> None:
    """The sampler chain, in the order in which it works."""
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--repeat-penalty", type=float, default=1.0, metavar="R", help="over prompt and answer, 1 is off"
    )
    group.add_argument("--frequency-penalty", type=float, default=0.0, metavar="F", help="over the answer, 0 is off")
    group.add_argument("--presence-penalty", type=float, default=0.0, metavar="F", help="over the answer, 0 is off")
    group.add_argument(
        "--temperature",
        type=float,
        default=temperature,
        metavar="T",
        help=f"0 takes the most probable token (default: {temperature:g})",
    )
    group.add_argument("--top-k", type=int, default=40, metavar="K", help="0 is off (default: 40)")
    group.add_argument("--top-p", type=float, default=0.95, metavar="P", help="1 is off (default: 0.95)")
    group.add_argument("--min-p", type=float, default=0.05, metavar="P", help="0 is off (default: 0.05)")
    group.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same text (default: a fresh one)")


def sampling(arguments: argparse.Namespace) -> SamplingParams:
    """Raises BadSetting."""
    from pardec_chat.backends.decoding.params import SamplingParams

    return SamplingParams(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repeat_penalty=arguments.repeat_penalty,
        frequency_penalty=arguments.frequency_penalty,
        presence_penalty=arguments.presence_penalty,
        seed=arguments.seed,
    )


def method(name: str | None, *, has_draft: bool) -> Method:
    """The method asked for, `auto` without one. Raises MethodUnavailable."""
    from pardec_chat.backends.base import Method
    from pardec_chat.backends.errors import MethodUnavailable

    if name is None:
        return Method.AUTO
    if name not in METHODS:
        what = "comes in a later version" if name in _LATER else "is unknown"
        raise MethodUnavailable(f"The method {name} {what}.", f"Choose one of {', '.join(METHODS)}.")
    if name == Method.DRAFT and not has_draft:
        raise MethodUnavailable("The method draft needs a draft model.", "Add --draft ID, or choose another method.")
    return Method(name)


def names(text: str | None) -> list[str] | None:
    """A comma-separated list; None where nothing was given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def methods(text: str | None, *, has_draft: bool) -> list[Method]:
    """The methods of a comma-separated list; all that the models allow for None. Raises MethodUnavailable."""
    asked = names(text) or [name for name in METHODS if name != "draft" or has_draft]
    return [method(name, has_draft=has_draft) for name in asked]


def depth(text: str | None) -> int | None:
    """The depth asked for, None for the method's default. Raises BadSetting."""
    from pardec_chat.backends.errors import BadSetting

    if text is None or text == "auto":
        return None
    if not text.isascii() or not text.isdigit():
        raise BadSetting(f"--depth is {text!r}.", "Give a whole number or auto.")
    return int(text)


def choice(arguments: argparse.Namespace) -> ModelChoice:
    """The models asked for, found on disk. Raises UserError with the command that fetches them."""
    from pardec_chat.app import catalogue
    from pardec_chat.app.chat.request import ModelChoice
    from pardec_chat.app.downloads.library import Library

    library = Library()
    model = library.find(arguments.model or catalogue.BUILT_IN)
    draft = None if arguments.draft in (None, "none") else library.find(arguments.draft)
    return ModelChoice(
        model,
        draft,
        arguments.ctx,
        arguments.threads,
        cache_type=arguments.cache_type,
        unchecked=arguments.no_memory_check,
        kernels=arguments.kernels,
        dtype=arguments.dtype,
    )


@contextmanager
def opened(arguments: argparse.Namespace, slots: int = 1) -> Iterator[tuple[Engine, Loaded, ModelChoice]]:
    """An engine with the models loaded for so many answers at once; closed at the end. Notices go to standard error.

    Raises DoesNotFit with the flags that would make it fit.
    """
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.backends.errors import DoesNotFit

    chosen = replace(choice(arguments), slots=slots)
    engine = Engine(arguments.runtime)
    try:
        try:
            loaded = engine.load(chosen).result()
        except DoesNotFit as error:
            raise _with_flags(error) from None
        for notice in loaded.notices:
            tell(notice)
        yield engine, loaded, chosen
    finally:
        engine.close()


def _with_flags(error: DoesNotFit) -> DoesNotFit:
    """The same, with its way out in words of the command line."""
    from pardec_chat.backends.errors import DoesNotFit

    ways = []
    for way in error.alternatives:
        flags = ["--draft none"] if error.plan.has_draft and way.wish.draft is None else []
        flags += ["--cache-type q8_0"] if way.wish.cache_type != error.plan.cache_type else []
        flags += [f"--ctx {way.plan.n_ctx}"] if way.plan.n_ctx != error.plan.n_ctx else []
        ways.append(" ".join(flags))
    fits = f"It fits with {', or with '.join(ways)}." if ways else error.next_step
    return DoesNotFit(error.what, f"{fits} To try it all the same: --no-memory-check.", error.plan, error.alternatives)


def answer(engine: Engine, request: Request, on_event: Callable[[Event], None] | None = None) -> Finished:
    """Wait for one answer; raises the UserError it failed with. Ctrl-C cancels it and is raised on."""
    from pardec_chat.app.chat.request import Failed, Finished, Notice

    done = threading.Event()
    last: list[Event] = []

    def sink(event: Event) -> None:
        if isinstance(event, Notice):
            tell(event.text)
        elif on_event is not None:
            on_event(event)
        if isinstance(event, Finished | Failed):
            last.append(event)
            done.set()

    ticket = engine.submit(request, sink)
    try:
        done.wait()
    except KeyboardInterrupt:
        ticket.cancel()
        done.wait(5.0)
        raise
    event = last[0]
    if isinstance(event, Failed):
        raise event.error
    assert isinstance(event, Finished)
    return event


def tell(text: str) -> None:
    """A line for the user beside the result, on standard error."""
    from pardec_chat.app.plain_text import visible_line

    print(f"pardec-chat: {visible_line(text)}", file=sys.stderr)
