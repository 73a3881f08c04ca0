"""A table of an answer: columns and one rule, no boxes."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.geometry import Size
from textual.widgets._markdown import MarkdownTable
from textual.widgets.markdown import MarkdownBlock

_GAP = 3
_LEAST = 4


class Table(MarkdownTable):
    """Drawn as text by one widget.

    Textual's has a widget a cell, which a long table makes slow, and shows cells as tooltips, whose text is markup.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"head", "rule"}

    def compose(self) -> tuple[()]:
        """No widget below this one."""
        self._headers, self._rows = self._get_headers_and_rows()
        self._blocks.clear()
        return ()

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        if isinstance(block, Table):
            self._headers, self._rows = block._get_headers_and_rows()
            self._copy_context(block)
            width, height = self.content_size
            self.refresh(layout=len(self._lines(width)) != height)
        else:
            await super()._update_from_block(block)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the cells take."""
        return len(self._lines(width))

    def render(self) -> Content:
        """All lines."""
        return Content("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Content]:
        headers = [header.stylize(".head") for header in self._headers]
        widths = _widths([headers, *self._rows], width)
        lines = _row(headers, widths)
        lines.append(Content.styled((" " * _GAP).join("─" * n for n in widths), ".rule"))
        for cells in self._rows:
            lines.extend(_row(cells, widths))
        return lines


def _widths(rows: list[list[Content]], width: int) -> list[int]:
    """Cells of each column: what its texts want, the widest giving way until all fit."""
    columns = len(rows[0])
    widths = [max((row[i].cell_length for row in rows if i < len(row)), default=0) for i in range(columns)]
    widths = [max(1, wanted) for wanted in widths]
    left = width - _GAP * (columns - 1)
    while sum(widths) > left and max(widths) > _LEAST:
        widest = max(range(columns), key=widths.__getitem__)
        others = max((n for i, n in enumerate(widths) if i != widest), default=0)
        give = min(sum(widths) - left, max(1, widths[widest] - max(others, _LEAST)))
        widths[widest] -= give
    return widths


def _row(cells: list[Content], widths: list[int]) -> list[Content]:
    wrapped = [cell.wrap(width) if cell else [Content("")] for cell, width in zip(cells, widths, strict=False)]
    lines = []
    for y in range(max(map(len, wrapped), default=0)):
        parts = [lines[y] if y < len(lines) else Content("") for lines in wrapped]
        padded = [part.pad_right(width - part.cell_length) for part, width in zip(parts, widths, strict=False)]
        lines.append(Content(" " * _GAP).join(padded))
    return lines
