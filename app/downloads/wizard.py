"""The way from "no model here" to one that answers, without a screen: what fits, what is here, and how more gets here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.fit import Fit, Proposal
    from pardec_chat.app.downloads.library import Entry, Library
    from pardec_chat.app.downloads.pull import Tools
    from pardec_chat.app.downloads.queue import Downloads
    from pardec_chat.app.downloads.repository import Offer, Repository
    from pardec_chat.app.downloads.waiting import Cancel
    from pardec_chat.backends.machine import Machine


@dataclass(frozen=True, slots=True)
class Row:
    """A model in the list of all: catalogued, or (`model` None) a file of the user's.

    pair: what speeds it up, with what is known of the gain; empty where nothing is known.
    """

    entry: Entry
    model: Model | None
    fit: Fit
    pair: str


class Wizard:
    """Everything here may take a while: call it from a thread. `downloads` looks after its own threads."""

    downloads: Downloads

    def __init__(self, library: Library, *, tools: Tools | None = None, machine: Machine | None = None) -> None:
        raise NotImplementedError

    @property
    def machine(self) -> Machine:
        """This machine, looked at once."""
        raise NotImplementedError

    def proposals(self, n_ctx: int = 4096) -> tuple[Proposal, ...]:
        """The choices of a first start."""
        raise NotImplementedError

    def rows(self, n_ctx: int = 4096) -> tuple[Row, ...]:
        """All models: the catalogue's, the user's own files, and those in the Hub's cache."""
        raise NotImplementedError

    def look(self, repo: str, cancel: Cancel) -> Repository:
        """See `repository.look`."""
        raise NotImplementedError

    def offered(self, repository: Repository, offer: Offer) -> tuple[Model, ...]:
        """See `repository.models`; what it gives is remembered, so that a restart goes on with it."""
        raise NotImplementedError

    def path(self, model: Model) -> Path:
        """Where the model's file is, or will be."""
        raise NotImplementedError

    def add(self, path: Path) -> Entry:
        """See `Library.add`."""
        raise NotImplementedError

    def login(self, token: str) -> str:
        """Hand a typed token to the Hub's own login, which keeps it; gives the account's name. Raises HubTokenRefused."""
        raise NotImplementedError
