"""One conversation's place on MLX: a memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import mlx.core as mx

from pardec_chat.backends.base import Draft, Prefill, Slot
from pardec_chat.backends.cells import CellSlot
from pardec_chat.backends.mlx.branches import Branches
from pardec_chat.backends.mlx.memory import Memory

if TYPE_CHECKING:
    from pardec_chat.backends.mlx.target import MlxTarget


@dataclass(frozen=True, slots=True)
class Ahead:
    """A pass that was begun before anybody asked for it. row: its logits, [V]. best: the most probable id, both on their way."""

    row: Any
    best: Any


class Chosen(Sequence[int]):
    """Ids that are being chosen where the logits are; whoever reads one of them waits for all.

    array: int32 [n], begun.
    """

    def __init__(self, array: Any) -> None:
        self.array: Any = array
        self._n: int = array.shape[0]
        self._ids: list[int] | None = None

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if self._ids is None:
            # Nothing of MLX stays with what goes to other threads.
            self._ids, self.array = self.array.tolist(), None
        return self._ids[index]


class MlxSlot(CellSlot):
    """See `CellSlot`; `memory` holds the cells.

    Where plain decoding has begun the next pass, the cells are all of `committed`, and `ahead` is what follows them.
    Where a draft is `chosen`, all of it but its last id are cells too.
    """

    def __init__(self, target: MlxTarget, memory: Memory) -> None:
        self.chosen: Chosen | None = None
        super().__init__(target.capabilities.n_ctx, target.chunk)
        self._target = target
        self.memory = memory
        self.ahead: Ahead | None = None
        #: Plain steps since the last draft.
        self.plain_steps = 0

    @property
    def cells(self) -> list[int]:
        """See `CellSlot`; waits for ids that are being chosen."""
        if self.chosen is not None:
            chosen, self.chosen = self.chosen, None
            self._cells += chosen[:-1]
        return self._cells

    @cells.setter
    def cells(self, ids: list[int]) -> None:
        self._cells = ids

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

    def forward(self, ids: Sequence[int], branches: Branches | None = None, *, idle: bool = False) -> Any:
        """Add cells for `ids`; gives their logits, float32 [n, V], on their way. See `Memory.forward`."""
        logits = self.memory.forward(mx.array([list(ids)], mx.int32), branches, idle=idle)
        self.cells.extend(ids)
        self.ahead = None
        return logits

    def missing(self, draft: Draft) -> Any:
        """Ids of a pass that checks `draft`: committed ones without a cell, the draft's and its probes', int32 [1, n]."""
        behind, tokens = self.committed[len(self.cells) :], draft.tokens
        if isinstance(tokens, Chosen) and tokens.array is not None:
            return mx.concatenate([mx.array(behind, mx.int32), tokens.array])[None]
        return mx.array([[*behind, *tokens, *draft.probes.tokens]], mx.int32)

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
        """Forget what a pass that failed has left behind `committed`; more of it where the memory cannot do otherwise."""
        self.ahead = None
        del self.cells[self.memory.trim(max(0, len(self.committed) - 1)) :]

    def catch_up(self) -> None:
        """Evaluate what `abandon` forgot of `committed`, all but its last."""
        if len(self.cells) < len(self.committed) - 1:
            self.settle()

    def release(self) -> None:
        """See `CellSlot`."""
        self._target.release(self)
