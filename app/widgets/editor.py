"""Where a longer text is written."""

from __future__ import annotations

from textual import events
from textual.widgets import TextArea

from pardec_chat.app.plain_text import visible


class Editor(TextArea):
    """Many lines without a box. Control characters of what is pasted become visible instead of doing something."""

    DEFAULT_CSS = """
    Editor, Editor:focus {
        background: transparent;
        background-tint: transparent;
        border: none;
        padding: 0;
        & .text-area--cursor-line { background: transparent; }
        & .text-area--placeholder { color: $quiet; }
    }
    """

    def __init__(self, placeholder: str = "", *, id: str | None = None) -> None:  # noqa: A002  # Textual's own name
        super().__init__(
            id=id,
            placeholder=placeholder,
            show_line_numbers=False,
            tab_behavior="focus",
            soft_wrap=True,
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False

    async def _on_paste(self, event: events.Paste) -> None:
        # Textual calls the handlers of all base classes, too.
        event.prevent_default()
        event.stop()
        text = visible(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.replace(text, *self.selection, maintain_selection_offset=False)
