"""What text looks like: from the names of component styles to the terminal's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.style import Style

from pardec_chat.app.markdown.lines import CLICK

if TYPE_CHECKING:
    from textual.content import Content
    from textual.widget import Widget

#: The look of text that the mouse has selected, which is the screen's own.
SELECTED = "selected"
# Looks with their addresses are kept until there are too many of them.
_MOST = 2000


class Looks:
    """Those of one widget's component classes, each worked out once for a theme."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._base: Style | None = None
        self._looks: dict[tuple[str, ...], RichStyle] = {}

    def clear(self) -> None:
        """Another theme."""
        self._looks.clear()

    def __call__(self, names: tuple[str, ...]) -> RichStyle:
        """How text looks that has all these names, a later one over an earlier one; a dot before a name is left out."""
        base = self._widget.visual_style
        if self._base is not base:
            self._base = base
            self._looks.clear()
        if names not in self._looks:
            if len(self._looks) > _MOST:
                self._looks.clear()
            self._looks[names] = self._combine(base, names)
        return self._looks[names]

    def segments(self, content: Content, look: str = "") -> Iterator[Segment]:
        """One line of text. look: what all of it has."""
        for text, names in _stretches(content, look):
            yield Segment(text, self(names))

    def _combine(self, style: Style, names: tuple[str, ...]) -> RichStyle:
        extra = RichStyle()
        for name in names:
            if name.startswith(CLICK):
                action, _, argument = name.removeprefix(CLICK).partition(" ")
                extra += RichStyle.from_meta({"@click": (action, (argument,))})
                continue
            styles = (
                self._widget.screen.get_component_styles("screen--selection")
                if name == SELECTED
                # What a note says of its parts begins with a dot.
                else self._widget.get_component_styles(name.removeprefix("."))
            )
            text = styles.text_style
            style += Style(
                styles.background if styles.has_rule("background") else None,
                styles.color if styles.has_rule("color") and not styles.auto_color else None,
                bold=text.bold,
                italic=text.italic,
                underline=text.underline,
                underline2=text.underline2,
                reverse=text.reverse,
                strike=text.strike,
            )
            # Textual's style does not know it.
            if text.overline:
                extra += RichStyle(overline=True)
        return style.rich_style + extra


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
