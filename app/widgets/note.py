"""A quiet line of the program's own in the conversation."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.errors import UserError


class Note(Static):
    """Says what happened and, behind an error, what to do next; the word stands before the colour."""

    def __init__(self, text: str, *, next_step: str = "", error: bool = False) -> None:
        #: What it tells of, where it is an error that was raised.
        self.error: BaseException | None = None
        lines = [Content.assemble(("Error: ", ".word") if error else "", visible_line(text))]
        if next_step:
            lines.append(Content.styled(visible_line(next_step), ".next"))
        super().__init__(Content("\n").join(lines), classes="-error" if error else "")

    COMPONENT_CLASSES = {"word", "next"}  # noqa: RUF012  # Textual's own name and kind

    @classmethod
    def of(cls, error: BaseException, what: str = "") -> Note:
        """The note that tells of `error`; `what` was being done."""
        start = f"{what} " if what else ""
        if isinstance(error, UserError):
            note = cls(start + error.what, next_step=error.next_step, error=True)
        else:
            what = f"{start}A fault of this program: {type(error).__name__}: {error}"
            note = cls(what, next_step="F10 says more.", error=True)
        note.error = error
        return note
