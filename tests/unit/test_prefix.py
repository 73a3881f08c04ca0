from __future__ import annotations

import numpy as np
import pytest

from pardec_chat.backends.decoding.prefix import common_prefix


def slow(a: list[int], b: list[int]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


def test_common_prefix_for_every_pair_of_short_lists() -> None:
    lists = [[], *([i] for i in range(2)), *([i, j] for i in range(2) for j in range(2))]
    lists += [[i, j, k] for i in range(2) for j in range(2) for k in range(2)]
    for a in lists:
        for b in lists:
            assert common_prefix(a, b) == slow(a, b), (a, b)


@pytest.mark.parametrize("length", [1, 2, 7, 64, 1000])
def test_common_prefix_with_the_difference_at_every_place(length: int) -> None:
    a = list(range(length))
    for place in range(length):
        b = [*a[:place], -1, *a[place + 1 :]]
        assert common_prefix(a, b) == common_prefix(b, a) == place
        assert common_prefix(a, a[:place]) == common_prefix(a[:place], a) == place


def test_common_prefix_of_random_lists() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        shared = rng.integers(0, 2, rng.integers(0, 40)).tolist()
        a = shared + rng.integers(0, 2, rng.integers(0, 10)).tolist()
        b = shared + rng.integers(0, 2, rng.integers(0, 10)).tolist()
        assert common_prefix(a, b) == common_prefix(a, tuple(b)) == slow(a, b)
