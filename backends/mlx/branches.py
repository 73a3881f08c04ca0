"""Token trees on mlx-lm's models, which know chains alone: where a pass's rows stand, and what each of them sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import mlx.core as mx
import numpy as np
from mlx import nn
from numpy.typing import NDArray

from pardec_chat.backends.base import depths

#: Modules of mlx-lm in which a token's place counts in `rope` and in the mask, nowhere else.
_SUITED: Final = frozenset({"gemma3_text", "llama", "qwen2", "qwen3"})


def suits(model: Any) -> bool:
    """Whether trees can be evaluated on mlx-lm's model."""
    return type(model).__module__.rpartition(".")[2] in _SUITED


def prepare(model: Any) -> None:
    """Let a model that suits take positions row by row."""
    for module in model.modules():
        if isinstance(getattr(module, "rope", None), nn.Module):
            module.rope = _Rotation(module.rope)


class _Rotation(nn.Module):  # type: ignore[misc]
    """mlx-lm's rotation of [1, heads, n, head], whose offset may be an array of n: the place of each row."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def __call__(self, x: Any, offset: Any = 0) -> Any:
        if isinstance(offset, int):
            return self.inner(x, offset=offset)
        # One place for each member of a batch is what MLX has: rows become members.
        return self.inner(x.transpose(2, 1, 0, 3), offset=offset).transpose(2, 1, 0, 3)


@dataclass(frozen=True, slots=True, eq=False)
class Branches:
    """What the n rows of a pass are in a tree, m of whose nodes are in the cache already, its last m rows.

    depth: how far behind the first of them each of the m + n stands. sees: bool [n, m + n], which of them each row sees.
    """

    depth: NDArray[np.int64]
    sees: NDArray[np.bool_]

    @property
    def before(self) -> int:
        """m."""
        return int(self.sees.shape[1]) - len(self.sees)

    def positions(self, start: int) -> Any:
        """The place of each row where the tree's first node has `start`, int32 [n]."""
        return mx.array((start + self.depth[self.before :]).astype(np.int32))

    def mask(self, cached: int, window: int | None) -> Any:
        """What each row sees of the `cached` rows before the tree and of the tree, bool [n, cached + m + n].

        window: tokens that a row sees, itself included; None for all.
        """
        own = self.depth[self.before :, None]
        seen = np.concatenate([np.ones((len(own), cached), np.bool_), self.sees], axis=1)
        if window is not None:
            seen &= own - np.concatenate([np.arange(-cached, 0), self.depth]) < window
        return mx.array(seen)


def behind_last(parents: Sequence[int], *, with_last: bool) -> Branches:
    """A tree behind the last committed token, -1 among its `parents`. with_last: that one is the first row of the pass."""
    sees = np.eye(len(parents) + 1, dtype=np.bool_)
    sees[:, 0] = True
    for node, parent in enumerate(parents):
        sees[node + 1] |= sees[parent + 1]
    depth = np.array([0, *depths(parents)])
    return Branches(depth, sees) if with_last else Branches(depth[1:] - 1, sees[1:, 1:])


def level(parents: Sequence[int], n: int) -> Branches:
    """The last `n` nodes of a tree that grows level by level; the others are in the cache."""
    grown = behind_last(parents, with_last=False)
    return Branches(grown.depth, grown.sees[len(parents) - n :])
