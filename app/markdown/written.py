"""What a model has written: its reasoning and its text, told apart as they come, each a document of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pardec_chat.app.conversations.reasoning import Kind, Part, Reasoning
from pardec_chat.app.markdown.document import Document
from pardec_chat.app.plain_text import visible
from pardec_chat.backends.base import Method

#: Few tokens have more characters; where all seem to, the text came without telling its tokens.
_MOST_CHARACTERS = 60


@dataclass(slots=True, eq=False)
class Passage:
    """Text or reasoning, without the marks. n_tokens: those that came with it."""

    kind: Kind
    document: Document = field(default_factory=Document)
    n_tokens: int = 0


class _Splitter(Reasoning):
    @property
    def held(self) -> str:
        """The start of what may become a mark."""
        return self._held

    def parts(self, text: str, *, whole: bool) -> Iterator[Part]:
        """Where in `text`, which begins with what was held back, the next parts are."""
        return self._parts(text, whole=whole)


class Written:
    """Grows token by token. passages: in order. counts: tokens by what guessed them."""

    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self.counts: Counter[Method] = Counter()
        self._splitter = _Splitter()
        self._n_characters = 0
        self._tint = False
        # A carriage return may be half a line end whose other half comes with the next text.
        self._half = ""
        # Where the characters that are held back are from.
        self._held: list[tuple[int, Method]] = []
        self._unread: list[tuple[str, Method]] = []

    def begin_thinking(self) -> None:
        """What comes is reasoning up to the mark that ends it. Asked for before the first text."""
        self._splitter = _Splitter(opened=True)

    def write(self, tokens: Sequence[tuple[str, Method]]) -> None:
        """More tokens, each with what guessed it; one may be empty, in the middle of a character."""
        for text, method in tokens:
            self.counts[method] += 1
            self._n_characters += len(text)
            text = self._half + text
            self._half = "\r" if text.endswith("\r") else ""
            was_thinking = self._splitter.thinking
            self._take(visible(text[: len(text) - len(self._half)]), method, whole=False)
            if was_thinking and self._splitter.thinking and self.passages and self.passages[-1].kind == "thinking":
                self.passages[-1].n_tokens += 1
        self._flush()

    def finish(self) -> None:
        """No more comes."""
        half, self._half = self._half, ""
        self._take(visible(half), Method.PLAIN, whole=True)
        self._flush()
        for passage in self.passages:
            passage.document.close()

    def _take(self, text: str, method: Method, *, whole: bool) -> None:
        splitter = self._splitter
        origins = [*self._held, (len(text), method)]
        text = splitter.held + text
        for part in splitter.parts(text, whole=whole):
            for start, end, origin in _overlaps(origins, part.start, part.end):
                self._add(part.kind, text[start:end], origin)
        first = len(text) - len(splitter.held)
        self._held = [(end - start, origin) for start, end, origin in _overlaps(origins, first, len(text))]

    def _add(self, kind: Kind, text: str, method: Method) -> None:
        last = self.passages[-1] if self.passages else None
        if last is None or last.kind != kind:
            if last is not None or kind == "thinking":
                # Empty lines beside a mark.
                text = text.lstrip("\n")
            if not text:
                return
            self._flush()
            if last is not None:
                last.document.close()
            passage = Passage(kind)
            passage.document.tint = self._tint
            self.passages.append(passage)
        self._unread.append((text, method))

    def _flush(self) -> None:
        if self._unread:
            self.passages[-1].document.extend(self._unread)
            self._unread = []

    # ---- what there is ----

    @property
    def knows_tokens(self) -> bool:
        """Whether the text came token by token."""
        return self._n_characters <= _MOST_CHARACTERS * self.counts.total()

    def texts(self) -> Iterator[Document]:
        """The documents without the reasoning."""
        return (passage.document for passage in self.passages if passage.kind == "text")

    def tint(self, tint: bool) -> None:
        """Put each character on the ground of its origin, or on none."""
        self._tint = tint
        for passage in self.passages:
            passage.document.tint = tint

    @property
    def busy(self) -> bool:
        """See `Document`."""
        return any(passage.document.busy for passage in self.passages)

    def work(self, until: float) -> bool:
        """See `Document`."""
        busy = next((passage.document for passage in self.passages if passage.document.busy), None)
        return busy is not None and busy.work(until)


def _overlaps(origins: Sequence[tuple[int, Method]], first: int, last: int) -> Iterator[tuple[int, int, Method]]:
    """The stretches from `first` to `last` with one origin."""
    at = 0
    for n, origin in origins:
        start, end = max(at, first), min(at + n, last)
        if start < end:
            yield start, end, origin
        at += n
