"""What is on this disk: pulled models, files the user added by path, and files laid into the models folder."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pardec_chat.app import catalogue as catalogues
from pardec_chat.app import locations
from pardec_chat.app.downloads import files, partial, wheels
from pardec_chat.app.downloads.errors import FolderUnusable, ModelNotHere, ModelUnknown, NotGguf
from pardec_chat.app.downloads.pull import lock_path

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Catalogue, Model

_MAGIC = b"GGUF"
_ADDED = "added.json"

#: "wrong size": a file of a catalogued name that is not the catalogued file; "gone": an added file that was moved.
State = Literal["on disk", "partial", "not here", "wrong size", "gone"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One model as `models list` shows it.

    `size` is that of the whole file and `have` what is on disk, in bytes. `model` is None for the user's own files.
    """

    id: str
    path: Path
    size: int
    have: int
    state: State
    model: Model | None = None

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
        """Catalogued models in the catalogue's order, then the user's own files by id. Raises FolderUnusable."""
        try:
            catalogued = [self._catalogued(model) for model in self.catalogue.models]
            return catalogued + [self._own(model_id, path) for model_id, path in sorted(self._own_files().items())]
        except OSError as error:
            raise files.unusable(self.folder, error) from error

    def resolve(self, name: str) -> Path:
        """The file of an id, or of a path to a GGUF file.

        Raises ModelNotHere with the command that fetches it, ModelUnknown with the nearest names, NotGguf, or
        FolderUnusable.
        """
        entry = self._find(name)
        if entry is not None and entry.state == "on disk":
            return entry.path
        if entry is not None and entry.model is not None:
            raise ModelNotHere(
                f"{entry.id} is not on this disk{_but_partly(entry)}.", f"Run `pardec-chat models pull {entry.id}`."
            )
        if entry is not None:
            raise ModelNotHere(
                f"The file of {entry.id} is gone: {entry.path}.",
                f"Put it back, or run `pardec-chat models remove {entry.id}` and add it from where it is now.",
            )
        path = _expanded(Path(name))
        if path.is_file():
            _check_magic(path)
            return path.absolute()
        raise self._unknown(name, path)

    def add(self, path: Path) -> Entry:
        """Registers a GGUF file of the user's by its path; nothing is copied. One that is listed keeps its entry.

        Raises ModelUnknown when there is no such file, NotGguf, or FolderUnusable.
        """
        path = _expanded(path).absolute()
        if not path.is_file():
            what = "is a folder, not a GGUF file" if path.is_dir() else "does not exist"
            raise ModelUnknown(f"{path} {what}.", "Give the path of one .gguf file.")
        _check_magic(path)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with files.locked(self.folder / f".{_ADDED}.lock", "the list of added files", wait=True):
                for entry in self.entries():
                    if entry.path.exists() and entry.path.samefile(path):
                        return entry
                model_id = self._free_id(path, self._own_files())
                self._write_added({**self._added(), model_id: path})
        except OSError as error:
            raise files.unusable(self.folder, error) from error
        return self._own(model_id, path)

    def remove(self, name: str) -> Entry:
        """Deletes a pulled or laid-in model and what is left of a pull, or forgets an added file, which stays.

        Returns the entry as it was. Raises ModelNotHere, ModelUnknown, AlreadyRunning while it is being pulled, or
        FolderUnusable.
        """
        entry = self._find(name)
        if entry is None:
            raise self._unknown(name, Path(name))
        try:
            if entry.model is None and entry.path.parent != self.folder:
                with files.locked(self.folder / f".{_ADDED}.lock", "the list of added files", wait=True):
                    self._write_added({key: path for key, path in self._added().items() if key != entry.id})
                return entry
            if not entry.have:
                raise ModelNotHere(f"{entry.id} is not on this disk.", "See `pardec-chat models` for what is.")
            with files.locked(lock_path(entry.path), entry.id):
                wheels.sweep(entry.path)
                partial.Partial(entry.path).discard()
                entry.path.unlink(missing_ok=True)
        except OSError as error:
            raise files.unusable(self.folder, error) from error
        return entry

    def _find(self, name: str) -> Entry | None:
        wanted = name.lower()
        return next((entry for entry in self.entries() if entry.id == wanted), None)

    def _catalogued(self, model: Model) -> Entry:
        path = self.file(model)
        have = files.size_of(path)
        if have == model.size:
            return Entry(model.id, path, model.size, have, "on disk", model)
        if partly := files.size_of(partial.part_path(path)):
            return Entry(model.id, path, model.size, min(partly, model.size), "partial", model)
        return Entry(model.id, path, model.size, have, "wrong size" if have else "not here", model)

    def _own(self, model_id: str, path: Path) -> Entry:
        size = files.size_of(path)
        return Entry(model_id, path, size, size, "on disk" if size else "gone")

    def _own_files(self) -> dict[str, Path]:
        """Added files, and GGUF files in the models folder that no catalogued model owns."""
        own = self._added()
        known = {self.file(model) for model in self.catalogue.models} | set(own.values())
        for path in sorted(self.folder.glob("*.gguf")):
            if path not in known and path.is_file():
                own[self._free_id(path, own)] = path
        return own

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

    def _free_id(self, path: Path, own: dict[str, Path]) -> str:
        taken = {model.id for model in self.catalogue.models} | set(own)
        wished, number = _as_id(path), 2
        model_id = wished
        while model_id in taken:
            model_id, number = f"{wished}-{number}", number + 1
        return model_id

    def _unknown(self, name: str, path: Path) -> ModelUnknown:
        if path.is_dir():
            return ModelUnknown(f"{name} is a folder.", "Give the path of one .gguf file in it, or an id.")
        known = [entry.id for entry in self.entries()]
        wanted = _as_id(path)
        near = [known_id for known_id in known if wanted in known_id] or difflib.get_close_matches(
            wanted, known, 3, 0.5
        )
        what = f"There is no model {name}, neither as an id nor as a file."
        if not near:
            return ModelUnknown(what, "See `pardec-chat models` for the ids.")
        return ModelUnknown(what, f"Did you mean {' or '.join(near[:3])}? `pardec-chat models` lists all.")


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # ~NAME of a user that does not exist: a file may be called so
        return path


def _as_id(path: Path) -> str:
    """The lower-case file stem, with what an id may not hold turned into '-'."""
    stem = path.name.lower().removesuffix(".gguf")
    return re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._")[:96] or "model"


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
