"""From no model to one that answers: what this machine is good for, and three ways to something else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Input, Static

from pardec_chat.app.lines import BLANK, Line, wrapped
from pardec_chat.app.messages import ErrandFailed, FileAdded, FilesNeeded, MachineSeen, PathsFound
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.browse import BrowseScreen
from pardec_chat.app.screens.downloads import Chosen, DownloadsScreen, WizardLike, needed, tell_errors
from pardec_chat.app.screens.repository import RepositoryScreen
from pardec_chat.app.widgets import download_row, errand, path_entry, proposal_row, wording
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.download_watch import DownloadWatch
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.path_entry import PathEntry
from pardec_chat.app.widgets.picture import Picture

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.fit import Proposal
    from pardec_chat.app.downloads.queue import Item
    from pardec_chat.app.widgets.choices import Draw

__all__ = ["Chosen", "WizardLike", "WizardScreen"]

_NO_MODEL, _CHOOSE = "No model here yet.", "Choose a model."
_LOOKING = "Looking at this machine …"
_NOTHING_FITS = "Nothing in the catalogue fits this machine."
_BY_ITSELF = "The chat begins by itself when all is here."
_LINKS = (
    ("Browse all models…", "search them, see what fits with which context"),
    ("Type a Hub repository…", "GGUF files of anybody on the Hugging Face Hub"),
    ("I have a file…", "a .gguf file on this disk; it stays where it is"),
    ("Downloads…", ""),
)
_FOUND_LINES = 6
_FILE = "The path of a .gguf file. It is listed from then on and stays where it is."
_KEYS = {
    "choice": "↑↓ move · enter take · esc {leave}",
    "fetch": "p {pause} · x cancel · esc back{goes_on}",
    "file": "tab complete · enter take · esc back",
}


class WizardScreen(ModalScreen[Chosen | None]):
    """Gives what is to be loaded, or None when it was left. first: nobody has chosen a model here yet."""

    CSS_PATH = "wizard.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False),
        Binding("p", "pause", "Pause or go on", show=False),
        Binding("x", "cancel", "Cancel", show=False),
        Binding("enter", "start", "Start without the draft", show=False),
    ]

    def __init__(self, wizard: WizardLike, first: bool = False) -> None:
        super().__init__()
        self._wizard = wizard
        self._first = first
        self._errands: Counter[str] = Counter()
        self._found: tuple[str, ...] = ()
        self._machine = ""
        self._proposals: tuple[Proposal, ...] | None = None
        #: The proposal that is being fetched, what of it was missing, and what it comes to.
        self._fetching: Proposal | None = None
        self._missing: tuple[Model, ...] = ()
        self._chosen: Chosen | None = None
        self._watch = DownloadWatch(self, wizard.downloads, self._follow)

    # ---- what is seen ----

    def compose(self) -> ComposeResult:
        """What machine this is; the choices, a download or a path; keys."""
        yield Picture(id="head")
        with ContentSwitcher(initial="choice"):
            with Vertical(id="choice"):
                yield Choices()
                yield Picture(id="going")
            with VerticalScroll(id="fetch", can_focus=True):
                yield Picture(id="progress")
            with Vertical(id="file"):
                yield Picture(id="what")
                with Horizontal(id="line"):
                    yield Static("›", classes="glyph")
                    yield PathEntry("/path/to/a/model.gguf")
                yield Picture(id="found")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Look at the machine, away from the screen."""
        self.query_one("#what", Picture).show(lambda width: wrapped(_FILE, width))
        self._show("choice")
        self._watch.start()
        self._propose()
        self._draw_head()

    def on_screen_suspend(self) -> None:
        """Something lies over it."""
        self._watch.stop()

    def on_screen_resume(self) -> None:
        """It is seen again: what has come in the meantime counts."""
        self._watch.start()
        self._end_when_all_is_here()

    @property
    def _view(self) -> str:
        return self.query_one(ContentSwitcher).current or ""

    @property
    def _choices(self) -> Choices:
        return self.query_one("#choice Choices", Choices)

    @property
    def _entry(self) -> PathEntry:
        return self.query_one(PathEntry)

    def _show(self, view: str) -> None:
        self.query_one(ContentSwitcher).current = view
        self.query("Note").remove()
        # Of the others there may be nothing yet when the screen comes up.
        self.query_one({"choice": "#choice Choices", "fetch": "#fetch", "file": "PathEntry"}[view]).focus()
        self._draw()

    def _draw_head(self) -> None:
        title = _NO_MODEL if self._first else _CHOOSE
        machine = f"This machine: {visible_line(self._machine)}." if self._machine else ""
        machine = machine or (_LOOKING if self._proposals is None else "")
        self.query_one("#head", Picture).show(lambda width: _heading(title, machine, width))

    def _draw(self) -> None:
        if self._view == "fetch":
            self._draw_fetch()
        elif self._view == "choice":
            self._draw_choices()
        running = any(item.state in download_row.RUNNING for item in self._own_items())
        pause = "pause" if running else "go on"
        if self._view == "fetch" and self._may_start:
            pause += " · enter chat without the draft"
        goes_on, leave = ", it goes on" if running else "", "later" if self._first else "back"
        keys = _KEYS[self._view].format(pause=pause, goes_on=goes_on, leave=leave)
        self.query_one("#foot", Static).update(Content(keys))

    def _draw_choices(self) -> None:
        if self._proposals is None:
            return
        rows: list[Draw] = []
        for proposal in self._proposals:
            percent = self._percent(proposal)
            rows.append(lambda width, p=proposal, n=percent: proposal_row.draw(p, width, n))  # type: ignore[misc]
        gaps = range(len(rows))
        for title, what in _LINKS[: len(_LINKS) if self._watch.items else -1]:
            text = what or _counted(self._watch.items)
            rows.append(lambda width, t=title, w=text: proposal_row.link(t, w, width))  # type: ignore[misc]
        going = self._going
        self._choices.show(rows, gaps=gaps)
        self.query_one("#going", Picture).show(lambda width: [((wording.fit(going, width), "quiet"),)])

    @property
    def _going(self) -> str:
        """The download that goes on behind the choice, in a line."""
        proposal = self._fetching
        if proposal is None or not self._missing:
            return _NOTHING_FITS if self._machine and not self._proposals else ""
        name = visible_line(proposal.models[0].name)
        items = self._own_items()
        if all(item.state == "done" for item in items):
            return f"{name} is here: enter on it starts the chat."
        if any(item.state in download_row.RUNNING for item in items):
            return f"Still fetching {name}, {self._percent(proposal)} %. Enter on it shows how far."
        return f"The download of {name} stands still. Enter on it goes on."

    def _percent(self, proposal: Proposal) -> int | None:
        """How much of the proposal that is being fetched is here; None for the others."""
        if self._fetching is None or proposal.kind != self._fetching.kind or not self._missing:
            return None
        to_come = sum(item.model.size - item.have for item in self._own_items())
        whole = sum(model.size for model in proposal.models)
        return (whole - to_come) * 100 // whole

    def _draw_fetch(self) -> None:
        proposal, items, may_start = self._fetching, self._own_items(), self._may_start
        if proposal is None:
            return
        title = visible_line(proposal.title)

        def lines(width: int) -> list[Line]:
            width = min(width, 110)
            drawn: list[Line] = [((title, "title"),), BLANK]
            for item in items:
                drawn += [*download_row.draw(item, width), *_about(item, width), BLANK]
            last = f"Enter starts the chat without {visible_line(proposal.models[1].name)}." if may_start else ""
            return [*drawn, *wrapped(last or _BY_ITSELF, width, "quiet")]

        self.query_one("#progress", Picture).show(lines)

    # ---- the proposals ----

    def _begin(self, name: str) -> int:
        """The number of an errand; what earlier ones of the same name bring comes too late."""
        self._errands[name] += 1
        return self._errands[name]

    def _propose(self) -> None:
        number, wizard = self._begin("propose"), self._wizard
        errand.run(self, "propose", number, lambda: MachineSeen(number, wizard.machine.described(), wizard.proposals()))

    @on(MachineSeen)
    def take_proposals(self, message: MachineSeen) -> None:
        """Here is what to choose from."""
        if message.number == self._errands["propose"]:
            self._machine, self._proposals = message.machine, message.proposals
            self._draw_head()
            self._draw()

    @on(Choices.Taken)
    def take(self, message: Choices.Taken) -> None:
        """Fetch a proposal, or go where a line leads."""
        proposals = self._proposals or ()
        if message.index < len(proposals):
            self._take_proposal(proposals[message.index])
            return
        way = message.index - len(proposals)
        if way == 2:
            self._show("file")
        else:
            screens = (BrowseScreen, RepositoryScreen, None, DownloadsScreen)
            screen = screens[way]
            assert screen is not None
            self.app.push_screen(screen(self._wizard), self._come_back)

    def _come_back(self, chosen: Chosen | None) -> None:
        if chosen is not None:
            self.dismiss(chosen)
        else:
            self._propose()  # more may be here than before

    # ---- fetching ----

    def _take_proposal(self, proposal: Proposal) -> None:
        number, wizard = self._begin("fetch"), self._wizard
        self._fetching, self._missing, self._chosen = proposal, (), None

        def work() -> FilesNeeded:
            found = needed(wizard, number, proposal.models)
            if found.missing:
                wizard.downloads.start(found.missing)
            return found

        errand.run(self, "fetch", number, work)

    @on(FilesNeeded)
    def follow_or_leave(self, message: FilesNeeded) -> None:
        """All is here, or it begins to come."""
        if message.number != self._errands["fetch"] or self._fetching is None or self._view == "file":
            return
        self._chosen, self._missing = message.chosen, message.missing
        self._watch.look()
        self._show("fetch")
        self._end_when_all_is_here()

    def _follow(self) -> None:
        if self.is_mounted:
            self._draw()
            self._end_when_all_is_here()

    def _own_items(self) -> list[Item]:
        found = [self._watch.item(model.id) for model in self._missing]
        return [item for item in found if item is not None]

    def _end_when_all_is_here(self) -> None:
        if self._chosen is None or self.app.screen is not self:
            return
        items = self._own_items()
        if len(items) < len(self._missing):
            # Called off on the screen of all downloads.
            self._forget()
            if self._view == "fetch":
                self._show("choice")
            else:
                self._draw()
        elif all(item.state == "done" for item in items):
            chosen, self._chosen = self._chosen, None
            if self._view == "fetch":
                self.dismiss(chosen)
            else:
                self._propose()

    @property
    def _may_start(self) -> bool:
        """Whether the target is here, and only what guesses for it is to come."""
        proposal = self._fetching
        if proposal is None or self._chosen is None or len(proposal.models) < 2:
            return False
        target = self._watch.item(proposal.models[0].id)
        return proposal.models[0] not in self._missing or (target is not None and target.state == "done")

    def action_start(self) -> None:
        """Chat with the target alone, while its draft is still to come."""
        if self._view == "fetch" and self._may_start:
            assert self._chosen is not None
            self.dismiss(Chosen(self._chosen.model))

    def action_pause(self) -> None:
        """Pause what is being fetched, or go on."""
        if self._view != "fetch":
            return
        downloads, items = self._wizard.downloads, self._own_items()
        running = [item for item in items if item.state in download_row.RUNNING]

        def change() -> None:
            for item in running:
                downloads.pause(item.model.id)
            if not running:
                downloads.start([item.model for item in items if item.state != "done"])

        tell_errors(self, change)
        self._watch.look()

    def action_cancel(self) -> None:
        """Call off what is being fetched; what came is kept."""
        if self._view != "fetch":
            return
        downloads = self._wizard.downloads
        for item in self._own_items():
            if item.state != "done":
                tell_errors(self, lambda item=item: downloads.cancel(item.model.id))  # type: ignore[misc]
        self._forget()
        self._watch.look()
        self._show("choice")
        self._propose()

    def _forget(self) -> None:
        self._fetching, self._missing, self._chosen = None, (), None

    # ---- a file ----

    @on(PathsFound)
    def list_paths(self, message: PathsFound) -> None:
        """What Tab found, when it is more than one."""
        self._found = message.found
        self._show_found("" if message.found else "Nothing begins like that.")

    @on(Input.Changed)
    def narrow(self) -> None:
        """What was found and is still meant."""
        self.query("Note").remove()
        self._show_found()

    def _show_found(self, instead: str = "") -> None:
        found = [path for path in self._found if path.startswith(self._entry.value)]
        text = path_entry.listed(found) if len(found) > 1 else instead
        self.query_one("#found", Picture).show(lambda width: wrapped(text, width, "quiet")[:_FOUND_LINES])

    @on(Input.Submitted)
    def add(self, message: Input.Submitted) -> None:
        """List the file, and take it."""
        typed = message.value.strip()
        if not typed:
            return
        number, wizard = self._begin("add"), self._wizard
        errand.run(self, "add", number, lambda: FileAdded(number, wizard.add(Path(typed)).path))

    @on(FileAdded)
    def take_file(self, message: FileAdded) -> None:
        """It is one."""
        if message.number == self._errands["add"] and self._view == "file" and self.app.screen is self:
            self.dismiss(Chosen(message.path))

    # ---- errors, and the way back ----

    @on(ErrandFailed)
    def tell(self, message: ErrandFailed) -> None:
        """Say it where the eyes are; the other ways stay open."""
        if message.number != self._errands[message.errand]:
            return
        if message.errand == "fetch":
            self._forget()
        if message.errand == "propose" and self._proposals is None:
            self._proposals = ()
            self._draw_head()
            self._draw()
        self.query("Note").remove()
        where = {"choice": "#choice", "fetch": "#fetch", "file": "#file"}[self._view]
        self.query_one(where).mount(Note.of(message.error))

    def action_leave(self) -> None:
        """Back to the choice, or away; a download goes on."""
        if self._view == "choice":
            self.dismiss(None)
        else:
            self._begin("add")
            self._show("choice")


def _heading(title: str, machine: str, width: int) -> list[Line]:
    if cell_len(title) + 1 + cell_len(machine) <= width:
        return [((title, "title"), (f" {machine}", "text"))]
    return [((title, "title"),), *wrapped(machine, width)]


def _counted(items: tuple[Item, ...]) -> str:
    running = sum(item.state in download_row.RUNNING for item in items)
    return f"{len(items)} listed, {running} on the way" if running else f"{len(items)} listed"


def _about(item: Item, width: int) -> list[Line]:
    if item.error is not None:
        what, next_step = visible_line(item.error.what), visible_line(item.error.next_step)
        return [*wrapped(f"Error: {what}", width, "value"), *wrapped(next_step, width, "quiet")]
    return wrapped(visible_line(item.note), width, "quiet")
