"""Drawing less often than things happen."""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Awaitable, Callable
from time import thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

#: Ten pictures a second look steady.
SECONDS = 0.1
#: Where decoding takes every core, drawing gets a seventieth of one at most: each picture keeps all threads waiting.
PAUSES = 69
#: Where a core is left, a tenth of it.
PAUSES_WITH_ROOM = 9
#: Nobody waits longer for what is there already.
LONGEST = 1.5


class Pacer:
    """Calls `draw` soon when it has been quiet, else when it is time again.

    has_room: whether decoding leaves a core. From one call to the next pass SECONDS, or PAUSES times the processor time that
    the drawing took, PAUSES_WITH_ROOM times where there is room: where drawing is slow it is done less often instead of making
    the machine slow.
    """

    def __init__(
        self, pump: MessagePump, draw: Callable[[], Awaitable[None]], has_room: Callable[[], bool] = lambda: False
    ) -> None:
        self._pump = pump
        self._draw = draw
        self._has_room = has_room
        self._timer: TimerHandle | None = None
        self._drawing = False
        self._again = False
        #: Seconds from one picture to the next, at present.
        self.pause = SECONDS

    def __call__(self) -> None:
        """There is something to draw."""
        if self.rests:
            self._again = True
        else:
            self._drawing = True
            self._pump.call_next(self._run)

    @property
    def rests(self) -> bool:
        """Whether what there is to draw has to wait."""
        return self._drawing or self._timer is not None

    def drop(self) -> None:
        """Forget what waits."""
        self._again = False

    async def _run(self) -> None:
        start = thread_time()
        self._again = False
        await self._draw()

        def drawn() -> None:
            self._drawing = False
            pauses = PAUSES_WITH_ROOM if self._has_room() else PAUSES
            self.pause = max(SECONDS, min(LONGEST, pauses * (thread_time() - start)))
            # A timer of Textual's would be a task, made anew for each picture, that looks its callback over first.
            self._timer = get_running_loop().call_later(self.pause, self._elapsed)

        # The layout and the painting come behind, and are most of it.
        self._pump.call_after_refresh(drawn)

    def _elapsed(self) -> None:
        self._timer = None
        if self._again:
            self()
