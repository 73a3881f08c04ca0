"""Scripted distributions: logits as a function of the prefix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

#: Prefix → logits of what follows it, one for each id.
Rows = Callable[[tuple[int, ...]], Sequence[float]]
#: The logit of a scripted token; all others have 0, so its probability at temperature 1 is 1 up to 1e-12.
SURE = 30.0


def script(size: int, ids: Sequence[int], start: int) -> Rows:
    """`ids` one after the other behind `start` ids of prompt, whatever those are; then the last of them for ever."""
    return lambda prefix: sure(size, ids[min(max(len(prefix) - start, 0), len(ids) - 1)])


def replies(size: int, marker: int, *answers: Sequence[int]) -> Rows:
    """The n-th of `answers` behind the n-th `marker` (the id that opens a reply in the chat template)."""

    def rows(prefix: tuple[int, ...]) -> Sequence[float]:
        n = prefix.count(marker)
        if n == 0:
            return [0.0] * size
        answer = answers[min(n, len(answers)) - 1]
        behind = len(prefix) - 1 - max(i for i, token in enumerate(prefix) if token == marker)
        return sure(size, answer[min(behind, len(answer) - 1)])

    return rows


def noise(size: int, seed: int, *, order: int = 3, scale: float = 2.0) -> Rows:
    """Normal logits that depend on the last `order` ids: a small language of its own for each `seed`."""
    return lambda prefix: list(np.random.default_rng((seed, *prefix[-order:])).normal(0.0, scale, size))


def sure(size: int, token: int) -> list[float]:
    """Logits that leave no doubt about `token`."""
    row = [0.0] * size
    row[token] = SURE
    return row
