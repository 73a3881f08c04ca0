"""One conversation's place in a llama.cpp context: a sequence id and what its cells hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pardec_chat.backends.base import Slot
from pardec_chat.backends.cells import CellSlot

if TYPE_CHECKING:
    from pardec_chat.backends.llamacpp.target import LlamaCppTarget


class LlamaCppSlot(CellSlot):
    """See `CellSlot`. sequence: its id in the context."""

    def __init__(self, target: LlamaCppTarget, sequence: int) -> None:
        super().__init__(target.capabilities.n_ctx)
        self._target = target
        self.sequence = sequence
        # Running state at some number of cells, where the memory cannot be trimmed.
        self._snapshot: tuple[int, bytes] | None = None

    def fork(self) -> Slot:
        """See `Slot`."""
        twin = self._target.open()
        if self._target.n_window:
            # Shared cells would never leave the window's cache, which fills up then: the twin evaluates its own.
            twin.committed = list(self.committed)
            twin.settle()
            return twin
        self._target.context.copy(self.sequence, twin.sequence)
        twin.cells = list(self.cells)
        twin.committed = list(self.committed)
        twin._snapshot = self._snapshot
        return twin

    def release(self) -> None:
        """See `CellSlot`."""
        self._target.release(self)

    def evaluate(self, ids: Sequence[int]) -> None:
        """See `CellSlot`."""
        context = self._target.context
        context.batch.clear()
        context.batch.extend(ids, len(self.cells), self.sequence, wanted=False)
        context.decode()
        self.cells.extend(ids)

    def save(self) -> None:
        """Remember the running state, if there is one: what a rejected draft is undone with."""
        if self._target.capabilities.rewind == "snapshot":
            self._snapshot = (len(self.cells), self._target.context.save_state(self.sequence))

    def trim(self, n: int) -> int:
        """See `CellSlot`."""
        if n >= len(self.cells):
            return len(self.cells)
        context = self._target.context
        if self._target.capabilities.rewind == "snapshot":
            if n and self._snapshot is not None and self._snapshot[0] <= n:
                n = self._snapshot[0]
                context.restore_state(self.sequence, self._snapshot[1])
            else:
                n = 0
                self._snapshot = None
        elif n and context.first_position(self.sequence) > max(0, n - self._target.n_window):
            n = 0  # the sliding window has moved on: what the next row would look at is gone
        context.remove(self.sequence, n)
        del self.cells[n:]
        return n
