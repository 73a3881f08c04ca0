"""A message of the user's in the conversation."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from pardec_chat.app.plain_text import visible


class UserMessage(Vertical):
    """The text as it was written: neither Markdown nor markup."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Who, then what."""
        yield Static("You", classes="author")
        yield Static(Content(visible(self._text).expandtabs(4)), classes="body")
