"""What the endpoint stands in: the engine, the models, and what is set when a request says nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from pardec_chat.app.chat.engine import Ticket
from pardec_chat.app.chat.request import Loaded, Request, Sink
from pardec_chat.app.endpoint.errors import ApiError, unavailable
from pardec_chat.app.endpoint.journal import Journal
from pardec_chat.app.endpoint.metrics import Metrics
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import UserError

logger = logging.getLogger(__name__)


class EngineLike(Protocol):
    """The part of `Engine` that the endpoint uses."""

    def submit(self, request: Request, sink: Sink) -> Ticket:
        """See `Engine.submit`."""

    def pieces(self, ids: Sequence[int]) -> Future[list[bytes]]:
        """See `Engine.pieces`. Raises UserError for an id that is none of the vocabulary's."""

    @property
    def n_waiting(self) -> int:
        """See `Engine.n_waiting`."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model on this disk, as `GET /v1/models` lists it. size: bytes. loaded: whether it is the one in memory."""

    id: str
    name: str
    loaded: bool = False
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a request says nothing. depth: goes with `method` alone."""

    sampling: SamplingParams
    method: Method
    depth: int | None


class Context:
    """Shared by all requests; used on the endpoint's loop."""

    def __init__(
        self,
        engine: EngineLike,
        loaded: Callable[[], Loaded | None],
        models: Callable[[], Sequence[ListedModel]],
        defaults: Callable[[], Defaults],
        journal: Journal,
    ) -> None:
        self.engine = engine
        self.loaded = loaded
        self.models = models
        self._defaults = defaults
        self.journal = journal
        self.metrics = Metrics()
        self.started = int(time.time())
        #: Set when the server ends: live answers end with it.
        self.stopping = False
        #: Called for each live answer then.
        self.live: set[Callable[[], None]] = set()
        self._mine: ListedModel | None = None
        self._mine_of: Loaded | None = None
        self._pieces: dict[int, bytes] = {}
        self._pieces_of: Loaded | None = None

    @property
    def defaults(self) -> Defaults:
        """What holds for a request that comes now."""
        return self._defaults()

    def stop(self) -> None:
        """End all live answers."""
        self.stopping = True
        for end in list(self.live):
            end()

    async def listed(self) -> list[ListedModel]:
        """The loaded model first, then what else is on disk."""
        try:
            found = list(await asyncio.to_thread(self.models))
        except UserError:  # whoever only wants an answer does not mind a folder that cannot be read
            logger.exception("the models on this disk cannot be listed")
            found = []
        loaded = self.loaded()
        mine = [model for model in found if model.loaded]
        if loaded is not None and not mine:
            mine = [ListedModel(loaded.model, loaded.model, loaded=True)]
        return [*mine, *(model for model in found if not model.loaded)]

    async def answering(self, asked: str) -> str:
        """The id of the loaded model, if that is the one asked for. Raises ApiError (404, 503)."""
        loaded = self.loaded()
        if loaded is None:
            raise unavailable("No model is loaded.", "model_not_loaded")
        if self._mine is None or self._mine_of is not loaded:
            self._mine, self._mine_of = (await self.listed())[0], loaded
        mine = self._mine
        if asked in ("default", loaded.model, mine.id, mine.name):
            return mine.id
        here = any(asked in (model.id, model.name) for model in await self.listed())
        what = f"The model {asked} is on this disk, but" if here else f"There is no model {asked} here;"
        raise ApiError(404, f"{what} only the loaded one answers: {mine.id}.", param="model", code="model_not_found")

    async def pieces(self, ids: Sequence[int]) -> dict[int, bytes]:
        """The bytes that each token adds to a text; each is asked for once a model. Raises UserError."""
        loaded = self.loaded()
        if loaded is not self._pieces_of:
            self._pieces, self._pieces_of = {}, loaded
        known = self._pieces
        missing = [token for token in dict.fromkeys(ids) if token not in known]
        if missing:
            try:
                texts = await asyncio.wrap_future(self.engine.pieces(missing))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                raise UserError("The engine was closed.", "Start the app again.") from None
            known.update(zip(missing, texts, strict=True))
        return known
