"""A list to choose from, drawn line by line: rows that are not seen cost nothing but their length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
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
from pardec_chat.app.plain_text import visible_line

#: Makes the lines of a row for a width; all text is plain, never markup.
Draw = Callable[[int], Sequence[Line]]

_ROLES = ("title", "text", "quiet", "value", "bar")


class Choices(ScrollView, can_focus=True):
    """One row is marked; enter takes it, and so does a click.

    click_takes: off where taking has weight, so that a click only marks, and one on the marked row takes it.
    """

    #: Before the first line of the marked row, and before its other lines; both are as wide.
    MARKS: ClassVar[tuple[str, str]] = ("▸ ", "  ")
    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {*_ROLES, "head", "marked", "hover"}
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
        & > .head { color: $quiet; }
        & > .marked { background: $primary 25%; }
        & > .hover { background: $primary 10%; }
    }
    """

    marked: reactive[int | None] = reactive(None)
    #: Off where the keys are elsewhere and the mark would say nothing.
    shows_mark: reactive[bool] = reactive(True)
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
        self._heads: Mapping[int, str] = {}
        self._known: Sequence[int] | None = None
        # For a width: what was drawn of a row, its lines, and the line that it begins at with what stands above it.
        self._width = 0
        self._drawn: dict[int, Sequence[Line]] = {}
        self._heights: Sequence[int] = ()
        self._starts: Sequence[int] = ()
        self._n_lines = 0
        self._styles: dict[str, Style] = {}
        #: Lines that are seen; 0 before the first layout.
        self._seen = 0

    def show(
        self,
        rows: Sequence[Draw],
        marked: int | None = None,
        *,
        still: bool = False,
        gaps: Collection[int] = (),
        heads: Mapping[int, str] | None = None,
        heights: Sequence[int] | None = None,
    ) -> None:
        """Show other rows.

        marked: comes into view; None stays where it is, and so does what is seen. still: what is seen stays, although
        `marked` is given. gaps: rows with an empty line behind them. heads: titles above rows. heights: lines of each
        row, where they are known: a row is drawn only when it is seen then.
        """
        n_lines, at, top = self._n_lines, self._place(), self.scroll_offset.y
        still = (still or marked is None) and bool(self._rows) and self._width > 0
        self._rows, self._gaps, self._heads, self._known, self._width = rows, gaps, heads or {}, heights, 0
        wanted = self.marked or 0 if marked is None else marked
        wanted_row = min(wanted, len(rows) - 1) if rows else None
        self._lay_out()
        if wanted_row != self.marked:
            self.set_reactive(Choices.marked, wanted_row)
            self._tell_marked()
        if not still:
            self._bring_into_view()
        elif at is not None and wanted_row is not None and wanted_row < len(self._starts):
            if top > 0:
                self.scroll_to(y=self._begins(wanted_row) - at, animate=False, force=True, immediate=True)
            self._bring_into_view()
        self.refresh(layout=n_lines != self._n_lines)

    # ---- where the rows are ----

    def _lay_out(self, width: int = 0) -> None:
        width = width or self.scrollable_content_region.width
        if width == self._width or width <= 0:
            return
        self._width = width
        self._drawn = {}
        if self._known is None:
            self._drawn = {row: draw(width - len(self.MARKS[0])) for row, draw in enumerate(self._rows)}
            self._heights = [len(lines) for lines in self._drawn.values()]
        else:
            self._heights = self._known
        sizes = list(self._heights)
        for row in self._gaps:
            sizes[row] += 1
        for row in self._heads:
            sizes[row] += self._above(row)
        *self._starts, self._n_lines = accumulate(sizes, initial=0)
        self.virtual_size = Size(width, self._n_lines)

    def _above(self, row: int) -> int:
        """Lines of its title, with an empty one before all but the first."""
        return 0 if row not in self._heads else 2 if row else 1

    def _begins(self, row: int) -> int:
        """The line that a row begins at."""
        return self._starts[row] + self._above(row)

    def _place(self) -> int | None:
        """The line of what is seen that the mark is on; None where it is out of sight."""
        if self.marked is None or self.marked >= len(self._starts):
            return None
        at = self._begins(self.marked) - self.scroll_offset.y
        return at if 0 <= at < self._seen else None

    def _lines(self, row: int) -> Sequence[Line]:
        if row not in self._drawn:
            self._drawn[row] = self._rows[row](self._width - len(self.MARKS[0]))
        return self._drawn[row]

    def _on_resize(self, event: events.Resize) -> None:
        follow = self._seen == 0 or self._place() is not None
        self._width, self._seen = 0, self.scrollable_content_region.height
        self._lay_out()
        if follow:
            self.call_after_refresh(self._bring_into_view)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as all rows take."""
        self._lay_out(width - self.scrollbar_size_vertical)
        return self._n_lines

    def _bring_into_view(self) -> None:
        if self.marked is None or self.marked >= len(self._starts):
            return
        region = Region(
            0, self._starts[self.marked], self._width, self._above(self.marked) + self._heights[self.marked]
        )
        self.scroll_to_region(region, force=True, animate=False, immediate=True)

    # ---- drawing ----

    def render_lines(self, crop: Region) -> list[Strip]:
        """What is seen. Styles are worked out once, not for each line."""
        self._lay_out()
        base = self.rich_style
        self._styles = {
            "": base,
            "head": self.get_component_rich_style("head"),
            **{state: self.get_component_rich_style(state) for state in ("marked", "hover")},
            **{role: self.get_component_rich_style(role, partial=True) for role in _ROLES},
        }
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        styles, width = self._styles, self._width
        line = y + self.scroll_offset.y
        row = bisect_right(self._starts, line) - 1
        if row < 0 or line >= self._n_lines:
            return Strip.blank(width, styles[""])
        n = line - self._begins(row)
        if n == -1:
            head = Segment(" " * len(self.MARKS[0]) + visible_line(self._heads[row]), styles["head"])
            return Strip([head]).adjust_cell_length(width, styles[""])
        if n < 0 or n >= len(self._lines(row)):
            return Strip.blank(width, styles[""])
        is_marked = row == self.marked and self.shows_mark
        style = styles["marked" if is_marked else "hover" if row == self._hovered else ""]
        mark = self.MARKS[n > 0] if is_marked else " " * len(self.MARKS[0])
        parts: Line = ((mark, "bar"), *self._lines(row)[n])
        # Grey on the mark's colour is hard to read.
        roles = ((text, "text" if is_marked and role == "quiet" else role) for text, role in parts)
        segments = [Segment(text, style + styles[role]) for text, role in roles]
        return Strip(segments).adjust_cell_length(width, style).apply_style(Style(meta={"row": row}))

    def watch_marked(self) -> None:
        """Keep it in sight, and tell."""
        self._bring_into_view()
        self.refresh()
        self._tell_marked()

    def _tell_marked(self) -> None:
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
        self.marked = bisect_right(self._starts, max(0, line)) - 1

    def action_end(self, last: bool) -> None:
        """To the first row or to the last."""
        if self._rows:
            self.marked = len(self._rows) - 1 if last else 0

    def action_take(self) -> None:
        """Choose the marked row."""
        if self.marked is not None:
            self.post_message(self.Taken(self, self.marked))

    def on_click(self, event: events.Click) -> None:
        """See `click_takes`; only the first button means anything."""
        row = event.style.meta.get("row")
        if event.button != 1 or row is None or not 0 <= row < len(self._rows):
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
