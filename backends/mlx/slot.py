"""One conversation's place on MLX: a memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from pardec_chat.backends.base import Prefill, Slot
from pardec_chat.backends.cells import CellSlot
from pardec_chat.backends.mlx import memory
from pardec_chat.backends.mlx.branches import Branches
from pardec_chat.backends.mlx.memory import Memory

if TYPE_CHECKING:
    from pardec_chat.backends.mlx.target import MlxTarget


@dataclass(frozen=True, slots=True)
class Ahead:
    """A pass that was begun before anybody asked for it. row: its logits, [V]. best: the most probable id, both on their way."""

    row: Any
    best: Any


class MlxSlot(CellSlot):
    """See `CellSlot`; `memory` holds the cells.

    Where plain decoding has begun the next pass, the cells are all of `committed`, and `ahead` is what follows them.
    """

    def __init__(self, target: MlxTarget, memory: Memory) -> None:
        super().__init__(target.capabilities.n_ctx, target.chunk)
        self._target = target
        self.memory = memory
        self.ahead: Ahead | None = None
        #: Plain steps since the last draft.
        self.plain_steps = 0

    def prefill(self, ids: Sequence[int], should_stop: Callable[[], bool]) -> Prefill:
        """See `Slot`."""
        self.plain_steps = 0
        self.ahead = None
        found = super().prefill(ids, should_stop)
        self.memory.save(prompt=True)
        return found

    def evaluate(self, ids: Sequence[int]) -> None:
        """See `CellSlot`."""
        self._target.evaluate(self, ids)

    def forward(self, ids: Sequence[int], branches: Branches | None = None) -> Any:
        """Add cells for `ids`; gives their logits, float32 [n, V], on their way. branches: what they are in a tree."""
        return forward([(self, ids, branches)])[0]

    def keep(self, n: int, rows: Sequence[int]) -> None:
        """Of the tree behind the first `n` cells keep `rows`, ascending."""
        self.memory.keep(n, rows)
        self.cells[n:] = [self.cells[n + row] for row in rows]

    def fork(self) -> Slot:
        """See `Slot`."""
        twin = self._target.open()
        twin.memory = self.memory.copy()
        twin.cells, twin.committed = self.cells[: twin.memory.length], list(self.committed)
        twin.settle()
        return twin

    def trim(self, n: int) -> int:
        """See `CellSlot`."""
        if n < len(self.cells):
            self.ahead = None
            del self.cells[self.memory.trim(n) :]
        return len(self.cells)

    def abandon(self) -> None:
        """Forget what a pass that failed has left behind `committed`."""
        self.ahead = None
        del self.cells[self.memory.trim(max(0, len(self.committed) - 1)) :]

    def release(self) -> None:
        """See `CellSlot`."""
        self._target.release(self)


def forward(parts: Sequence[tuple[MlxSlot, Sequence[int], Branches | None]]) -> list[Any]:
    """Add cells for ids to slots of one model; gives the logits of each, see `memory.forward`."""
    logits = memory.forward([(slot.memory, mx.array([list(ids)], mx.int32), shape) for slot, ids, shape in parts])
    for slot, ids, _ in parts:
        slot.cells.extend(ids)
        slot.ahead = None
    return logits
