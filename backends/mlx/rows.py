"""The cache of a layer with attention, in an order that lets rows be taken back, and trees be evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask

from pardec_chat.backends.mlx.branches import Branches

#: Tokens kept beyond the window, so that as many can be taken back: more than a draft is deep.
SLACK: Final = 64
#: Rows that the buffer grows by.
_STEP: Final = 256


@dataclass(slots=True)
class Common:
    """What is the same for all layers of a memory, so that nothing has to be told to each of them.

    length: tokens that they hold behind a pass; a layer that has more takes them away when it is used next. trims: how often
    tokens were taken away.
    Of the next pass: branches, what its rows are in a tree, None in a chain; places, where in the text they stand then, int32
    [n]; idle: MLX computes nothing before it, see `Attention`.
    """

    length: int = 0
    trims: int = 0
    branches: Branches | None = None
    places: Any = None
    idle: bool = False


class Rows:
    """Stands in for mlx-lm's `KVCache`, which knows no trees, and for `RotatingKVCache`, whose ring forgets what a rejected
    draft has overwritten.

    Rows lie in the order of the text; a pass of n rows is given the last window - 1 before it and its own, so attention never
    sees more than the window. When the buffer is full the newest window - 1 + SLACK rows move to its front:

        rows      … oldest kept │ window - 1 │ n new │ free
        given                   └────────────────────┘

    max_size: tokens that a row sees, itself included; None for all.
    """

    def __init__(self, max_size: int | None = None, common: Common | None = None) -> None:
        self.max_size = max_size
        self.common = common or Common()
        self._trims = self.common.trims
        self.keys: Any = None
        self.values: Any = None
        self._length = 0
        self._end = 0
        #: Of the rows, those that the last pass added, and nodes of its tree before them.
        self._newest = 0

    @property
    def offset(self) -> Any:
        """Tokens ever added, as mlx-lm's models read it to place a pass; in a tree the place of each of its rows."""
        self._follow()
        return self._length if self.common.branches is None else self.common.places

    def _follow(self) -> None:
        """Take away what `common` no longer has."""
        if self._trims != self.common.trims:
            self._trims = self.common.trims
            self.trim(self._length - self.common.length)

    def update_and_fetch(self, keys: Any, values: Any) -> tuple[Any, Any]:
        """Add the rows of a pass, [B, heads, n, head]; gives those that it may see."""
        self._follow()
        n, branches = keys.shape[2], self.common.branches
        before = 0 if branches is None else branches.before
        if self.keys is None or self._end + n > self.keys.shape[2]:
            kept = self._end if self.max_size is None else min(self._end, self.max_size - 1 + SLACK + before)
            free = -(-(kept + n) // _STEP) * _STEP - kept
            self.keys, self.values = (
                self._grown(self.keys, keys, kept, free),
                self._grown(self.values, values, kept, free),
            )
            self._end = kept
        self.keys[..., self._end : self._end + n, :] = keys
        self.values[..., self._end : self._end + n, :] = values
        self._end += n
        self._length += n
        self._newest = before + n
        return self.keys_and_values()

    def attend(self, queries: Any, keys: Any, values: Any, scale: float, mask: Any) -> Any:
        """What the rows of a pass, which are added, see: [B, heads, n, head]. mask: of `make_mask`."""
        keys, values = self.update_and_fetch(keys, values)
        return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask=mask)

    def _grown(self, old: Any, like: Any, kept: int, free: int) -> Any:
        empty = mx.zeros((*like.shape[:2], free, like.shape[3]), like.dtype)
        return empty if old is None else mx.concatenate([old[..., self._end - kept : self._end, :], empty], axis=2)

    def keys_and_values(self) -> tuple[Any, Any]:
        """What the last pass was given; layers that share a cache read it again."""
        start = self._end - self._newest - self._visible(self._end - self._newest)
        return self.keys[..., start : self._end, :], self.values[..., start : self._end, :]

    def _visible(self, n: int) -> int:
        """Of `n` rows, those that a pass behind them is given."""
        return n if self.max_size is None else min(n, self.max_size - 1)

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Which of the rows that it will be given each of the `n` rows of the next pass sees, in the form mlx-lm wants."""
        self._follow()
        window = min((size for size in (window_size, self.max_size) if size is not None), default=None)
        branches = self.common.branches
        if branches is not None:
            return branches.mask(self._visible(self._end - branches.before), window)
        before = self._visible(self._end)
        if n == 1:
            hidden = 0 if window is None else before + 1 - window
            return mx.arange(before + 1) >= hidden if hidden > 0 else None
        if return_array or (window is not None and before + n > window):
            return create_causal_mask(n, before, window_size=window)
        return "causal"

    def can_trim(self, n: int) -> bool:
        """Whether all that the next row sees is still there without the last `n`."""
        self._follow()
        return self._end - n >= self._visible(self._length - n)

    def trim(self, n: int) -> int:
        """Take the last `n` away."""
        self._end -= n
        self._length -= n
        self._newest = 0
        return n

    def keep(self, n: int, rows: Sequence[int]) -> None:
        """Of what was added behind the first `n` keep `rows`, ascending."""
        self._follow()
        first = self._end - (self._length - n)
        if list(rows) != list(range(len(rows))):
            chosen, to = mx.array([first + row for row in rows]), slice(first, first + len(rows))
            self.keys[..., to, :] = self.keys[..., chosen, :]
            self.values[..., to, :] = self.values[..., chosen, :]
        self.trim(self._length - n - len(rows))

    def copy_from(self, other: Rows) -> None:
        """Become equal to `other`; neither sees what the other adds."""
        other._follow()
        self._length, self._end, self._newest = other._length, other._end, other._newest
        self.keys, self.values = (None, None) if other.keys is None else (mx.array(other.keys), mx.array(other.values))

    @property
    def state(self) -> tuple[Any, ...]:
        """The arrays, for evaluation."""
        return () if self.keys is None else (self.keys, self.values)

    def size(self) -> int:
        """Tokens that the next row could see beside itself and those of its pass."""
        self._follow()
        return self._visible(self._end)

    def empty(self) -> bool:
        """Whether nothing was added yet."""
        return self.keys is None

    @property
    def nbytes(self) -> int:
        """Of the whole buffer."""
        return sum(int(array.nbytes) for array in self.state)


class Together:
    """The caches that a layer has in several conversations, whose rows follow one another in one pass.

    Each attends to its own rows: nothing is padded and no cache is copied, whatever lengths, windows and trees meet.

    rows: one a conversation. counts: how many rows of the pass are of each. places: where in its text each row stands, [n].
    """

    def __init__(self, rows: Sequence[Rows], counts: Sequence[int], places: Any) -> None:
        self._rows = rows
        self.common = rows[0].common
        self._counts = counts
        self._ends = list(accumulate(counts))[:-1]
        self.offset = places

    def make_mask(self, _n: int, window_size: int | None = None, return_array: bool = False) -> list[Any]:
        """One of each cache, see `Rows`."""
        return [
            one.make_mask(count, window_size, return_array) for one, count in zip(self._rows, self._counts, strict=True)
        ]

    def attend(self, queries: Any, keys: Any, values: Any, scale: float, mask: Sequence[Any]) -> Any:
        """See `Rows`."""
        parts = zip(
            self._rows, *(mx.split(each, self._ends, axis=2) for each in (queries, keys, values)), mask, strict=True
        )
        return mx.concatenate([one.attend(q, k, v, scale, seen) for one, q, k, v, seen in parts], axis=2)
