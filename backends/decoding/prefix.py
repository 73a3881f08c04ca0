"""Common prefixes of long id sequences that mostly agree."""

from __future__ import annotations

from collections.abc import Sequence


def common_prefix(a: list[int], b: Sequence[int]) -> int:
    """How many leading ids `a` and `b` share. Slices compare at C speed; the search halves towards the difference."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == list(b[:high]):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == list(b[low:middle]):
            low = middle
        else:
            high = middle
    return low
