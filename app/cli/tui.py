"""The app itself: `pardec-chat` without a word."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pardec_chat.app.cli import options, pairs, serve

if TYPE_CHECKING:
    from pardec_chat.app.app import ModelEntry
    from pardec_chat.app.conversations.setup import Setup
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.app.endpoint.server import ListedModel, Server
    from pardec_chat.app.screens.dialogue import KeeperLike
    from pardec_chat.app.screens.downloads import WizardLike
    from pardec_chat.app.screens.endpoint import EndpointLike
    from pardec_chat.app.screens.session import EngineLike, Session
    from pardec_chat.app.settings import Settings
    from pardec_chat.backends.errors import UserError

_T = TypeVar("_T")

#: What runs folders of safetensors, the first one where nobody chose.
_FOLDERS = ("pytorch", "mlx")

_SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "seed",
    "frequency_penalty",
    "presence_penalty",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What the app starts with; all of it can be changed inside."""
    parser.add_argument("--system", metavar="TEXT", help="system prompt")
    parser.add_argument("--port", type=int, metavar="N", help="of the endpoint, once it is on (default: 8080)")
    options.add_model_options(parser)
    options.add_method_options(parser)
    options.add_sampling_options(parser, temperature=0.7)
    # What is not given is as the settings have it.
    parser.set_defaults(func=run, runtime=None, cache_type=None, kernels=None, port=None, **dict.fromkeys(_SAMPLING))


def run(arguments: argparse.Namespace) -> int:
    """Raises UserError for what the options ask wrongly, before the screen is touched."""
    from pardec_chat.app import app, locations
    from pardec_chat.app.chat.request import Request
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.app.settings_file import SettingsFile
    from pardec_chat.backends.errors import UserError

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("The app needs a terminal.", 'Without one: pardec-chat ask "…".')
    library = Library()
    settings = SettingsFile(locations.settings())
    start = settings.settings.model
    model = _first_model(library, arguments.model, start.model)
    draft = _first_draft(library, arguments, start.draft)
    if arguments.method is not None:
        options.method(arguments.method, has_draft=draft is not None)
    setup_of = partial(_setup, arguments, has_draft=draft is not None)
    setup = setup_of(settings.settings)
    # What no request may ask is told now, not with the first message.
    Request(method=setup.method, depth=setup.depth, ngram_min_match=arguments.ngram_min_match)
    runtime = _given(arguments.runtime, start.runtime)
    chosen = app.ChatOptions(
        model=model,
        draft=draft,
        runtime=_for_folders(runtime) if model is not None and model.is_dir() else None,
        ngram_min_match=arguments.ngram_min_match,
        n_ctx=_given(arguments.ctx, start.ctx),
        threads=_given(arguments.threads, start.threads),
        cache_type=_given(arguments.cache_type, start.cache_type),
        unchecked=arguments.no_memory_check,
        keeper=partial(_keeper, locations.conversations()),
        settings=settings,
        setup_of=setup_of,
        theme=settings.settings.look.theme,
        kernels=arguments.kernels,
        dtype=arguments.dtype,
        choices=lambda: _entries(library, runtime),
        wizard=partial(_wizard, library),
        verdict=pairs.judge,
        endpoint=partial(_endpoint, library),
        port=_given(arguments.port, settings.settings.endpoint.port),
    )
    return app.run(chosen, locations.log_file(), partial(app.make_engine, runtime))


def _given(asked: _T | None, else_: _T) -> _T:
    return else_ if asked is None else asked


def _setup(arguments: argparse.Namespace, settings: Settings, *, has_draft: bool) -> Setup:
    """What new conversations are answered with: what was given at the start, else the settings. Raises UserError."""
    from pardec_chat.app.settings import start_setup
    from pardec_chat.backends.base import Method

    setup = start_setup(settings)
    given = {key: value for key in _SAMPLING if (value := getattr(arguments, key)) is not None}
    setup = replace(setup, sampling=replace(setup.sampling, **given))
    if arguments.method is not None:
        setup = replace(setup, method=options.method(arguments.method, has_draft=has_draft), depth=None)
    elif setup.method == Method.DRAFT and not has_draft:
        setup = replace(setup, method=Method.AUTO, depth=None)
    if arguments.depth is not None:
        setup = replace(setup, depth=options.depth(arguments.depth))
    if arguments.system is not None:
        setup = replace(setup, system=arguments.system)
    return setup


def _keeper(path: Path, failed: Callable[[UserError], None]) -> KeeperLike:
    from pardec_chat.app.conversations.keeper import Keeper

    return Keeper(path, failed)


def _first_draft(library: Library, arguments: argparse.Namespace, set_: str | None) -> Path | None:
    """The draft model asked for; the one of the settings goes with the model of the settings, where both are here."""
    from pardec_chat.backends.errors import UserError

    if arguments.draft is not None:
        return None if arguments.draft == "none" else library.find(arguments.draft)
    if arguments.model is not None or set_ in (None, "none"):
        return None
    try:
        return library.find(set_)
    except UserError:
        return None


def _first_model(library: Library, asked: str | None, set_: str | None) -> Path | None:
    """The model asked for, else that of the settings, the built-in one, any on this disk; None leaves it to the app."""
    from pardec_chat.app import catalogue
    from pardec_chat.backends.errors import UserError

    if asked is not None:
        return library.find(asked)
    if set_ is not None:
        with suppress(UserError):  # it may have been removed: the app opens all the same
            return library.find(set_)
    here = {entry.id: entry.path for entry in library.usable()}
    return here.get(catalogue.BUILT_IN) or next(iter(here.values()), None)


def _entries(library: Library, own: str) -> list[ModelEntry]:
    """What can be loaded: each file on each runtime that reads it and is here, `own` (the engine's) first."""
    from pardec_chat.app.app import ModelEntry
    from pardec_chat.backends import registry

    entries = [
        ModelEntry(
            id=entry.id,
            name=entry.model.name if entry.model is not None else entry.path.stem,
            path=entry.path,
            size_bytes=entry.size,
            kind=entry.model.kind if entry.model is not None else "file",
        )
        for entry in library.usable()
    ]
    others = [name for name in registry.names() if name != own and registry.installed(name)]
    found = [
        replace(entry, runtime=None if name == own else name, runs=partial(registry.reads, name, entry.path))
        for name in (own, *others)
        for entry in entries
    ]
    runtimes = [None if name == own else name for name in _FOLDERS if name == own or name in others]
    for folder in library.folders() if runtimes else ():
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        found += [ModelEntry(folder.name.lower(), folder.name, folder, size, "folder", name) for name in runtimes]
    return found


def _for_folders(own: str) -> str | None:
    """The runtime to name for a folder; None where the session's own one runs it."""
    from pardec_chat.backends import registry

    here = [name for name in _FOLDERS if registry.installed(name)]
    return None if own in _FOLDERS else (here or _FOLDERS)[0]


def _wizard(library: Library) -> WizardLike:
    from pardec_chat.app.downloads.wizard import Wizard

    return Wizard(library)


def _endpoint(library: Library, engine: EngineLike, session: Session) -> EndpointLike:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.endpoint.control import Control

    assert isinstance(engine, Engine)

    def make() -> Server:
        from pardec_chat.app.endpoint.server import Defaults, Server

        def defaults() -> Defaults:
            return Defaults(session.setup.sampling, session.setup.method, session.setup.depth)

        def models() -> list[ListedModel]:
            return serve.listed(library, None if session.choice is None else session.choice[0], session.names[0])

        return Server(engine, lambda: session.loaded, models, defaults)

    return Control(engine, make, partial(setattr, session, "slots"), key=os.environ.get(serve.KEY) or None)
