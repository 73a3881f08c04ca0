"""A list to choose from, drawn line by line: rows that are not seen cost nothing but their length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pardec_chat.app.lines import Line

#: Makes the lines of a row for a width; all text is plain, never markup.
Draw = Callable[[int], Sequence[Line]]

_MARK = "▸ "
_ROLES = ("title", "text", "quiet", "value", "bar")
_NO_ROW = -1


class Choices(ScrollView, can_focus=True):
    """One row is marked; enter takes it, and so does a click.

    click_takes: off where taking has weight, so that a click only marks, and one on the marked row takes it.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {*_ROLES, "marked", "hover"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "end(False)", "First", show=False),
        Binding("end", "end(True)", "Last", show=False),
        Binding("enter", "take", "Take", show=False),
    ]
    DEFAULT_CSS = """
    Choices {
        height: auto;
        overflow-x: hidden;
        scrollbar-gutter: stable;
        color: $foreground;
        background: transparent;
        & > .title { color: $primary; text-style: bold; }
        & > .quiet { color: $quiet; }
        & > .value { text-style: bold; }
        & > .bar { color: $primary; }
        & > .marked { background: $primary 25%; }
        & > .hover { background: $primary 10%; }
    }
    """

    marked: reactive[int | None] = reactive(None)
    _hovered: reactive[int | None] = reactive(None)

    @dataclass
    class Marked(Message):
        """Another row is marked now."""

        choices: Choices
        index: int

        @property
        def control(self) -> Choices:
            """For `@on` with a selector."""
            return self.choices

    @dataclass
    class Taken(Message):
        """A row was chosen."""

        choices: Choices
        index: int

        @property
        def control(self) -> Choices:
            """For `@on` with a selector."""
            return self.choices

    def __init__(self, *, click_takes: bool = True, id: str | None = None) -> None:  # noqa: A002  # Textual's own name
        super().__init__(id=id)
        self._click_takes = click_takes
        self._rows: Sequence[Draw] = ()
        self._gaps: Collection[int] = ()
        # What was drawn, by row, for a width; which row and which of its lines each line is; where each row begins.
        self._width = 0
        self._drawn: list[Sequence[Line]] = []
        self._places: list[tuple[int, int]] = []
        self._starts: list[int] = []

    def show(self, rows: Sequence[Draw], marked: int | None = None, *, gaps: Collection[int] = ()) -> None:
        """Show other rows. marked: None stays where it is. gaps: rows with an empty line behind them."""
        height = len(self._places)
        self._rows, self._gaps, self._width = rows, gaps, 0
        wanted = self.marked or 0 if marked is None else marked
        wanted_row = min(wanted, len(rows) - 1) if rows else None
        self._lay_out()
        if wanted_row == self.marked:
            self._bring_into_view()
        else:
            self.marked = wanted_row
        self.refresh(layout=height != len(self._places))

    # ---- where the rows are ----

    def _lay_out(self, width: int = 0) -> None:
        width = width or self.scrollable_content_region.width
        if width == self._width or width <= 0:
            return
        self._width = width
        self._drawn = [draw(width - len(_MARK)) for draw in self._rows]
        self._places, self._starts = [], []
        for row, lines in enumerate(self._drawn):
            self._starts.append(len(self._places))
            self._places += [(row, n) for n in range(len(lines))]
            if row in self._gaps:
                self._places.append((_NO_ROW, 0))
        self.virtual_size = Size(width, len(self._places))

    def _on_resize(self, event: events.Resize) -> None:
        self._width = 0
        self._lay_out()
        self.call_after_refresh(self._bring_into_view)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as all rows take."""
        self._lay_out(width - self.scrollbar_size_vertical)
        return len(self._places)

    def _bring_into_view(self) -> None:
        if self.marked is None or self.marked >= len(self._starts):
            return
        region = Region(0, self._starts[self.marked], self._width, len(self._drawn[self.marked]))
        self.scroll_to_region(region, force=True, animate=False, immediate=True)

    # ---- drawing ----

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        self._lay_out()
        width = self.scrollable_content_region.width
        line = y + self.scroll_offset.y
        row, n = self._places[line] if line < len(self._places) else (_NO_ROW, 0)
        if row == _NO_ROW:
            return Strip.blank(width, self.rich_style)
        is_marked = row == self.marked
        state = ("marked",) if is_marked else ("hover",) if row == self._hovered else ()
        style = self.get_component_rich_style(*state) if state else self.rich_style
        parts: Line = ((_MARK if is_marked and n == 0 else " " * len(_MARK), "bar"), *self._drawn[row][n])
        roles = {role: self.get_component_rich_style(role, partial=True) for role in _ROLES}
        if is_marked:
            roles["quiet"] = roles["text"]  # grey on the mark's colour is hard to read
        segments = [Segment(text, style + roles[role]) for text, role in parts]
        return Strip(segments).adjust_cell_length(width, style).apply_style(Style(meta={"row": row}))

    def watch_marked(self) -> None:
        """Keep it in sight, and tell."""
        self._bring_into_view()
        self.refresh()
        if self.marked is not None:
            self.post_message(self.Marked(self, self.marked))

    def watch__hovered(self) -> None:
        """Under the mouse."""
        self.refresh()

    def notify_style_update(self) -> None:
        """Another theme."""
        self.refresh()
        super().notify_style_update()

    # ---- keys and mouse ----

    def action_move(self, by: int) -> None:
        """Up or down, from one end to the other."""
        if self._rows:
            self.marked = ((self.marked or 0) + by) % len(self._rows)

    def action_page(self, by: int) -> None:
        """A page up or down."""
        if not self._rows:
            return
        line = self._starts[self.marked or 0] + by * max(1, self.scrollable_content_region.height - 1)
        rows = [row for row, start in enumerate(self._starts) if start <= max(0, line)]
        self.marked = rows[-1]

    def action_end(self, last: bool) -> None:
        """To the first row or to the last."""
        if self._rows:
            self.marked = len(self._rows) - 1 if last else 0

    def action_take(self) -> None:
        """Choose the marked row."""
        if self.marked is not None:
            self.post_message(self.Taken(self, self.marked))

    def on_click(self, event: events.Click) -> None:
        """See `click_takes`."""
        row = event.style.meta.get("row")
        if row is None or not 0 <= row < len(self._rows):
            return
        takes = self._click_takes or row == self.marked
        self.marked = row
        if takes:
            self.action_take()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show what a click would mean."""
        self._hovered = event.style.meta.get("row")

    def on_leave(self) -> None:
        """The mouse is elsewhere."""
        self._hovered = None
