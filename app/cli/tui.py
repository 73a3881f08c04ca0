"""The app itself: `pardec-chat` without a word."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pardec_chat.app.cli import options, pairs, serve

if TYPE_CHECKING:
    from pardec_chat.app.app import ModelEntry
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.app.endpoint.server import ListedModel, Server
    from pardec_chat.app.screens.downloads import WizardLike
    from pardec_chat.app.screens.endpoint import EndpointLike
    from pardec_chat.app.screens.session import EngineLike, Session


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the app starts with; all of it can be changed inside."""
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument(
        "--port", type=int, default=8080, metavar="N", help="of the endpoint, once it is on (default: 8080)"
    )
    options.add_model_options(parser)
    options.add_method_options(parser)
    options.add_sampling_options(parser, temperature=0.7)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises UserError for what the options ask wrongly, before the screen is touched."""
    from pardec_chat.app import app, locations
    from pardec_chat.app.chat.request import Request
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.backends.errors import UserError

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("The app needs a terminal.", 'Without one: pardec-chat ask "…".')
    library = Library()
    draft = library.resolve(arguments.draft) if arguments.draft not in (None, "none") else None
    method = options.method(arguments.method, has_draft=draft is not None)
    # What no request may ask is told now, not with the first message.
    Request(method=method, depth=options.depth(arguments.depth), ngram_min_match=arguments.ngram_min_match)
    chosen = app.ChatOptions(
        model=_first_model(library, arguments.model),
        draft=draft,
        method=method,
        depth=options.depth(arguments.depth),
        ngram_min_match=arguments.ngram_min_match,
        sampling=options.sampling(arguments),
        system=arguments.system or "",
        n_ctx=arguments.ctx,
        threads=arguments.threads,
        cache_type=arguments.cache_type,
        unchecked=arguments.no_memory_check,
        kernels=arguments.kernels,
        choices=lambda: _entries(library),
        wizard=partial(_wizard, library),
        verdict=pairs.judge,
        endpoint=partial(_endpoint, library),
        port=arguments.port,
    )
    return app.run(chosen, locations.log_file(), partial(app.make_engine, arguments.runtime))


def _first_model(library: Library, asked: str | None) -> Path | None:
    """The model asked for, else the built-in one, else any on this disk; None leaves the choice to the app."""
    from pardec_chat.app import catalogue

    if asked is not None:
        return library.resolve(asked)
    here = {entry.id: entry.path for entry in library.usable()}
    return here.get(catalogue.BUILT_IN) or next(iter(here.values()), None)


def _entries(library: Library) -> list[ModelEntry]:
    from pardec_chat.app.app import ModelEntry

    return [
        ModelEntry(
            id=entry.id,
            name=entry.model.name if entry.model is not None else entry.path.stem,
            path=entry.path,
            size_bytes=entry.size,
            kind=entry.model.kind if entry.model is not None else "file",
        )
        for entry in library.usable()
    ]


def _wizard(library: Library) -> WizardLike:
    from pardec_chat.app.downloads.wizard import Wizard

    return Wizard(library)


def _endpoint(library: Library, engine: EngineLike, session: Session) -> EndpointLike:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.endpoint.control import Control

    assert isinstance(engine, Engine)

    def make() -> Server:
        from pardec_chat.app.endpoint.server import Defaults, Server
        from pardec_chat.backends.decoding.params import SamplingParams

        def defaults() -> Defaults:
            # A depth that was given is meant for the method that was given with it.
            started, method = session.options, session.method
            depth = started.depth if method == started.method else None
            return Defaults(started.sampling or SamplingParams(), method, depth)

        def models() -> list[ListedModel]:
            return serve.listed(library, None if session.choice is None else session.choice[0], session.names[0])

        return Server(engine, lambda: session.loaded, models, defaults)

    return Control(engine, make, partial(setattr, session, "slots"), key=os.environ.get(serve.KEY) or None)
