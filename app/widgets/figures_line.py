"""The quiet line of figures under an answer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

_SEPARATOR = " · "


class FiguresLine(Widget):
    """Figures with dots between them; a line ends between two figures, never inside one."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: Sequence[str] = ()

    def show(self, parts: Sequence[str]) -> None:
        """Show these figures."""
        self._parts = parts
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the figures take."""
        return len(self._lines(width))

    def render(self) -> Content:
        """All figures."""
        return Content("\n".join(self._lines(self.content_size.width)))

    def _lines(self, width: int) -> list[str]:
        lines: list[str] = []
        for part in self._parts:
            longer = f"{lines[-1]}{_SEPARATOR}{part}" if lines else part
            if lines and cell_len(longer) <= width:
                lines[-1] = longer
            else:
                lines.append(part)
        return lines
