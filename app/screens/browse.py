"""The whole catalogue and the user's own files: searched while typing, judged for a context."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pardec_chat.app.lines import BLANK, Line, wrapped
from pardec_chat.app.messages import ErrandFailed, RowsRead
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.downloads import Chosen, DownloadsScreen, WizardLike, notify_error, tell_errors
from pardec_chat.app.widgets import errand, model_row, wording
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.picture import Picture

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.wizard import Row

CONTEXTS = (2048, 4096, 8192, 16384, 32768)
_TITLE = "All models"
_READING = "Reading the list …"
_NONE_FOUND = "No model here has all these words. Esc leaves; a Hub repository may have it."
_DETAIL_LINES = 6
_WIDEST = 110


class BrowseScreen(ModalScreen[Chosen | None]):
    """Gives what was chosen, as soon as all of it is on this disk."""

    CSS_PATH = ["wizard.tcss", "browse.tcss"]  # noqa: RUF012  # the name and the kind are Textual's
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", show=False),
        Binding("plus,equals_sign", "context(1)", "Longer context", show=False),
        Binding("minus", "context(-1)", "Shorter context", show=False),
        Binding("right_square_bracket", "context(1)", "Longer context", show=False, priority=True),
        Binding("left_square_bracket", "context(-1)", "Shorter context", show=False, priority=True),
        Binding("d", "draft", "With or without the draft", show=False),
        Binding("slash", "search", "Search", show=False),
        Binding("tab,shift+tab", "other", "To the list or the search", show=False),
    ]

    def __init__(self, wizard: WizardLike, n_ctx: int = 4096) -> None:
        super().__init__()
        self._wizard = wizard
        self._number = 0
        self._at = max((i for i, n in enumerate(CONTEXTS) if n <= n_ctx), default=0)
        self._rows: tuple[Row, ...] = ()
        self._texts: list[str] = []
        self._seen: list[Row] = []
        #: Whether the draft comes along; None where that is up to what has to be fetched anyway.
        self._with_draft: bool | None = None

    def compose(self) -> ComposeResult:
        """Search, columns, rows, what there is to say about the marked one, keys."""
        yield Picture(id="head")
        with Horizontal(id="search"):
            yield Static("›", classes="glyph")
            yield Entry("name, licence, language (ja), words of the description", keys="[]")
        yield Picture(id="columns")
        yield Choices(click_takes=False)
        yield Picture(id="detail")
        yield Static(id="foot")

    def on_mount(self) -> None:
        """Typing searches from the start."""
        self._entry.focus()
        self._draw_detail()
        self._draw_foot()

    def on_screen_resume(self) -> None:
        """Read anew: more may be here than before."""
        self._read()

    @property
    def _choices(self) -> Choices:
        return self.query_one(Choices)

    @property
    def _entry(self) -> Entry:
        return self.query_one(Entry)

    @property
    def _row(self) -> Row | None:
        marked = self._choices.marked
        return self._seen[marked] if marked is not None and marked < len(self._seen) else None

    # ---- the rows ----

    def _read(self) -> None:
        self._number += 1
        number, wizard, n_ctx = self._number, self._wizard, CONTEXTS[self._at]
        errand.run(self, "browse", number, lambda: RowsRead(number, n_ctx, wizard.rows(n_ctx)))
        self._draw_head()

    @on(RowsRead)
    def take(self, message: RowsRead) -> None:
        """Here they are; the marked one stays marked."""
        if message.number != self._number:
            return
        row = self._row
        self._rows = message.rows
        self._texts = [_searched(one) for one in self._rows]
        self.query("Note").remove()
        self._filter(row.entry.id if row else "")

    @on(ErrandFailed)
    def tell(self, message: ErrandFailed) -> None:
        """Say why there are none; rows from before stay."""
        if message.number != self._number:
            return
        if self._rows:
            notify_error(self, message.error)
        else:
            self.query("Note").remove()
            self.mount(Note.of(message.error), after="#columns")
            self._draw_detail()

    @on(Input.Changed)
    def search(self) -> None:
        """All words have to be there."""
        self._filter()

    def _filter(self, keep: str = "") -> None:
        words = self._entry.value.casefold().split()
        self._seen = [
            row for row, text in zip(self._rows, self._texts, strict=True) if all(word in text for word in words)
        ]
        ids = [row.entry.id for row in self._seen]
        rows = [lambda width, row=row: model_row.draw(row, width) for row in self._seen]
        self._choices.show(rows, ids.index(keep) if keep in ids else 0)
        self.query_one("#columns", Picture).show(lambda width: [_indented(model_row.heads(width - 3))])
        self._draw_head()
        self._draw_detail()

    # ---- what is seen ----

    def _draw_head(self) -> None:
        context, counted = self._at, ""
        if self._rows:
            counted = f"{len(self._seen)} of {len(self._rows)}   ● here  ◐ in part"
        contexts = " ".join(f"[{n // 1024}k]" if i == context else f"{n // 1024}k" for i, n in enumerate(CONTEXTS))
        self.query_one("#head", Picture).show(lambda width: [_heading(contexts, counted, width)])

    @on(Choices.Marked)
    def _draw_detail(self) -> None:
        row, draft = self._row, self._draft
        if row is None:
            text = "" if self.query("Note") else _READING if not self._rows else _NONE_FOUND
            self.query_one("#detail", Picture).show(lambda width: wrapped(text, width))
            return
        what = self._promise(row, draft)

        def lines(width: int) -> list[Line]:
            width = min(width, _WIDEST)
            last = wrapped(what, width)
            about = model_row.about(row, width, _DETAIL_LINES - len(last))
            return [*about, *last, *[BLANK] * (_DETAIL_LINES - len(about) - len(last))]

        self.query_one("#detail", Picture).show(lines)

    def _draw_foot(self) -> None:
        if self._entry.has_focus:
            keys = "type to search · ↓ to the list · [ ] context · enter take · esc back"
        else:
            keys = "enter take · d draft or not · + - context · / search · esc back"
        self.query_one("#foot", Static).update(Content(keys))

    def on_descendant_focus(self) -> None:
        """Other keys mean something now."""
        self._draw_foot()

    # ---- with or without a draft ----

    @property
    def _draft(self) -> Row | None:
        """What can guess for the marked model: the smallest of its drafts, which the verdict on it counts in."""
        row = self._row
        if row is None or row.model is None:
            return None
        by_id = {one.entry.id: one for one in self._rows}
        found = [by_id[draft] for draft in row.model.drafts if draft in by_id]
        return min(found, key=lambda draft: draft.entry.size, default=None)

    def _brings(self, row: Row, draft: Row) -> bool:
        """Whether enter takes the draft, too: what is here is used, what is not comes with a model that is not."""
        if self._with_draft is not None:
            return self._with_draft
        return row.fit.fits and (_is_here(draft) or not _is_here(row))

    def _promise(self, row: Row, draft: Row | None) -> str:
        """What enter does, in words."""
        if why_not := _why_not(row):
            return why_not
        if draft is None:
            return "Enter chats with it." if _is_here(row) else f"Enter fetches it, {_to_come(row)}."
        name = f"its draft {visible_line(model_row.name(draft))}"
        if not self._brings(row, draft):
            alone = "Enter chats with it" if _is_here(row) else f"Enter fetches it, {_to_come(row)}"
            along = "takes" if _is_here(draft) else f"fetches ({_to_come(draft)})"
            return f"{alone}. d {along} {name} as well."
        if _is_here(row):
            what = f"chats with it; {name} guesses" if _is_here(draft) else f"fetches {name}, {_to_come(draft)}"
        elif _is_here(draft):
            what = f"fetches it, {_to_come(row)}; {name} is here"
        else:
            what = f"fetches it and {name}, {_to_come(row, draft)}"
        return f"Enter {what}. d leaves that out."

    def action_draft(self) -> None:
        """The draft comes along, or it does not."""
        row, draft = self._row, self._draft
        if row is not None and draft is not None:
            self._with_draft = not self._brings(row, draft)
            self._draw_detail()
        else:
            self.notify("Nothing in the list guesses for this model.", markup=False)

    # ---- keys ----

    def action_context(self, by: int) -> None:
        """Needs follow the context."""
        context = min(len(CONTEXTS) - 1, max(0, self._at + by))
        if context != self._at:
            self._at = context
            self._read()

    def action_search(self) -> None:
        """Type again."""
        self._entry.focus()

    def action_other(self) -> None:
        """From the search to the list, and back."""
        (self._choices if self._entry.has_focus else self._entry).focus()

    def on_key(self, event: events.Key) -> None:
        """While a word is typed, the keys that move belong to the list."""
        moves = {"down": "move(1)", "up": "move(-1)", "pagedown": "page(1)", "pageup": "page(-1)"}
        if event.key in moves and self._entry.has_focus:
            event.stop()
            self._choices.focus()
            if event.key != "down" or self._choices.marked:
                self.call_later(self._choices.run_action, moves[event.key])

    @on(Input.Submitted)
    def take_from_search(self) -> None:
        """Enter means the marked row, wherever the cursor is."""
        self._choices.action_take()

    @on(Choices.Taken)
    def choose(self) -> None:
        """Chat with it, or fetch what is missing."""
        row, draft = self._row, self._draft
        if row is None:
            return
        if why_not := _why_not(row):
            self.notify(visible_line(why_not), markup=False)
            return
        wanted = [row, draft] if draft is not None and self._brings(row, draft) else [row]
        missing = [model for one in wanted if not _is_here(one) for model in _files(one)]
        if not missing:
            self.dismiss(Chosen(*(one.entry.path for one in wanted)))
        elif tell_errors(self, lambda: self._wizard.downloads.start(missing)):
            self.app.push_screen(DownloadsScreen(self._wizard, missing[0].id), self._come_back)

    def _come_back(self, chosen: Chosen | None) -> None:
        if chosen is not None:
            self.dismiss(chosen)

    def action_leave(self) -> None:
        """Nothing was chosen."""
        self.dismiss(None)


def _searched(row: Row) -> str:
    parts = [row.entry.id]
    if row.model is not None:
        parts += [row.model.name, row.model.licence, row.model.description, *row.model.languages]
        parts += [model_row.LANGUAGES.get(code, "") for code in row.model.languages]
    return " ".join(parts).casefold()


def _why_not(row: Row) -> str:
    """Why enter can do nothing; empty where it can."""
    if not row.fit.fits and not row.fit.need:
        return f"Not to be chosen: {row.fit.words.rstrip('.')}."
    if not _is_here(row) and not _files(row):
        return "Its file is not all here: put it back, or remove it from the list."
    return ""


def _files(row: Row) -> tuple[Model, ...]:
    """What has to be fetched for it: one file, or all parts of a split one."""
    return row.entry.models or ((row.model,) if row.model is not None else ())


def _is_here(row: Row) -> bool:
    return row.entry.state == "on disk"


def _to_come(*rows: Row) -> str:
    return wording.size(sum(row.entry.size - (row.entry.have if row.entry.state == "partial" else 0) for row in rows))


def _indented(line: Line) -> Line:
    return (("  ", "quiet"), *line)


def _heading(contexts: str, counted: str, width: int) -> Line:
    before = f"   context {contexts}"
    room = width - len(_TITLE) - len(before)
    return (_TITLE, "title"), (before, "text"), (wording.fit(counted, room - 3).rjust(room), "quiet")
