"""Text with emphasis, code and links: what the parser found, as one styled text whose characters know their places."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.content import Content, Span

from pardec_chat.app.markdown.lines import OPEN
from pardec_chat.app.markdown.origins import Run
from pardec_chat.app.markdown.parser import END, parser

if TYPE_CHECKING:
    from markdown_it.token import Token

_LOOKS = {"em": "em", "strong": "strong", "s": "strike"}
# What may be more than text; in a cell of a table it mostly is not there.
_MARKED = re.compile(r"[!&*:<@\[\\\]_`~.\n\t]")
_IMAGE = "image: "


class Places:
    """Where the characters of an inline source stand in the document: pieces of it that are the same there."""

    def __init__(self, pieces: Iterable[tuple[int, int]]) -> None:
        self._starts, self._places = [], []
        for start, place in pieces:
            self._starts.append(start)
            self._places.append(place)

    def runs(self, at: int, length: int, start: int) -> Iterable[Run]:
        """`length` characters from `start` of the source on, which are drawn at `at`."""
        i = bisect_right(self._starts, start) - 1
        while length > 0 and i >= 0:
            end = self._starts[i + 1] if i + 1 < len(self._starts) else start + length
            n = min(length, end - start)
            yield Run(at, n, self.place(start), n)
            at, start, length, i = at + n, start + n, length - n, i + 1

    def place(self, at: int) -> int:
        """Where one character stands."""
        i = max(0, bisect_right(self._starts, at) - 1)
        return self._places[i] + at - self._starts[i] if self._places else 0


@dataclass(slots=True)
class Inline:
    """A styled text. runs: where in the document its characters stand."""

    content: Content
    runs: Sequence[Run]

    def without(self, n: int) -> Inline:
        """The same without its first `n` characters."""
        runs = [
            Run(max(0, run.at - n), run.length - cut, run.start + cut, run.size - cut)
            for run in self.runs
            if run.length > (cut := max(0, n - run.at))
        ]
        return Inline(self.content[n:], runs)


def parse_inline(source: str, places: Places, env: dict[str, Any]) -> Inline:
    """A source of its own, as of a cell."""
    if not _MARKED.search(source):
        return Inline(Content(source), tuple(places.runs(0, len(source), 0)))
    token = parser().parseInline(source, env)[0]
    return styled(token.children or (), source, places)


def styled(tokens: Iterable[Token], source: str, places: Places) -> Inline:
    """What the parser made of `source`."""
    reader = _Reader(source, places)
    for token in tokens:
        reader.take(token)
    return Inline(Content("".join(reader.text), reader.spans), reader.runs)


class _Reader:
    """Walks the tokens and the source side by side.

    at: where the text is. pos: where the source is; what is not text in it is stepped over by what each token says of it.
    """

    def __init__(self, source: str, places: Places) -> None:
        self.text: list[str] = []
        self.spans: list[Span] = []
        self.runs: list[Run] = []
        self._source = source
        self._places = places
        self._at = 0
        self._pos = 0
        self._open: list[tuple[int, str]] = []

    def take(self, token: Token) -> None:
        """The next token."""
        match token.type:
            case "text":
                self._add(token.content)
            case "text_special":
                self._add_instead(token.content, len(token.markup))
            case "softbreak" | "hardbreak":
                self._break()
            case "code_inline":
                self._code(token)
            case "em_open" | "strong_open" | "s_open":
                self._pos += len(token.markup)
                self._open.append((self._at, _LOOKS[token.tag]))
            case "em_close" | "strong_close" | "s_close":
                self._pos += len(token.markup)
                self._close()
            case "link_open":
                self._pos += token.markup != "linkify"
                self._open_link(token.attrs.get("href"))
            case "link_close":
                self._close()
                self._close()
                self._pos = token.meta.get(END, self._pos + (token.markup == "autolink"))
            case "image":
                self._open_link(token.attrs.get("src"))
                self._add_instead(_IMAGE, 2)
                for child in token.children or ():
                    self.take(child)
                self._close()
                self._close()
                self._pos = token.meta.get(END, self._pos)

    def _add(self, text: str) -> None:
        """Text that stands in the source as it is."""
        if not self._source.startswith(text, self._pos):
            # A mark that nothing told of; the text itself is further on.
            self._pos = max(self._pos, self._source.find(text, self._pos))
        self.runs += self._places.runs(self._at, len(text), self._pos)
        self._put(text)
        self._pos += len(text)

    def _add_instead(self, text: str, size: int) -> None:
        """Text that stands for `size` characters of the source."""
        if text:
            self.runs.append(Run(self._at, len(text), self._places.place(self._pos), size))
            self._put(text)
        self._pos += size

    def _put(self, text: str) -> None:
        self.text.append(text)
        self._at += len(text)

    def _break(self) -> None:
        # Models end lines where they mean it, as in verse and addresses.
        end = self._source.find("\n", self._pos)
        self._put("\n")
        self._pos = end + 1 if end >= 0 else self._pos
        while self._source[self._pos : self._pos + 1] in (" ", "\t"):
            self._pos += 1

    def _code(self, token: Token) -> None:
        mark, text = len(token.markup), token.content
        self._pos += mark
        stripped = self._source[self._pos : self._pos + len(text)].replace("\n", " ") != text
        self._open.append((self._at, "code-inline"))
        self._pos += stripped
        # A line end in it is a blank.
        self.runs += self._places.runs(self._at, len(text), self._pos)
        self._put(text)
        self._close()
        self._pos += len(text) + stripped + mark

    def _open_link(self, address: object) -> None:
        self._open.append((self._at, "link"))
        self._open.append((self._at, f"{OPEN}{address}"))

    def _close(self) -> None:
        if self._open:
            start, look = self._open.pop()
            if start < self._at:
                self.spans.append(Span(start, self._at, look))
