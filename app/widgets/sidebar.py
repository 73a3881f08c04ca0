"""The conversations at the left of the chat: a search, the list, and what its keys do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import sidebar_words
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.conversation_list import ConversationList
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.picture import Picture

if TYPE_CHECKING:
    from pardec_chat.app.conversations.conversation import Summary
    from pardec_chat.app.lines import Line

#: From this width on the keys have room on one line; below this height they get no more.
_BROAD, _HIGH = 64, 16


class Sidebar(Vertical):
    """Shows what `show` was given and says what the user wants as messages; it changes no conversation itself.

    Class `-over`: it takes the whole width, where there is none for the chat beside it. hint: the key that leads here.
    clock: the time now, naive, in local time.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "rename", "rename", tooltip="Give the marked conversation another title", id="list-rename"),
        Binding("p", "pin", "pin", tooltip="Keep the marked conversation at the top, or no longer", id="list-pin"),
        Binding("d,delete", "delete", "delete", tooltip="Delete the marked conversation; u undoes", id="list-delete"),
        Binding("u", "undo", "undo", tooltip="Bring back what was deleted last", id="list-undo"),
        Binding("slash", "search", "search", key_display="/", tooltip="Search titles and messages", id="list-search"),
        Binding("n", "new", "new", tooltip="A new conversation", id="list-new"),
        Binding(
            "escape", "leave", "back", key_display="esc", tooltip="End the search; else to the prompt", id="list-leave"
        ),
        Binding("tab,shift+tab", "other", show=False, tooltip="From the search to the list, and back", id="list-other"),
        Binding("up", "move(-1)", show=False, tooltip="Up in the list, from the search, too", id="list-up"),
        Binding("down", "move(1)", show=False, tooltip="Down in the list, from the search, too", id="list-down"),
        Binding("pageup", "page(-1)", show=False, tooltip="A page up in the list", id="list-page-up"),
        Binding("pagedown", "page(1)", show=False, tooltip="A page down in the list", id="list-page-down"),
    ]

    @dataclass
    class SearchTyped(Message):
        """The user searches for this; blank: no longer. The last one is answered by `show`."""

        query: str

    @dataclass
    class Opened(Message):
        """The user wants to see this conversation, which may be the one that is open already."""

        id: str

    @dataclass
    class Renamed(Message):
        """The user gives a conversation another title: one line, not empty, without control bytes."""

        id: str
        title: str

    @dataclass
    class PinToggled(Message):
        """The user pins a conversation, or no longer."""

        id: str

    @dataclass
    class Deleted(Message):
        """The user deletes a conversation. As soon as `show` leaves it out, its undoing is offered."""

        id: str

    @dataclass
    class UndoAsked(Message):
        """The user wants back what was deleted last."""

    @dataclass
    class NewAsked(Message):
        """The user wants a new conversation."""

    @dataclass
    class Left(Message):
        """The user goes back to the prompt."""

    def __init__(
        self,
        hint: str = "",
        clock: Callable[[], datetime] = datetime.now,
        *,
        id: str | None = None,  # noqa: A002  # Textual's own name
    ) -> None:
        super().__init__(id=id)
        self._hint = hint
        self._clock = clock
        self._given: tuple[object, ...] = ()
        self._typed = ""
        # A search was typed and its hits are still to come; enter was pressed meanwhile.
        self._asked = self._open_first = False
        self._renaming: Summary | None = None
        self._deleted: Summary | None = None
        # What is to be marked once it comes back.
        self._wanted = ""
        # What the title line and the keys show; what the keys may do.
        self._words_drawn: tuple[object, ...] = ()
        self._may: tuple[bool, ...] = ()

    def compose(self) -> ComposeResult:
        """Title line, search or new title, the list, keys."""
        yield Picture(id="list-title")
        with Horizontal(id="list-line"):
            yield Static("/", classes="glyph")
            yield Entry("search", id="list-query")
            title = Entry("title", id="list-name")
            title.display = False
            yield title
        yield Static(id="list-nothing")
        yield ConversationList()
        yield Picture(id="list-foot")

    @property
    def rows(self) -> ConversationList:
        """The list itself."""
        return self.query_one(ConversationList)

    @property
    def _search_entry(self) -> Entry:
        return self.query_one("#list-query", Entry)

    @property
    def _title_entry(self) -> Entry:
        return self.query_one("#list-name", Entry)

    # ---- from outside ----

    def show(
        self, summaries: Sequence[Summary], current: str | None, searching: bool, *, query: str | None = None
    ) -> None:
        """Show these: all conversations, or the hits of a search, best first. current: the one that is open.

        The mark stays on its conversation and what is seen where it is, whatever else has changed. query: what was
        searched for, where the answer comes later than the next key: an old one is left alone.
        """
        if query is not None and query != self._typed:
            return
        # Else it is about something else that has changed, before the answer.
        is_answer = self._asked and searching == bool(self._typed.strip())
        if is_answer:
            self._asked = False
        now, searched = self._clock(), self._typed if searching else None
        given = (list(summaries), current, searched, now.date())
        if given != self._given:
            self._given = given
            self.rows.present(
                summaries, current, now, query=searched, wanted=self._wanted, first=searching and is_answer
            )
            if self._wanted in self.rows.places:
                self._wanted = ""
            if self._renaming is not None and self._renaming.id not in self.rows.places:
                self._end_renaming()
            nothing = self.query_one("#list-nothing", Static)
            nothing.display = not summaries
            nothing.update(Content(sidebar_words.NOTHING_FOUND if searching else sidebar_words.NONE_YET))
            self._draw_words()
        if is_answer and self._open_first:
            self._open_first = False
            self.rows.action_take()

    def enter(self) -> None:
        """Take the keys: the list has them, its mark at the conversation that is open unless a search is on."""
        if self._renaming is not None:
            self._title_entry.focus()
        else:
            self.rows.mark_open()
            self.rows.focus()

    # ---- what is seen ----

    def _draw_words(self) -> None:
        """The title line and the keys."""
        rows, renaming, told = self.rows, self._renaming is not None, self._told
        found = len(rows.summaries) if rows.searched is not None else None
        hint = "n new" if rows.has_focus else "" if self.has_focus_within else self._hint
        n_lines = 1 if self.size.width >= _BROAD or self.size.height < _HIGH else 2
        words = self._words()
        drawn = (found, hint, renaming, told, words, n_lines, self.size.height < _HIGH)
        if drawn == self._words_drawn:
            return
        self._words_drawn = drawn

        def heading(width: int) -> Sequence[Line]:
            first, last = sidebar_words.heading(width, found=found, hint=hint, renaming=renaming)
            return [((first, "title"), (last, "quiet"))]

        def keys(width: int) -> Sequence[Line]:
            if told is not None and not renaming:
                lines = sidebar_words.deleted(told.title, width, n_lines)
            else:
                lines = sidebar_words.packed(words, width, n_lines)
            return [((line, "quiet"),) for line in lines]

        self.query_one("#list-title", Picture).show(heading)
        foot = self.query_one("#list-foot", Picture)
        foot.set_class(n_lines == 1, "-one-line")
        foot.set_class(self.size.height < _HIGH, "-low")
        foot.show(keys)
        self.query_one(".glyph", Static).update("›" if renaming else "/", layout=False)
        self._look_at_bindings()

    def _look_at_bindings(self) -> None:
        may = tuple(bool(self.check_action(action, ())) for action in ("rename", "undo", "search"))
        if may != self._may:
            self._may = may
            self.refresh_bindings()

    def _words(self) -> Sequence[str]:
        """What the keys do where they are; else how many conversations there are."""
        rows = self.rows
        if not self.has_focus_within:
            return [sidebar_words.counted(len(rows.summaries))] if rows.searched is None else []
        if self._title_entry.has_focus:
            return sidebar_words.IN_NAME
        if self._search_entry.has_focus:
            return sidebar_words.in_search(typed=bool(self._typed))
        return sidebar_words.in_list(pinned=rows.summary.pinned if rows.summary is not None else None)

    @on(Choices.Marked)
    def _follow_mark(self, event: Choices.Marked) -> None:
        event.stop()
        self._draw_words()

    def on_resize(self) -> None:
        """There may be room for more words."""
        self._draw_words()

    def on_descendant_focus(self) -> None:
        """Other keys mean something now."""
        self.call_later(self._look_at_focus)

    def on_descendant_blur(self) -> None:
        """So they do now."""
        self.call_later(self._look_at_focus)

    def _look_at_focus(self) -> None:
        self.rows.shows_mark = self.has_focus_within
        focused = self.screen.focused
        # None: the terminal itself has lost it, and gives it back.
        if self._renaming is not None and focused is not None and focused is not self._title_entry:
            self._end_renaming()
        self._draw_words()

    # ---- search ----

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        event.stop()
        if event.input is self._search_entry and event.value != self._typed:
            self._typed = event.value
            self._asked, self._open_first = True, False
            self._forget_deleted()
            self.post_message(self.SearchTyped(event.value))

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input is self._title_entry:
            self._save_title(event.value)
        elif self._asked:
            self._open_first = True
        else:
            self.rows.action_take()

    def action_search(self) -> None:
        """Type what to search for."""
        self._search_entry.focus()

    def action_other(self) -> None:
        """From the search to the list, and back."""
        if self._renaming is None:
            (self.rows if self._search_entry.has_focus else self._search_entry).focus()

    def action_move(self, by: int) -> None:
        """Move the mark while the search has the keys."""
        if self._search_entry.has_focus:
            self.rows.action_move(by)

    def action_page(self, by: int) -> None:
        """As far as a page."""
        if self._search_entry.has_focus:
            self.rows.action_page(by)

    # ---- what is done with the marked one ----

    @on(Choices.Taken)
    def _open(self, event: Choices.Taken) -> None:
        event.stop()
        self._forget_deleted()
        self.post_message(self.Opened(self.rows.summaries[event.index].id))

    def action_rename(self) -> None:
        """Type another title."""
        self._forget_deleted()
        if (summary := self.rows.summary) is not None:
            self._renaming = summary
            entry = self._title_entry
            entry.value = visible_line(summary.title)
            entry.cursor_position = len(entry.value)
            self._show_title_entry(True)
            entry.focus()

    def _save_title(self, typed: str) -> None:
        summary, title = self._renaming, visible_line(typed)
        self._end_renaming()
        if summary is not None and title and title != visible_line(summary.title):
            self.post_message(self.Renamed(summary.id, title))

    def _end_renaming(self) -> None:
        had_focus, self._renaming = self._title_entry.has_focus, None
        self._show_title_entry(False)
        if had_focus:
            self.rows.focus()

    def _show_title_entry(self, shown: bool) -> None:
        self._title_entry.display, self._search_entry.display = shown, not shown
        self._draw_words()

    def action_pin(self) -> None:
        """Keep it at the top, or no longer."""
        self._forget_deleted()
        if (summary := self.rows.summary) is not None:
            self.post_message(self.PinToggled(summary.id))

    def action_delete(self) -> None:
        """Delete it; this can be undone."""
        if (summary := self.rows.summary) is not None:
            self._deleted = summary
            self.post_message(self.Deleted(summary.id))

    @property
    def _told(self) -> Summary | None:
        """What was deleted last, while that can be undone."""
        deleted = self._deleted
        return deleted if deleted is not None and deleted.id not in self.rows.places else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that mean nothing at the moment are not shown."""
        if action in ("rename", "pin", "delete"):
            return self.rows.summary is not None
        if action == "search":
            return self._renaming is None and not self._search_entry.has_focus
        return action != "undo" or self._told is not None

    def action_undo(self) -> None:
        """Bring back what was deleted last, and mark it."""
        if self._told is not None:
            self._wanted = self._told.id
            self._forget_deleted()
            self.post_message(self.UndoAsked())

    def _forget_deleted(self) -> None:
        if self._deleted is not None:
            self._deleted = None
            self._draw_words()

    # ---- elsewhere ----

    def action_new(self) -> None:
        """A new conversation."""
        self._forget_deleted()
        self.post_message(self.NewAsked())

    def action_leave(self) -> None:
        """Away from what is being typed, out of the search, to the prompt: one at a time."""
        if self._renaming is not None:
            self._end_renaming()
        elif self._search_entry.has_focus or self._typed:
            self._search_entry.value = ""
            self.rows.focus()
        else:
            self.post_message(self.Left())
