"""Where the user writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from pardec_chat.app.messages import AttachmentDropped, PromptSubmitted
from pardec_chat.app.plain_text import visible

#: Only ctrl+j is one everywhere: many terminals send the others as enter.
_NEW_LINE = frozenset({"ctrl+j", "shift+enter", "alt+enter", "ctrl+enter"})


class Prompt(TextArea):
    """Enter sends; ctrl+j begins a new line, and so do shift, alt and ctrl with enter where the terminal tells them apart.

    Up on the first line recalls earlier prompts, down on the last one goes back towards what was being written.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.read('page_up')", "Read up", show=False),
        Binding("pagedown", "screen.read('page_down')", "Read down", show=False),
        Binding("ctrl+home", "screen.read('home')", "To the top", show=False),
        Binding("ctrl+end", "screen.read('end')", "To the end", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  # the name is Textual's
        super().__init__(
            id=id,
            show_line_numbers=False,
            tab_behavior="focus",
            soft_wrap=True,
            highlight_cursor_line=False,
            compact=True,
        )
        self.cursor_blink = False
        self._sent: list[str] = []
        # Which earlier prompt is shown, counted from the end; 0 is the text being written.
        self._recalled = 0
        self._writing = ""
        # What was being written before an earlier message was taken up again.
        self._aside = ""

    async def _on_key(self, event: events.Key) -> None:
        # Not by bindings: those act behind the keys that were typed in the meantime.
        if event.key == "enter":
            self._send()
        elif event.key in _NEW_LINE:
            self.replace("\n", *self.selection, maintain_selection_offset=False)
        else:
            return
        event.stop()
        event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        """Many lines stay one prompt; control characters become visible instead of doing something."""
        event.prevent_default()
        event.stop()
        if self.read_only:
            return
        text = visible(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.replace(text, *self.selection, maintain_selection_offset=False)

    def _send(self) -> None:
        text = self.text.strip("\n")
        if not text.strip():
            return
        # Cleared at once: what is typed next belongs to the next prompt.
        self.text, self._aside = self._aside, ""
        self._recalled = 0
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self.post_message(PromptSubmitted(text))

    def remember(self, sent: Sequence[str]) -> None:
        """Earlier prompts are these."""
        self._sent = list(sent)
        self._recalled = 0

    def begin_edit(self, text: str) -> None:
        """Write this anew; what stands here now comes back with `end_edit`, or behind the prompt that is sent."""
        self._aside = self.text
        self.text = visible(text)
        self._recalled = 0
        self.move_cursor(self.document.end)

    def end_edit(self) -> None:
        """Go on with what was being written before."""
        self.text, self._aside = self._aside, ""
        self.move_cursor(self.document.end)

    def give_back(self, text: str) -> None:
        """It was not taken: here it is again, before what was typed since."""
        self.text = text + self.text
        self.move_cursor(self.document.end)

    def action_delete_left(self) -> None:
        """A character, or of an empty prompt what goes with it."""
        if self.text:
            super().action_delete_left()
        else:
            self.post_message(AttachmentDropped())

    def action_cursor_up(self, select: bool = False) -> None:
        """Up a line, or from the first one to the prompt before."""
        if not select and self.wrapped_document.location_to_offset(self.cursor_location).y == 0:
            self._recall(1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Down a line, or from the last one to the prompt behind."""
        last = self.wrapped_document.height - 1
        if not select and self._recalled and self.wrapped_document.location_to_offset(self.cursor_location).y >= last:
            self._recall(-1)
        else:
            super().action_cursor_down(select)

    def _recall(self, by: int) -> None:
        wanted = self._recalled + by
        if not 0 <= wanted <= len(self._sent):
            return
        if self._recalled == 0:
            self._writing = self.text
        self._recalled = wanted
        self.text = self._sent[-wanted] if wanted else self._writing
        self.move_cursor(self.document.end)
