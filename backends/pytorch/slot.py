"""One conversation's place in the static cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pardec_chat.backends.base import Slot
from pardec_chat.backends.cells import CellSlot

if TYPE_CHECKING:
    from pardec_chat.backends.pytorch.target import PytorchTarget


class PytorchSlot(CellSlot):
    """See `CellSlot`; whatever lies behind the cells in the tensor counts for nothing. index: its place there."""

    def __init__(self, target: PytorchTarget, index: int) -> None:
        super().__init__(target.capabilities.n_ctx)
        self._target = target
        self.index = index

    def evaluate(self, ids: Sequence[int]) -> object | None:
        """See `CellSlot`."""
        return self._target.evaluate(self, ids)

    def fork(self) -> Slot:
        """See `Slot`."""
        twin = self._target.open()
        self._target.cache.copy(self.index, twin.index, len(self.cells))
        twin.cells, twin.committed = list(self.cells), list(self.committed)
        return twin

    def release(self) -> None:
        """See `CellSlot`."""
        self._target.release(self)

    def trim(self, n: int) -> int:
        """See `CellSlot`."""
        del self.cells[n:]
        return len(self.cells)
