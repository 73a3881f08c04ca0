"""`pardec-chat ask`: one answer, without a terminal."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pardec_chat.app.cli import options
from pardec_chat.app.cli.output import print_json

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Event, Finished, Loaded, ModelChoice


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The word and its flags."""
    words = "answer one prompt and print it"
    parser = subparsers.add_parser("ask", help=words, description=f"{words.capitalize()}.")
    parser.add_argument("prompt", help="the prompt; - reads it from standard input")
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument("--raw", action="store_true", help="continue the prompt as it is, without the chat template")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="longest answer (default: what the context leaves)")
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end the answer before this text")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    options.add_model_options(parser)
    options.add_method_options(parser)
    options.add_tree_option(parser)
    # Scripts want the same answer twice, and every method gives the same one at temperature 0.
    options.add_sampling_options(parser, temperature=0.0)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises UserError."""
    from pardec_chat.app.chat.request import Delta, Finished, Message, Request
    from pardec_chat.app.plain_text import visible
    from pardec_chat.backends.errors import BadSetting

    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        raise BadSetting("The prompt is empty.", 'Give one: pardec-chat ask "…".')
    messages = [Message("user", prompt)]
    if arguments.system:
        messages.insert(0, Message("system", arguments.system))
    has_draft = arguments.draft not in (None, "none")
    request = Request(
        messages=[] if arguments.raw else messages,
        prompt=prompt if arguments.raw else None,
        sampling=options.sampling(arguments),
        max_tokens=arguments.max_tokens,
        stop=arguments.stop,
        method=options.method(arguments.method, has_draft=has_draft),
        depth=options.depth(arguments.depth),
        ngram_min_match=arguments.ngram_min_match,
        draft_tree=arguments.tree,
        overflow="refuse",
    )

    def show(event: Event) -> None:
        if isinstance(event, Delta):
            print(visible(event.text), end="", flush=True)
        elif isinstance(event, Finished):
            print(visible(event.tail), flush=True)

    with options.opened(arguments) as (engine, loaded, choice):
        finished = options.answer(engine, request, None if arguments.json else show)
    if arguments.json:
        print_json(_document(finished, loaded, choice))
    return 0


def _document(finished: Finished, loaded: Loaded, choice: ModelChoice) -> dict[str, Any]:
    status = finished.figures.status
    return {
        "text": finished.text,
        "token_ids": list(finished.token_ids),
        "finish_reason": finished.finish_reason,
        "model": choice.model.stem,
        "draft": choice.draft.stem if choice.draft is not None and loaded.draft is not None else None,
        "method": finished.figures.method.value,
        "depth": finished.figures.depth,
        "runtime": loaded.runtime,
        "status": {"state": status.state, "reason": status.reason},
        "kernels": asdict(loaded.kernels),
        "timings": finished.timings,
    }
