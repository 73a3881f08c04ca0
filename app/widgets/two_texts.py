"""Two texts side by side, or one above the other, that scroll together."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message

from pardec_chat.app.widgets.comparison_words import Side
from pardec_chat.app.widgets.folded import folded
from pardec_chat.app.widgets.sheet import Parts, Sheet
from pardec_chat.app.widgets.strung import strung
from pardec_chat.app.widgets.wording import fit

_GUTTER, _RULE = "▸ ", " │ "
#: In a narrower window they stand one above the other.
_WIDE = 100
#: What is marked where the difference is not a letter: the end of a line, the end of the text.
_SIGNS = {"\n": "↵", "": "∎"}
#: What is marked of a word; Japanese has no blanks between words.
_RUN = re.compile(r"\S{1,12}|\s|$")

_Part = tuple[str, str]


class TwoTexts(Sheet):
    """The same line of both is always at the same height; the first difference is marked in both."""

    @dataclass
    class HeadClicked(Message):
        """side: 0 is the left or upper one."""

        side: int

    def __init__(self) -> None:
        super().__init__()
        self._sides: tuple[Side, ...] = ()
        self._goes_to_mark = False
        # At the width of now: of a side, in cells, its heads and the places of its lines.
        self._side_width = 0
        self._heads: list[list[_Part]] = []
        self._places: list[list[tuple[int, int]]] = []

    def show(self, left: Side, right: Side) -> None:
        """Show these two, where they begin to differ."""
        self._sides, self._places, self._goes_to_mark = (left, right), [], True
        self.change()

    @property
    def wide(self) -> bool:
        """Whether they stand side by side."""
        return self.app.size.width >= _WIDE

    # ---- where everything is ----

    def lay_out(self, width: int) -> int:
        """See `Sheet`."""
        if not self._sides:
            return 0
        self._side_width = (width - len(_RULE)) // 2 if self.wide else width
        room = self._side_width - len(_GUTTER) - 1  # for a sign behind the last letter
        self._places = [folded(side.text, room) for side in self._sides]
        heads = [_head(side, self._side_width) for side in self._sides]
        most = max(map(len, heads))
        self._heads = [[*head, *[("", "text")] * (most - len(head))] for head in heads] if self.wide else heads
        height = self.scrollable_content_region.height
        return max(map(len, self._places)) + height - self._n_seen

    @property
    def _panes(self) -> list[tuple[int, int]]:
        """Of each side, the line that it begins at and the one behind its last."""
        height = self.scrollable_content_region.height
        if self.wide:
            return [(0, height), (0, height)]
        return [(0, height // 2), (height // 2, height)]

    @property
    def _n_seen(self) -> int:
        """Lines of text that are seen of each side; of the two panes, in the smaller one."""
        last = 0 if self.wide else 1  # a rule below the upper one
        sizes = [
            end - start - len(head) - 1 - (last if i == 0 else 0)
            for i, ((start, end), head) in enumerate(zip(self._panes, self._heads, strict=True))
        ]
        return max(1, min(sizes))

    def change(self) -> None:
        """See `Sheet`; what is read stays in sight."""
        top = self.scroll_offset.y
        at = self._places[0][min(top, len(self._places[0]) - 1)][0] if self._places else 0
        super().change()
        if self._goes_to_mark:
            self.go_to_mark()
        elif self._places:
            self._scroll(_line_of(self._places[0], at))

    def go_to_mark(self) -> None:
        """Bring the first difference into view, with some lines before it."""
        if not self._places:
            return
        self._goes_to_mark = False
        lines = [
            _line_of(places, side.mark)
            for places, side in zip(self._places, self._sides, strict=True)
            if side.mark is not None
        ]
        self._scroll(max(0, min(lines) - self._n_seen // 3) if lines else 0)

    def _scroll(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)

    # ---- drawing ----

    def seen(self, y: int, width: int) -> Parts:
        """See `Sheet`."""
        if not self._places:
            return ()
        if not self.wide:
            i = int(y >= self._panes[1][0])
            if i == 0 and y == self._panes[0][1] - 1:
                return (("─" * width, "rule"),)
            return list(self._side_line(i, y - self._panes[i][0]))
        left, right = (list(self._side_line(i, y)) for i in (0, 1))
        gap = " " * (self._side_width - sum(cell_len(text) for text, _ in left))
        return [*left, (gap, "text"), (_RULE, "rule"), *right]

    def _side_line(self, i: int, y: int) -> Iterator[_Part]:
        head, side, places = self._heads[i], self._sides[i], self._places[i]
        if y < len(head):
            yield head[y]
            return
        number = y - len(head) - 1 + self.scroll_offset.y
        if y == len(head) or number >= len(places):
            return
        start, end = places[number]
        if side.mark is None or _line_of(places, side.mark) != number:
            yield " " * len(_GUTTER) + fit(side.text[start:end].rstrip(), self._side_width - len(_GUTTER)), "text"
            return
        yield _GUTTER, "bar"
        room = self._side_width - len(_GUTTER)
        for text, role in _marked(side.text, start, end, side.mark):
            cut = fit(text, room)
            room -= cell_len(cut)
            yield cut, role

    def on_click(self, event: events.Click) -> None:
        """On a head."""
        x, y = event.x, event.y
        for side, (start, _) in enumerate(self._panes if self._places else ()):
            mine = not self.wide or (x > self._side_width) == bool(side)
            if mine and start <= y < start + len(self._heads[side]):
                self.post_message(self.HeadClicked(side))


def _head(side: Side, width: int) -> list[_Part]:
    names = strung(side.name, width)
    return [
        *((fit(line, width), "value") for line in names),
        *((fit(line, width), "quiet") for line in strung(side.figures, width)),
    ]


def _line_of(places: list[tuple[int, int]], at: int) -> int:
    return max(0, bisect_right(places, at, key=lambda place: place[0]) - 1)


def _marked(text: str, start: int, end: int, mark: int) -> Iterator[_Part]:
    """A line with the difference in it: the word, or a sign where there is no letter to mark."""
    if start < mark < len(text) and not cell_len(text[mark]) and not text[mark].isspace():
        mark -= 1  # not an accent without its letter
    yield text[start:mark], "text"
    run = _RUN.match(text, mark)
    what = run.group() if run is not None else ""
    if not what.strip():
        yield _SIGNS.get(what, "␣"), "marked"
        yield text[mark + 1 : end].rstrip(), "text"
    else:
        yield what[: end - mark], "marked"
        yield text[mark + len(what) : end].rstrip(), "text"
