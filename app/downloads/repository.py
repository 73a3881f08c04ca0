"""Any repository on the Hub: what can be fetched from it, with sizes, split files as one.

What a file is can only be told by its name here; `library` goes by the same names for files that are on this disk.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from pardec_chat.app import catalogue as catalogues
from pardec_chat.app.catalogue import Model
from pardec_chat.app.downloads import fetched
from pardec_chat.app.downloads.errors import OfferUnusable, RepoNameWrong

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pardec_chat.app.downloads.hub import Hub, HubFile, HubRepository
    from pardec_chat.app.downloads.waiting import Cancel

_NAME = re.compile(r"(?!.*(--|\.\.))[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co"})
_NO_MODELS = frozenset({"api", "blog", "buckets", "collections", "datasets", "docs", "papers", "settings", "spaces"})
_IN_PAGE = frozenset({"tree", "blob", "resolve", "raw", "commits", "commit"})

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_PROJECTOR = re.compile(r"(^|.*[-_.])mmproj([-_.].*|$)")
_MATRIX = re.compile(r"imatrix.*|.*[-_.]imatrix\.(gguf|dat)|.*\.imatrix")
_GUESSER = re.compile(r"(?P<prefix>mtp|eagle3|dflash|dspark)-.*|.*[-_.](?P<inside>eagle3|dflash|dspark)[-_.].*")
_METHODS = {"mtp": "MTP", "eagle3": "EAGLE-3", "dflash": "DFlash", "dspark": "DSpark"}
_MLX_FILES = (".safetensors", ".json", ".jinja", ".txt", ".model")

_KINDS = ("model", "draft", "helper", "mlx")


@dataclass(frozen=True, slots=True)
class OfferedFile:
    """One file at the repository's commit; `sha256` None outside the large-file store."""

    file: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a user chooses as one: a GGUF file, all parts of a split one, or a folder of MLX weights.

    `use` says why it cannot be chosen; empty where it can.
    """

    name: str
    kind: Literal["model", "draft", "helper", "mlx"]
    files: tuple[OfferedFile, ...]
    use: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository at one commit. `gated`: somebody has to accept its licence first."""

    repo: str
    commit: str
    gated: bool
    licence: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What llama.cpp's name of a split file says: the name without it, and which part of how many, from 1."""

    stem: str
    number: int
    count: int

    def name(self, number: int) -> str:
        """File name of another part; the first is the one that is loaded."""
        return f"{self.stem}-{number:05}-of-{self.count:05}.gguf"

    @property
    def names(self) -> tuple[str, ...]:
        """File names of all parts, in order."""
        return tuple(self.name(number) for number in range(1, self.count + 1))


def part_of(file: str) -> Part | None:
    """The part that a file name or path stands for; None for a file that is whole by itself."""
    match = _PART.fullmatch(file)
    if match is None or not 1 <= int(match["number"]) <= int(match["count"]):
        return None
    return Part(match["stem"], int(match["number"]), int(match["count"]))


def parts_of(numbers: Sequence[int], count: int) -> str:
    """Some parts of so many, with the verb: "part 2 of 3 is"."""
    shown = ", ".join(map(str, numbers[:3])) + (f" and {len(numbers) - 3} more" if len(numbers) > 3 else "")
    return f"part {shown} of {count} is" if len(numbers) == 1 else f"parts {shown} of {count} are"


def helper(file: str) -> str:
    """What a GGUF file is that is no model by itself, going by its name or path; empty for a model."""
    folder, _, name = file.lower().rpartition("/")
    if _PROJECTOR.fullmatch(name) or folder.endswith("mmproj"):
        return "vision projector"
    if _MATRIX.fullmatch(name) or folder.endswith("imatrix"):
        return "importance matrix"
    return f"{method} head" if (method := _method(file)) else ""


def look(repo: str, hub: Hub, cancel: Cancel) -> Repository:
    """What `repo` (OWNER/NAME, or the address of its page) holds. Raises a DownloadFailed or waiting.Stopped."""
    name, revision = _asked_for(repo, hub.address)
    found = hub.repository(name, cancel, revision=revision)
    return Repository(name, found.commit, found.gated, found.licence or "see the Hub", _offers(found))


def models(repository: Repository, offer: Offer, known: Iterable[Model] | None = None) -> tuple[Model, ...]:
    """The files of an offer as models that can be pulled, one each.

    A file of another model of `known` (None is the program's catalogue) is never meant: the id is then a longer one.
    Raises OfferUnusable with the reason that the offer gives.
    """
    if offer.use:
        raise OfferUnusable(f"{offer.name} cannot be fetched as a model ({offer.use}).", "Choose another file.")
    made = tuple(_model(repository, file) for file in offer.files)
    catalogued = catalogues.load().models if known is None else tuple(known)
    return fetched.renamed(made, lambda model: any(fetched.clash(model, other) for other in catalogued))


def _model(repository: Repository, file: OfferedFile) -> Model:
    part = part_of(file.file)
    stem = (part.stem if part else file.file.removesuffix(".gguf")).rpartition("/")[2]
    return Model(
        id=fetched.as_id(file.file.rpartition("/")[2]),
        name=" ".join(stem.split("-")) + (f", part {part.number} of {part.count}" if part else ""),
        size=file.size,
        sha256=file.sha256 or "",
        licence=repository.licence,
        description=f"{file.file} of {repository.repo} on the Hub.",
        sources=(catalogues.HubSource(repository.repo, file.file, repository.commit),),
    )


def _asked_for(text: str, hub_address: str) -> tuple[str, str | None]:
    """OWNER/NAME and the revision, None where the text names none. Raises RepoNameWrong."""
    text = text.strip()
    path, revision = text.rstrip("/"), None
    if "://" in text or text.partition("/")[0].lower() in _HOSTS:
        try:
            address = urlsplit(text if "://" in text else f"https://{text}")
        except ValueError:
            raise _wrong(text, "is no address") from None
        if address.netloc.rpartition("@")[2].lower() not in _HOSTS | {urlsplit(hub_address).netloc.lower()}:
            raise _wrong(text, "is the address of another site than the Hub")
        owner, _, rest = address.path.strip("/").partition("/")
        if owner in _NO_MODELS:
            raise _wrong(text, "is the address of another page than a model's")
        name, *page = rest.split("/")
        path = f"{owner}/{name}"
        if len(page) > 1 and page[0] in _IN_PAGE:
            revision = unquote(page[1])
    owner, _, name = path.partition("/")
    if not _NAME.fullmatch(owner) or not _NAME.fullmatch(name):
        raise _wrong(text, "is no name of a repository")
    return path, revision


def _wrong(text: str, why: str) -> RepoNameWrong:
    return RepoNameWrong(
        f"{text or 'Nothing'} {why}.", "Give OWNER/NAME, or the address of the model's page on the Hub."
    )


def _offers(found: HubRepository) -> tuple[Offer, ...]:
    files = [file for file in found.files if _is_path(file.source.file)]
    gguf = [file for file in files if file.source.file.lower().endswith(".gguf") or helper(file.source.file)]
    gguf.sort(key=lambda file: _group(file.source.file))
    offers = [
        _gguf_offer(name, [*group]) for name, group in itertools.groupby(gguf, lambda file: _group(file.source.file))
    ]
    offers += _mlx_offers(found, files)
    return tuple(sorted(offers, key=lambda offer: (_KINDS.index(offer.kind), offer.size, offer.name)))


def _group(file: str) -> str:
    """Name under which a file is offered: all parts of a split one have the same."""
    part = part_of(file)
    return f"{part.stem}.gguf" if part else file


def _gguf_offer(name: str, group: list[HubFile]) -> Offer:
    parts = {part.number: file for file in group if (part := part_of(file.source.file))}
    files = [parts[number] for number in sorted(parts)] or group
    offer = Offer(name, "model", tuple(OfferedFile(file.source.file, file.size, file.sha256) for file in files))
    if method := _method(name):
        return replace(
            offer, kind="draft", use=f"guesses for another model by {method}, a method that this version does not have"
        )
    if kind := helper(name):
        return replace(offer, kind="helper", use=f"is {_article(kind)}, not a model to chat with")
    if parts:
        counts = {part.count for file in group if (part := part_of(file.source.file))}
        missing = [n for n in range(1, max(counts) + 1) if n not in parts]
        if len(counts) > 1 or len(files) < len(group):
            return replace(offer, use="its parts are of two different sets")
        if missing:
            return replace(offer, use=f"{parts_of(missing, max(counts))} missing from the repository")
    if not all(file.sha256 for file in offer.files):
        return replace(offer, use="the Hub gives no SHA-256 for it, so it could not be verified")
    return offer


def _mlx_offers(found: HubRepository, files: list[HubFile]) -> list[Offer]:
    """Each folder with a config.json and safetensors beside it."""
    folders: dict[str, list[HubFile]] = {}
    for file in files:
        folder, _, name = file.source.file.rpartition("/")
        if name.lower().endswith(_MLX_FILES):
            folders.setdefault(folder, []).append(file)
    offers = []
    for folder, inside in folders.items():
        names = {file.source.file.rpartition("/")[2] for file in inside}
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            continue
        mlx = found.library == "mlx" or found.repo.startswith("mlx-community/")
        needs = "the MLX runtime" if mlx else "a runtime for safetensors, such as MLX or PyTorch"
        offered = tuple(OfferedFile(file.source.file, file.size, file.sha256) for file in inside)
        name = folder or found.repo.partition("/")[2]
        offers.append(Offer(name, "mlx", offered, f"needs {needs}, which this version does not have"))
    return offers


def _is_path(file: str) -> bool:
    """Whether the name is one that a repository can really hold, and that may be shown."""
    return file.isprintable() and all(part not in ("", ".", "..") for part in file.split("/"))


def _method(file: str) -> str:
    """The method by which a head guesses, going by its name; empty for other files."""
    folder, _, name = file.lower().rpartition("/")
    if match := _GUESSER.fullmatch(name):
        return _METHODS[match["prefix"] or match["inside"]]
    return _METHODS["mtp"] if "mtp" in folder.split("/") else ""


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
