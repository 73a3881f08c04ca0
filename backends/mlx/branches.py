"""Token trees: where a pass's rows stand, and what each of them sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from pardec_chat.backends.base import depths


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

    def places(self, cached: int) -> NDArray[np.int64]:
        """The place of each row where the cache holds `cached` tokens, m of the tree's among them, [n]."""
        return cached - self.before + self.depth[self.before :]

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
