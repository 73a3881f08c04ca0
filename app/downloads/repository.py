"""Any repository on the Hub: what can be fetched from it, with sizes, split files as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.hub import Hub
    from pardec_chat.app.downloads.waiting import Cancel


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


def look(repo: str, hub: Hub, cancel: Cancel) -> Repository:
    """What `repo` (OWNER/NAME, or the address of its page) holds. Raises a DownloadFailed or waiting.Stopped."""
    raise NotImplementedError


def models(repository: Repository, offer: Offer) -> tuple[Model, ...]:
    """The files of an offer as models that can be pulled, one each."""
    raise NotImplementedError
