"""A page that is drawn line by line: lines that are not seen cost nothing but their number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

#: Texts and their roles, which are names of component classes; all text is plain, never markup.
Parts = Sequence[tuple[str, str]]


class Sheet(ScrollView, can_focus=True, inherit_bindings=False):
    """Scrolls up and down. What is on it says the class below, in `lay_out` and `seen`."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"title", "text", "quiet", "value", "bar", "marked", "rule"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "Up", show=False),
        Binding("down", "scroll_down", "Down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
        Binding("home", "scroll_home", "Top", show=False),
        Binding("end", "scroll_end", "End", show=False),
    ]
    DEFAULT_CSS = """
    Sheet {
        overflow-x: hidden;
        scrollbar-gutter: stable;
        color: $foreground;
        background: transparent;
        & > .title { color: $primary; text-style: bold; }
        & > .quiet { color: $quiet; }
        & > .value { text-style: bold; }
        & > .bar { color: $primary; }
        & > .marked { color: $primary; text-style: bold reverse; }
        & > .rule { color: $rule; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  # Textual's own name
        super().__init__(id=id)
        self._width = 0

    @abstractmethod
    def lay_out(self, width: int) -> int:
        """Where everything is at a width in cells; gives the number of lines."""

    @abstractmethod
    def seen(self, y: int, width: int) -> Parts:
        """What stands on a line of what is seen, which begins at `scroll_offset`; nothing behind the end."""

    def change(self) -> None:
        """There is something else on it, or another width to show it in."""
        width = self.scrollable_content_region.width
        if width > 0:
            self._width = width
            self.virtual_size = Size(width, self.lay_out(width))
        self.refresh()

    def _on_resize(self, event: events.Resize) -> None:
        self.change()

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        segments = [
            Segment(text, self.get_component_rich_style(role) if role != "text" else self.rich_style)
            for text, role in (self.seen(y, self._width) if self._width else ())
        ]
        return Strip(segments).adjust_cell_length(self.scrollable_content_region.width, self.rich_style)

    def notify_style_update(self) -> None:
        """Another theme."""
        self.refresh()
        super().notify_style_update()
