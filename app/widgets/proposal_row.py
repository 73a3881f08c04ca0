"""A proposal of the first start in lines. No widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from pardec_chat.app.fit_words import amount
from pardec_chat.app.lines import wrapped
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.cells import ends, left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.downloads.fit import Proposal
    from pardec_chat.app.lines import Line

#: Cells of what a row begins with, and of a row at most.
LABEL, WIDEST = 20, 110


def draw(proposal: Proposal, width: int, percent: int | None = None) -> Sequence[Line]:
    """What it is, what of it is to come, what it is good for. percent: how much of a download is here."""
    rest = min(width, WIDEST) - LABEL
    target, *others = (visible_line(model.name) for model in proposal.models)
    name, size = ends(target, _to_come(proposal, percent), rest)
    parts = [f"with {other}" for other in others]
    parts += [visible_line(proposal.words)] if proposal.words else []
    fit = visible_line(proposal.fit.words)
    parts.append(f"{fit}, takes {amount(proposal.fit.need)} of memory" if proposal.fit.fits else fit)
    lines: list[Line] = [((left(visible_line(proposal.title), LABEL), "value"), (name, "text"), (size, "text"))]
    lines += [((" " * LABEL, "text"), *line) for line in _flow(parts, rest)]
    return lines


def _flow(parts: Sequence[str], width: int) -> list[Line]:
    """As few lines as it takes; one ends between two parts where that is possible."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines else part
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return [line for text in lines for line in wrapped(text, width, "quiet")]


def link(title: str, what: str, width: int) -> Sequence[Line]:
    """Another way to a model."""
    return (((left(title, LABEL + 4), "text"), (wording.fit(what, width - LABEL - 4), "quiet")),)


def _to_come(proposal: Proposal, percent: int | None) -> str:
    if proposal.fetch <= 0:
        return "on this disk"
    if percent is not None:
        return f"{percent} % is here"
    whole = sum(model.size for model in proposal.models)
    size = wording.size(proposal.fetch)
    return size if proposal.fetch >= whole else f"{size} to come"
