"""One conversation's place on MLX: which ids its memory holds, and which of them are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pardec_chat.backends.base import Prefill, Slot
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.errors import ContextFull
from pardec_chat.backends.mlx.memory import Memory

if TYPE_CHECKING:
    from pardec_chat.backends.mlx.target import MlxTarget


class MlxSlot(Slot):
    """The memory holds `cells`, in order.

    Between two calls they are `tokens[:-1]`, or all of `tokens` where plain decoding has begun the next pass: `ahead` are its
    logits, [V], which may still be on their way. On a draft model accepted guesses stay as well.
    """

    def __init__(self, target: MlxTarget, memory: Memory) -> None:
        self._target = target
        self.n_ctx = target.capabilities.n_ctx
        self.memory = memory
        self.cells: list[int] = []
        self.committed: list[int] = []
        self.ahead: Any = None
        #: Plain steps since the last draft.
        self.plain_steps = 0
        self._closed = False

    @property
    def tokens(self) -> Sequence[int]:
        """See `Slot`."""
        return self.committed

    def prefill(self, ids: Sequence[int], should_stop: Callable[[], bool]) -> Prefill:
        """See `Slot`."""
        if len(ids) > self.n_ctx:
            raise ContextFull(
                f"The prompt has {len(ids):,} tokens, the context holds {self.n_ctx:,}.",
                "Shorten it or ask for a longer context (--ctx).",
            )
        wanted = list(ids[:-1])
        self.plain_steps = 0
        cached = position = self.trim(common_prefix(self.cells, wanted))
        self.ahead = None
        self.committed = list(ids[: position + 1])
        chunk = self._target.chunk
        while position < len(wanted) and not should_stop():
            self._target.evaluate(self, wanted[position : position + chunk])
            position = len(self.cells)
            self.committed = list(ids[: position + 1])
        self.memory.save(prompt=True)
        return Prefill(cached, position - cached, complete=position == len(wanted))

    def rewind(self, length: int) -> None:
        """See `Slot`. Where the memory cannot be trimmed that far, the kept ids are evaluated again."""
        del self.committed[length:]
        self.settle()

    def fork(self) -> Slot:
        """See `Slot`."""
        twin = self._target.open()
        twin.memory = self.memory.copy()
        twin.cells, twin.committed = self.cells[: twin.memory.length], list(self.committed)
        twin.settle()
        return twin

    def close(self) -> None:
        """See `Slot`."""
        if not self._closed:
            self._closed = True
            self._target.release(self)

    def trim(self, n: int) -> int:
        """Keep the first `n` cells, or as many as the memory allows; gives how many stayed."""
        if n < len(self.cells):
            self.ahead = None
            del self.cells[self.memory.trim(n) :]
        return len(self.cells)

    def settle(self) -> None:
        """Make the cells those of all committed ids but the last; they agree as far as both reach."""
        wanted = max(0, len(self.committed) - 1)
        kept = self.trim(wanted)
        for start in range(kept, wanted, self._target.chunk):
            self._target.evaluate(self, self.committed[start : min(start + self._target.chunk, wanted)], wait=False)
