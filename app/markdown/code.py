"""A block of code, which may grow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from textual.content import Content

from pardec_chat.app.markdown.blocks import Block, Paper
from pardec_chat.app.markdown.highlight import Highlighter
from pardec_chat.app.markdown.lines import Line, padded, untabbed, wrapped
from pardec_chat.app.markdown.origins import Run

_SIDE = 2
#: Before what of a line did not fit on the line above.
_ON = "↳ "


class Code(Block):
    """Lines on a ground of their own; those that are too long go on below.

    places: where in the document each line begins. complete: no more will come.
    """

    is_long = True

    def __init__(self, paper: Paper, language: str, *, complete: bool) -> None:
        self.language = language
        self.complete = complete
        self._paper = paper
        self._lines: list[str] = []
        self._places: list[int] = []
        self._has_part = False
        self._highlighter = Highlighter(language, paper.jobs.append)
        self._width = -1
        # Where on the screen each line begins, and what was drawn of some.
        self._starts: list[int] = [0]
        self._drawn: dict[int, tuple[Sequence[object], list[Line]]] = {}

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self._lines)

    def take_over(self, before: Code) -> None:
        """Go on with the colours of what the same block was before it grew."""
        if before.language == self.language and not before.complete and self.text.startswith(before.text):
            self._highlighter = before._highlighter

    def add(self, lines: Iterable[tuple[str, int]], part: tuple[str, int] | None = None) -> None:
        """More lines, each with its place. part: the start of one more, in the place of what was given as such before."""
        if self._has_part:
            self._drop_last()
        for line, place in (*lines, *((part,) if part is not None else ())):
            self._lines.append(line)
            self._places.append(place)
        self._has_part = part is not None

    def _drop_last(self) -> None:
        self._lines.pop()
        self._places.pop()
        n = len(self._lines)
        del self._starts[n + 1 :]
        self._drawn.pop(n, None)

    # ---- drawing ----

    def height(self, width: int) -> int:
        """See `Part`."""
        if width != self._width:
            self._width = width
            self._starts = [0]
            self._drawn.clear()
        starts = self._starts
        for n in range(len(starts) - 1, len(self._lines)):
            starts.append(starts[-1] + self._rows(n))
        return max(1, starts[-1])

    def line(self, n: int) -> Line:
        """See `Part`."""
        if not self._lines:
            return Line(padded(Content(""), self._width, "code"))
        at = min(bisect_right(self._starts, n), len(self._lines)) - 1
        spans = self._highlighter.spans(self._lines, at, complete=self.complete)
        drawn = self._drawn.get(at)
        if drawn is None or drawn[0] is not spans:
            if len(self._drawn) > 500:
                self._drawn.clear()
            drawn = self._drawn[at] = (spans, list(self._draw(at, spans)))
        return drawn[1][n - self._starts[at]]

    def _rows(self, n: int) -> int:
        line = self._lines[n]
        if len(line) * 2 <= self._room and "\t" not in line:
            return 1
        return sum(1 for _ in self._wrapped(Content(line)))

    @property
    def _room(self) -> int:
        return max(len(_ON) + 2, self._width - 2 * _SIDE)

    def _wrapped(self, content: Content) -> Iterator[Line]:
        content = untabbed(content)
        if content.cell_length <= self._room:
            yield Line(content)
            return
        for n, line in enumerate(wrapped(content, self._room - len(_ON))):
            yield line.behind(Content.styled(_ON, "quiet")) if n else line

    def _draw(self, n: int, spans: Sequence[object]) -> Iterator[Line]:
        text = self._lines[n]
        content = Content(text, list(spans))  # type: ignore[arg-type]
        content = self._paper.tinted(content, (Run(0, len(text), self._places[n], len(text)),))
        side = Content(" " * _SIDE)
        for line in self._wrapped(content):
            shown = line.behind(side)
            yield Line(padded(shown.content, self._width, "code"), shown.lead, shown.joint)

    def clear(self) -> None:
        """See `Block`."""
        self._drawn.clear()

    def codes(self) -> Iterator[str]:
        """See `Block`."""
        yield self.text
