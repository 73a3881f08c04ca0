"""`pardec-chat serve`: the OpenAI-style endpoint, without a terminal."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pardec_chat.app.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.downloads.library import Library
    from pardec_chat.app.endpoint.context import ListedModel

KEY = "PARDEC_CHAT_API_KEY"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The word and its flags."""
    words = "answer programs that speak OpenAI's API"
    parser = subparsers.add_parser("serve", help=words, description=f"{words.capitalize()}.")
    group = parser.add_argument_group("endpoint")
    group.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="H",
        help="address to listen on; another than this machine's own needs a key",
    )
    group.add_argument("--port", type=int, default=8080, metavar="N", help="0 takes any that is free (default: 8080)")
    group.add_argument("--api-key", metavar="KEY", help=f"what clients have to show (also from {KEY})")
    group.add_argument("--slots", type=int, default=4, metavar="N", help="answers at the same time (default: 4)")
    group.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="URL",
        help="let web pages of this origin ask; may be repeated",
    )
    options.add_model_options(parser)
    options.add_method_options(parser)
    options.add_sampling_options(parser, temperature=0.8)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C or a request to end. Raises UserError."""
    from pardec_chat.app.chat.request import Request
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.app.endpoint.address import check
    from pardec_chat.app.endpoint.server import Address, Defaults, Server
    from pardec_chat.backends.errors import BadSetting

    if not 1 <= arguments.slots <= 64:
        raise BadSetting(f"--slots is {arguments.slots}, which is outside 1 to 64.", "Give a value inside.")
    method = options.method(arguments.method, has_draft=arguments.draft not in (None, "none"))
    defaults = Defaults(options.sampling(arguments), method, options.depth(arguments.depth))
    # What no request may ask is told now, not with the first one.
    Request(method=method, depth=defaults.depth, ngram_min_match=arguments.ngram_min_match)
    address = Address(arguments.host, arguments.port, arguments.api_key or os.environ.get(KEY) or None)
    check(address)
    with options.opened(arguments, arguments.slots) as (engine, loaded, chosen):
        server = Server(
            engine,
            lambda: loaded,
            lambda: listed(Library(), chosen.model, loaded.model),
            lambda: defaults,
            allowed_origins=arguments.allow_origin,
        )
        with _until_asked_to_end() as asked:
            real = server.start(address)
            try:
                print(f"{loaded.model} answers at {real.url}/v1 (Ctrl-C ends)", flush=True)
                asked.wait()
            finally:
                server.stop()
    return 0


@contextmanager
def _until_asked_to_end() -> Iterator[threading.Event]:
    """Set by Ctrl-C, or by whoever manages services."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def listed(library: Library, loaded: Path | None, name: str) -> list[ListedModel]:
    """What can be loaded from this disk, the loaded file marked, and first where nothing lists it. Raises FolderUnusable."""
    from pardec_chat.app.endpoint.context import ListedModel

    found = [
        ListedModel(entry.id, entry.model.name if entry.model else entry.path.stem, entry.path == loaded, entry.size)
        for entry in (*library.usable(), *library.cached())
        if not entry.helper
    ]
    if loaded is not None and not any(model.loaded for model in found):
        found.insert(0, ListedModel(loaded.stem, name, loaded=True))
    return found
