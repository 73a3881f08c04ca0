"""The list of conversations beside something to write into, on a store that is a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen

from pardec_chat.app.conversations.conversation import Summary
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.keys import Keys
from pardec_chat.app.widgets.sidebar import Sidebar

#: A Thursday.
NOW = datetime(2026, 3, 19, 15, 30)


def summary(
    id: str,  # noqa: A002  # the field's own name
    title: str = "",
    ago: timedelta | float = 0.0,
    *,
    pinned: bool = False,
    snippet: str = "",
) -> Summary:
    """A conversation of so long ago; a number counts hours."""
    ago = ago if isinstance(ago, timedelta) else timedelta(hours=ago)
    return Summary(id, title or id.title(), (NOW - ago).timestamp(), pinned, 4, snippet)


SOME = (
    summary("lists", "Merging lists", 1),
    summary("bicycle", "Bicycle advice for a wet autumn in the hills", 3),
    summary("library", "図書館の開館時間と休館日について", 5),
    summary("recipe", "Bread without kneading", 200, pinned=True),
    summary("csv", "CSV parser", 25),
    summary("brackets", "[/INST] a[0] [bold", 27),
    summary("monday", "Letters to a landlord", 74),
    summary("early", "Names for a small boat", timedelta(days=14)),
    summary("february", "Why the sky is blue", timedelta(days=30)),
    summary("last", "Tax return, second try", timedelta(days=110)),
    summary("old", "A first try", timedelta(days=900)),
)


class Bench(Screen[None]):
    """Keeps what the list says, and does it. over: the list takes the whole width, as on a narrow terminal."""

    CSS = """
    Bench { background: $background; }
    Bench #beside { padding: 0 1; }
    Bench .-hidden { display: none; }
    """

    def __init__(
        self, summaries: Iterable[Summary] = SOME, current: str | None = "lists", *, over: bool = False
    ) -> None:
        super().__init__()
        self.kept = {summary.id: summary for summary in summaries}
        self.current = current
        self.over = over
        self.query_text = ""
        self.now = NOW
        self.said: list[Message] = []
        self.deleted: list[Summary] = []
        #: Whether what the list says is done; else it is only kept.
        self.does = True

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Sidebar("^L", lambda: self.now, id="sidebar")
            with Vertical(id="beside"):
                yield Entry("the prompt", id="prompt")
        yield Keys({})

    def on_mount(self) -> None:
        self.sidebar.set_class(self.over, "-over")
        self.query_one("#beside").set_class(self.over, "-hidden")
        self.query_one("#prompt").focus()
        self.refill()

    @property
    def sidebar(self) -> Sidebar:
        return self.query_one(Sidebar)

    @property
    def opened(self) -> str | None:
        """What was opened last."""
        ids = [message.id for message in self.said if isinstance(message, Sidebar.Opened)]
        return ids[-1] if ids else None

    @property
    def marked(self) -> str | None:
        """The title of the marked one."""
        marked = self.sidebar.rows.summary
        return marked.title if marked is not None else None

    def refill(self) -> None:
        """Show what there is."""
        word = self.query_text.casefold()
        found = [
            replace(one, snippet=f"… and then about {self.query_text} in a long sentence that goes on for a while")
            for one in self.kept.values()
            if word in one.title.casefold()
        ]
        self.sidebar.show(found if word else list(self.kept.values()), self.current, bool(word))

    @on(Sidebar.SearchTyped)
    @on(Sidebar.Opened)
    @on(Sidebar.Renamed)
    @on(Sidebar.PinToggled)
    @on(Sidebar.Deleted)
    @on(Sidebar.UndoAsked)
    @on(Sidebar.NewAsked)
    @on(Sidebar.Left)
    def take(self, message: Message) -> None:
        self.said.append(message)
        if self.does:
            self._do(message)
            self.refill()

    def _do(self, message: Message) -> None:
        match message:
            case Sidebar.SearchTyped(query):
                self.query_text = query
            case Sidebar.Opened(id):
                self.current = id
            case Sidebar.Renamed(id, title):
                self.kept[id] = replace(self.kept[id], title=title)
            case Sidebar.PinToggled(id):
                self.kept[id] = replace(self.kept[id], pinned=not self.kept[id].pinned)
            case Sidebar.Deleted(id):
                self.deleted.append(self.kept.pop(id))
            case Sidebar.UndoAsked():
                back = self.deleted.pop()
                self.kept[back.id] = back
            case Sidebar.Left():
                self.query_one("#prompt").focus()
