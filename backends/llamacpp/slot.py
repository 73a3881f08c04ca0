"""One conversation's place in a llama.cpp context: a sequence id and what its cells hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pardec_chat.backends.base import Prefill, Slot
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.errors import ContextFull
from pardec_chat.backends.llamacpp.context import CHUNK

if TYPE_CHECKING:
    from pardec_chat.backends.llamacpp.target import LlamaCppTarget


class LlamaCppSlot(Slot):
    """Cells hold `cells`, in order; the committed ids are `tokens`, all but the last of them in cells.

    Between two calls the cells hold exactly `tokens[:-1]`, except on a draft model, where accepted guesses stay useful.
    """

    def __init__(self, target: LlamaCppTarget, sequence: int) -> None:
        self._target = target
        self.sequence = sequence
        self.n_ctx = target.capabilities.n_ctx
        self.cells: list[int] = []
        self._tokens: list[int] = []
        self._closed = False
        # Running state at some number of cells, where the memory cannot be trimmed.
        self._snapshot: tuple[int, bytes] | None = None

    @property
    def tokens(self) -> Sequence[int]:
        """See `Slot`."""
        return self._tokens

    def prefill(self, ids: Sequence[int], should_stop: Callable[[], bool]) -> Prefill:
        """See `Slot`."""
        if len(ids) > self.n_ctx:
            raise ContextFull(
                f"The prompt has {len(ids):,} tokens, the context holds {self.n_ctx:,}.",
                "Shorten it or ask for a longer context (--ctx).",
            )
        wanted = list(ids[:-1])
        cached = self.trim(common_prefix(self.cells, wanted))
        position = cached
        self._tokens = list(ids[: position + 1])
        while position < len(wanted) and not should_stop():
            self.evaluate(wanted[position : position + CHUNK])
            position = len(self.cells)
            self._tokens = list(ids[: position + 1])
        return Prefill(cached, position - cached, complete=position == len(wanted))

    def rewind(self, length: int) -> None:
        """See `Slot`. Where the memory cannot be trimmed, the kept ids are evaluated again."""
        self.commit(self._tokens[:length])

    def fork(self) -> Slot:
        """See `Slot`."""
        twin = self._target.open()
        if self._target.n_window:
            # Shared cells would never leave the window's cache, which fills up then: the twin evaluates its own.
            twin.commit(list(self._tokens))
            return twin
        self._target.context.copy(self.sequence, twin.sequence)
        twin.cells = list(self.cells)
        twin._tokens = list(self._tokens)
        twin._snapshot = self._snapshot
        return twin

    def close(self) -> None:
        """See `Slot`."""
        if not self._closed:
            self._closed = True
            self._target.release(self)

    def commit(self, tokens: list[int]) -> None:
        """Make `tokens` the committed ids; their cells are there already or are evaluated again."""
        self._tokens = tokens
        self._settle(self.trim(common_prefix(self.cells, tokens[:-1])))

    def accept(self, tokens: Sequence[int]) -> None:
        """Commit `tokens` behind the committed ids; the cells agree with them as far as both reach."""
        self._tokens.extend(tokens)
        self._settle(self.trim(len(self._tokens) - 1))

    def _settle(self, kept: int) -> None:
        for start in range(kept, len(self._tokens) - 1, CHUNK):
            self.evaluate(self._tokens[start : min(start + CHUNK, len(self._tokens) - 1)])

    def commit_draft(self, tokens: list[int]) -> None:
        """Make `tokens` the committed ids before their last cells are there: the caller evaluates them."""
        self._tokens = tokens

    def evaluate(self, ids: Sequence[int]) -> None:
        """Add cells for `ids` (at most CHUNK), without logits."""
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
        """Keep the first `n` cells, or as many as the memory allows; gives how many stayed."""
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
