"""Conversations from a file or a folder: what is in it, before any of it is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pardec_chat.app.lines import BLANK, Line, wrapped
from pardec_chat.app.messages import ErrandFailed, PathsFound
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import conversation_row, errand, path_entry, wording
from pardec_chat.app.widgets.cells import ends
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.file_entry import FileEntry, path_of
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.conversations.conversation import Conversation
    from pardec_chat.app.conversations.importing import Imported

_TITLE = "Import conversations"
_HOW = (
    "From pardec-chat's own files, from Open WebUI's export of chats, or from LM Studio's conversations: a .json file, or a "
    "folder of them."
)
_READING, _NOTHING = "Reading …", "Nothing begins like that."
_FOUND_LINES, _DETAIL_LINES = 4, 2


@dataclass
class FileLookedAt(Message):
    """What a file or a folder holds."""

    number: int
    imported: Imported


class ImportScreen(ModalScreen[int | None]):
    """Gives how many conversations were imported, or None.

    read: what a file or a folder holds; called on a thread of its own. take: keeps conversations; called on the UI thread.
    Both raise UserError. folder: where paths begin; None for the working folder.
    """

    CSS_PATH = "importing.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", show=False, tooltip="To the path; else back", id="import-leave"),
        # With priority, since a click on the marked row means the same as enter to the list, and is to take nothing.
        Binding("enter", "take", "import", show=False, priority=True, tooltip="Import them all", id="import-take"),
        Binding("tab,shift+tab", "other", show=False, tooltip="To the path or the list", id="import-other"),
    ]

    def __init__(
        self,
        read: Callable[[Path], Imported],
        take: Callable[[Sequence[Conversation]], None],
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self._read = read
        self._take = take
        self._folder = folder or Path.cwd()
        #: Of the file that was looked at last; what comes of others comes too late.
        self._number = 0
        self._reading = False
        self._imported: Imported | None = None
        self._found: tuple[str, ...] = ()
        self._said = ""

    def compose(self) -> ComposeResult:
        """From where, what is in it, what there is to say about the marked one, keys."""
        with Vertical(id="box"):
            yield Picture(id="title")
            with Horizontal(id="line"):
                yield Static("›", classes="glyph")
                yield FileEntry(self._folder, f"a path from {visible_line(str(self._folder))} on")
            yield Picture(id="said")
            yield Choices(click_takes=False)
            yield Picture(id="detail")
            yield Static(id="foot")

    def on_mount(self) -> None:
        """Ready to type, or to drop a file on."""
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
        imported = self._imported
        self.set_class(imported is not None, "-found")
        text = _READING if self._reading else self._said

        def lines(width: int) -> list[Line]:
            if imported is None:
                return wrapped(text, width, "quiet")[:_FOUND_LINES]
            return [((wording.fit(_summary(imported), width), "value"),)]

        # What is in the file needs the room.
        how = "" if imported is not None else _HOW
        self.query_one("#title", Picture).show(lambda width: [((_TITLE, "title"),), *wrapped(how, width, "quiet")])
        self.query_one("#said", Picture).show(lines)
        self._draw_keys()

    def _draw_keys(self) -> None:
        if self._imported is None:
            keys = "esc stop" if self._reading else "enter look at it · tab complete · esc back"
        elif self._choices.has_focus:
            n = len(self._imported.conversations)
            keys = f"enter import {'it' if n == 1 else f'all {n:,}'} · ↑↓ look · esc another path"
        else:
            keys = "tab to the list · esc back"
        self.query_one("#foot", Static).update(Content(keys))

    def on_descendant_focus(self) -> None:
        """Other keys mean something now."""
        self._draw_keys()

    @on(Choices.Marked)
    def _draw_detail(self) -> None:
        imported, marked = self._imported, self._choices.marked
        text = "" if imported is None or marked is None else _about(imported, marked)

        def lines(width: int) -> list[Line]:
            return (wrapped(text, width, "quiet") + [BLANK] * _DETAIL_LINES)[:_DETAIL_LINES]

        self.query_one("#detail", Picture).show(lines)

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
        listed = visible_line(path_entry.listed(message.found)) if len(message.found) > 1 else ""
        self._said = listed if message.found else _NOTHING
        self._draw()

    # ---- from path to conversations ----

    @on(Input.Submitted)
    def look(self, message: Input.Submitted) -> None:
        """What is in it?"""
        typed = message.value.strip()
        if typed and not self._reading:
            self._forget()
            number, read, folder = self._number, self._read, self._folder
            self._reading = True
            errand.run(self, "import", number, lambda: FileLookedAt(number, read(path_of(typed, folder))))
            self._draw()

    def _forget(self) -> None:
        """Begin anew."""
        self._number += 1
        self._reading, self._imported, self._said = False, None, ""
        self.query(Note).remove()

    @on(FileLookedAt)
    def show(self, message: FileLookedAt) -> None:
        """Here they are."""
        if message.number != self._number:
            return
        self._reading, imported = False, message.imported
        self._imported = imported
        now, kept, skipped = datetime.now(), imported.conversations, imported.skipped
        heads = {0: "To import"} if kept else {}
        if skipped:
            heads[len(kept)] = "Left behind"
        rows = [partial(_draw, one, now) for one in kept] + [partial(_draw_skipped, why) for why in skipped]
        self._choices.show(rows, 0, heads=heads, heights=[1] * len(rows))
        self._draw()
        self._draw_detail()
        self._choices.focus()

    @on(ErrandFailed)
    def tell_failed(self, message: ErrandFailed) -> None:
        """Why it cannot be read."""
        if message.errand == "import" and message.number == self._number:
            self._forget()
            self._tell(message.error)

    def _tell(self, error: BaseException) -> None:
        self.query(Note).remove()
        self.query_one("#box").mount(Note.of(error), before="#foot")
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the path has the keys, enter and tab are about it."""
        if action == "take":
            return self._choices.has_focus
        return action != "other" or self._imported is not None

    def action_take(self) -> None:
        """All of them."""
        imported = self._imported
        if imported is None or not imported.conversations:
            return
        try:
            self._take(imported.conversations)
        except UserError as error:
            self._tell(error)
        else:
            self.dismiss(len(imported.conversations))

    def action_other(self) -> None:
        """From the path to the list, and back."""
        (self._entry if self._choices.has_focus else self._choices).focus()

    def action_leave(self) -> None:
        """From the list, or from a file that takes long, to the path; else back."""
        if self._reading or self._choices.has_focus:
            self._forget()
            self._entry.focus()
            self._draw()
        else:
            self.dismiss(None)


def _summary(imported: Imported) -> str:
    n, left = len(imported.conversations), len(imported.skipped)
    source = visible_line(imported.source)
    text = f"{n:,} conversation{'' if n == 1 else 's'}" + (f" from {source}" if source else "")
    return text + (f" · {left:,} thing{'' if left == 1 else 's'} left behind" if left else "")


def _about(imported: Imported, row: int) -> str:
    """What there is to say about a row."""
    kept = imported.conversations
    if row >= len(kept):
        return visible_line(imported.skipped[row - len(kept)]) if row - len(kept) < len(imported.skipped) else ""
    first = next((visible_line(node.text) for node in kept[row].nodes.values() if node.text.strip()), "")
    return f"“{first[:200]}”" if first else "No message in it."


def _draw(conversation: Conversation, now: datetime, width: int) -> list[Line]:
    n = len(conversation.nodes)
    facts = f"{n:,} message{'' if n == 1 else 's'}  {conversation_row.when(conversation.updated, now):>11}"
    title, right = ends(visible_line(conversation.title) or conversation_row.UNTITLED, facts, width)
    return [((title, "text"), (right, "quiet"))]


def _draw_skipped(why: str, width: int) -> list[Line]:
    return [((wording.fit(visible_line(why), width), "quiet"),)]
