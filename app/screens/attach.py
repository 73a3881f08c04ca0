"""A text file that goes with the next message: found, read, and measured against the room there is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pardec_chat.app.conversations.conversation import Attachment
from pardec_chat.app.lines import Line, wrapped
from pardec_chat.app.messages import ErrandFailed, PathsFound, post
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import errand, path_entry, wording
from pardec_chat.app.widgets.file_entry import FileEntry, path_of
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.errors import UserError

_TITLE = "Attach a text file"
_HOW = "It goes with the next message; the model reads all of it."
_READING, _COUNTING, _NOTHING = "Reading …", "Counting its tokens …", "Nothing begins like that."
_FOUND_LINES = 4


@dataclass
class FileRead(Message):
    """The file is text, and here it is."""

    number: int
    attachment: Attachment


@dataclass
class TokensCounted(Message):
    """n: None where they could not be counted, for the reason `error`."""

    number: int
    n: int | None
    error: BaseException | None = None


class AttachScreen(ModalScreen[Attachment | None]):
    """Gives the file with its tokens counted where they could be, or None.

    read: makes an attachment of a file, on a thread of its own; raises UserError. count: the tokens of a text; the future
    may fail, as without a model. room: tokens that are free. folder: where paths begin.
    """

    CSS_PATH = "attach.tcss"
    AUTO_FOCUS = "FileEntry"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", tooltip="Back, without a file", show=False, id="attach-leave")
    ]

    def __init__(
        self, read: Callable[[Path], Attachment], count: Callable[[str], Future[int]], room: int, folder: Path
    ) -> None:
        super().__init__()
        self._read = read
        self._count = count
        self._room = max(0, room)
        self._folder = folder
        #: Of the file that was read last; what comes of others comes too late.
        self._number = 0
        self._reading = False
        self._attachment: Attachment | None = None
        self._counting: Future[int] | None = None
        self._uncounted = ""
        self._found: tuple[str, ...] = ()
        self._said = ""

    # ---- what is seen ----

    def compose(self) -> ComposeResult:
        """What it is for, the path, the file, keys."""
        with Vertical(id="box"):
            yield Picture(id="title")
            with Horizontal(id="line"):
                yield Static("›", classes="glyph")
                yield FileEntry(self._folder, f"a path from {visible_line(str(self._folder))} on")
            yield Picture(id="file")
            yield Static(id="foot")

    def on_mount(self) -> None:
        """Ready to type, or to drop a file on."""
        self.query_one("#title", Picture).show(lambda width: [((_TITLE, "title"),), *wrapped(_HOW, width, "quiet")])
        self._draw()

    def on_unmount(self) -> None:
        """Nobody waits for the count any more."""
        if self._counting is not None:
            self._counting.cancel()

    @property
    def _fits(self) -> bool:
        """Whether enter attaches it."""
        attachment = self._attachment
        if attachment is None or self._counting is not None:
            return False
        return attachment.n_tokens is None or attachment.n_tokens <= self._room

    def _draw(self) -> None:
        self.query_one("#file", Picture).show(self._lines)
        look = "" if self._attachment is not None or self._reading else "enter look at it · "
        keys = f"{'enter attach · ' if self._fits else look}tab complete · esc back"
        self.query_one("#foot", Static).update(Content(keys))

    def _lines(self, width: int) -> list[Line]:
        attachment = self._attachment
        if attachment is None:
            text = _READING if self._reading else self._said
            return wrapped(text, width, "quiet")[:_FOUND_LINES]
        name, facts = visible_line(attachment.name), f"   {_size(attachment.text)} · {_n_lines(attachment.text)}"
        first: Line = ((wording.fit(name, width - len(facts)), "value"), (facts, "quiet"))
        return [first, *wrapped(self._verdict(attachment.n_tokens), width)]

    def _verdict(self, n: int | None) -> str:
        if self._counting is not None:
            return _COUNTING
        if n is None:
            return f"How many tokens it has is not known: {self._uncounted}"
        if n <= self._room:
            return f"{n:,} tokens of {self._room:,} that are free"
        return f"It does not fit: {n:,} tokens, {self._room:,} are free, {n - self._room:,} too many."

    # ---- from path to file ----

    @on(Input.Submitted)
    def take(self, message: Input.Submitted) -> None:
        """Attach what was looked at, else look."""
        if self._fits:
            self.dismiss(self._attachment)
        elif self._attachment is None and not self._reading and message.value.strip():
            self._look(message.value)

    def _look(self, typed: str) -> None:
        number, read, folder = self._forget(), self._read, self._folder
        errand.run(self, "read", number, lambda: FileRead(number, read(path_of(typed, folder))))
        self._reading = True
        self._draw()

    def _forget(self) -> int:
        """Begin anew; the number of the next file."""
        self._number += 1
        if self._counting is not None:
            self._counting.cancel()
        self._reading, self._attachment, self._counting, self._uncounted, self._said = False, None, None, "", ""
        self.query(Note).remove()
        self.remove_class("-failed")
        return self._number

    @on(Input.Changed)
    def narrow(self, message: Input.Changed) -> None:
        """Another path is another file; of what was found, what is still meant stays."""
        self._forget()
        found = [path for path in self._found if path.startswith(message.value)]
        self._said = visible_line(path_entry.listed(found)) if len(found) > 1 else ""
        self._draw()

    @on(PathsFound)
    def list_paths(self, message: PathsFound) -> None:
        """What tab found, when it is more than one."""
        self._found = message.found
        if self._attachment is None:
            self._said = visible_line(path_entry.listed(message.found)) if len(message.found) > 1 else ""
            self._said = self._said if message.found else _NOTHING
            self._draw()

    @on(FileRead)
    def count(self, message: FileRead) -> None:
        """How much of the context does it take?"""
        if message.number != self._number:
            return
        number, attachment = message.number, message.attachment
        self._reading, self._attachment = False, attachment
        try:
            self._counting = self._count(attachment.text)
        except UserError as error:
            self.take_count(TokensCounted(number, None, error))
            return
        self._counting.add_done_callback(lambda future: post(self, _counted(number, future)))
        self._draw()

    @on(TokensCounted)
    def take_count(self, message: TokensCounted) -> None:
        """So much, or nobody knows."""
        if message.number != self._number or self._attachment is None:
            return
        self._counting = None
        self._attachment = replace(self._attachment, n_tokens=message.n)
        self._uncounted = _reason(message.error)
        self._draw()

    @on(ErrandFailed)
    def tell(self, message: ErrandFailed) -> None:
        """Why it cannot be read."""
        if message.errand == "read" and message.number == self._number:
            self._forget()
            self.query_one("#box").mount(Note.of(message.error), before="#foot")
            self.add_class("-failed")
            self._draw()

    def action_leave(self) -> None:
        """Without a file."""
        self.dismiss(None)


def _counted(number: int, future: Future[int]) -> TokensCounted:
    try:
        return TokensCounted(number, future.result())
    except (Exception, CancelledError) as error:  # noqa: BLE001  # the file can be attached all the same
        return TokensCounted(number, None, error)


def _reason(error: BaseException | None) -> str:
    what = error.what if isinstance(error, UserError) else "they could not be counted."
    return visible_line(what)


def _size(text: str) -> str:
    n = len(text.encode("utf-8", "surrogatepass"))
    if n >= 1e6:
        return wording.size(n)
    return f"{n / 1e3:,.0f} kB" if n >= 10_000 else f"{n:,} byte{'s' * (n != 1)}"


def _n_lines(text: str) -> str:
    n = len(text.splitlines())
    return f"{n:,} line{'s' * (n != 1)}"
