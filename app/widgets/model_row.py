"""A model of the list of all in columns, and what there is to say about it. No widget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pardec_chat.app.fit_words import amount
from pardec_chat.app.lines import wrapped
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.cells import left, right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.downloads.wizard import Row
    from pardec_chat.app.lines import Line, Role

#: Before a name: all of it is on this disk, a part of it is, or something is wrong with its file.
MARKS = {"on disk": "●", "partial": "◐", "wrong size": "!", "gone": "!"}
#: Languages by the catalogue's codes; others are shown as they are.
LANGUAGES = {"de": "German", "es": "Spanish", "fr": "French", "ja": "Japanese", "ko": "Korean", "zh": "Chinese"}
_SIZE = 10
_LONGEST_NAME, _LONGEST_FIT = 48, 42
#: From these widths on there are more columns.
_SOME_ROOM, _MUCH_ROOM = 100, 140
_NONE = "–"
_KINDS = {"chat": "chats", "base": "a base model, it only continues texts", "draft": "only guesses"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Cells of each column, with the blanks behind it; 0 where there is no room for one."""

    name: int
    fit: int
    here: int
    licence: int
    pair: int

    @classmethod
    def of(cls, width: int) -> Columns:
        """What is worth most stays longest: name, size, need and fit."""
        rest = width - len("● ") - 2 * _SIZE
        if width < _SOME_ROOM:
            name = rest * 55 // 100
            return cls(name, rest - name, 0, 0, 0)
        here, licence = (12 if width >= _MUCH_ROOM else 0), 15
        rest -= here + licence
        name = min(_LONGEST_NAME, rest * 37 // 100)
        fit = min(_LONGEST_FIT, rest * 33 // 100)
        return cls(name, fit, here, licence, rest - name - fit)


def heads(width: int) -> Line:
    """What stands over the columns."""
    columns = Columns.of(width)
    texts = _texts(columns, "model", "size", "needs", "fit", "here", "licence", "what speeds it up")
    return (("  " + "".join(texts), "quiet"),)


def draw(row: Row, width: int) -> Sequence[Line]:
    """One line."""
    entry, columns = row.entry, Columns.of(width)
    size = wording.size(entry.size) if entry.size else _NONE
    need = amount(row.fit.need) if row.fit.need else _NONE
    licence = row.model.licence if row.model else _NONE
    name_, figures, fits, rest = _texts(
        columns, name(row), size, need, row.fit.words, here(row), licence, row.pair or _NONE
    )
    mark = MARKS.get(entry.state, " ")
    return (((f"{mark} ", "bar"), (name_, "text"), (figures, "text"), (fits, "text"), (rest, "quiet")),)


def name(row: Row) -> str:
    """The catalogue's name, or the user's."""
    return row.model.name if row.model else row.entry.id


def here(row: Row) -> str:
    """What of it is on this disk, in words."""
    state = row.entry.state
    return {"on disk": "here", "partial": f"{row.entry.percent} % here", "not here": _NONE}.get(state, state)


def about(row: Row, width: int, height: int) -> list[Line]:
    """What it is, where it comes from, why it does not fit, what speeds it up; so many lines at most."""
    model, entry = row.model, row.entry
    if model is None:
        what, facts = f"A file of yours: {entry.path}", []
    else:
        what = model.description
        facts = [model.licence, _KINDS[model.kind]]
        spoken = [LANGUAGES.get(code, code) for code in model.languages]
        facts += [f"English, {', '.join(spoken)}"] if spoken else []
        facts += [f"trained for {model.context:,} tokens"] if model.context else []
    quiet = [" · ".join(facts)]
    quiet += [row.fit.words] if row.fit.words != "fits" else []
    quiet += [f"faster with {row.pair}"] if row.pair else []
    texts: list[tuple[str, Role]] = [(what, "text"), *((text, "quiet") for text in quiet if text)]
    drawn = [wrapped(visible_line(text), width, role) for text, role in texts]
    # Where it gets too much, each thing is cut to a line, the last one first.
    for i in reversed(range(len(drawn))):
        if sum(map(len, drawn)) > height:
            text, role = texts[i]
            drawn[i] = [((wording.fit(visible_line(text), width), role),)]
    return [line for lines in drawn for line in lines][:height]


def _texts(
    columns: Columns, name: str, size: str, need: str, fit: str, here: str, licence: str, pair: str
) -> tuple[str, str, str, str]:
    def column(text: str, width: int) -> str:
        return left(visible_line(text), width - 2) + "  " if width else ""

    figures = right(size, _SIZE - 2) + "  " + right(need, _SIZE - 2) + "  "
    rest = column(here, columns.here) + column(licence, columns.licence) + column(pair, columns.pair)
    return column(name, columns.name), figures, column(fit, columns.fit), rest
