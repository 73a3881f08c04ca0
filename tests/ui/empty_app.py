"""The app with an empty screen in place of the chat, for screens that stand on their own."""

from __future__ import annotations

from pathlib import Path

from textual.screen import Screen

from pardec_chat.app import app
from pardec_chat.app.app import ChatOptions, PardecChat
from pardec_chat.tests.ui.fake_engine import FakeEngine


class EmptyApp(PardecChat):
    """Its theme, styles and keys; no engine is asked for anything."""

    # Textual looks for style sheets beside the class.
    CSS_PATH = [Path(app.__file__).parent / name for name in PardecChat.CSS_PATH]  # noqa: RUF012  # Textual's name and kind

    def __init__(self, theme: str = "pardec-dark") -> None:
        super().__init__(ChatOptions(theme=theme), FakeEngine)
        self.animation_level = "none"
        #: What lies under the screen that is tested.
        self.empty: Screen[None] = Screen()

    def get_default_screen(self) -> Screen[None]:
        """Nothing to see, and nothing that changes."""
        return self.empty
