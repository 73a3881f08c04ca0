"""A table, which may grow: columns and one rule, no boxes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from textual.content import Content

from pardec_chat.app.markdown.blocks import Block, Paper
from pardec_chat.app.markdown.inline import Inline
from pardec_chat.app.markdown.lines import Line, untabbed, wrapped

_GAP = 3
_LEAST = 4

Row = Sequence[Inline]


class Table(Block):
    """Columns as wide as their cells want, the widest giving way until all fit.

    Where even narrow ones do not fit, each row stands as a list of its own, a cell a line behind the name of its column.
    aligns: left, right, center or nothing, for each column.
    """

    is_long = True

    def __init__(self, paper: Paper, aligns: Sequence[str], header: Row) -> None:
        self.n_columns = len(header)
        self._paper = paper
        self._aligns = aligns
        self._header = header
        self._rows: list[Row] = []
        self._has_part = False
        self._wanted = [max(1, _length(cell)) for cell in header]
        self._width = -1
        self._columns: list[int] | None = []
        # Where on the screen each row begins, and what was drawn of some; -1 is the header.
        self._starts: list[int] = [0]
        self._drawn: dict[int, list[Line]] = {}

    def emptied(self) -> Table:
        """The same without rows."""
        return Table(self._paper, self._aligns, self._header)

    def add(self, rows: Sequence[Row], part: Row | None = None) -> None:
        """More rows, a cell a column. part: the start of one more, in the place of what was given as such before."""
        if self._has_part:
            self._rows.pop()
            n = len(self._rows)
            del self._starts[n + 1 :]
            self._drawn.pop(n, None)
        self._rows += rows
        for row in rows:
            self._wanted = [max(wanted, _length(cell)) for wanted, cell in zip(self._wanted, row, strict=True)]
        self._has_part = part is not None
        if part is not None:
            self._rows.append(part)

    # ---- where the rows are ----

    def height(self, width: int) -> int:
        """See `Part`."""
        wanted = self._wanted
        if self._has_part:
            wanted = [max(n, _length(cell)) for n, cell in zip(wanted, self._rows[-1], strict=True)]
        columns = fitted(wanted, width - _GAP * (len(wanted) - 1), _LEAST)
        if (width, columns) != (self._width, self._columns):
            self._width, self._columns = width, columns
            self._starts = [0]
            self._drawn.clear()
        starts = self._starts
        for n in range(len(starts) - 1, len(self._rows)):
            starts.append(starts[-1] + self._row_height(n))
        return self._head_height() + starts[-1]

    def _head_height(self) -> int:
        if self._columns is None:
            return 0 if self._rows else len(self._lines(-1, self._draw_head))
        return self._cells_height(self._header, self._columns) + 1

    def _row_height(self, n: int) -> int:
        if self._columns is not None:
            return self._cells_height(self._rows[n], self._columns)
        name, value = self._record_widths()
        heights = (max(_height(a, name), _height(b, value)) for a, b in zip(self._header, self._rows[n], strict=True))
        return sum(heights) + (n > 0)

    def _cells_height(self, row: Row, columns: Sequence[int]) -> int:
        return max(_height(cell, width) for cell, width in zip(row, columns, strict=True))

    def _record_widths(self) -> tuple[int, int]:
        """Cells of a column's name and of what stands behind it."""
        name = min(max(map(_length, self._header)), max(_LEAST, self._width // 3))
        return name, max(_LEAST, self._width - name - _GAP)

    # ---- drawing ----

    def line(self, n: int) -> Line:
        """See `Part`."""
        head = self._head_height()
        if n < head:
            return self._lines(-1, self._draw_head)[n]
        row = bisect_right(self._starts, n - head) - 1
        return self._lines(row, lambda: self._draw_row(row))[n - head - self._starts[row]]

    def _lines(self, row: int, draw: Callable[[], Iterator[Line]]) -> list[Line]:
        if row not in self._drawn:
            if len(self._drawn) > 500:
                self._drawn.clear()
            self._drawn[row] = list(draw())
        return self._drawn[row]

    def _draw_head(self) -> Iterator[Line]:
        if self._columns is None:
            head = Content(" · ").join(self._shown(cell).stylize("head") for cell in self._header)
            yield from wrapped(head, self._width)
            return
        yield from self._draw_cells([self._shown(cell).stylize("head") for cell in self._header])
        yield Line(Content.styled((" " * _GAP).join("─" * n for n in self._columns), "rule"), self._width)

    def _draw_row(self, n: int) -> Iterator[Line]:
        cells = [self._shown(cell) for cell in self._rows[n]]
        if self._columns is not None:
            yield from self._draw_cells(cells)
            return
        if n:
            yield Line(Content.styled("─" * self._width, "rule"), self._width)
        name, value = self._record_widths()
        for head, cell in zip(self._header, cells, strict=True):
            names, values = _wrapped(self._shown(head).stylize("quiet"), name), _wrapped(cell, value)
            for y in range(max(len(names), len(values))):
                left = names[y] if y < len(names) else Content("")
                right = values[y] if y < len(values) else Content("")
                yield Line(left.pad_right(name + _GAP - left.cell_length) + right)

    def _draw_cells(self, cells: Sequence[Content]) -> Iterator[Line]:
        columns = self._columns or ()
        wraps = [_wrapped(cell, width) for cell, width in zip(cells, columns, strict=True)]
        for y in range(max(map(len, wraps))):
            parts = [
                _aligned(lines[y] if y < len(lines) else Content(""), width, align)
                for lines, width, align in zip(wraps, columns, self._aligns, strict=True)
            ]
            yield Line(Content(" " * _GAP).join(parts))

    def _shown(self, cell: Inline) -> Content:
        return untabbed(self._paper.tinted(cell.content, cell.runs))

    def clear(self) -> None:
        """See `Block`."""
        self._drawn.clear()


def fitted(wanted: Sequence[int], room: int, least: int) -> list[int] | None:
    """`wanted` widths, the widest cut down to one and the same until all fit into `room`; None where `least` is too much."""
    if sum(wanted) <= room:
        return list(wanted)
    if sum(min(width, least) for width in wanted) > room:
        return None
    # The largest width to cut down to: what the narrower ones leave is shared among the others.
    left, others = room, len(wanted)
    for width in sorted(wanted):
        if width * others > left:
            break
        left -= width
        others -= 1
    level, more = divmod(left, others)
    widths = []
    for width in wanted:
        extra = width > level and more > 0
        more -= extra
        widths.append(min(width, level + extra))
    return widths


def _length(cell: Inline) -> int:
    return untabbed(cell.content).cell_length


def _height(cell: Inline, width: int) -> int:
    return 1 if _length(cell) <= width else len(_wrapped(cell.content, width))


def _wrapped(content: Content, width: int) -> list[Content]:
    return [line.content for line in wrapped(content, width)]


def _aligned(content: Content, width: int, align: str) -> Content:
    blanks = max(0, width - content.cell_length)
    left = blanks if align == "right" else blanks // 2 if align == "center" else 0
    return content.pad_left(left).pad_right(blanks - left)
