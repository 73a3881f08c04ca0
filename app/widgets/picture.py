"""Lines with roles, drawn for the width there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from pardec_chat.app.lines import Line


class Picture(Widget):
    """Shows what `show` was given, which makes the lines for a width; all text is plain, never markup."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"title", "text", "quiet", "value", "bar"}

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  # Textual's own name
        super().__init__(id=id)
        self._make: Callable[[int], Sequence[Line]] = lambda _width: ()

    def show(self, make: Callable[[int], Sequence[Line]]) -> None:
        """Show other lines."""
        self._make = make
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are."""
        return len(self._make(width))

    def render(self) -> Content:
        """All lines."""
        lines = self._make(self.content_size.width)
        return Content("\n").join(Content.assemble(*((text, f".{role}") for text, role in line)) for line in lines)
