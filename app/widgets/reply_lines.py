"""What an answer has beside its text: the line of its reasoning, its figures, and what the tint means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from textual.content import Content, Span

from pardec_chat.app.markdown.lines import CLICK, Line, Lines, wrapped
from pardec_chat.app.markdown.origins import look
from pardec_chat.app.markdown.written import Passage
from pardec_chat.app.widgets.strung import strung
from pardec_chat.app.widgets.wording import percent
from pardec_chat.backends.base import Method


class Fold(Lines):
    """The line that stands for the reasoning; a click on it opens or folds that. over: no more of it will come."""

    def __init__(self, passage: Passage, *, is_open: bool, over: bool, counted: bool) -> None:
        super().__init__()
        n, unit = (passage.n_tokens, "token") if counted else (len(passage.document.source.split()), "word")
        sign, dots = "▾" if is_open else "▸", "," if over else " …"
        self._text = f"{sign} reasoning{dots} {n:,} {unit}{'' if n == 1 else 's'}"

    def make(self, width: int) -> Iterable[Line]:
        """See `Lines`."""
        text = self._text
        return wrapped(Content(text, [Span(0, len(text), "quiet"), Span(0, len(text), f"{CLICK}reasoning")]), width)


class Figures(Lines):
    """Figures with dots between them; a line ends between two figures, never inside one."""

    def __init__(self, parts: Sequence[str]) -> None:
        super().__init__()
        self._parts = parts

    def make(self, width: int) -> Iterator[Line]:
        """See `Lines`."""
        for text in strung(self._parts, width):
            yield Line(Content(text))


class Legend(Lines):
    """What guessed how many of the tokens, each name as the tokens look. known: whether that was told at all."""

    def __init__(self, counts: Mapping[Method, int], *, known: bool) -> None:
        super().__init__()
        self._counts = counts
        self._known = known

    def make(self, width: int) -> Iterable[Line]:
        """See `Lines`."""
        total = sum(self._counts.values())
        if not self._known or not total:
            return wrapped(Content("Where its tokens are from was not kept."), width)
        counts = sorted(self._counts.items(), key=lambda one: (one[0] == Method.PLAIN, -one[1]))
        parts = []
        for method, n in counts:
            name = Content("model") if method == Method.PLAIN else Content.styled(method.value, look(method))
            parts.append(Content(f"{percent(n / total)} ") + name)
        return wrapped(Content(" · ").join(parts), width)
