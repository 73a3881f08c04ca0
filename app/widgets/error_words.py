"""An error in plain words: what happened, what led to it, what the log says. No widget, and nothing here fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pardec_chat.app.lines import BLANK, Line, Role
from pardec_chat.app.log_end import LogEnd
from pardec_chat.app.plain_text import visible
from pardec_chat.app.widgets.folded import folded
from pardec_chat.backends.errors import UserError

TITLE = "What went wrong"
_NEXT, _CAUSES, _LOG = "What to do next", "What led to it", "The log"
_LOG_FOUND = "What it says about this:"
_LOG_END = "Nothing in it names this error. Its end:"
_LOG_EMPTY = "It is empty."
_LOG_NOT_READ = "It could not be read: {}."
#: Errors that are shown of a chain, and characters of the words of one.
_MOST_CAUSES, _MOST_CHARACTERS = 12, 4000

#: A heading, and what stands below it; both as they are, control bytes included.
Section = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Details:
    """what: the error's own words. kind: its type, for errors that are no user's. causes: what led to it, nearest first."""

    what: str
    kind: str
    next_step: str
    causes: tuple[str, ...]

    @property
    def words(self) -> str:
        """By which the log is searched; the type where the error has no words."""
        return self.what or self.kind


def of(error: BaseException | str, next_step: str = "") -> Details:
    """What there is to tell of an error. next_step: instead of the error's own one."""
    if isinstance(error, str):
        return Details(_shortened(error), "", next_step, ())
    if isinstance(error, UserError):
        return Details(_shortened(error.what), "", next_step or error.next_step, tuple(_causes(error)))
    return Details(_said(error), type(error).__name__, next_step, tuple(_causes(error)))


def sections(details: Details, path: Path, log: LogEnd | None) -> Iterator[Section]:
    """All there is to tell, part by part. log: None while it is being read."""
    kind = f"{details.kind}: " if details.kind and details.what else details.kind
    yield TITLE, f"{kind}{details.what}" or "Nobody said what."
    if details.next_step:
        yield _NEXT, details.next_step
    if details.causes:
        yield _CAUSES, "\n".join(details.causes)
    yield _LOG, "\n".join([str(path), *_log_lines(log)])


def text(details: Details, path: Path, log: LogEnd | None) -> str:
    """For the clipboard: without control bytes, too."""
    return visible("\n\n".join(f"{title}\n{body}" for title, body in sections(details, path, log))) + "\n"


def lines(details: Details, path: Path, log: LogEnd | None, width: int) -> Iterator[Line]:
    """For the screen."""
    for i, (title, body) in enumerate(sections(details, path, log)):
        if i:
            yield BLANK
        yield ((title, "title"),)
        role: Role = "value" if i == 0 else "quiet" if title == _LOG else "text"
        shown = visible(body).expandtabs(4)
        for start, end in folded(shown, width):
            yield ((shown[start:end].rstrip(), role),)


def _log_lines(log: LogEnd | None) -> list[str]:
    if log is None:
        return []
    if log.problem:
        return [_LOG_NOT_READ.format(log.problem.rstrip("."))]
    if not log.lines:
        return [_LOG_EMPTY]
    return [_LOG_FOUND if log.found else _LOG_END, "", *log.lines]


def _causes(error: BaseException) -> Iterator[str]:
    seen = {id(error)}
    for _ in range(_MOST_CAUSES):
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        error = cause
        said = _said(error)
        yield f"{type(error).__name__}: {said}" if said else type(error).__name__


def _said(error: BaseException) -> str:
    """An error's words; a foreign class may fail even at telling them."""
    try:
        return _shortened(str(error))
    except Exception:  # noqa: BLE001  # whatever it is, this page is there to show errors
        return ""


def _shortened(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " …"
