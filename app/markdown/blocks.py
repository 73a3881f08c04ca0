"""What Markdown consists of, as parts that draw themselves: texts, rules, quotes and the items of lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from textual.content import Content, Span

from pardec_chat.app.markdown.highlight import Job
from pardec_chat.app.markdown.inline import Inline
from pardec_chat.app.markdown.lines import BLANK, Line, Lines, wrapped
from pardec_chat.app.markdown.origins import Origins, Run

_BAR = "▌ "
_BULLETS = ("• ", "◦ ", "▪ ")
_TASKS = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
# Cells that text has at least; where it stands too deep for that, nothing stands before it.
_LEAST = 8


@dataclass(slots=True)
class Paper:
    """What all blocks of a document share. tint: whether characters stand on the ground of their origin.

    jobs: what is to be done later, see `Job`.
    """

    origins: Origins = field(default_factory=Origins)
    tint: bool = False
    jobs: list[Job] = field(default_factory=list)

    def tinted(self, content: Content, runs: Iterable[Run]) -> Content:
        """`content` as it is to be shown."""
        if not self.tint:
            return content
        # A line below it would look like one that tells an origin.
        spans = [Span(start, end, "link-tinted" if style == "link" else style) for start, end, style in content.spans]
        return self.origins.tint(Content(content.plain, spans), runs)


class Block(ABC):
    """A part of a document, see `Part`."""

    #: Whether it is long enough to need an empty line around it even in a list.
    is_long = False

    @abstractmethod
    def height(self, width: int) -> int:
        """See `Part`."""

    @abstractmethod
    def line(self, n: int) -> Line:
        """See `Part`."""

    def clear(self) -> None:
        """It looks different now, and is as high as before."""

    def codes(self) -> Iterator[str]:
        """The texts of the code in it."""
        yield from ()


class _Small(Lines, Block):
    """A block whose lines are all made at once."""


class Text(_Small):
    """A paragraph, or a heading, which has a look: h1 to h6."""

    def __init__(self, paper: Paper, inline: Inline, look: str = "") -> None:
        super().__init__()
        self._paper = paper
        self.inline = inline
        self._look = look

    def make(self, width: int) -> Iterable[Line]:
        """See `Lines`."""
        content = self._paper.tinted(self.inline.content, self.inline.runs)
        if self._look:
            content = Content(content.plain, [Span(0, len(content.plain), self._look), *content.spans])
        return wrapped(content, width)


class Rule(_Small):
    """A line from side to side."""

    def make(self, width: int) -> Iterable[Line]:
        """See `Lines`."""
        yield Line(Content.styled("─" * width, "rule"), width)


class _Nest(Block):
    """Blocks with something before each of their lines, while there is room for it."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._stack = Stack(nested=True)
        self._has_room = True
        # What was drawn, by line, with the line that it is made of.
        self._drawn: dict[int, tuple[Line, Line]] = {}

    def height(self, width: int) -> int:
        """See `Part`."""
        inside = width - self._indent()
        self._has_room = inside >= _LEAST
        self._drawn.clear()
        return max(1, self._stack.update(inside if self._has_room else width, self._blocks))

    def line(self, n: int) -> Line:
        """See `Part`."""
        line = self._stack.line(n)
        if not self._has_room:
            return line
        known = self._drawn.get(n)
        if known is None or known[0] is not line:
            known = self._drawn[n] = (line, self._indented(n, line))
        return known[1]

    @abstractmethod
    def _indent(self) -> int:
        """Cells before each line."""

    @abstractmethod
    def _indented(self, n: int, line: Line) -> Line:
        """Line `n` with what stands before it."""

    def clear(self) -> None:
        """See `Block`."""
        for block in self._blocks:
            block.clear()

    def codes(self) -> Iterator[str]:
        """See `Block`."""
        for block in self._blocks:
            yield from block.codes()


class Quote(_Nest):
    """Blocks behind a bar."""

    is_long = True

    def _indent(self) -> int:
        return len(_BAR)

    def _indented(self, n: int, line: Line) -> Line:
        return line.behind(Content.styled(_BAR, "bar"))


@dataclass(slots=True, eq=False)
class Numbering:
    """What the items of one list share. mark: as in the source. first: number of the first item, None for bullets.

    depth: how many lists with bullets it stands in.
    """

    mark: str
    first: int | None = None
    depth: int = 0
    count: int = 0

    @property
    def width(self) -> int:
        """Cells of the widest number or of a bullet."""
        return 2 if self.first is None else len(f"{self.first + max(0, self.count - 1)}{self.mark} ")

    def bullet(self, n: int) -> str:
        """What stands before item `n`, counted from 0. As CommonMark has it, only the first number counts."""
        if self.first is None:
            return _BULLETS[self.depth % len(_BULLETS)]
        return f"{self.first + n}{self.mark} ".rjust(self.width)


class Item(_Nest):
    """An item of a list."""

    def __init__(self, blocks: Sequence[Block], numbering: Numbering) -> None:
        super().__init__(blocks)
        self.numbering = numbering
        self.n = numbering.count
        self._task = ""
        numbering.count += 1
        texts = sum(isinstance(block, Text) for block in blocks)
        self.is_long = texts > 1 or any(block.is_long for block in blocks)
        if numbering.first is None and blocks and isinstance(text := blocks[0], Text):
            self._task = _TASKS.get(text.inline.content.plain[:4], "")
            if self._task:
                text.inline = text.inline.without(4)

    def _indent(self) -> int:
        return len(self._task) or self.numbering.width

    def _indented(self, n: int, line: Line) -> Line:
        if n:
            return line.behind(Content(" " * self._indent()))
        bullet = self._task or self.numbering.bullet(self.n)
        # The bullet is copied with the text.
        lead = line.lead and line.lead + len(bullet)
        return Line(Content.styled(bullet, "task" if self._task else "bullet") + line.content, lead, line.joint)


def gap(before: Block, block: Block, *, nested: bool = False) -> int:
    """Empty lines between two blocks."""
    if isinstance(block, Item):
        if isinstance(before, Item) and before.numbering is block.numbering:
            return int(before.is_long)
        return int(not nested)
    return 1


class Stack:
    """Blocks below each other, for a width. nested: in an item or a quote."""

    def __init__(self, *, nested: bool = False) -> None:
        self._nested = nested
        self._width = -1
        self._blocks: list[Block] = []
        self._tops: list[int] = []
        self._ends: list[int] = []
        # How many of them are done, and how wide the bullets of the last list were.
        self._n_done = 0
        self._bullets: tuple[Numbering, int] | None = None

    def clear(self) -> None:
        """Some that were done are others now."""
        self._width = -1

    def update(self, width: int, done: Sequence[Block], tail: Sequence[Block] = ()) -> int:
        """The height of all; what was done before is not asked again."""
        if width != self._width or (self._bullets is not None and self._bullets[0].width != self._bullets[1]):
            self._width, self._n_done = width, 0
        for kept in (self._blocks, self._tops, self._ends):
            del kept[self._n_done :]
        for block in (*done[self._n_done :], *tail):
            top = self._ends[-1] + gap(self._blocks[-1], block, nested=self._nested) if self._blocks else 0
            self._blocks.append(block)
            self._tops.append(top)
            self._ends.append(top + block.height(width))
        self._n_done = len(done)
        last = self._blocks[-1] if self._blocks else None
        self._bullets = (last.numbering, last.numbering.width) if isinstance(last, Item) else None
        return self._ends[-1] if self._ends else 0

    def line(self, n: int) -> Line:
        """One of the lines."""
        i = bisect_right(self._tops, n) - 1
        return self._blocks[i].line(n - self._tops[i]) if i >= 0 and n < self._ends[i] else BLANK
