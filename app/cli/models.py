"""`pardec-chat models`: what is on this disk, and how more gets there. Imports what it needs when it runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pardec_chat.app.cli.output import print_json
from pardec_chat.backends.units import size

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Catalogue, Model
    from pardec_chat.app.downloads.library import Entry, Library


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the word `models`; the chosen action's function is left in `func`, takes the arguments, returns the exit code."""
    # SUPPRESS keeps the inner parser from undoing a --json that was written before the action.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--json", action="store_true", help="one JSON document on standard output")
    words = "list, pull, remove, add and pair models"
    parser = subparsers.add_parser("models", parents=[common], help=words, description=words.capitalize() + ".")
    parser.set_defaults(func=run, action="list")
    actions = parser.add_subparsers(metavar="list|pull|remove|add|pairs|why")
    listed = actions.add_parser("list", parents=[common], help="what is on this disk and what can be pulled")
    listed.set_defaults(action="list")
    pull = actions.add_parser("pull", parents=[common], help="download models, or go on where a download stopped")
    pull.add_argument("ids", nargs="*", metavar="ID", help="ids from the list; without one, the built-in model")
    pull.add_argument("--quiet", action="store_true", help="one line at most, and none when nothing is to be done")
    pull.set_defaults(action="pull")
    remove = actions.add_parser("remove", parents=[common], help="delete a model, or forget an added file")
    remove.add_argument("id", metavar="ID")
    remove.set_defaults(action="remove")
    add = actions.add_parser("add", parents=[common], help="list a GGUF file of yours; it stays where it is")
    add.add_argument("path", metavar="PATH")
    add.set_defaults(action="add")
    pairs = actions.add_parser("pairs", parents=[common], help="what can guess for the models here, and why not")
    pairs.add_argument("id", nargs="?", metavar="ID", help="one target (default: all on this disk)")
    pairs.set_defaults(action="pairs")
    why = actions.add_parser("why", parents=[common], help="whether one model can guess for another")
    why.add_argument("target", metavar="TARGET")
    why.add_argument("draft", metavar="DRAFT")
    why.set_defaults(action="why")


def run(arguments: argparse.Namespace) -> int:
    """Does what `add_parser` parsed; returns the exit code, raises UserError."""
    from pardec_chat.app.cli import pairs, pull
    from pardec_chat.app.downloads.library import Library

    as_json = bool(getattr(arguments, "json", False))
    library = Library()
    if arguments.action == "pull":
        return pull.pull(library, arguments.ids, quiet=arguments.quiet, as_json=as_json)
    if arguments.action == "remove":
        return _remove(library, arguments.id, as_json=as_json)
    if arguments.action == "add":
        return _add(library, arguments.path, as_json=as_json)
    if arguments.action == "pairs":
        return pairs.pairs(library, arguments.id, as_json=as_json)
    if arguments.action == "why":
        return pairs.why(library, arguments.target, arguments.draft, as_json=as_json)
    return _list(library, as_json=as_json)


def _list(library: Library, *, as_json: bool) -> int:
    entries = [*library.entries(), *library.cached()]
    if as_json:
        models = [_described(entry, library.catalogue) for entry in entries]
        print_json({"folder": str(library.folder), "models": models})
        return 0
    rows = [("ID", "SIZE", "STATE", "LICENCE", "PAIRS WITH")]
    for entry in entries:
        state = f"partial {entry.percent} %" if entry.state == "partial" else entry.helper or entry.state
        pairs = _pairs(library.catalogue, entry.model) if entry.model else f"added: {entry.path}"
        licence = entry.model.licence if entry.model else "–"
        rows.append((entry.id, size(entry.size), state, licence, pairs or "–"))
    shown = [tuple(_shown(cell) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(4)]
    for row in shown:
        cells = [
            cell.rjust(width) if n == 1 else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        print("  ".join((*cells, row[4])).rstrip())
    print(f"\nin {_shown(str(library.folder))}")
    return 0


def _pairs(catalogue: Catalogue, model: Model) -> str:
    inside = [f"{pair.method}, inside" for pair in model.pairs if pair.model_id is None]
    return ", ".join([*inside, *catalogue.pairs(model)])


def _remove(library: Library, name: str, *, as_json: bool) -> int:
    entry = library.remove(name)
    own = entry.model is None and entry.path.exists()
    if as_json:
        print_json({"id": entry.id, "path": str(entry.path), "freed_bytes": 0 if own else entry.have})
    elif own:
        print(f"{_shown(entry.id)} is no longer listed; its file stays: {_shown(str(entry.path))}")
    else:
        print(f"{_shown(entry.id)} removed, {size(entry.have)} freed")
    return 0


def _add(library: Library, path: str, *, as_json: bool) -> int:
    from pathlib import Path

    entry = library.add(Path(path))
    if as_json:
        print_json({"id": entry.id, "path": str(entry.path), "bytes": entry.size})
    else:
        print(f"{_shown(entry.id)} added: {_shown(str(entry.path))}")
    return 0


def _described(entry: Entry, catalogue: Catalogue) -> dict[str, Any]:
    model = entry.model
    return {
        "id": entry.id,
        "name": model.name if model else entry.id,
        "bytes": entry.size,
        "have_bytes": entry.have,
        "state": entry.state,
        "path": str(entry.path),
        "kind": model.kind if model else None,
        "licence": model.licence if model else None,
        "description": model.description if model else None,
        "drafts": list(model.drafts) if model else [],
        "pairs_with": list(catalogue.pairs(model)) if model else [],
        "catalogued": catalogue.find(entry.id) is not None,
        "helper": entry.helper or None,
    }


def _shown(text: str) -> str:
    from pardec_chat.app.plain_text import visible_line

    return visible_line(text)
