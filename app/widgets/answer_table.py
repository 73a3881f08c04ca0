"""Answers as rows of figures, as many columns of them as fit; no widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from pardec_chat.app.lines import Line, Role
from pardec_chat.app.widgets import answer_words, wording
from pardec_chat.app.widgets.answer_words import Answered
from pardec_chat.app.widgets.cells import left, right

_GAP = 2
#: What of a column of words is enough, and what is too much.
_LEAST_WORDS, _MOST_WORDS = 16, 60


@dataclass(frozen=True, slots=True)
class _Column:
    """rank: those with the highest are left out first. words: of text, that stands at the left and can be cut."""

    title: str
    rank: int
    cell: Callable[[Answered], str]
    role: Role = "text"
    words: bool = False


_COLUMNS = (
    _Column("no.", 0, lambda one: f"{one.number:,}", "quiet"),
    _Column("method", 2, lambda one: answer_words.method(one.record), words=True),
    _Column("tok/s", 1, lambda one: wording.rate(one.record.tokens_per_second), "value"),
    _Column("x plain", 3, lambda one: answer_words.speedup(one.record)),
    _Column("a step", 4, lambda one: wording.ratio(one.record.tokens_per_step)),
    _Column("accepted", 5, lambda one: answer_words.accepted(one.record)),
    _Column("first token", 8, lambda one: wording.seconds(one.record.ttft_ms)),
    _Column("prompt", 9, lambda one: answer_words.prompt(one.record)),
    _Column("tokens", 6, lambda one: f"{one.record.predicted_n:,}"),
    _Column("end", 7, lambda one: answer_words.ENDS[one.node.state], "quiet", words=True),
    _Column("model", 10, lambda one: answer_words.models(one.record), "quiet", words=True),
)


class AnswerTable:
    """The columns keep their widths for all rows."""

    def __init__(self, answers: Sequence[Answered]) -> None:
        self._cells = [[column.cell(one) for column in _COLUMNS] for one in answers]
        self._widest = [
            max(map(cell_len, (column.title, *(row[i] for row in self._cells)))) for i, column in enumerate(_COLUMNS)
        ]

    def heading(self, width: int) -> Line:
        """What the columns are."""
        return tuple(
            (_cell(_COLUMNS[i].title, size, _COLUMNS[i]) + " " * _GAP, "quiet") for i, size in self._widths(width)
        )

    def row(self, number: int, width: int) -> list[Line]:
        """The row of an answer, from 0 on."""
        cells = self._cells[number]
        line = tuple(
            (_cell(cells[i], size, _COLUMNS[i]) + " " * _GAP, _COLUMNS[i].role) for i, size in self._widths(width)
        )
        return [line]

    def _widths(self, width: int) -> list[tuple[int, int]]:
        """The columns that are shown, by their places, and how wide they are."""
        chosen: dict[int, int] = {}
        left_over = width
        for i in sorted(range(len(_COLUMNS)), key=lambda i: _COLUMNS[i].rank):
            most = self._widest[i]
            size = min(most, _MOST_WORDS, left_over) if _COLUMNS[i].words else most
            if size > left_over or size < min(most, _LEAST_WORDS):
                break
            chosen[i] = size
            left_over -= size + _GAP
        return sorted(chosen.items())


def _cell(text: str, width: int, column: _Column) -> str:
    return left(text, width) if column.words else right(text, width)
