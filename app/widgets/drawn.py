"""A widget that draws lines of text itself, only those that are seen."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from rich.segment import Segment
from textual.content import Content, Span
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from pardec_chat.app.markdown.lines import BLANK, Line, Part
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets.page import SELECTED, Page

_BAR = "▌"
#: Cells that stay free at the right.
_RIGHT = 1
# Lines that were drawn and are kept at most.
_MOST = 400


@dataclass(slots=True)
class Placed:
    """A part of the widget. indent: cells before its lines. look: what all of its text has."""

    part: Part
    indent: int = 0
    look: str = ""


class Space(Part):
    """An empty line."""

    def height(self, width: int) -> int:
        """See `Part`."""
        return 1

    def line(self, n: int) -> Line:
        """See `Part`."""
        return BLANK


class Drawn(Widget):
    """Stands in a `Page`. As high as its parts; a line is made when it comes into sight."""

    DEFAULT_CSS = """
    Drawn {
        height: auto;
        width: 1fr;
        link-style: none;
        link-style-hover: underline;
        link-background-hover: $surface;
        link-color-hover: $primary;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._page: Page | None = None
        self._placed: Sequence[Placed] = ()
        # For a width: where each part begins, and the line behind the last one.
        self._laid_out = -1
        self._tops: list[int] = [0]
        # What was drawn, by line, and what it was drawn of.
        self._strips: dict[int, tuple[object, Strip]] = {}

    @abstractmethod
    def parts(self) -> Iterable[Placed]:
        """What is to be seen now, from top to bottom."""

    def on_mount(self) -> None:
        """Find out where it stands."""
        self._page = next((node for node in self.ancestors if isinstance(node, Page)), None)

    # ---- where the lines are ----

    def changed(self) -> None:
        """Show the parts as they are now; a layout of the whole screen only where there are more lines, or fewer."""
        n_lines, width = self._tops[-1], self._laid_out
        self._laid_out = -1
        if width > 0:
            self._lay_out(width)
        self.refresh(layout=self._tops[-1] != n_lines or width <= 0)

    def measure(self, width: int) -> int:
        """How many lines it takes, also before it is mounted."""
        self._lay_out(width)
        return self._tops[-1]

    def _lay_out(self, width: int) -> None:
        if width == self._laid_out:
            return
        self._laid_out = width
        self._placed = tuple(self.parts())
        heights = (placed.part.height(max(1, width - placed.indent - _RIGHT)) for placed in self._placed)
        self._tops = list(accumulate(heights, initial=0))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the parts take."""
        return self.measure(width)

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual lays out all of the screen once more when a widget got higher; nothing comes of that here.
        return super()._size_updated(size, virtual_size, container_size, layout=False)

    def _line(self, y: int) -> tuple[Line, Placed | None]:
        if not 0 <= y < self._tops[-1]:
            return BLANK, None
        n = bisect_right(self._tops, y) - 1
        placed = self._placed[n]
        return placed.part.line(y - self._tops[n]), placed

    # ---- drawing ----

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of what is seen; without borders and the like there is no need of Textual's own way."""
        width = self.size.width
        strips = [self.render_line(y) for y in crop.line_range]
        filters, (_, background) = self.get_line_filters(), self.background_colors
        for one in filters:
            strips = [strip.apply_filter(one, background) for strip in strips]
        hover = self.hover_style
        if hover._link_id and "@click" in hover.meta and (style := self.link_style_hover):
            strips = [strip.style_links(hover.link_id, style) for strip in strips]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        width, page = self.size.width, self._page
        if page is None or width <= 0:
            return Strip.blank(width)
        self._lay_out(width)
        line, placed = self._line(y)
        indent, look = (placed.indent, placed.look) if placed is not None else (0, "")
        key = (line, indent, width, self.has_focus)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            return self._strip(page, _selected(line.content, span, indent), look, indent).apply_offsets(0, y)
        known = self._strips.get(y)
        if known is None or known[0] != key:
            if len(self._strips) > _MOST:
                self._strips.clear()
            strip = self._strip(page, line.content, look, indent).apply_offsets(0, y)
            known = self._strips[y] = (key, strip)
        return known[1]

    def _strip(self, page: Page, content: Content, look: str, indent: int) -> Strip:
        base = page.look(())
        segments = []
        if indent:
            bar = _BAR if self.has_focus else ""
            if bar:
                segments.append(Segment(bar, page.look(("focus",))))
            segments.append(Segment(" " * (indent - len(bar)), base))
        segments += [Segment(text, page.look(names)) for text, names in _stretches(content, look)]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def notify_style_update(self) -> None:
        """Another theme."""
        self._strips.clear()
        super().notify_style_update()

    def on_focus(self) -> None:
        """Show it."""
        self.refresh()

    def on_blur(self) -> None:
        """Show it no more."""
        self.refresh()

    # ---- what the mouse does ----

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """What of the text is selected; lines that were wrapped are one again."""
        last = self._tops[-1] - 1
        start, end = selection
        first = max(0, start.y) if start is not None else 0
        last = min(end.y, last) if end is not None else last
        texts: list[str] = []
        for y in range(first, last + 1):
            line, placed = self._line(y)
            indent = placed.indent if placed is not None else 0
            left = start.x - indent if start is not None and y == start.y else 0
            right = end.x - indent if end is not None and y == end.y else None
            text = line.content.plain[max(left, line.lead, 0) : right if right is None else max(0, right)]
            texts.append((line.joint if texts else "") + text.rstrip())
        return ("".join(texts), "\n") if texts else None

    def action_open(self, address: str) -> None:
        """Open web addresses; only say what others are."""
        address = visible_line(address)
        if address.startswith(("https://", "http://")):
            self.app.open_url(address)
            self.notify(address, title="Opened in the browser", markup=False)
        else:
            self.notify(address, title="Not a web address, not opened", markup=False)


def _selected(content: Content, span: tuple[int, int], indent: int) -> Content:
    start, end = max(0, span[0] - indent), len(content.plain) if span[1] < 0 else max(0, span[1] - indent)
    return content.add_spans([Span(start, min(end, len(content.plain)), SELECTED)]) if start < end else content


def _stretches(content: Content, look: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Stretches of text with the names of the same looks."""
    text = content.plain
    base = (look,) if look else ()
    spans = [span for span in content.spans if span.start < span.end]
    if not spans:
        if text:
            yield text, base
        return
    cuts = sorted({0, len(text), *(span.start for span in spans), *(min(span.end, len(text)) for span in spans)})
    for start, end in pairwise(cuts):
        names = tuple(str(span.style) for span in spans if span.start <= start and span.end >= end)
        yield text[start:end], base + names
