"""Models chosen from the Hub that no catalogue knows: the record that lets a later start go on with them, and their ids."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pardec_chat.app.catalogue import HubSource, Model
from pardec_chat.app.downloads import files
from pardec_chat.app.downloads.errors import FolderUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_RECORD = "fetched.json"
_LONGEST = 96
_LONGEST_PREFIX = 32
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SHA256 = re.compile(r"([0-9a-f]{8,64})?")
_PART = re.compile(r"-\d{5}-of-\d{5}$")


def as_id(name: str) -> str:
    """The lower-case file stem, with what an id may not hold turned into '-'; what tells a part from others stays."""
    return _shortened(re.sub(r"[^a-z0-9._-]+", "-", name.lower().removesuffix(".gguf")))


def group_of(model_id: str) -> str:
    """The id under which a model is listed: all parts of a split one have the same."""
    return _PART.sub("", model_id)


def clash(model: Model, other: Model) -> bool:
    """Whether both would be listed under one id without being the same file, or parts of the same split one."""
    if model.id == other.id:
        same_hash = model.sha256.startswith(other.sha256) or other.sha256.startswith(model.sha256)
        return model.size != other.size or not same_hash
    return group_of(model.id) == group_of(other.id) and _count_of(model.id) != _count_of(other.id)


def renamed(models: Iterable[Model], taken: Callable[[Model], bool]) -> tuple[Model, ...]:
    """The files of one choice under ids that are free: with the owner before them, the repository, at last a number."""
    models = tuple(models)
    if not models or not any(map(taken, models)):
        return models
    (source, *_) = (source for source in models[0].sources if isinstance(source, HubSource))
    owner, name = (as_id(word)[:_LONGEST_PREFIX] for word in source.repo.split("/"))
    numbered = (f"{owner}-{name}-{number}" for number in itertools.count(2))
    for prefix in itertools.chain((owner, f"{owner}-{name}"), numbered):
        moved = tuple(replace(model, id=_shortened(f"{prefix}-{model.id}")) for model in models)
        if not any(map(taken, moved)):
            return moved
    raise AssertionError("unreachable")


def read(folder: Path) -> tuple[Model, ...]:
    """What was remembered, in the order in which it came. Raises FolderUnusable for a damaged record."""
    record = folder / _RECORD
    try:
        return tuple(_model(entry) for entry in json.loads(record.read_bytes())["models"])
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FolderUnusable(
            f"The list of models fetched from the Hub {record} cannot be read: {error}.",
            "Mend or delete it; no model is lost.",
        ) from error


def write(folder: Path, models: Iterable[Model]) -> None:
    """Replaces the record in one step; only for the holder of its lock."""
    text = json.dumps({"models": [_entry(model) for model in models]}, indent=1, ensure_ascii=True)
    files.write_atomically(folder / _RECORD, text.encode() + b"\n")


def locked(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Keeps other processes from changing the record meanwhile."""
    return files.locked(folder / f".{_RECORD}.lock", "the list of fetched models", wait=True)


def _entry(model: Model) -> dict[str, Any]:
    (source, *_) = (source for source in model.sources if isinstance(source, HubSource))
    return {
        "id": model.id,
        "name": model.name,
        "bytes": model.size,
        "sha256": model.sha256,
        "licence": model.licence,
        "description": model.description,
        "repo": source.repo,
        "file": source.file,
        "revision": source.revision,
    }


def _model(entry: dict[str, Any]) -> Model:
    """Raises ValueError and what reading some other data raises: an id becomes a file's name."""
    model_id, size, sha256 = str(entry["id"]), int(entry["bytes"]), str(entry["sha256"])
    if not _ID.fullmatch(model_id) or len(model_id) > _LONGEST or size < 1 or not _SHA256.fullmatch(sha256):
        raise ValueError(f"the entry {model_id!r} is not one of ours")
    revision = entry["revision"]
    return Model(
        id=model_id,
        name=str(entry["name"]),
        size=size,
        sha256=sha256,
        licence=str(entry["licence"]),
        description=str(entry["description"]),
        sources=(HubSource(str(entry["repo"]), str(entry["file"]), None if revision is None else str(revision)),),
    )


def _count_of(model_id: str) -> str:
    return match[0].rpartition("-")[2] if (match := _PART.search(model_id)) else ""


def _shortened(model_id: str) -> str:
    part = match[0] if (match := _PART.search(model_id)) else ""
    stem = model_id.removesuffix(part).strip("-._")[: _LONGEST - len(part)].rstrip("-._")
    return (stem or "model") + part
