"""Which tokens the characters of a text came with, and what guessed those."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from unicodedata import category

from textual.content import Content, Span

from pardec_chat.backends.base import Method

_NAMES = {method: f"origin-{method.value}" for method in (Method.DRAFT, Method.NGRAM, Method.LOOKAHEAD)}
#: The other methods guess with heads or layers of the model's own.
_HEAD = "origin-head"

_ZWJ = "\u200d"
# Skin tones, and the parts of a Hangul syllable that never begin one.
_JOINED = re.compile("[\U0001f3fb-\U0001f3ff\u1160-\u11ff\ud7b0-\ud7ff\U000e0020-\U000e007f]")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")


class Run(NamedTuple):
    """Characters `at` to `at + length` of what is drawn stand for `size` characters of the source from `start` on.

    With the same length they are the same characters; else all of them stand for all of these, as with `&amp;`.
    """

    at: int
    length: int
    start: int
    size: int


def look(method: Method) -> str:
    """The name of the style that text of this origin has; empty for the model's own."""
    return "" if method == Method.PLAIN else _NAMES.get(method, _HEAD)


class Origins:
    """Grows with a text; neighbours of the same origin are kept as one."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._methods: list[Method] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def add(self, n: int, method: Method) -> None:
        """`n` more characters."""
        if n <= 0:
            return
        end = len(self) + n
        if self._methods and self._methods[-1] == method:
            self._ends[-1] = end
        else:
            self._ends.append(end)
            self._methods.append(method)

    def within(self, start: int, end: int) -> Iterator[tuple[int, int, Method]]:
        """What the characters from `start` to `end` came with, in stretches."""
        i = bisect_right(self._ends, start)
        while start < end and i < len(self._ends):
            stop = min(end, self._ends[i])
            yield start, stop, self._methods[i]
            start, i = stop, i + 1

    def tint(self, content: Content, runs: Iterable[Run]) -> Content:
        """`content` with each character on the ground of its origin."""
        spans = list(self._spans(content.plain, runs))
        return content.add_spans(spans) if spans else content

    def _spans(self, text: str, runs: Iterable[Run]) -> Iterator[Span]:
        reached = 0
        for run in runs:
            if run.length == run.size:
                stretches: Iterable[tuple[int, int, Method]] = self.within(run.start, run.start + run.size)
                shift = run.at - run.start
            else:
                # It was complete with the last character that it takes.
                last = run.start + run.size - 1
                stretches = ((run.at, run.at + run.length, method) for _, _, method in self.within(last, last + 1))
                shift = 0
            for start, end, method in stretches:
                start, end = max(start + shift, reached), _whole(text, end + shift)
                reached = max(reached, end)
                if start < end and (name := look(method)):
                    yield Span(start, end, name)


def _whole(text: str, end: int) -> int:
    """The end of the character on the screen that `text` is in the middle of at `end`, if it is."""
    while 0 < end < len(text) and _is_joined(text, end):
        end += 1
    return end


def _is_joined(text: str, at: int) -> bool:
    here, before = text[at], text[at - 1]
    if here < "\u0300":
        return before == _ZWJ
    if here == _ZWJ or before == _ZWJ or category(here)[0] == "M" or _JOINED.match(here):
        return True
    if _FLAG.match(here):
        n = 0
        while n < at and _FLAG.match(text[at - 1 - n]):
            n += 1
        return n % 2 == 1
    return False
