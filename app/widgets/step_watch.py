"""Looking at the steps of an answer now and then while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pardec_chat.app.widgets.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.message_pump import MessagePump

    from pardec_chat.app.conversations.record import StepRecord


class StepWatch(Watch):
    """See `Watch`; `steps` are those that were seen last."""

    def __init__(
        self, pump: MessagePump, steps: Callable[[], Sequence[StepRecord]], changed: Callable[[], None]
    ) -> None:
        super().__init__(pump, changed)
        self.steps: tuple[StepRecord, ...] = ()
        self._source = steps

    def look(self) -> None:
        """Look now."""
        steps = tuple(self._source())
        if steps != self.steps:
            self.steps = steps
            self._changed()
