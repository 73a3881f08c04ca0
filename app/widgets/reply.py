"""An answer in the conversation, streamed as Markdown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from pardec_chat.app.plain_text import visible, visible_line
from pardec_chat.app.widgets.figures_line import FiguresLine
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.safe_markdown import SafeMarkdown


class Reply(Vertical):
    """Author, what is being waited for, the text, and the figures once it is whole.

    State is in the classes: -waiting until the first text, -done at the end.
    """

    def __init__(self, author: str) -> None:
        super().__init__(classes="-waiting")
        self._author = visible_line(author)
        self._wait = Static("", classes="wait", markup=False)
        self._markdown = SafeMarkdown()
        self._figures = FiguresLine()
        self._writing = asyncio.Lock()
        # A carriage return may be half a line end whose other half comes with the next text.
        self._held = ""

    def compose(self) -> ComposeResult:
        """All parts; classes say which are seen."""
        yield Static(Content(self._author), classes="author")
        yield self._wait
        yield self._markdown
        yield self._figures

    @property
    def source(self) -> str:
        """The Markdown so far, as it is shown."""
        return self._markdown.source

    def wait_for(self, what: str) -> None:
        """Say in words what happens before the first text."""
        self._wait.update(Content(what))

    async def write(self, text: str) -> None:
        """Add `text`, which was joined from as many steps as came since the last call."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        await self._append(visible(text[: len(text) - len(self._held)]))

    async def finish(self, figures: Sequence[str]) -> None:
        """No text comes any more."""
        held, self._held = self._held, ""
        await self._append(visible(held))
        self.remove_class("-waiting")
        self.add_class("-done")
        self._figures.show(figures)

    async def _append(self, text: str) -> None:
        # Textual's MarkdownStream would draw as often as it can; here whoever writes sets the pace. Two appends at once
        # would both begin at the line where the document ended before either.
        async with self._writing:
            if text and self.is_attached:
                self.remove_class("-waiting")
                await self._markdown.append(text)

    def add_note(self, note: Note) -> None:
        """A line of the program's own above the figures."""
        if self.is_attached:
            self.mount(note, before=self._figures)
