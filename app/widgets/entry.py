"""A line to type into."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from pardec_chat.app.plain_text import visible_line


class Entry(Input):
    """One line without a box. Of what is pasted, the first line that holds something is taken, without control bytes.

    keys: characters that are keys of the screen's and cannot be typed.
    """

    DEFAULT_CSS = """
    Entry, Entry:focus {
        background: transparent;
        background-tint: transparent;
        border: none;
        height: 1;
        padding: 0;
        & > .input--placeholder { color: $quiet; }
    }
    """

    def __init__(
        self,
        placeholder: str = "",
        *,
        password: bool = False,
        keys: str = "",
        id: str | None = None,  # noqa: A002  # Textual's own name
    ) -> None:
        super().__init__(placeholder=placeholder, password=password, compact=True, select_on_focus=False, id=id)
        self.cursor_blink = False
        self._not_typed = keys

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Leave the `keys` to the screen."""
        return super().check_consume_key(key, character) and (character or "") not in self._not_typed

    def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the handlers of all base classes, too.
        event.prevent_default()
        event.stop()
        lines = (visible_line(line) for line in event.text.splitlines())
        self.replace(next(filter(None, lines), ""), *self.selection)
