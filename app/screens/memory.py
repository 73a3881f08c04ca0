"""A model that does not fit: what it takes, what is free, and what to give up."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.fit_words import amount, plan_lines
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.cells import ends
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.backends.memory import Wish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.lines import Line
    from pardec_chat.app.widgets.choices import Draw
    from pardec_chat.backends.memory import Alternative, Plan

Answer = Wish | Literal["force"] | None

_FORCE = "Load it all the same"
_FORCE_WORDS = "slow, or it fails"
_LEAVE = "Leave it"
_WIDEST = 100


class MemoryScreen(ModalScreen[Answer]):
    """Gives what is to be loaded instead, "force", or None. names: of the model and of its draft."""

    CSS_PATH = ["wizard.tcss", "memory.tcss"]  # noqa: RUF012  # the name and the kind are Textual's
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False),
        Binding("shift+up", "read(-1)", "Read up", show=False),
        Binding("shift+down", "read(1)", "Read down", show=False),
    ]

    def __init__(self, plan: Plan, alternatives: Sequence[Alternative], names: tuple[str, str | None]) -> None:
        super().__init__()
        self._plan = plan
        self._alternatives = alternatives
        self._names = names

    def compose(self) -> ComposeResult:
        """Which models, the picture, the choices, keys."""
        yield Picture(id="head")
        with VerticalScroll(id="plan", can_focus=False):
            yield Picture(id="picture-of-plan")
        yield Choices()
        yield Static(Content("↑↓ move · enter take · esc leave it"), id="foot")

    def on_mount(self) -> None:
        """Begin at the mildest way out."""
        model, draft = self._names
        plan = self._plan
        self.query_one("#head", Picture).show(lambda width: [_heading(model, draft, width)])
        self.query_one("#picture-of-plan", Picture).show(lambda width: plan_lines(plan, width))
        rows: list[Draw] = [lambda width, one=one: _row(one.words, _takes(one), width) for one in self._alternatives]  # type: ignore[misc]
        rows += [lambda width: _row(_FORCE, _FORCE_WORDS, width), lambda width: _row(_LEAVE, "", width)]
        choices = self.query_one(Choices)
        # Without an alternative, the one that does no harm.
        choices.show(rows, 0 if self._alternatives else len(rows) - 1)
        choices.focus()

    def on_resize(self) -> None:
        """The list stays below the picture, which gives way where there is little room."""
        height = self.size.height - 4  # head, keys, and a line before them
        rows = min(len(self._alternatives) + 2, height // 2)
        self.query_one(Choices).styles.max_height = rows
        self.query_one("#plan").styles.max_height = height - rows

    @on(Choices.Taken)
    def take(self, message: Choices.Taken) -> None:
        """One of them."""
        answers: list[Answer] = [*(one.wish for one in self._alternatives), "force", None]
        self.dismiss(answers[message.index])

    def action_read(self, by: int) -> None:
        """The picture may be longer than its place."""
        self.query_one("#plan").scroll_relative(y=by, animate=False)

    def action_leave(self) -> None:
        """Load nothing."""
        self.dismiss(None)


def _heading(model: str, draft: str | None, width: int) -> Line:
    names = visible_line(model) + (f"  +  {visible_line(draft)}" if draft else "")
    return ((wording.fit(names, width), "title"),)


def _takes(one: Alternative) -> str:
    return f"takes {amount(one.plan.need())}"


def _row(words: str, what: str, width: int) -> Sequence[Line]:
    first, last = ends(visible_line(words), what, min(width, _WIDEST))
    return (((first, "text"), (last, "quiet")),)
