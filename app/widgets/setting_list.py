"""The rows of the control panel: left and right change the marked one, a digit begins to type."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.setting_row import BEFORE, NEXT, SettingRow

#: Cells before each row, where the mark stands.
MARK_CELLS = 2


class SettingList(Choices):
    """A click marks a row, one on the marked row takes it, one on its ‹ or › changes it.

    A click leaves the focus where it is: what is being typed beside the list is not done with it.
    """

    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Less", tooltip="The value before", show=False, id="settings-less"),
        Binding("right", "step(1)", "More", tooltip="The next value", show=False, id="settings-more"),
    ]

    @dataclass
    class Stepped(Message):
        """The value before (-1) or the next one (1) is wanted for a row."""

        index: int
        by: int

    @dataclass
    class Typed(Message):
        """Somebody begins to type a value for a row."""

        index: int
        text: str

    def __init__(self) -> None:
        super().__init__(click_takes=False)
        self._settings: Sequence[SettingRow] = ()
        self._behind: Collection[int] = ()

    def show_settings(self, rows: Sequence[SettingRow], gaps: Collection[int]) -> None:
        """Show these rows. gaps: rows with an empty line behind them."""
        self._settings, self._behind = rows, gaps
        self.show([row.draw for row in rows], gaps=gaps)

    def line_of(self, index: int) -> int:
        """The line on which a row is seen, counted from the top of the list."""
        return index + sum(gap < index for gap in self._behind) - self.scroll_offset.y

    def action_step(self, by: int) -> None:
        """Another value."""
        if self.marked is not None:
            self.post_message(self.Stepped(self.marked, by))

    def on_key(self, event: events.Key) -> None:
        """Digits are the beginning of a value."""
        if self.marked is not None and event.character is not None and event.character in "0123456789.":
            event.stop()
            self.post_message(self.Typed(self.marked, event.character))

    def on_click(self, event: events.Click) -> None:
        """On a sign for the next value or the one before; all else is as in any list."""
        row = event.style.meta.get("row")
        by = self._way(event.x) if row == self.marked and row is not None else 0
        if by:
            event.prevent_default()  # or the list would take the row, too
            self.action_step(by)

    def _way(self, x: int) -> int:
        assert self.marked is not None
        at = MARK_CELLS + self.gutter.left
        for text, role in self._settings[self.marked].draw(self.scrollable_content_region.width - MARK_CELLS)[0]:
            if at <= x < at + cell_len(text) and role == "bar":
                return {BEFORE: -1, NEXT: 1}.get(text, 0)
            at += cell_len(text)
        return 0
