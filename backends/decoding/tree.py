"""A draft tree grown by the draft model's own confidence, best first (Li et al. 2024, EAGLE-2, section 4).

A node's worth is the product of the probabilities on the way to it: what the draft model thinks of the chance that it will be
accepted. Each level evaluates the most promising nodes of the last one; in the end the best nodes of all stay, which are
connected by themselves, since no node is worth more than its parent. All of it is chosen and nothing drawn, so that the walk
rule checks it, exactly for every sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pardec_chat.backends.base import NO_DRAFT, Draft, Method
from pardec_chat.backends.decoding.constraint import NothingAllowed
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.kernels.sampling.reference import Logits, largest, log_softmax

#: Nodes evaluated on a level, and children looked at of each.
WIDTH = 6


@dataclass(frozen=True, slots=True)
class _Node:
    """worth: log-probability of the whole path. row: its place among the evaluated nodes, -1 while it is none."""

    token: int
    parent: int
    depth: int
    worth: float


#: Rows of logits behind nodes that were not evaluated yet: given their tokens, the place of each one's parent among those
#: evaluated before (-1 for the committed text), and their common depth from 1 on.
Evaluate = Callable[[Sequence[int], Sequence[int], int], Sequence[Logits]]


def grow(first: Logits, evaluate: Evaluate, sampler: Sampler, *, nodes: int, depth: int, width: int = WIDTH) -> Draft:
    """A tree of up to `nodes` tokens, up to `depth` deep.

    first: logits behind the committed text. Nothing follows an end token.
    """
    known: list[_Node] = []
    evaluated: dict[int, int] = {-1: -1}
    _add_children(known, -1, first, sampler, width)
    for level in range(1, depth):
        found = [i for i, node in enumerate(known) if node.depth == level and node.token not in sampler.ends]
        # Those that cannot be among the best in the end need no children.
        best = sorted(sorted(found, key=lambda i: -known[i].worth)[:width])
        enough = sorted((node.worth for node in known), reverse=True)[nodes - 1] if len(known) >= nodes else -np.inf
        best = [i for i in best if known[i].worth > enough or len(known) < nodes]
        if not best:
            break
        rows = evaluate([known[i].token for i in best], [evaluated[known[i].parent] for i in best], level)
        for i, row in zip(best, rows, strict=True):
            evaluated[i] = len(evaluated) - 1
            _add_children(known, i, row, sampler, width)
    # Of equals the earlier one first, so that parents stay before their children.
    kept = sorted(sorted(range(len(known)), key=lambda i: (-known[i].worth, i))[:nodes])
    place = {-1: -1} | {i: n for n, i in enumerate(kept)}
    if not kept:
        return NO_DRAFT
    return Draft([known[i].token for i in kept], [place[known[i].parent] for i in kept], Method.DRAFT)


def _add_children(known: list[_Node], parent: int, logits: Logits, sampler: Sampler, width: int) -> None:
    """The most probable continuations of a node, with its path before them in the sampler's eyes."""
    path: list[int] = []
    at = parent
    while at != -1:
        path.insert(0, known[at].token)
        at = known[at].parent
    for token in path:
        sampler.push(token)
    try:
        scores = sampler.scores(logits)
    except NothingAllowed:
        return
    finally:
        sampler.pop(len(path))
    if not sampler.params.greedy:
        scores = scores / np.float32(sampler.params.temperature)
    ids = largest(scores, width)
    worth, depth = (0.0, 1) if parent == -1 else (known[parent].worth, known[parent].depth + 1)
    for token, value in zip(ids, log_softmax(scores, ids), strict=True):
        if value > -np.inf:
            known.append(_Node(int(token), parent, depth, worth + min(0.0, float(value))))
