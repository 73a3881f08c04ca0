"""What a grammar allows: the state of one for one answer, as the sampler and the loop see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pardec_chat.kernels.sampling.reference import Logits

Allowed = NDArray[np.bool_]


class Constraint(Protocol):
    """Where an answer stands in its grammar. It hangs on the pushed ids alone, however they came and went.

    An id of the target's end tokens is allowed exactly where the grammar may end. Some id is always allowed: where nothing
    can follow, the end tokens are.
    """

    @property
    def problem(self) -> str:
        """Why the text can no longer become what the grammar describes; empty while it can."""
        ...

    def mask(self, n: int) -> Allowed:
        """Which of the ids 0…n-1 may come next, shape [n]. n may be more or less than the target's vocabulary has."""
        ...

    def push(self, token: int) -> None:
        """The answer grows by `token`."""
        ...

    def pop(self, n: int) -> None:
        """Take the last `n` tokens back."""
        ...

    def legal(self, tokens: Sequence[int]) -> int:
        """How many of `tokens`, one after the other, may come next; the state stays as it is."""
        ...


class NothingAllowed(Exception):
    """No id that the grammar allows here has a score: a draft model knows none of them, or may not guess them."""


def masked(scores: Logits, allowed: Allowed) -> Logits:
    """`scores` [V] with minus infinity for what is not allowed. Raises NothingAllowed."""
    row: Logits = np.where(allowed, scores, np.float32(-np.inf))
    if row.max() == -np.inf:
        raise NothingAllowed
    return row
