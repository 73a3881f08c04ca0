"""A line for a token."""

from __future__ import annotations

from textual.actions import SkipAction
from textual.widgets import Input

from pardec_chat.app.widgets.entry import Entry


class Secret(Entry):
    """What is typed is neither shown nor copied, and no message of this widget holds it; `take` gives it once."""

    def __init__(self, placeholder: str = "", *, id: str | None = None) -> None:  # noqa: A002  # Textual's own name
        super().__init__(placeholder, password=True, id=id)

    def on_mount(self) -> None:
        """Textual's Changed would carry it through the app, and into the log of a developer's console."""
        self.disable_messages(Input.Changed, Input.Submitted, Input.Blurred)

    def take(self) -> str:
        """What was typed; the line is empty afterwards."""
        secret, self.value = self.value.strip(), ""
        return secret

    def action_copy(self) -> None:
        """Not to the clipboard."""
        raise SkipAction

    def action_cut(self) -> None:
        """Only deleted."""
        self.delete_selection()
