"""The steps of an answer, one below the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from pardec_chat.app.conversations.record import StepRecord
from pardec_chat.app.lines import wrapped
from pardec_chat.app.widgets import step_words
from pardec_chat.app.widgets.sheet import Parts, Sheet


class StepSheet(Sheet):
    """follows: stays at the newest step, as long as nobody scrolls up."""

    def __init__(self, *, follows: bool) -> None:
        super().__init__()
        self._follows = follows
        self._at_end = follows
        self._steps: Sequence[StepRecord] = ()
        self._instead = ""
        # At the width of now: the steps that were laid out, the first line of each, and how many lines each has.
        self._laid: Sequence[StepRecord] = ()
        self._starts: list[int] = []
        self._heights: dict[int, tuple[StepRecord, int]] = {}
        self._heights_width = 0
        self._drawn: tuple[StepRecord | None, Sequence[Parts]] = (None, ())

    def show(self, steps: Sequence[StepRecord], instead: str = "") -> None:
        """Show other steps; what is read stays where it is. instead: what stands there while there are none."""
        self._steps, self._instead = steps, instead
        self.change()

    def change(self) -> None:
        """See `Sheet`."""
        at_end, (number, line) = self._at_end, self._place()
        super().change()
        if at_end:
            self._at_end = True
            self._scroll(self.max_scroll_y)
        else:
            laid = zip(self._laid, self._starts, strict=True)
            self._scroll(next((start for step, start in laid if step.number >= number), 0) + line)

    def lay_out(self, width: int) -> int:
        """See `Sheet`."""
        known = self._heights if width == self._heights_width else {}
        self._heights, self._heights_width, self._drawn = {}, width, (None, ())
        self._laid, self._starts, line = self._steps, [], 0
        for step in self._laid:
            before = known.get(step.number)
            if before is None or before[0] is not step:
                before = step, step_words.height(step, width)
            self._heights[step.number] = before
            self._starts.append(line)
            line += before[1]
        return max(1, line)

    def seen(self, y: int, width: int) -> Parts:
        """See `Sheet`."""
        number = y + self.scroll_offset.y
        if number >= self.virtual_size.height:
            return ()
        if not self._laid:
            return wrapped(self._instead, width, "quiet")[0] if self._instead else ()
        index = bisect_right(self._starts, number) - 1
        step = self._laid[index]
        if self._drawn[0] is not step:
            self._drawn = step, step_words.lines(step, width)
        return self._drawn[1][number - self._starts[index]]

    # ---- where the reader is ----

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever scrolls up leaves the newest step, whoever scrolls to the end follows it again."""
        super().watch_scroll_y(old_value, new_value)
        self._at_end = self._follows and new_value >= self.max_scroll_y

    def _place(self) -> tuple[int, int]:
        """Number of the step at the top, and which line of it that is."""
        if not self._laid:
            return 0, 0
        top = self.scroll_offset.y
        index = bisect_right(self._starts, top) - 1
        return self._laid[index].number, top - self._starts[index]

    def _scroll(self, line: int) -> None:
        self.scroll_to(y=line, animate=False, immediate=True, force=True)
