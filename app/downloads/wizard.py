"""The way from "no model here" to one that answers, without a screen: what fits, what is here, and how more gets here."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pardec_chat.app.downloads import fit, repository
from pardec_chat.app.downloads.library import Library
from pardec_chat.app.downloads.pull import Tools
from pardec_chat.app.downloads.queue import Downloads
from pardec_chat.backends import machine as machines
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.model import read_model
from pardec_chat.backends.llamacpp import build

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.catalogue import Catalogue, Model
    from pardec_chat.app.downloads.fit import Fit, Proposal
    from pardec_chat.app.downloads.hub import Hub
    from pardec_chat.app.downloads.library import Entry
    from pardec_chat.app.downloads.repository import Offer, Repository
    from pardec_chat.app.downloads.waiting import Cancel
    from pardec_chat.backends.machine import Machine
    from pardec_chat.backends.memory import Shape


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

    def __init__(self, library: Library, *, tools: Tools | None = None, machine: Machine | None = None) -> None:
        self.library = library
        self.downloads = Downloads(library.folder, tools=tools)
        self._tools = tools or Tools()
        self._given = machine

    @cached_property
    def machine(self) -> Machine:
        """This machine, looked at once, as the runtime can use it."""
        return self._given or build.usable(machines.inspect())

    @cached_property
    def packed(self) -> bool:
        """Whether models will likely run on own kernels, which take other memory."""
        return build.packs_weights(self.machine)

    def proposals(self, n_ctx: int = 4096) -> tuple[Proposal, ...]:
        """The choices of a first start."""
        have = {entry.id: entry.have for entry in self.library.entries()}
        return fit.propose(self.library.catalogue, self.machine, n_ctx, self._disk_free(), have, packed=self.packed)

    def rows(self, n_ctx: int = 4096) -> tuple[Row, ...]:
        """All models: the catalogue's, the user's own files, and those in the Hub's cache.

        What earlier runs left unfinished is put into `downloads` as paused.
        """
        entries = self.library.entries()
        self.downloads.keep([model for entry in entries if entry.state == "partial" for model in entry.models])
        disk_free = self._disk_free()
        return tuple(self._row(entry, n_ctx, disk_free) for entry in [*entries, *self.library.cached()])

    def look(self, repo: str, cancel: Cancel) -> Repository:
        """See `repository.look`."""
        return repository.look(repo, self._hub(), cancel)

    def offered(self, found: Repository, offer: Offer) -> tuple[Model, ...]:
        """See `repository.models`; what it gives is remembered, so that a restart goes on with it."""
        return self.library.remember(repository.models(found, offer))

    def path(self, model: Model) -> Path:
        """Where the model's file is, or will be."""
        return self.library.file(model)

    def add(self, path: Path) -> Entry:
        """See `Library.add`."""
        return self.library.add(path)

    def login(self, token: str) -> str:
        """Hand a typed token to the Hub's own login, which keeps it; gives the account's name. Raises HubTokenRefused."""
        return self._hub().login(token, threading.Event())

    def _row(self, entry: Entry, n_ctx: int, disk_free: int) -> Row:
        model = entry.model
        if entry.helper:
            return Row(entry, model, fit.Fit(False, 0, n_ctx, f"no model: {entry.helper}"), "")
        draft = None
        pair = ""
        if model is not None:
            draft, pair = _pair(self.library.catalogue, model)
        if model is not None and model.kind == "draft":
            methods = {other.method for other in self.library.catalogue.pairs_of(model)}
            why = f"only guesses, by {' or '.join(sorted(methods))}, which this version has not"
            return Row(entry, model, fit.Fit(False, 0, n_ctx, why), pair)
        try:
            target = self._shape(entry)
        except ModelUnreadable as error:
            return Row(entry, model, fit.Fit(False, 0, n_ctx, error.what), pair)
        drafting = None if draft is None else fit.shape_of(draft, self.machine)
        fetch = entry.size - entry.have
        found = fit.judge(target, drafting, self.machine, n_ctx, disk_free, fetch, packed=self.packed)
        return Row(entry, model, found, pair)

    def _shape(self, entry: Entry) -> Shape:
        """From the file where it is here, from the catalogue where not."""
        if entry.state == "on disk":
            return read_model(entry.path).shape
        if entry.model is not None:
            return fit.shape_of(entry.model, self.machine)
        raise ModelUnreadable(f"is {entry.state}")

    def _hub(self) -> Hub:
        from pardec_chat.app.downloads.hub import Hub  # takes a while to import

        return self._tools.hub or Hub()

    def _disk_free(self) -> int:
        folder = self.library.folder
        while not folder.exists():
            folder = folder.parent
        return self._tools.free_bytes(folder)


def _pair(catalogue: Catalogue, model: Model) -> tuple[Model | None, str]:
    """The draft model that comes with it, and what speeds it up in words."""
    drafts = [draft for draft in map(catalogue.find, model.drafts) if draft is not None]
    draft = min(drafts, key=lambda draft: draft.size, default=None)
    words = []
    for pair in model.pairs:
        other = catalogue.find(pair.model_id) if pair.model_id is not None else None
        what = f"{pair.method}: {other.name}" if other is not None else f"{pair.method}, in the file"
        words.append(f"{what} ({pair.gain})" if pair.gain else what)
    return draft, "; ".join(words)
