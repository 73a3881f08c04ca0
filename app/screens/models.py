"""What of the chat has to do with its models: loading and choosing them."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path

from textual import on, work
from textual.screen import Screen

from pardec_chat.app.messages import EngineMissing, EngineReady, LoadFailed, LoadProgress, ModelLoaded
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.choosing import choose_models, choose_way, get_models
from pardec_chat.app.screens.session import ChatOptions, EngineLike, Models, Session
from pardec_chat.app.widgets.note import Note
from pardec_chat.backends.errors import DoesNotFit, LoadGivenUp, UserError

logger = logging.getLogger(__name__)


class ModelsScreen(Screen[None]):
    """A screen on a session: begins its loads and tells how they end."""

    def __init__(self, options: ChatOptions, make_engine: Callable[[], EngineLike]) -> None:
        super().__init__()
        self.session = Session(options, make_engine, self)
        # The load that brings back what was there before a race: nothing is new then.
        self._load_back = 0

    @property
    @abstractmethod
    def state(self) -> str:
        """What is going on, in words."""

    @abstractmethod
    async def note(self, note: Note) -> None:
        """A line of the program's own in the conversation."""

    @abstractmethod
    def show_state(self) -> None:
        """Show everything as it is now."""

    @abstractmethod
    def show_progress(self) -> None:
        """Show how far a load is, soon."""

    @abstractmethod
    def take_new_model(self) -> None:
        """Another model answers from now on."""

    @on(EngineReady)
    def load_first(self) -> None:
        """The engine is there: load what the app was started with."""
        options = self.session.options
        if options.model is not None:
            self.load(options.model, options.draft, options.runtime)
        self.show_state()

    @on(EngineMissing)
    async def tell_missing(self, message: EngineMissing) -> None:
        """Without an engine there is nothing to do but say so."""
        logger.error("no engine", exc_info=message.error)
        self.session.broken = True
        await self.note(Note.of(message.error, "The program cannot start its engine."))
        self.show_state()

    def load(self, model: Path, draft: Path | None, runtime: str | None = None, *, back: bool = False) -> None:
        """Begin a load. back: it only brings back what was there."""
        if self.session.engine is None:  # it is still being made, and loads this first then
            self.session.options = replace(self.session.options, model=model, draft=draft, runtime=runtime)
        self.session.load(model, draft, runtime)
        if back:
            self._load_back = self.session.load_number
        self.show_state()

    @on(LoadProgress)
    def take_progress(self, message: LoadProgress) -> None:
        """A part of the file was read."""
        if message.load == self.session.load_number and self.session.loading is not None:
            self.session.take_progress(message.done)
            self.show_progress()

    @on(ModelLoaded)
    async def take_model(self, message: ModelLoaded) -> None:
        """A model is ready to answer."""
        if message.load != self.session.load_number:
            return
        back, before = message.load == self._load_back, self.session.loaded
        told = before.notices if back and before is not None else ()
        change = self.session.take_loaded(message.loaded)
        if not back:
            self.take_new_model()
        for notice in filter(None, (*message.loaded.notices, change)):
            if notice not in told:
                await self.note(Note(notice))
        self.show_state()

    @on(LoadFailed)
    async def tell_failed_load(self, message: LoadFailed) -> None:
        """Say why and what next; what was loaded before comes back."""
        if message.load != self.session.load_number:
            return
        error, names, wanted = message.error, self.session.names, self.session.loading
        if not isinstance(error, UserError | CancelledError):
            logger.error("a load failed", exc_info=error)
        back = self.session.take_failed_load(error)
        if isinstance(error, DoesNotFit) and wanted is not None:
            self._choose_way(error, wanted, names)
        elif isinstance(error, LoadGivenUp):
            await self.note(Note(f"{names[0]} was not loaded: you stopped it.", next_step=error.next_step))
        else:
            await self.note(Note.of(error, f"{names[0]} was not loaded."))
        if back:
            await self.note(Note(f"Back to {self.session.names[0]}."))
        self.show_state()

    @work(group="choose", exclusive=True)
    async def action_choose_models(self) -> None:
        """Which models, from the next answer on."""
        await self.choose_models()

    async def choose_models(self) -> None:
        """Ask which models are to be loaded, and load them."""
        if self.session.engine is None:
            return
        try:
            choice = await choose_models(self.app, self.session)
        except UserError as error:
            self.notify(visible_line(str(error)), severity="error", markup=False)
            return
        if choice is not None:
            self.load(*choice)

    def action_get_models(self) -> None:
        """More models: the wizard."""
        if self.session.options.wizard is None:
            self.notify("pardec-chat models pull, on the command line, fetches models.", markup=False)
        else:
            self.get_models(first=False)

    @work(group="choose", exclusive=True)
    async def get_models(self, *, first: bool) -> None:
        """The wizard. first: there is no model here yet."""
        choice = await get_models(self.app, self.session, first=first)
        if choice is not None:
            self.load(*choice)

    @work(group="choose", exclusive=True)
    async def _choose_way(self, error: DoesNotFit, wanted: Models, names: tuple[str, str | None]) -> None:
        """What to give up for models that do not fit; the ones before are loaded still."""
        way = await choose_way(self.app, error, names)
        if way is None:
            await self.note(Note.of(error, f"{names[0]} was not loaded."))
            return
        self.session.fit(wanted.model, way)
        draft = wanted.draft if way == "force" or way.draft is not None else None
        self.load(wanted.model, draft, wanted.runtime)
