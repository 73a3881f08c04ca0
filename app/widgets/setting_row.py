"""A row of the control panel: a sign where it is not as usual, name, value, what it does; no widget."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len

from pardec_chat.app.lines import Line
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets.cells import left
from pardec_chat.app.widgets.wording import fit

#: Stands before what differs from its default, as a colour could not.
SIGN = "• "
#: Where to click for the value before and the next one.
BEFORE, NEXT = "‹ ", " ›"
_NAME, _VALUE = 15, 13
#: Cells before the value.
VALUE_AT = len(SIGN) + _NAME + len(BEFORE)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """value, what: foreign text, too. what: empty leaves its place to the value. differs: from its default.

    ways: whether there is a value before and a next one, where the row is marked.
    """

    name: str
    value: str
    what: str = ""
    differs: bool = False
    ways: tuple[bool, bool] = (False, False)

    def draw(self, width: int) -> list[Line]:
        """One line of that many cells."""
        value, what = visible_line(self.value), visible_line(self.what)
        room = width - VALUE_AT
        shown = fit(value, _VALUE - len(NEXT) - 1 if what else room - len(NEXT))
        after = NEXT if self.ways[1] else " " * len(NEXT)
        rest = max(0, _VALUE - len(NEXT) - cell_len(shown))
        head: Line = (
            (SIGN if self.differs else " " * len(SIGN), "bar"),
            (left(self.name, _NAME), "text"),
            (BEFORE if self.ways[0] else " " * len(BEFORE), "bar"),
            (shown, "value" if self.differs else "text"),
            (after, "bar"),
        )
        if not what:
            return [head]
        return [(*head, (" " * rest, "text"), (fit(what, room - _VALUE), "quiet"))]
