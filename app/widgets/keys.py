"""The keys at the bottom."""

from __future__ import annotations

from collections.abc import Collection

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class Keys(Footer):
    """A footer that marks keys which are `seldom` needed, so that a narrow screen can leave them to the help."""

    def __init__(self, seldom: Collection[str]) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._seldom = seldom

    def compose(self) -> ComposeResult:
        """One widget a key."""
        for child in super().compose():
            if isinstance(child, FooterKey) and child.key in self._seldom:
                child.add_class("-seldom")
            yield child
