"""What runtimes whose cache consists of cells have in common: which ids the cells hold, and which of them are committed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Final

from pardec_chat.backends.base import Draft, LoadOptions, Prefill, Slot, leaves
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, ContextFull

#: Tokens evaluated at once in a prefill, where a runtime wants no other: the cancel flag is read between two of these.
CHUNK: Final = 128


class CellSlot(Slot):
    """Cells hold `cells`, in order; the committed ids are `committed`, all but the last of them in cells.

    Between two calls the cells hold exactly `committed[:-1]`, except on a draft model, where accepted guesses stay useful.

    chunk: tokens evaluated at once where many are missing.
    """

    def __init__(self, n_ctx: int, chunk: int = CHUNK) -> None:
        self.n_ctx = n_ctx
        self.chunk = chunk
        self.cells: list[int] = []
        self.committed: list[int] = []
        self._closed = False

    @abstractmethod
    def evaluate(self, ids: Sequence[int]) -> object | None:
        """Add cells for `ids` (at most `chunk`), without logits; gives their features where they are read."""

    @abstractmethod
    def trim(self, n: int) -> int:
        """Keep the first `n` cells, or as many as the cache allows; gives how many stayed."""

    @abstractmethod
    def release(self) -> None:
        """Give the place back, once."""

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
            found = self.evaluate(wanted[position : position + self.chunk])
            if found is not None:
                features.append(found)
            position = len(self.cells)
            self.committed = list(ids[: position + 1])
        return Prefill(cached, position - cached, complete=position == len(wanted), features=tuple(features))

    def follow(self, ids: Sequence[int]) -> None:
        """Commit `ids` on a draft model; the last of them, at most `chunk`, are left for the caller to evaluate."""
        kept = self.trim(common_prefix(self.cells, ids[:-1]))
        while len(ids) - kept > self.chunk:
            self.evaluate(ids[kept : kept + self.chunk])
            kept = len(self.cells)
        self.committed = list(ids)

    def rewind(self, length: int) -> None:
        """See `Slot`. Where the cache cannot be trimmed that far, the kept ids are evaluated again."""
        del self.committed[length:]
        self.settle()

    def settle(self) -> None:
        """Make the cells those of all committed ids but the last; they agree as far as both reach."""
        wanted = max(0, len(self.committed) - 1)
        for start in range(self.trim(wanted), wanted, self.chunk):
            self.evaluate(self.committed[start : min(start + self.chunk, wanted)])

    def close(self) -> None:
        """See `Slot`."""
        if not self._closed:
            self._closed = True
            self.release()


def check_room(slot: Slot, draft: Draft) -> None:
    """Raises ContextFull where a draft does not fit behind what is committed."""
    if len(slot.tokens) + draft.depth > slot.n_ctx:
        raise ContextFull(
            f"{draft.depth} drafted tokens do not fit behind {len(slot.tokens):,} of {slot.n_ctx:,}.",
            "Start a new conversation or ask for a longer context (--ctx).",
        )


def check_leaves(items: Sequence[tuple[Slot, Draft, Sampler]], branches: int) -> None:
    """Raises BadSetting where the trees of a pass have more leaves, beside one for each slot, than `branches`."""
    ends = sum(max(0, len(leaves(draft.all_parents)) - 1) for _, draft, _ in items)
    if ends > branches:
        raise BadSetting("The draft tree has more leaves than were asked for at load.", "Draft chains instead.")


def check_options(options: LoadOptions) -> None:
    """Raises BadSetting for what no runtime can do."""
    if options.n_ctx is not None and options.n_ctx < 16:
        raise BadSetting(f"A context of {options.n_ctx} tokens holds no conversation.", "Give --ctx 16 or more.")
    if options.threads is not None and options.threads < 1:
        raise BadSetting(f"{options.threads} threads cannot decode.", "Give --threads 1 or more.")
