"""A short list to choose from, over the chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording

_WIDTH = 64
_MARK = "• "


@dataclass(frozen=True, slots=True)
class Choice:
    """One line to choose, with a second one that explains it. why_not: reason that it cannot be chosen now."""

    id: str
    title: str
    detail: str = ""
    right: str = ""
    why_not: str = ""


class Picker(ModalScreen[str | None]):
    """Gives the id of what was chosen, or None."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back", show=False)]

    def __init__(self, title: str, choices: Sequence[Choice], *, current: str = "", hint: str = "") -> None:
        super().__init__()
        self._title = title
        self._choices = choices
        self._current = current
        self._hint = hint

    def compose(self) -> ComposeResult:
        """Title, list, keys."""
        with Vertical(id="box"):
            yield Static(Content(wording.fit(visible_line(self._title), _WIDTH)), id="title")
            if self._choices:
                options = [
                    Option(self._draw(c), id=str(i), disabled=bool(c.why_not)) for i, c in enumerate(self._choices)
                ]
                yield OptionList(*options, compact=True)
            if self._hint:
                yield Static(Content(self._hint), id="hint")
            keys = "↑↓ move · enter take · esc back" if self._choices else "esc back"
            yield Static(Content(keys), id="keys")

    def on_mount(self) -> None:
        """Begin at what holds now."""
        for options in self.query(OptionList):
            ids = [choice.id for choice in self._choices]
            options.highlighted = ids.index(self._current) if self._current in ids else 0
            options.focus()

    def _draw(self, choice: Choice) -> Content:
        is_now = choice.id == self._current
        right = visible_line(choice.right)
        mark = _MARK if is_now else " " * len(_MARK)
        first = wording.spread(mark + visible_line(choice.title), right, _WIDTH)
        lines = [Content.styled(first, "bold" if is_now else "")]
        detail = f"not now: {choice.why_not}" if choice.why_not else choice.detail
        indent = " " * len(_MARK)
        wrapped = Content(visible_line(detail)).wrap(_WIDTH - len(indent)) if detail else []
        lines += [Content.styled(indent + line.plain, "$quiet") for line in wrapped]
        return Content("\n").join(lines)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen by enter or by mouse."""
        self.dismiss(self._choices[event.option_index].id)

    def action_leave(self) -> None:
        """Leave without choosing."""
        self.dismiss(None)
