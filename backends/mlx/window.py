"""The cache of a layer that sees the last tokens alone, in an order that lets rejected ones be taken back."""

from __future__ import annotations

from typing import Any, Final

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask

#: Tokens kept beyond the window, so that as many can be taken back: more than a draft is deep.
SLACK: Final = 64
#: Rows that the buffer grows by.
_STEP: Final = 256


class Window:
    """Stands in for mlx-lm's `RotatingKVCache`, whose ring forgets what a rejected draft has overwritten.

    Rows lie in the order of the text; a pass of n rows is given the last window - 1 before it and its own, so attention never
    sees more than the window. When the buffer is full the newest window - 1 + SLACK rows move to its front:

        rows      … oldest kept │ window - 1 │ n new │ free
        given                   └────────────────────┘

    max_size: tokens that a row sees, itself included. offset: tokens ever added; mlx-lm's models read it.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.offset = 0
        self.keys: Any = None
        self.values: Any = None
        self._end = 0
        self._newest = 0

    def update_and_fetch(self, keys: Any, values: Any) -> tuple[Any, Any]:
        """Add the rows of a pass, [B, heads, n, head]; gives those that it may see."""
        n = keys.shape[2]
        if self.keys is None or self._end + n > self.keys.shape[2]:
            kept = min(self._end, self.max_size - 1 + SLACK)
            free = -(-(kept + n) // _STEP) * _STEP - kept
            self.keys, self.values = (
                self._grown(self.keys, keys, kept, free),
                self._grown(self.values, values, kept, free),
            )
            self._end = kept
        self.keys[..., self._end : self._end + n, :] = keys
        self.values[..., self._end : self._end + n, :] = values
        self._end += n
        self.offset += n
        self._newest = n
        return self.keys_and_values()

    def _grown(self, old: Any, like: Any, kept: int, free: int) -> Any:
        empty = mx.zeros((*like.shape[:2], free, like.shape[3]), like.dtype)
        return empty if old is None else mx.concatenate([old[..., self._end - kept : self._end, :], empty], axis=2)

    def keys_and_values(self) -> tuple[Any, Any]:
        """What the last pass was given; layers that share a cache read it again."""
        start = max(0, self._end - self._newest - (self.max_size - 1))
        return self.keys[..., start : self._end, :], self.values[..., start : self._end, :]

    def make_mask(self, n: int, window_size: int | None = None, return_array: bool = False) -> Any:
        """Which of the rows that it will be given each of the `n` rows of the next pass sees, in the form mlx-lm wants."""
        window = min(window_size or self.max_size, self.max_size)
        before = min(self._end, self.max_size - 1)
        if n == 1:
            hidden = before + 1 - window
            return mx.arange(before + 1) >= hidden if hidden > 0 else None
        if before + n > window or return_array:
            return create_causal_mask(n, before, window_size=window)
        return "causal"

    def can_trim(self, n: int) -> bool:
        """Whether all that the next row sees is still there without the last `n`."""
        return self._end - n >= min(self.offset - n, self.max_size - 1)

    def trim(self, n: int) -> int:
        """Take the last `n` away."""
        self._end -= n
        self.offset -= n
        self._newest = 0
        return n

    def copy_from(self, other: Window) -> None:
        """Become equal to `other`; neither sees what the other adds."""
        self.offset, self._end, self._newest = other.offset, other._end, other._newest
        self.keys, self.values = (None, None) if other.keys is None else (mx.array(other.keys), mx.array(other.values))

    @property
    def state(self) -> tuple[Any, ...]:
        """The arrays, for evaluation."""
        return () if self.keys is None else (self.keys, self.values)

    def size(self) -> int:
        """Tokens that the next row could see beside itself and those of its pass."""
        return min(self._end, self.max_size - 1)

    def empty(self) -> bool:
        """Whether nothing was added yet."""
        return self.keys is None

    @property
    def nbytes(self) -> int:
        """Of the whole buffer."""
        return sum(int(array.nbytes) for array in self.state)
