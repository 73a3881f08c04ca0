"""Code in few colours: while it grows only its last lines are read again, the whole of it once when it is complete."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Any

from textual.content import Span

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

#: Does a part of some work, until `perf_counter` has come to a time; says whether there is more.
Job = Callable[[float], bool]

#: Characters that are read at once; more is read in parts, while the code is shown with what its lines alone say.
_AT_ONCE = 3000
#: Characters beyond which the whole is never read.
_MOST = 300_000
#: Lines before and behind those that are shown which are read with them.
_AROUND = 60
# What has a look of its own; the rest is text.
_LOOKS = {
    "Comment": "code-comment",
    "Keyword": "code-keyword",
    "Operator.Word": "code-keyword",
    "Literal": "code-literal",
    "Literal.String.Doc": "code-comment",
    "Name.Function": "code-name",
    "Name.Class": "code-name",
    "Name.Tag": "code-keyword",
    "Name.Attribute": "code-literal",
    "Generic.Heading": "code-name",
    "Generic.Subheading": "code-name",
    "Generic.Deleted": "code-deleted",
    "Generic.Inserted": "code-inserted",
}


@cache
def _lexer(language: str) -> Lexer | None:
    # Without a language there are no colours, since guessing one takes a second.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None


@cache
def _look(token: Any) -> str:
    """The look of a kind of token, which is a tuple of names from the widest kind to the narrowest."""
    return next((look for n in range(len(token), 0, -1) if (look := _LOOKS.get(".".join(token[:n])))), "")


class Highlighter:
    """The colours of a block of code, line by line.

    language: as the block names it. later: takes over what is too much to be done at once.
    """

    def __init__(self, language: str, later: Callable[[Job], None]) -> None:
        self.language = language
        self._later = later
        # What lines looked like among their neighbours, with their text then; and among all of them.
        self._near: dict[int, tuple[str, list[Span]]] = {}
        self._whole: list[list[Span]] | None = None
        self._begun = False

    def spans(self, lines: Sequence[str], n: int, *, complete: bool) -> Sequence[Span]:
        """The looks in line `n`. complete: no line will be added or changed any more."""
        lexer = _lexer(self.language)
        if lexer is None:
            return ()
        if complete and not self._begun:
            self._begin(lexer, lines)
        if self._whole is not None:
            return self._whole[n] if n < len(self._whole) else ()
        if n not in self._near or self._near[n][0] != lines[n]:
            self._read_near(lexer, lines, n)
        return self._near[n][1]

    def _read_near(self, lexer: Lexer, lines: Sequence[str], n: int) -> None:
        start = max(0, n - _AROUND)
        # A line without an indentation most likely begins something.
        start = next((i for i in range(n, start, -1) if lines[i][:1].strip()), start) if n - start else start
        end = min(len(lines), n + _AROUND)
        *_, found = _read(lexer, lines[start:end])
        for i, spans in enumerate(found or (), start):
            if i >= n:
                self._near[i] = (lines[i], spans)

    def _begin(self, lexer: Lexer, lines: Sequence[str]) -> None:
        self._begun = True
        n = sum(map(len, lines))
        if n > _MOST:
            return
        reading = _read(lexer, lines)

        def go_on(until: float) -> bool:
            for number, found in enumerate(reading):
                if found is not None:
                    self._whole = found
                    self._near.clear()
                elif number % 32 == 0 and perf_counter() > until:
                    return True
            return False

        if n <= _AT_ONCE:
            go_on(perf_counter() + 3600)
        else:
            self._later(go_on)


def _read(lexer: Lexer, lines: Sequence[str]) -> Iterator[list[list[Span]] | None]:
    """Nothing for each token, and at last the looks of all lines."""
    found: list[list[Span]] = [[] for _ in lines]
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for at, token, text in lexer.get_tokens_unprocessed("\n".join(lines) + "\n"):
        yield None
        if not text or not (look := _look(token)):
            continue
        n = bisect_right(starts, at) - 1
        while n < len(lines) and starts[n] < at + len(text):
            first, last = max(0, at - starts[n]), min(len(lines[n]), at + len(text) - starts[n])
            if first < last:
                found[n].append(Span(first, last, look))
            n += 1
    yield found
