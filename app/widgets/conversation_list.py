"""The rows of the list of conversations: what is marked and what is seen stays, whatever else changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, overload

from textual import events
from textual.binding import Binding, BindingType

from pardec_chat.app.widgets import conversation_row
from pardec_chat.app.widgets.choices import Choices, Draw

if TYPE_CHECKING:
    from pardec_chat.app.conversations.conversation import Summary
    from pardec_chat.app.lines import Line


class ConversationList(Choices):
    """Choices with a bar at the edge of the marked row: the sign that others have there says which one is open."""

    MARKS = ("▌", "▌")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "open", key_display="enter", tooltip="Open the marked conversation", id="list-open"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.shows_mark = False
        #: The rows, in the order that they are seen in, and where each is by its id.
        self.summaries: Sequence[Summary] = ()
        self.places: Mapping[str, int] = {}
        #: What was searched for; None for all.
        self.searched: str | None = None
        self._current = ""

    @property
    def summary(self) -> Summary | None:
        """The marked one."""
        return self.summaries[self.marked] if self.marked is not None and self.marked < len(self.summaries) else None

    def present(
        self,
        summaries: Sequence[Summary],
        current: str | None,
        now: datetime,
        *,
        query: str | None = None,
        wanted: str = "",
        first: bool = False,
    ) -> None:
        """Show these, in sections, or as the hits of a `query`. current: the open one. now: naive, in local time.

        wanted: the one to mark, if it is among them. first: mark the first.
        """
        searching = query is not None
        shown = summaries if searching else conversation_row.in_order(summaries)
        places = {summary.id: row for row, summary in enumerate(shown)}
        row, still = (0, False) if first else self._row_to_mark(places, current or "", wanted, searching)
        self.summaries, self.places = shown, places
        self._current, self.searched = current or "", query
        found = _pattern(query) if query is not None else None
        self.show(
            _Rows(
                shown, lambda one, width: conversation_row.draw(one, width, now, is_open=one.id == current, found=found)
            ),
            row,
            still=still,
            heads={} if searching else conversation_row.sections(shown, now),
            heights=list(map(conversation_row.height, shown)),
        )

    def _row_to_mark(
        self, places: Mapping[str, int], current: str, wanted: str, searching: bool
    ) -> tuple[int | None, bool]:
        """The row, None for that of before, and whether what is seen stays where it is."""
        marked, at_first, changed = self.summary, not self.marked, searching != (self.searched is not None)
        if wanted in places:
            return places[wanted], False
        # Where the keys are elsewhere, the mark goes with the conversation that is open.
        if not self.shows_mark and current != self._current and current in places:
            return places[current], False
        if at_first and searching:
            return 0, True
        # The first hit of a search that is over was marked by nobody.
        if marked is not None and marked.id in places and not (at_first and changed):
            return places[marked.id], not changed
        return (None, True) if marked is not None and not changed else (places.get(current, 0), False)

    def mark_open(self) -> None:
        """Mark the conversation that is open; among hits the mark stays."""
        if self.searched is None and self._current in self.places:
            self.marked = self.places[self._current]

    def on_click(self, event: events.Click) -> None:
        """The second click of two opens nothing: what is under the mouse may be another conversation by then."""
        if event.chain > 1:
            event.prevent_default()


class _Rows(Sequence[Draw]):
    """Made when they are asked for: thousands of them at each key would keep the garbage collector busy."""

    def __init__(self, summaries: Sequence[Summary], draw: Callable[[Summary, int], Sequence[Line]]) -> None:
        self._summaries = summaries
        self._draw = draw

    def __len__(self) -> int:
        return len(self._summaries)

    @overload
    def __getitem__(self, row: int) -> Draw: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[Draw]: ...

    def __getitem__(self, row: int | slice) -> Draw | Sequence[Draw]:
        if isinstance(row, slice):
            return _Rows(self._summaries[row], self._draw)
        return partial(self._draw, self._summaries[row])


def _pattern(query: str) -> re.Pattern[str] | None:
    """What of a hit is shown with weight: what the search itself looks for."""
    # It brings SQLite, which the first paint does not wait for.
    from pardec_chat.app.conversations.search import phrases

    patterns = "|".join(phrase.pattern for phrase in phrases(query))
    return re.compile(patterns, re.IGNORECASE) if patterns else None
