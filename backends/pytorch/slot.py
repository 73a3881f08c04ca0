"""One conversation's place in the static cache: which ids its cells hold, and which of them are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pardec_chat.backends.base import Prefill, Slot
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.errors import ContextFull

if TYPE_CHECKING:
    from pardec_chat.backends.pytorch.target import PytorchTarget

#: Tokens evaluated at once in a prefill: the cancel flag is read between two of these.
CHUNK = 128


class PytorchSlot(Slot):
    """Cells hold `cells`, in order; whatever lies behind them in the tensor counts for nothing.

    Between two calls the cells hold exactly `tokens[:-1]`, except on a draft model, where accepted guesses stay useful.
    """

    def __init__(self, target: PytorchTarget, index: int) -> None:
        self._target = target
        self.index = index
        self.n_ctx = target.capabilities.n_ctx
        self.cells: list[int] = []
        self.committed: list[int] = []
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
        cached = position = self.trim(common_prefix(self.cells, wanted))
        self.committed = list(ids[: position + 1])
        features: list[object] = []
        while position < len(wanted) and not should_stop():
            features.append(self._target.evaluate(self, wanted[position : position + CHUNK]))
            position = len(self.cells)
            self.committed = list(ids[: position + 1])
        known = tuple(one for one in features if one is not None)
        return Prefill(cached, position - cached, complete=position == len(wanted), features=known)

    def rewind(self, length: int) -> None:
        """See `Slot`."""
        del self.committed[length:]
        self.trim(max(0, len(self.committed) - 1))

    def fork(self) -> Slot:
        """See `Slot`."""
        twin = self._target.open()
        self._target.cache.copy(self.index, twin.index, len(self.cells))
        twin.cells, twin.committed = list(self.cells), list(self.committed)
        return twin

    def close(self) -> None:
        """See `Slot`."""
        if not self._closed:
            self._closed = True
            self._target.release(self)

    def trim(self, n: int) -> int:
        """Keep the first `n` cells; gives how many stayed."""
        del self.cells[n:]
        return len(self.cells)
