"""The messages, in a column that follows the text while the reader does."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widget import Widget


class Conversation(VerticalScroll, can_focus=False):
    """Stays at its end while the reader is there; once scrolled up it stands still, and `more_below` is true."""

    more_below: reactive[bool] = reactive(False)

    def compose(self) -> ComposeResult:
        """At least as high as the room there is: a short conversation begins at the top."""
        yield Vertical(id="messages")

    def on_mount(self) -> None:
        """Follow from the start."""
        self.anchor()
        self.watch(self, "scroll_y", self._look, init=False)
        self.watch(self, "virtual_size", self._look, init=False)

    def on_resize(self) -> None:
        """The end is elsewhere now."""
        self._look()

    async def add(self, widget: Widget) -> None:
        """Put `widget` at the end."""
        await self._messages.mount(widget)

    async def remove_from(self, widget: Widget) -> None:
        """Take `widget` and all that follows it away."""
        children = list(self._messages.children)
        await self._messages.remove_children(children[children.index(widget) :])

    async def clear(self) -> None:
        """Take all messages away."""
        await self._messages.remove_children()
        self.anchor()

    def read(self, where: str) -> None:
        """Scroll: page_up, page_down, home or end."""
        scroll = {
            "page_up": self.scroll_page_up,
            "page_down": self.scroll_page_down,
            "home": self.scroll_home,
            "end": self.scroll_end,
        }[where]
        scroll(animate=False)

    @property
    def _messages(self) -> Vertical:
        return self.query_one("#messages", Vertical)

    def _look(self) -> None:
        self.more_below = self.scroll_y < self.max_scroll_y
