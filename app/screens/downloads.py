"""All downloads, one row a file; and what the screens of the wizard ask the wizard for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.lines import BLANK, Line, wrapped
from pardec_chat.app.messages import ErrandFailed, FilesNeeded
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import download_row, errand, wording
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.download_watch import DownloadsLike, DownloadWatch
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from textual.widget import Widget

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.fit import Proposal
    from pardec_chat.app.downloads.library import Entry
    from pardec_chat.app.downloads.queue import Item
    from pardec_chat.app.downloads.repository import Offer, Repository
    from pardec_chat.app.downloads.waiting import Cancel
    from pardec_chat.app.downloads.wizard import Row
    from pardec_chat.backends.machine import Machine

NOTHING = "Nothing is being fetched."
_TITLE = "Downloads"
_DETAIL_LINES = 4
_ORDER = ("downloading", "asking", "verifying", "waiting", "paused", "failed", "done")
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})(.*)")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the user wants to chat with: files on this disk."""

    model: Path
    draft: Path | None = None


class WizardLike(Protocol):
    """The part of `Wizard` that the screens use. All but `downloads` may take a while."""

    @property
    def downloads(self) -> DownloadsLike:
        """Looks after its own threads."""

    @property
    def machine(self) -> Machine:
        """See `Wizard.machine`."""

    def proposals(self) -> tuple[Proposal, ...]:
        """See `Wizard.proposals`."""

    def rows(self, n_ctx: int = 4096, /) -> tuple[Row, ...]:
        """See `Wizard.rows`."""

    def look(self, repo: str, cancel: Cancel, /) -> Repository:
        """See `Wizard.look`."""

    def offered(self, repository: Repository, offer: Offer, /) -> tuple[Model, ...]:
        """See `Wizard.offered`."""

    def path(self, model: Model, /) -> Path:
        """See `Wizard.path`."""

    def add(self, path: Path, /) -> Entry:
        """See `Wizard.add`."""

    def login(self, token: str, /) -> str:
        """See `Wizard.login`."""


class DownloadsScreen(ModalScreen[Chosen | None]):
    """Gives what was chosen of what has come. The downloads go on when it is left. first: the id to begin at."""

    CSS_PATH = ["wizard.tcss", "downloads.tcss"]  # noqa: RUF012  # the name and the kind are Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False),
        Binding("p", "pause", "Pause or go on", show=False),
        Binding("x", "cancel", "Cancel", show=False),
    ]

    def __init__(self, wizard: WizardLike, first: str = "") -> None:
        super().__init__()
        self._wizard = wizard
        self._first = first
        self._number = 0
        self._said = ""
        self._watch = DownloadWatch(self, wizard.downloads, self._draw)

    def compose(self) -> ComposeResult:
        """What goes on in all, the rows, what there is to say about the marked one, keys."""
        yield Picture(id="head")
        yield Choices(click_takes=False)
        yield Picture(id="detail")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Begin at what was asked for."""
        self._choices.focus()
        self._watch.start()
        ids = [item.model.id for item in self._watch.items]
        self._choices.marked = ids.index(self._first) if self._first in ids else 0 if ids else None
        self._draw()

    def on_screen_suspend(self) -> None:
        """Something lies over it."""
        self._watch.stop()

    def on_screen_resume(self) -> None:
        """It is seen again."""
        self._watch.start()

    @property
    def _choices(self) -> Choices:
        return self.query_one(Choices)

    @property
    def _item(self) -> Item | None:
        marked, items = self._choices.marked, self._watch.items
        return items[marked] if marked is not None and marked < len(items) else None

    # ---- what is seen ----

    def _draw(self) -> None:
        if not self.is_mounted:
            return
        items = self._watch.items
        self.query_one("#head", Picture).show(lambda width: [_heading(items, width)])
        rows = [lambda width, item=item: download_row.draw(item, width) for item in items]
        narrow = self.size.width - 6 < download_row.ONE_LINE
        self._choices.show(rows, gaps=range(len(rows)) if narrow else ())
        self._draw_detail()

    def on_resize(self) -> None:
        """There may be room for more."""
        self._draw()

    @on(Choices.Marked)
    def _draw_detail(self) -> None:
        item, said = self._item, self._said

        def lines(width: int) -> list[Line]:
            drawn = wrapped(said, width, "quiet") if said else []
            drawn += wrapped(NOTHING, width) if item is None else _about(item, width)
            return (drawn + [BLANK] * _DETAIL_LINES)[:_DETAIL_LINES]

        self.query_one("#detail", Picture).show(lines)
        self.query_one("#foot", Static).update(Content(_keys(item, self._watch.items)))

    # ---- what keys do ----

    def action_pause(self) -> None:
        """Pause the marked one, or go on with it."""
        if (item := self._item) is not None:
            self._said = ""
            if item.state in download_row.RUNNING:
                self._do(lambda: self._wizard.downloads.pause(item.model.id))
            elif item.state != "done":
                self._do(lambda: self._wizard.downloads.start([item.model]))

    def action_cancel(self) -> None:
        """Call the marked one off; the others go on."""
        item = self._item
        if item is not None and item.state != "done":
            self._said = f"Cancelled: {visible_line(item.model.name)}. What came of it is kept."
            self._do(lambda: self._wizard.downloads.cancel(item.model.id))

    def _do(self, change: Callable[[], None]) -> None:
        tell_errors(self, change)
        self._watch.look()
        self._draw_detail()

    @on(Choices.Taken)
    def _take(self) -> None:
        item = self._item
        if item is None:
            return
        if item.state != "done":
            if item.state not in download_row.RUNNING:
                self.action_pause()
            return
        first = first_part(item.model, [other.model for other in self._watch.items if other.state == "done"])
        if first is None:
            self.notify("The other parts of this model are still to come.", markup=False)
            return
        self._number += 1
        number, wizard = self._number, self._wizard
        errand.run(self, "choose", number, lambda: FilesNeeded(number, (), _with_draft(wizard, first)))

    @on(FilesNeeded)
    def _finish(self, message: FilesNeeded) -> None:
        if message.number == self._number and self.app.screen is self:
            self.dismiss(message.chosen)

    @on(ErrandFailed)
    def _tell(self, message: ErrandFailed) -> None:
        notify_error(self, message.error)

    def action_leave(self) -> None:
        """Back; the downloads go on."""
        self.dismiss(None)


def needed(wizard: WizardLike, number: int, models: Sequence[Model]) -> FilesNeeded:
    """What of a target and its draft is not here yet; takes a while."""
    paths = [wizard.path(model) for model in models]
    missing = tuple(model for model, path in zip(models, paths, strict=True) if not _is_here(path, model.size))
    return FilesNeeded(number, missing, Chosen(*paths[:2]))


def tell_errors(screen: Widget, change: Callable[[], None]) -> bool:
    """Do it; an error is told. Says whether it went well."""
    try:
        change()
    except UserError as error:
        notify_error(screen, error)
        return False
    return True


def notify_error(screen: Widget, error: BaseException) -> None:
    """Tell of an error over a screen that stays as it is."""
    text = str(error) if isinstance(error, UserError) else f"A fault of this program: {type(error).__name__}."
    screen.notify(visible_line(text), severity="error", markup=False)


def first_part(model: Model, here: Sequence[Model]) -> Model | None:
    """The part that a split model is loaded by, when all parts are among `here`; a whole model is its only part."""
    part = _PART.fullmatch(model.id)
    if part is None:
        return model
    matches = [(other, _PART.fullmatch(other.id)) for other in here]
    parts = {match[2]: other for other, match in matches if match and match.group(1, 3, 4) == part.group(1, 3, 4)}
    return min(parts.items())[1] if len(parts) == int(part[3]) else None


def _is_here(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _with_draft(wizard: WizardLike, model: Model) -> Chosen:
    """A model with the smallest of its drafts that is on this disk; takes a while."""
    path = wizard.path(model)
    if not model.drafts:
        return Chosen(path)
    here = {row.entry.id: row.entry for row in wizard.rows() if row.entry.state == "on disk"}
    drafts = [here[draft] for draft in model.drafts if draft in here]
    return Chosen(path, min(drafts, key=lambda entry: entry.size).path if drafts else None)


def _heading(items: Sequence[Item], width: int) -> Line:
    counts = [(state, sum(item.state == state for item in items)) for state in _ORDER]
    text = ", ".join(f"{n} {state}" for state, n in counts if n)
    return (_TITLE, "title"), (wording.fit(f"   {text}", width - len(_TITLE)), "quiet")


def _about(item: Item, width: int) -> list[Line]:
    if item.error is None:
        return wrapped(visible_line(item.note), width, "quiet") if item.note else []
    next_step = wrapped(visible_line(item.error.next_step), width, "quiet")
    what = wrapped(f"Error: {visible_line(item.error.what)}", width, "value")
    if len(what) + len(next_step) > _DETAIL_LINES:
        # The next step is worth more than the end of a long complaint.
        what = what[: max(1, _DETAIL_LINES - len(next_step))]
        what[-1] = (*what[-1], (" …", "value"))
    return [*what, *next_step]


def _keys(item: Item | None, items: Sequence[Item]) -> str:
    own = {
        "done": "enter chat with it",
        "paused": "p go on · x cancel",
        "failed": "p try again · x cancel",
    }
    keys = f"↑↓ move · {own.get(item.state, 'p pause · x cancel')} · " if item is not None else ""
    running = any(one.state in download_row.RUNNING for one in items)
    return f"{keys}esc back{', downloads go on' if running else ''}"
