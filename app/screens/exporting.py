"""A conversation as a file: as what, and where to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pardec_chat.app.lines import wrapped
from pardec_chat.app.messages import ErrandFailed, PathsFound
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import errand, path_entry, wording
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.file_entry import FileEntry, path_of
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.lines import Line

Kind = Literal["markdown", "json"]

_WRITING, _NOTHING = "Writing …", "Nothing begins like that."
_FOUND_LINES = 2
_NAME_WIDTH = 12


@dataclass(frozen=True, slots=True)
class _Format:
    kind: Kind
    name: str
    suffix: str
    what: str


_FORMATS = (
    _Format("markdown", "Markdown", ".md", "what is shown, to read and to paste"),
    _Format("json", "JSON", ".json", "all branches and figures, to import again"),
)


@dataclass
class FileWritten(Message):
    """The file is whole and at its place."""

    number: int
    path: Path


class ExportScreen(ModalScreen[Path | None]):
    """Gives the file that was written, or None.

    title: of the conversation. make: the text of the file; called on the UI thread. write: path, text, and whether a file
    that is there may be replaced; called on a thread of its own. Both raise UserError, `write` AlreadyThere for a file that
    may not. folder: where paths begin. file_name: the name of the file for a suffix, as `.md`.
    """

    CSS_PATH = "exporting.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", show=False, tooltip="Back, without a file", id="export-leave"),
        Binding("up", "move(-1)", show=False, tooltip="The format before", id="export-up"),
        Binding("down", "move(1)", show=False, tooltip="The next format", id="export-down"),
        Binding("y", "replace", "replace", show=False, tooltip="Replace the file that is there", id="export-replace"),
    ]

    def __init__(
        self,
        title: str,
        make: Callable[[Kind], str],
        write: Callable[[Path, str, bool], None],
        folder: Path,
        file_name: Callable[[str], str],
    ) -> None:
        super().__init__()
        self._title = title
        self._make = make
        self._write = write
        self._folder = folder
        self._file_name = file_name
        self._format = _FORMATS[0]
        #: Of the file that is being written; None while none is.
        self._number = 0
        self._writing: Path | None = None
        #: What is there already, while the user is asked whether it may go.
        self._there: Path | None = None
        self._written: Path | None = None
        self._found: tuple[str, ...] = ()
        self._said = ""

    def compose(self) -> ComposeResult:
        """Which conversation, as what, where to, what came of it, keys."""
        with Vertical(id="box"):
            yield Picture(id="title")
            formats = Choices()
            formats.can_focus = False
            yield formats
            with Horizontal(id="line"):
                yield Static("›", classes="glyph")
                yield FileEntry(self._folder, "a path")
            yield Picture(id="said")
            yield Static(id="foot")

    def on_mount(self) -> None:
        """Enter writes it at once, for those who agree with all."""
        title = visible_line(self._title) or "this conversation"
        self.query_one("#title", Picture).show(lambda width: [((_heading(title, width), "title"),)])
        self._choices.show([partial(_draw, one) for one in _FORMATS], 0)
        self._propose(self._format)
        self._entry.focus()
        self._draw()

    @property
    def _entry(self) -> FileEntry:
        return self.query_one(FileEntry)

    @property
    def _choices(self) -> Choices:
        return self.query_one(Choices)

    # ---- what is seen ----

    def _draw(self) -> None:
        if self._there is not None:
            text, keys = f"{visible_line(self._there.name)} is there already.", "y replace it · esc another name"
        elif self._writing is not None:
            text, keys = _WRITING, "esc back"
        else:
            text, keys = self._said, "enter write it · ↑↓ format · tab complete · esc back"
        role: Literal["text", "quiet"] = "text" if self._there is not None else "quiet"
        self.query_one("#said", Picture).show(lambda width: wrapped(text, width, role)[:_FOUND_LINES])
        self.query_one("#foot", Static).update(Content(keys))

    @on(Input.Changed)
    def narrow(self, message: Input.Changed) -> None:
        """Another path is another file; of what was found, what is still meant stays."""
        self._forget()
        found = [path for path in self._found if path.startswith(message.value)]
        self._say(visible_line(path_entry.listed(found)) if len(found) > 1 else "")

    @on(PathsFound)
    def list_paths(self, message: PathsFound) -> None:
        """What tab found, when it is more than one."""
        self._found = message.found
        listed = visible_line(path_entry.listed(message.found)) if len(message.found) > 1 else ""
        self._say(listed if message.found else _NOTHING)

    def _say(self, text: str) -> None:
        self._said = text
        self._draw()

    # ---- as what ----

    def action_move(self, by: int) -> None:
        """Another format."""
        if self._writing is None and self._there is None:
            self._choices.action_move(by)

    @on(Choices.Marked)
    def take_format(self, message: Choices.Marked) -> None:
        """By key or by mouse. The path gets the other suffix, unless the user has given it one of their own."""
        before, self._format = self._format, _FORMATS[message.index]
        if self._format is before:
            return
        typed = self._entry.value
        if typed == self._proposal(before):
            self._propose(self._format)
        elif typed.endswith(before.suffix):
            self._type(typed.removesuffix(before.suffix) + self._format.suffix)

    def _path(self, format_: _Format) -> Path:
        return self._folder / self._file_name(format_.suffix)

    def _proposal(self, format_: _Format) -> str:
        return visible_line(str(self._path(format_)))

    def _propose(self, format_: _Format) -> None:
        self._type(self._proposal(format_))

    def _type(self, path: str) -> None:
        self._entry.value = path
        self._entry.cursor_position = len(path)

    # ---- writing ----

    @on(Input.Submitted)
    def write(self) -> None:
        """Write it where there is nothing yet."""
        typed = self._entry.value.strip()
        if not typed or self._writing is not None or self._there is not None:
            return
        self._forget()
        try:
            # What is shown of a folder's odd name is not that name.
            proposed = typed == self._proposal(self._format).strip()
            self._begin(self._path(self._format) if proposed else path_of(typed, self._folder), over=False)
        except UserError as error:
            self._tell(error)

    def action_replace(self) -> None:
        """It may go."""
        if self._there is not None:
            path, self._there = self._there, None
            self._entry.focus()
            try:
                self._begin(path, over=True)
            except UserError as error:
                self._tell(error)

    def _begin(self, path: Path, *, over: bool) -> None:
        self._number += 1
        number, write, text = self._number, self._write, self._make(self._format.kind)

        def work() -> FileWritten:
            write(path, text, over)
            return FileWritten(number, path)

        self._writing, self._said = path, ""
        errand.run(self, "export", number, work)
        self._draw()

    @on(FileWritten)
    def finish(self, message: FileWritten) -> None:
        """It is there."""
        if message.number == self._number and self._writing is not None:
            self._written = message.path
            self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Leave as soon as no menu is open over this screen."""
        if self._written is not None and self.app.screen is self:
            written, self._written = self._written, None
            self.dismiss(written)

    @on(ErrandFailed)
    def take_error(self, message: ErrandFailed) -> None:
        """Ask whether what is there may go; tell of anything else."""
        from pardec_chat.app.conversations.export import AlreadyThere

        if message.errand != "export" or message.number != self._number or self._writing is None:
            return
        path, self._writing = self._writing, None
        if isinstance(message.error, AlreadyThere):
            self._there = path
            self.set_focus(None)  # y is a key now, and no letter of the path
            self._draw()
        else:
            self._tell(message.error)

    def _tell(self, error: BaseException) -> None:
        self.query_one("#box").mount(Note.of(error), before="#foot")
        self._draw()

    def _forget(self) -> None:
        self.query(Note).remove()
        self._there = None

    def action_leave(self) -> None:
        """No to the question; else back. A file that is being written will be there all the same."""
        if self._there is not None:
            self._there = None
            self._entry.focus()
            self._draw()
        else:
            self.dismiss(None)


def _heading(title: str, width: int) -> str:
    return f"Export “{wording.fit(title, width - cell_len('Export “”'))}”"


def _draw(one: _Format, width: int) -> list[Line]:
    return [((one.name.ljust(_NAME_WIDTH), "text"), (wording.fit(one.what, width - _NAME_WIDTH), "quiet"))]
