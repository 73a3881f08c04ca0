"""The messages, in a column that follows the text while the reader does."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.layout import DockArrangeResult
from textual.reactive import reactive
from textual.scrollbar import ScrollBar
from textual.widget import Widget
from textual.widgets import Static

from pardec_chat.app.markdown.warm import warm
from pardec_chat.app.tidy import tidy
from pardec_chat.app.widgets.drawn import Drawn
from pardec_chat.app.widgets.page import Page
from pardec_chat.app.widgets.reply import QUIET

#: Makes a widget of a conversation when it comes near to being seen.
Maker = Callable[[], Widget]

# Screenfuls that are made at first, and widgets that are made at a time, also on the way to the first one.
_SCREENS = 3
_AT_A_TIME, _ON_THE_WAY = 8, 40
# Lines that a widget takes which does not say so before it is seen.
_USUAL = 3


class _Messages(Vertical):
    """At least as high as the room there is: a short conversation begins at the top."""

    # Nothing of it is ever seen but its ground, which costs next to nothing so.
    BLANK = True

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # As in `Drawn`.
        return super()._size_updated(size, virtual_size, container_size, layout=False)


class Transcript(Page, can_focus=False):
    """Stays at its end while the reader is there; once scrolled up it stands still, and `more_below` is true.

    Still means that the line at its top stays there, also when something above it gets higher or comes to be.
    """

    BLANK = True

    more_below: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        #: What was not made yet, from the first message on.
        self._earlier: list[Maker] = []
        self._making = False
        self._to_first = False
        # Where each message begins, as it was laid out last; which is at the top of what is seen, and how far above.
        self._tops: list[int] = []
        self._widgets: list[Widget] = []
        self._place: tuple[Widget, int] | None = None

    def compose(self) -> ComposeResult:
        """The messages, and a line above them."""
        with _Messages(id="messages"):
            yield Static(id="earlier", markup=False)

    def on_mount(self) -> None:
        """Follow from the start."""
        self._show_earlier()
        self.anchor()
        self.set_timer(QUIET, tidy)
        self.call_after_refresh(warm)
        self.watch(self, "scroll_y", self._look, init=False)

    def on_resize(self) -> None:
        """The end is elsewhere now."""
        self._look()

    # ---- what is in it ----

    @property
    def _messages(self) -> _Messages:
        return self.query_one("#messages", _Messages)

    async def add(self, widget: Widget) -> None:
        """Put `widget` at the end."""
        await self._messages.mount(widget)

    async def remove_from(self, widget: Widget) -> None:
        """Take `widget` and all that follows it away."""
        children = list(self._messages.children)
        await self._messages.remove_children(children[children.index(widget) :])

    async def clear(self) -> None:
        """Take all messages away."""
        await self.show(())

    async def show(self, makers: Sequence[Maker]) -> None:
        """Another conversation, from its end on; what is earlier is made when the reader comes near it."""
        self._earlier, self._to_first, self._place = list(makers), False, None
        size = self.scrollable_content_region.size or self.app.size
        widgets: list[Widget] = []
        room = size.height * _SCREENS
        while self._earlier and room > 0:
            widget = self._earlier.pop()()
            widgets.append(widget)
            room -= (widget.measure(size.width) if isinstance(widget, Drawn) else _USUAL) + 1
        messages = self._messages
        self._show_earlier()
        await messages.remove_children([child for child in messages.children if child.id != "earlier"])
        if widgets:
            await messages.mount(*reversed(widgets))
        self.anchor()

    # ---- what is earlier ----

    def _show_earlier(self) -> None:
        line, n = self.query_one("#earlier", Static), len(self._earlier)
        line.display = n > 0
        line.update(Content(f"↑ {n:,} earlier message{'' if n == 1 else 's'}"))

    def _near_top(self) -> bool:
        return bool(self._earlier) and (self._to_first or self.scroll_y < self.size.height)

    def _want_earlier(self) -> None:
        if not self._making and self._near_top():
            self._making = True
            self.call_next(self._make_earlier)

    async def _make_earlier(self) -> None:
        """A few more above those that are there; what is seen stays where it is."""
        n = min(_ON_THE_WAY if self._to_first else _AT_A_TIME, len(self._earlier))
        makers = self._earlier[len(self._earlier) - n :]
        del self._earlier[len(self._earlier) - n :]
        self._show_earlier()
        self._remember()
        if makers:
            await self._messages.mount(*(make() for make in makers), after=0)
        self.call_after_refresh(self._made)

    def _made(self) -> None:
        self._making = False
        if self._to_first and not self._earlier:
            self._to_first = False
            self.scroll_home(animate=False)
        self._want_earlier()

    # ---- where the reader is ----

    def read(self, where: str) -> None:
        """Scroll: page_up, page_down, home or end."""
        self._to_first = where == "home" and bool(self._earlier)
        if self._to_first:
            self.release_anchor()
            self._want_earlier()
            return
        scroll = {
            "page_up": self.scroll_page_up,
            "page_down": self.scroll_page_down,
            "home": self.scroll_home,
            "end": self.scroll_end,
        }[where]
        scroll(animate=False)

    def _look(self) -> None:
        self.more_below = self.scroll_y < self.max_scroll_y
        self._remember()
        self._want_earlier()

    @property
    def _follows(self) -> bool:
        return self._anchored and not self._anchor_released

    def _remember(self) -> None:
        """Which message is at the top of what is seen."""
        y = round(self.scroll_y)
        n = max(0, bisect_right(self._tops, y) - 1)
        self._place = (self._widgets[n], y - self._tops[n]) if self._tops and not self._follows else None

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Lay out, and keep what is at the top where it is. Textual asks for the scroll position right behind this."""
        result = super().arrange(size, optimal)
        placed = [one for one in result.placements if one.widget.id == "messages"]
        if optimal or not placed:
            return result
        inner = placed[0].widget.arrange(placed[0].region.size)
        places = [(one.region.y, one.widget) for one in inner.placements if one.widget.id != "earlier"]
        self._tops, self._widgets = [y for y, _ in places], [widget for _, widget in places]
        if self._place is not None and not self._follows:
            widget, below = self._place
            if widget in self._widgets:
                top = self._tops[self._widgets.index(widget)]
                most = max(0, placed[0].region.height - size.height)
                self._stand_at(max(0, min(top + below, most)))
        return result

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # Textual lays out all of the screen once more when there is more to scroll; with a scrollbar that has its room
        # already nothing comes of that.
        updated = super()._size_updated(size, virtual_size, container_size, layout=False)
        self._look()
        return updated

    def _stand_at(self, y: int) -> None:
        if y == round(self.scroll_y):
            return
        # As Textual does for what is at its end: no watcher is to act in the middle of a layout.
        self.app.animator.force_stop_animation(self, "scroll_y")
        self.set_reactive(Widget.scroll_y, float(y))
        self.set_reactive(Widget.scroll_target_y, float(y))
        self.vertical_scrollbar.set_reactive(ScrollBar.position, float(y))
