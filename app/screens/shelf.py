"""The list of conversations and what keeps them."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message as TextualMessage

from pardec_chat.app.messages import ConversationRead, KeepingFailed, SummariesRead, post
from pardec_chat.app.widgets.sidebar import Sidebar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pardec_chat.app.conversations.conversation import Summary
    from pardec_chat.app.screens.dialogue import KeeperLike


class Shelf(Container):
    """Asks the keeper what the list wants to know; ConversationRead and Shelf.Gone go up to the screen.

    keeper: None while conversations are not kept.
    """

    class Gone(TextualMessage):
        """A conversation was deleted."""

        def __init__(self, id: str) -> None:  # noqa: A002  # the field's own name
            super().__init__()
            self.id = id

    class Renamed(TextualMessage):
        """The user has named a conversation."""

        def __init__(self, id: str, title: str) -> None:  # noqa: A002
            super().__init__()
            self.id = id
            self.title = title

    class Pinned(TextualMessage):
        """A conversation was pinned to the top of the list, or is no longer."""

        def __init__(self, id: str, pinned: bool) -> None:  # noqa: A002
            super().__init__()
            self.id = id
            self.pinned = pinned

    def __init__(self) -> None:
        super().__init__()
        self.keeper: KeeperLike | None = None
        self.current = ""
        self.summaries: Sequence[Summary] = ()
        # What is searched for now, and what the list that is shown was an answer to.
        self._query = self._shown = ""
        self._number = 0
        self._deleted: list[str] = []

    def compose(self) -> ComposeResult:
        """The list alone."""
        yield Sidebar("^L")

    @property
    def sidebar(self) -> Sidebar:
        """The list."""
        return self.query_one(Sidebar)

    def refresh_list(self) -> None:
        """Read the list anew, or what the search finds."""
        if self.keeper is None:
            return
        self._number += 1
        number, query = self._number, self._query
        future = self.keeper.search(query) if query.strip() else self.keeper.summaries()
        self._then(future, lambda summaries: SummariesRead(number, query, summaries))

    def show_current(self, id: str) -> None:  # noqa: A002
        """This conversation is the one that is open."""
        if id != self.current:
            self.current = id
            self._draw()

    @on(SummariesRead)
    def take(self, message: SummariesRead) -> None:
        """The newest list alone is shown."""
        message.stop()
        if message.number == self._number:
            self.summaries, self._shown = message.summaries, message.query
            self._draw()

    def _draw(self) -> None:
        self.sidebar.show(self.summaries, self.current, bool(self._shown.strip()), query=self._shown)

    def _then(self, future: Future[Any], make: Callable[[Any], TextualMessage]) -> None:
        def report(future: Future[Any]) -> None:
            if future.cancelled():  # a newer search took its place, or the app is being left
                return
            error = future.exception()
            post(self, KeepingFailed(error) if error is not None else make(future.result()))

        future.add_done_callback(report)

    # ---- what the list asks ----

    @on(Sidebar.SearchTyped)
    def search(self, message: Sidebar.SearchTyped) -> None:
        """Search as it is typed."""
        self._query = message.query
        self.refresh_list()

    @on(Sidebar.Opened)
    def open(self, message: Sidebar.Opened) -> None:
        """Read it; the screen shows it."""
        if self.keeper is not None:
            self._then(self.keeper.read(message.id), ConversationRead)

    @on(Sidebar.Renamed)
    def rename(self, message: Sidebar.Renamed) -> None:
        """A title of the user's own."""
        if self.keeper is not None and message.title.strip():
            self.keeper.rename(message.id, message.title.strip())
            self.post_message(self.Renamed(message.id, message.title.strip()))
            self.refresh_list()

    @on(Sidebar.PinToggled)
    def pin(self, message: Sidebar.PinToggled) -> None:
        """To the top of the list, or back to its place."""
        pinned = not next((one.pinned for one in self.summaries if one.id == message.id), False)
        if self.keeper is not None:
            self.keeper.pin(message.id, pinned)
            self.post_message(self.Pinned(message.id, pinned))
            self.refresh_list()

    @on(Sidebar.Deleted)
    def delete(self, message: Sidebar.Deleted) -> None:
        """It can be taken back while the app is open."""
        if self.keeper is not None:
            self._deleted.append(message.id)
            self.keeper.delete(message.id)
            self.post_message(self.Gone(message.id))
            self.refresh_list()

    @on(Sidebar.UndoAsked)
    def undo(self) -> None:
        """Bring the last one that was deleted back."""
        if self.keeper is not None and self._deleted:
            self.keeper.restore(self._deleted.pop())
            self.refresh_list()
