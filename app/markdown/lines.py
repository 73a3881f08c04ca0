"""Lines of a message: text with the names of its looks, cut to a width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.cells import cell_len
from textual.content import Content, Span

from pardec_chat.app.markdown.breaks import breaks

#: A span's style that begins so is no look but what a click does: an action's name, a blank and its argument.
CLICK = "@"
#: The one that opens an address.
OPEN = f"{CLICK}open "
# Columns from one tab stop to the next.
_TAB = 4


@dataclass(slots=True, eq=False)
class Line:
    """One line as it is drawn. The styles of its spans are names, which whoever paints gives colours.

    lead: characters at its start that are no text, as of an indentation; they are not copied.
    joint: what stands between the line before and this one where text is copied.
    """

    content: Content
    lead: int = 0
    joint: str = "\n"

    def behind(self, prefix: Content) -> Line:
        """The same line with something that is no text before it."""
        return Line(prefix + self.content, self.lead + len(prefix.plain), self.joint)


BLANK = Line(Content(""))


class Part(Protocol):
    """What a message consists of: lines, which are only made when they are asked for."""

    def height(self, width: int) -> int:
        """How many lines there are where a line has `width` cells."""

    def line(self, n: int) -> Line:
        """One of them; `height` was asked before."""


class Lines:
    """A part whose lines are all made at once: for what is short."""

    def __init__(self) -> None:
        self._width = -1
        self._lines: Sequence[Line] | None = None

    def make(self, width: int) -> Iterable[Line]:
        """The lines for a width."""
        raise NotImplementedError

    def clear(self) -> None:
        """Make them again when they are asked for."""
        self._lines = None

    def height(self, width: int) -> int:
        """See `Part`."""
        if width != self._width:
            self._width, self._lines = width, None
        return len(self._made())

    def line(self, n: int) -> Line:
        """See `Part`."""
        return self._made()[n]

    def _made(self) -> Sequence[Line]:
        if self._lines is None:
            self._lines = tuple(self.make(self._width))
        return self._lines


def wrapped(content: Content, width: int) -> Iterator[Line]:
    """Lines of text; an empty text has one, too."""
    for hard in content.split("\n", allow_blank=True):
        hard = untabbed(hard)
        if hard.cell_length <= width:
            yield Line(hard)
        else:
            plain, at = hard.plain, 0
            for piece in _cut(hard, max(2, width)):
                # What the wrapping took away at the end of the line before comes back where text is copied.
                start = at
                while plain[at : at + len(piece.plain)] != piece.plain and at < len(plain):
                    at += 1
                yield Line(piece, 0, plain[start:at] if at else "\n")
                at += len(piece.plain)


def _cut(content: Content, width: int) -> Sequence[Content]:
    """One line of text in parts of at most `width` cells, without the blanks at their ends."""
    if (cuts := breaks(content.plain, width)) is None:
        return content.wrap(width)
    *parts, last = content.divide(cuts)
    return [*(part.rstrip() for part in parts), last]


def untabbed(content: Content) -> Content:
    """One line of text with blanks in place of tabs. Textual's own way counts cells only where there are spans."""
    plain = content.plain
    if "\t" not in plain:
        return content
    text, places, cells = [], [0], 0
    for n, piece in enumerate(plain.split("\t")):
        if n:
            blanks = _TAB - cells % _TAB
            text.append(" " * blanks)
            places.append(places[-1] + blanks)
            cells += blanks
        text.append(piece)
        places += range(places[-1] + 1, places[-1] + 1 + len(piece))
        cells += cell_len(piece)
    return Content("".join(text), [Span(places[start], places[end], style) for start, end, style in content.spans])


def padded(content: Content, width: int, style: str) -> Content:
    """`content` filled with blanks to `width` cells, all of it on the ground that `style` has."""
    content = content.pad_right(max(0, width - content.cell_length))
    return Content(content.plain, [Span(0, len(content.plain), style), *content.spans], content.cell_length)
