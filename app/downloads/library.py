"""What is on this disk: pulled models, files the user added by path, and files laid into the models folder.

A split GGUF file is one model here, whose path is that of its first part.
"""

from __future__ import annotations

import contextlib
import difflib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pardec_chat.app import catalogue as catalogues
from pardec_chat.app import locations
from pardec_chat.app.downloads import fetched, files, hub_cache, partial, repository, wheels
from pardec_chat.app.downloads.errors import FolderUnusable, HelperFile, ModelNotHere, ModelUnknown, NotGguf
from pardec_chat.app.downloads.pull import link_path, lock_path
from pardec_chat.backends.gguf.model import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pardec_chat.app.catalogue import Catalogue, Model

_MAGIC = b"GGUF"
_ADDED = "added.json"

#: "wrong size": a file of a catalogued name that is not the catalogued file; "gone": an added file that was moved.
State = Literal["on disk", "partial", "not here", "wrong size", "gone"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One model as `models list` shows it.

    `size` is that of the whole file and `have` what is on disk, in bytes. `model` is None for the user's own files;
    `models` are what has to be pulled for it, one for each part of a split file. `helper` says what a file is that is
    no model by itself, such as "vision projector".
    """

    id: str
    path: Path
    size: int
    have: int
    state: State
    model: Model | None = None
    models: tuple[Model, ...] = ()
    helper: str = ""

    @property
    def percent(self) -> int:
        """How much is here, rounded down: 100 means all of it."""
        return 100 if self.have >= self.size else self.have * 100 // self.size


class Library:
    """The models folder seen through the catalogue. Reads the disk at every call, so it is never stale."""

    def __init__(self, folder: Path | None = None, catalogue: Catalogue | None = None) -> None:
        self.folder = (folder or locations.models()).absolute()
        self.catalogue = catalogue or catalogues.load()

    def file(self, model: Model) -> Path:
        """Where the model's file is, or will be."""
        return self.folder / model.file_name

    def entries(self) -> list[Entry]:
        """Catalogued models in the catalogue's order, then those fetched by choice, then the user's own files by id.

        Raises FolderUnusable.
        """
        return [entry for entry in self._all() if entry.have or entry.model is None or self._is_catalogued(entry)]

    def usable(self) -> list[Entry]:
        """What can be loaded by itself: no helper, and no head that only guesses for another model. Raises FolderUnusable."""
        return [
            entry
            for entry in self.entries()
            if entry.state == "on disk" and not entry.helper and (entry.model is None or entry.model.kind != "draft")
        ]

    def folders(self) -> list[Path]:
        """Folders with a model in safetensors that were laid into the models folder, by name. Raises FolderUnusable."""
        try:
            return sorted(
                path.parent for path in self.folder.glob("*/config.json") if any(path.parent.glob("*.safetensors"))
            )
        except OSError as error:
            raise files.unusable(self.folder, error) from error

    def find(self, name: str) -> Path:
        """As `resolve`; a folder with a model in safetensors will do too, by its path or by its name in the models folder."""
        for folder in (_expanded(Path(name)).absolute(), self.folder / name):
            if _is_file(folder / "config.json"):
                return folder
        return self.resolve(name)

    def cached(self) -> list[Entry]:
        """What can be used from the Hub's own cache as it is, and is neither listed nor pulled by a listed id.

        Takes a while. Raises FolderUnusable; a cache that cannot be read is an empty one.
        """
        listed = self._all()
        paths = {entry.path.resolve() for entry in listed}
        pulled = {
            (source.repo, source.file, model.size)
            for entry in listed
            for model in entry.models
            for source in model.sources
            if isinstance(source, catalogues.HubSource)
        }
        found: dict[Path, str] = {}
        for file in hub_cache.gguf_files():
            first = _parts(file.path)[0]
            if first not in found and first.resolve() not in paths and (file.repo, file.file, file.size) not in pulled:
                found[first] = self._free_id(first, {entry.id for entry in listed} | set(found.values()))
        return [self._own(model_id, path) for path, model_id in found.items()]

    def resolve(self, name: str, *, any_kind: bool = False) -> Path:
        """The file of an id, of a path to a GGUF file, or of an id in the Hub's cache; of a split file the first part.

        Raises ModelNotHere with the command that fetches it, ModelUnknown with the nearest names, HelperFile unless
        files of `any_kind` will do, NotGguf, or FolderUnusable.
        """
        entry = self._find(name)
        if entry is None and _is_file(path := _expanded(Path(name)).absolute()):
            _check_magic(path)
            entry = self._own(str(path), path)
        if entry is None:
            cached = self.cached()
            entry = next((entry for entry in cached if entry.id == name.lower()), None)
            if entry is None:
                raise self._unknown(name, cached)
        if entry.helper and not any_kind:
            raise HelperFile(
                f"{entry.id} is a file of the kind {entry.helper}, not a model to chat with.",
                "Choose the model that it belongs to.",
            )
        if entry.state == "on disk":
            return entry.path
        if entry.model is not None:
            raise ModelNotHere(
                f"{entry.id} is not on this disk{_but_partly(entry)}.", f"Run `pardec-chat models pull {entry.id}`."
            )
        raise (
            _not_whole(entry)
            if entry.state == "partial"
            else ModelNotHere(
                f"The file of {entry.id} is gone: {entry.path}.",
                f"Put it back, or run `pardec-chat models remove {entry.id}` and add it from where it is now.",
            )
        )

    def pullable(self, name: str) -> tuple[Model, ...]:
        """What has to be pulled for an id: one model, or all parts of a split one.

        Raises ModelUnknown, also for a file of the user's own, or FolderUnusable.
        """
        entry = self._find(name)
        if entry is not None and entry.models:
            return entry.models
        if entry is None and not _is_file(_expanded(Path(name))):
            raise self._unknown(name, [])
        raise ModelUnknown(f"{name} is a file of yours, so there is nothing to pull.", "It can be used as it is.")

    def remember(self, models: Iterable[Model]) -> tuple[Model, ...]:
        """Keeps what was chosen from the Hub on record, so that a later start lists it and goes on with it.

        Returns the models as they are to be pulled: an id that means another file here is changed. Raises
        FolderUnusable.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with fetched.locked(self.folder):
                before = fetched.read(self.folder)
                own = self._own_files()
                models = fetched.renamed(models, lambda model: self._is_taken(model, before, own))
                new = {model.id: model for model in models if self.catalogue.find(model.id) is None}
                fetched.write(self.folder, [*(model for model in before if model.id not in new), *new.values()])
        except OSError as error:
            raise files.unusable(self.folder, error) from error
        return models

    def add(self, path: Path) -> Entry:
        """Registers a GGUF file of the user's by its path; nothing is copied. One that is listed keeps its entry.

        Raises ModelUnknown when there is no such file, ModelNotHere when other parts of it are missing, NotGguf, or
        FolderUnusable.
        """
        path = _expanded(path).absolute()
        if not _is_file(path):
            what = "is a folder, not a GGUF file" if _is_folder(path) else "does not exist"
            raise ModelUnknown(f"{path} {what}.", "Give the path of one .gguf file.")
        _check_magic(path)
        if (seen := self._own(str(path), path)).state == "partial":
            raise _not_whole(seen)
        path = seen.path
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with files.locked(self.folder / f".{_ADDED}.lock", "the list of added files", wait=True):
                for entry in self.entries():
                    if entry.path.exists() and entry.path.samefile(path):
                        return entry
                model_id = self._free_id(path, {entry.id for entry in self._all()})
                self._write_added({**self._added(), model_id: path})
        except OSError as error:
            raise files.unusable(self.folder, error) from error
        return self._own(model_id, path)

    def remove(self, name: str) -> Entry:
        """Deletes a pulled or laid-in model and what is left of a pull, or forgets an added file, which stays.

        Of a model in the Hub's cache only the link to it goes. Returns the entry as it was, with the bytes that became
        free in `have` where something was deleted. Raises ModelNotHere, ModelUnknown, AlreadyRunning while it is being
        pulled, or FolderUnusable.
        """
        entry = self._find(name)
        if entry is None:
            raise self._not_ours(name)
        try:
            if entry.model is None and entry.path.parent != self.folder:
                with files.locked(self.folder / f".{_ADDED}.lock", "the list of added files", wait=True):
                    self._write_added({key: path for key, path in self._added().items() if key != entry.id})
                return entry
            paths = [self.file(model) for model in entry.models] or _parts(entry.path)
            links = [path for path in paths if path.is_symlink()]
            if not entry.have and not links and (entry.model is None or self._is_catalogued(entry)):
                raise ModelNotHere(f"{entry.id} is not on this disk.", "See `pardec-chat models` for what is.")
            freed = entry.have - sum(files.size_of(path) for path in links)
            with contextlib.ExitStack() as locks:
                for path in paths:
                    locks.enter_context(files.locked(lock_path(path), entry.id))
                for path in paths:
                    wheels.sweep(path)
                    partial.Partial(path).discard()
                    link_path(path).unlink(missing_ok=True)
                    path.unlink(missing_ok=True)
            if entry.model is not None and not self._is_catalogued(entry):
                with fetched.locked(self.folder):
                    gone = {model.id for model in entry.models}
                    fetched.write(self.folder, [model for model in fetched.read(self.folder) if model.id not in gone])
        except OSError as error:
            raise files.unusable(self.folder, error) from error
        return replace(entry, have=freed)

    def _all(self) -> list[Entry]:
        """All entries, and those fetched by choice of which nothing is here yet. Raises FolderUnusable."""
        try:
            catalogued = [self._pulled(model.id, (model,)) for model in self.catalogue.models]
            by_choice = [self._pulled(model_id, models) for model_id, models in self._fetched().items()]
            own = [self._own(model_id, path) for model_id, path in sorted(self._own_files().items())]
        except OSError as error:
            raise files.unusable(self.folder, error) from error
        return catalogued + by_choice + own

    def _find(self, name: str) -> Entry | None:
        wanted = (name.lower(), fetched.group_of(name.lower()))
        return next((entry for entry in self._all() if entry.id in wanted), None)

    def _is_catalogued(self, entry: Entry) -> bool:
        return self.catalogue.find(entry.id) is not None

    def _pulled(self, model_id: str, models: tuple[Model, ...]) -> Entry:
        model = models[0] if len(models) == 1 else _whole(model_id, models)
        path, size = self.file(models[0]), sum(model.size for model in models)
        here = [files.size_of(self.file(model)) for model in models]
        if all(have == model.size for have, model in zip(here, models, strict=True)):
            return Entry(model_id, path, size, size, "on disk", model, models)
        parts = [min(files.size_of(partial.part_path(self.file(model))), model.size) for model in models]
        if any(parts) or (len(models) > 1 and any(here)):
            have = sum(
                model.size if n == model.size else part for n, part, model in zip(here, parts, models, strict=True)
            )
            return Entry(model_id, path, size, have, "partial", model, models)
        have = sum(here)
        return Entry(model_id, path, size, have, "wrong size" if have else "not here", model, models)

    def _own(self, model_id: str, path: Path) -> Entry:
        """A file that no record gives a size for: a split one whose parts are not all here is of about the size told."""
        parts = _parts(path)
        sizes = [files.size_of(part) for part in parts]
        have, here = sum(sizes), sum(size > 0 for size in sizes)
        size = have * len(parts) // here if here else 0
        state: State = "on disk" if here == len(parts) else "partial" if here else "gone"
        return Entry(model_id, parts[0], size, have, state, helper=_helper(path))

    def _fetched(self) -> dict[str, tuple[Model, ...]]:
        """Models fetched by choice, by the id under which they are listed; the catalogue may know some of them now."""
        groups: dict[str, tuple[Model, ...]] = {}
        for model in fetched.read(self.folder):
            if self.catalogue.find(model.id) is None:
                group = fetched.group_of(model.id)
                groups[group] = (*groups.get(group, ()), model)
        return groups

    def _own_files(self) -> dict[str, Path]:
        """Added files, and GGUF files in the models folder that no pulled model owns; of split ones the first parts."""
        own, by_choice = self._added(), self._fetched()
        pulled = (*self.catalogue.models, *(model for models in by_choice.values() for model in models))
        known = {self.file(model) for model in pulled} | set(own.values())
        taken = {model.id for model in self.catalogue.models} | set(by_choice)
        for path in sorted(self.folder.glob("*.gguf")):
            first = _parts(path)[0]
            if path not in known and first not in known and path.is_file():
                known.add(first)
                own[self._free_id(first, taken | set(own))] = first
        return own

    def _is_taken(self, model: Model, fetched_before: Iterable[Model], own: dict[str, Path]) -> bool:
        """Whether the model's id means another file here."""
        if any(fetched.clash(model, other) for other in (*self.catalogue.models, *fetched_before)):
            return True
        mine = own.get(fetched.group_of(model.id))
        return mine is not None and (
            mine.parent != self.folder or files.size_of(self.file(model)) not in (0, model.size)
        )

    def _added(self) -> dict[str, Path]:
        record = self.folder / _ADDED
        try:
            listed = json.loads(record.read_bytes())["files"]
            return {str(item["id"]): Path(str(item["path"])) for item in listed}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FolderUnusable(
                f"The list of added files {record} cannot be read: {error}.", "Mend or delete it; no model is lost."
            ) from error

    def _write_added(self, added: dict[str, Path]) -> None:
        listed = [{"id": model_id, "path": str(path)} for model_id, path in sorted(added.items())]
        text = json.dumps({"files": listed}, indent=1, ensure_ascii=True)
        files.write_atomically(self.folder / _ADDED, text.encode() + b"\n")

    @staticmethod
    def _free_id(path: Path, taken: set[str]) -> str:
        wished, number = fetched.group_of(fetched.as_id(path.name)), 2
        model_id = wished
        while model_id in taken:
            model_id, number = f"{wished}-{number}", number + 1
        return model_id

    def _not_ours(self, name: str) -> ModelNotHere | ModelUnknown:
        """The error for an id that cannot be removed."""
        cached = self.cached()
        if any(entry.id == name.lower() for entry in cached):
            return ModelNotHere(
                f"{name} lies in the Hub's own cache, which other programs use, too.",
                "Run `hf cache ls` and `hf cache rm` to delete it there.",
            )
        return self._unknown(name, cached)

    def _unknown(self, name: str, cached: list[Entry]) -> ModelUnknown:
        path = Path(name)
        if _is_folder(_expanded(path)):
            return ModelUnknown(f"{name} is a folder.", "Give the path of one .gguf file in it, or an id.")
        known = [entry.id for entry in (*self.entries(), *cached)]
        wanted = fetched.as_id(path.name)
        near = [known_id for known_id in known if wanted in known_id] or difflib.get_close_matches(
            wanted, known, 3, 0.5
        )
        what = f"There is no model {name}, neither as an id nor as a file."
        if not near:
            return ModelUnknown(what, "See `pardec-chat models` for the ids.")
        return ModelUnknown(what, f"Did you mean {' or '.join(near[:3])}? `pardec-chat models` lists all.")


def _helper(path: Path) -> str:
    """What a GGUF file is that is no model by itself; empty for a model. The file's word goes before its name."""
    kind = kind_of(path)
    return repository.helper(path.name) if kind == "model" else kind


def _parts(path: Path) -> list[Path]:
    """All files that belong to `path`, the first one first, whether they are there or not."""
    part = repository.part_of(path.name)
    return [path.with_name(name) for name in part.names] if part else [path]


def _whole(model_id: str, parts: tuple[Model, ...]) -> Model:
    """What is known of a split model as one; only its parts can be pulled."""
    name = parts[0].name.partition(", part ")[0]
    return replace(parts[0], id=model_id, name=name, size=sum(part.size for part in parts), sha256="", sources=())


def _not_whole(entry: Entry) -> ModelNotHere:
    parts = _parts(entry.path)
    missing = [number for number, part in enumerate(parts, start=1) if not files.size_of(part)]
    return ModelNotHere(
        f"{entry.id} is not whole: {repository.parts_of(missing, len(parts))} missing.",
        f"Put what is missing into {entry.path.parent}, beside the others.",
    )


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # ~NAME of a user that does not exist: a file may be called so
        return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file system takes
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _check_magic(path: Path) -> None:
    """Raises NotGguf."""
    try:
        with path.open("rb") as source:
            begins = source.read(len(_MAGIC))
    except OSError as error:
        raise NotGguf(f"{path} cannot be read: {error.strerror}.", "Mend its permissions.") from error
    if begins != _MAGIC:
        raise NotGguf(
            f"{path} is not a GGUF file: it does not begin with GGUF.",
            "Choose the .gguf file of the model; other formats have to be converted first.",
        )


def _but_partly(entry: Entry) -> str:
    if entry.state == "partial":
        return f": only {entry.percent} % of it"
    return f": the file there has {entry.have:,} bytes, not {entry.size:,}" if entry.state == "wrong size" else ""
