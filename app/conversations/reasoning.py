"""The reasoning in an answer: what stands between `<think>` and `</think>`, told apart while the text still grows.

A mark opens at the start of a line outside fenced code, so that an answer which explains the mark is no reasoning. It
closes wherever its counterpart stands, but not in inline code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["thinking", "text"]

_OPEN, _CLOSE = ("<think>", "<thinking>"), ("</think>", "</thinking>")
_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})([^\r\n]*)")
_CLOSED = re.compile(r"(?<!`)</think(?:ing)?>[ \t]*(?:\r?\n|$)")
# An indentation by more is code.
_MOST_SPACES = 3


@dataclass(frozen=True, slots=True)
class Part:
    """Characters `start` to `end` of an answer, the marks not among them."""

    kind: Kind
    start: int
    end: int


class Fence:
    """Follows text line by line through fenced code.

    mark: what opened the block that the last line stands in; empty outside of one. indent: what stood before the mark.
    """

    def __init__(self) -> None:
        self.mark, self.indent = "", ""

    def line(self, line: str) -> None:
        """The next line, with or without its end."""
        if not (found := _FENCE.match(line)):
            return
        indent, mark, behind = found.groups()
        if not self.mark:
            if not (mark[0] == "`" and "`" in behind):
                self.mark, self.indent = mark, indent
        elif mark[0] == self.mark[0] and len(mark) >= len(self.mark) and not behind.strip():
            self.mark = self.indent = ""


class Reasoning:
    """Splits an answer that comes in pieces; what `feed` and `finish` return, joined, is what `split` finds in the whole.

    opened: the chat template has written the opening mark already. thinking: whether the text has come to be reasoning.
    """

    def __init__(self, opened: bool = False) -> None:
        self.thinking = opened
        # The start of what may become a mark.
        self._held = ""
        # The character before the text that comes next; asked for while thinking.
        self._before = ""
        # Spaces since the line began, None as soon as anything else came; the line so far; both outside of reasoning.
        self._lead: int | None = 0
        self._line: list[str] = []
        self._fence = Fence()

    @property
    def in_code(self) -> bool:
        """Whether the last line that is whole stands in fenced code."""
        return bool(self._fence.mark)

    def feed(self, text: str) -> list[tuple[Kind, str]]:
        """More of the answer: what can be shown now. The start of a possible mark comes with a later piece."""
        return self._take(text, whole=False)

    def finish(self) -> list[tuple[Kind, str]]:
        """The answer has ended: what was held back."""
        return self._take("", whole=True)

    def _take(self, new: str, *, whole: bool) -> list[tuple[Kind, str]]:
        text = self._held + new
        return [(part.kind, text[part.start : part.end]) for part in self._parts(text, whole=whole)]

    def _parts(self, text: str, *, whole: bool) -> Iterator[Part]:
        """Where in `text`, which begins with what was held back, the next parts are."""
        at: int | None = 0
        while at is not None:
            kind: Kind = "thinking" if self.thinking else "text"
            end, behind = (self._find_close if self.thinking else self._find_open)(text, at, whole)
            if end > at:
                yield Part(kind, at, end)
            at = behind
        self._held = text[end:]

    def _find_open(self, text: str, at: int, whole: bool) -> tuple[int, int | None]:
        """Where the text from `at` on ends, and where the reasoning behind it begins; None: not in here."""
        while at < len(text):
            if self._lead is not None:
                start = at
                while text.startswith(" ", at):
                    at += 1
                self._lead += at - start
                self._line.append(text[start:at])
                if at == len(text):
                    break
                if self._lead <= _MOST_SPACES and not self._fence.mark:
                    if mark := _at(text, at, _OPEN):
                        self.thinking, self._before = True, ">"
                        self._begin_line()
                        return at, at + len(mark)
                    if not whole and _may_be(text, at, _OPEN):
                        return at, None
                self._lead = None
            newline = text.find("\n", at)
            end = newline + 1 or len(text)
            self._line.append(text[at:end])
            at = end
            if newline >= 0:
                self._fence.line("".join(self._line))
                self._begin_line()
        return at, None

    def _begin_line(self) -> None:
        self._lead = 0
        self._line.clear()

    def _find_close(self, text: str, at: int, whole: bool) -> tuple[int, int | None]:
        """Where the reasoning from `at` on ends, and where the text behind it begins; None: not in here."""
        while (at := text.find("<", at)) >= 0:
            before = text[at - 1] if at else self._before
            if mark := _at(text, at, _CLOSE):
                behind = at + len(mark)
                if before == "`" and behind == len(text) and not whole:
                    self._before = before
                    return at, None
                if not (before == "`" and text.startswith("`", behind)):
                    self.thinking = False
                    return at, behind
            elif not whole and _may_be(text, at, _CLOSE):
                self._before = before
                return at, None
            at += 1
        self._before = text[-1:] or self._before
        return len(text), None


def split(text: str, opened: bool = False, *, whole: bool = False) -> list[Part]:
    """The parts of an answer, which cover it apart from the marks.

    opened: it begins inside its reasoning, see `begins_inside`. whole: no more will come; otherwise the start of a mark
    at the very end is in no part.
    """
    return list(Reasoning(opened)._parts(text, whole=whole))


def begins_inside(text: str) -> bool:
    """Whether an answer, of which nobody knows the prompt, has a closing mark at a line's end and none that opens it."""
    if not (closed := _CLOSED.search(text)):
        return False
    reasoning = Reasoning()
    before = list(reasoning._parts(text[: closed.start()], whole=True))
    return not (reasoning.thinking or reasoning.in_code or any(part.kind == "thinking" for part in before))


def _at(text: str, at: int, marks: tuple[str, ...]) -> str:
    """The mark that stands there, empty for none."""
    return next((mark for mark in marks if text.startswith(mark, at)), "")


def _may_be(text: str, at: int, marks: tuple[str, ...]) -> bool:
    """Whether the text ends there with the start of a mark."""
    rest = text[at : at + max(map(len, marks))]
    return at + len(rest) == len(text) and any(mark.startswith(rest) for mark in marks)
