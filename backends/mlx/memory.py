"""What a model remembers of one conversation: the caches of all its layers, and how they are taken back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, TypeAlias

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from pardec_chat.backends.mlx.attention import suits
from pardec_chat.backends.mlx.branches import Branches
from pardec_chat.backends.mlx.rows import Common, Rows, Together
from pardec_chat.backends.model_file import CacheKind


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Running states after `length` tokens. Arrays never change, so that keeping them costs their memory and no copy."""

    length: int
    states: tuple[tuple[Any, ...], ...]


#: A memory, ids int32 [1, n] to add to it, and what they are in a tree (None in a chain).
Part: TypeAlias = "tuple[Memory, Any, Branches | None]"


class Memory:
    """length: tokens it holds. layers: what mlx-lm's model is given.

    Full caches are trimmed by their length, windows as far as their slack reaches, and running states go back to the last
    snapshot, from where the caller evaluates again. A cache of another kind can only be begun anew.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._begin()

    def _begin(self) -> None:
        self._common = Common()
        common = self._common
        all_ours = suits(self._model)
        self.layers: list[Any] = [_ours(one, common, everywhere=all_ours) for one in make_prompt_cache(self._model)]
        self._single = [one for layer in self.layers for one in _single(layer)]
        self._states = [one for one in self._single if isinstance(one, ArraysCache)]
        self._rows = [one for one in self._single if isinstance(one, Rows)]
        self._full = [one for one in self._single if type(one) is KVCache]
        #: The state behind the last prompt, and that before the last draft.
        self._prompt: _Snapshot | None = None
        self._latest: _Snapshot | None = None

    @property
    def length(self) -> int:
        """See `Memory`."""
        return self._common.length

    @property
    def rewind(self) -> Literal["trim", "snapshot", "none"]:
        """See `Capabilities`."""
        if len(self._states) + len(self._rows) + len(self._full) < len(self._single):
            return "none"
        return "snapshot" if self._states else "trim"

    @property
    def branches(self) -> bool:
        """Whether trees can be evaluated."""
        return suits(self._model) and len(self._rows) == len(self._single)

    @property
    def kind(self) -> CacheKind:
        """What it keeps, in the words of a model's description."""
        if self._states:
            return "recurrent" if len(self._states) == len(self._single) else "hybrid"
        return "sliding window" if self._windows else "full"

    @property
    def _windows(self) -> list[Rows]:
        return [one for one in self._rows if one.max_size is not None]

    @property
    def n_visible(self) -> int:
        """The most tokens that a window gives to the next row, 0 without one."""
        return max((window.size() for window in self._windows), default=0)

    def forward(self, ids: Any, branches: Branches | None = None, *, idle: bool = False) -> Any:
        """Add tokens; gives their logits, float32 [n, V], neither of which is computed yet.

        ids: int32 [1, n]. branches: what they are in a tree. idle: see `Common`.
        """
        return forward([(self, ids, branches)], idle=idle)[0]

    def _alone(self, ids: Any, branches: Branches | None, *, idle: bool) -> Any:
        common = self._common
        common.branches, common.idle = branches, idle
        common.places = None if branches is None else mx.array(branches.places(common.length).astype(np.int32))
        try:
            logits = self._model(ids, cache=self.layers)[0].astype(mx.float32)
        except BaseException:
            self._recover()
            raise
        common.length += ids.shape[1]
        return logits

    def _recover(self) -> None:
        """Some layers have the rows of a pass that failed while it was built."""
        if self.branches and not self._windows:
            self._shorten(self.length)
        else:
            self._begin()

    def arrays(self) -> list[Any]:
        """Everything, for evaluation."""
        return [one.state for one in self._single]

    def save(self, *, prompt: bool = False) -> None:
        """Remember the running states, if there are any; prompt: behind a prompt, which answers go back to."""
        if not self._states:
            return
        now = _Snapshot(self.length, tuple(tuple(one.cache) for one in self._states))
        if prompt:
            self._prompt = now
        self._latest = now

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or as many as is possible; gives how many stayed."""
        if n >= self.length:
            return self.length
        saved = [one for one in (self._prompt, self._latest) if one is not None and one.length <= n]
        snapshot = max(saved, key=lambda one: one.length, default=None)
        if self._states:
            n = 0 if snapshot is None else snapshot.length
        gone = self.length - n
        if n == 0 or self.rewind == "none" or not all(one.can_trim(gone) for one in self._windows):
            self._begin()
            return 0
        for one in self._full:
            one.trim(gone)
        if snapshot is not None and self._states:
            for one, state in zip(self._states, snapshot.states, strict=True):
                one.cache = list(state)
            self._latest = snapshot
            if self._prompt is not None and self._prompt.length > n:
                self._prompt = None
        self._shorten(n)
        return n

    def _shorten(self, n: int) -> None:
        self._common.length = n
        self._common.trims += 1

    def keep(self, n: int, rows: Sequence[int]) -> None:
        """Of the tree behind the first `n` tokens keep `rows`, ascending."""
        for one in self._rows:
            one.keep(n, rows)
        self._shorten(n + len(rows))

    def copy(self) -> Memory:
        """Another one with the same content."""
        twin = Memory(self._model)
        if twin.rewind == "none":
            return twin
        twin._common.length, twin._prompt, twin._latest = self.length, self._prompt, self._latest
        for mine, other in zip(twin._single, self._single, strict=True):
            if isinstance(other, Rows):
                mine.copy_from(other)
            elif isinstance(other, ArraysCache):
                mine.cache = list(other.cache)
            elif not other.empty():
                mine.keys, mine.values, mine.offset = mx.array(other.keys), mx.array(other.values), other.offset
        return twin

    def close(self) -> None:
        """Let go of the model and of everything kept."""
        self._model = self._prompt = self._latest = None
        self.layers, self._single, self._states, self._rows, self._full = [], [], [], [], []
        self._common = Common()

    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers kept for a token by full caches, and by windows; tokens of the longest window; numbers of states.

        Only known behind a pass, which need not be computed.
        """
        windowed = sum(_per_token(one) for one in self._windows)
        full = sum(_per_token(one) for one in (*self._full, *self._rows)) - windowed
        states = sum(int(array.size) for one in self._states for array in one.cache if array is not None)
        return full, windowed, max((one.max_size or 0 for one in self._windows), default=0), states


def forward(parts: Sequence[Part], *, idle: bool = False) -> list[Any]:
    """Add tokens to memories of one model; gives the logits of each, float32 [n, V], none of which are computed yet.

    Where the model suits they share a pass, so that its weights are read once; else each goes through one of its own.
    idle: see `Common`.
    """
    if len(parts) < 2 or not all(memory.branches for memory, _, _ in parts):
        return [memory._alone(ids, branches, idle=idle) for memory, ids, branches in parts]
    counts = [ids.shape[1] for _, ids, _ in parts]
    places = []
    for (memory, _, branches), n in zip(parts, counts, strict=True):
        length = memory.length
        memory._common.branches, memory._common.idle = branches, idle
        places.append(np.arange(length, length + n) if branches is None else branches.places(length))
    stand = mx.array(np.concatenate(places).astype(np.int32))
    layers = [Together(rows, counts, stand) for rows in zip(*(memory._rows for memory, _, _ in parts), strict=True)]
    ids = mx.concatenate([ids for _, ids, _ in parts], axis=1)
    try:
        logits = parts[0][0]._model(ids, cache=layers)[0].astype(mx.float32)
    except BaseException:
        for memory, _, _ in parts:
            memory._recover()
        raise
    for (memory, _, _), n in zip(parts, counts, strict=True):
        memory._common.length += n
    return list(mx.split(logits, list(accumulate(counts))[:-1]))


def _ours(cache: Any, common: Common, *, everywhere: bool) -> Any:
    """A layer's cache with windows that can be taken back. everywhere: full ones are ours too."""
    if type(cache) is RotatingKVCache and cache.keep == 0:
        return Rows(cache.max_size, common)
    if type(cache) is KVCache and everywhere:
        return Rows(None, common)
    if type(cache) is CacheList:
        return CacheList(*(_ours(one, common, everywhere=everywhere) for one in cache.caches))
    return cache


def _single(cache: Any) -> Iterator[Any]:
    if type(cache) is CacheList:
        for one in cache.caches:
            yield from _single(one)
    else:
        yield cache


def _per_token(one: Any) -> int:
    arrays: Sequence[Any] = () if one.keys is None else (one.keys, one.values)
    return sum(int(array.shape[1] * array.shape[3]) for array in arrays)
