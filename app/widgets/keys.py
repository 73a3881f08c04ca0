"""The keys at the bottom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class Keys(Footer):
    """A footer that marks keys with classes, so that a narrow screen can leave some of them to the help."""

    def __init__(self, marks: Mapping[str, str], left_out: Callable[[], Collection[str]] = tuple) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._marks = marks
        self._left_out = left_out

    def compose(self) -> ComposeResult:
        """One widget a key, apart from those that are left out at present."""
        left_out = self._left_out()
        for child in super().compose():
            if isinstance(child, FooterKey) and child.key in self._marks:
                child.add_class(self._marks[child.key])
            if not isinstance(child, FooterKey) or child.key not in left_out:
                yield child
