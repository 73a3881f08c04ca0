"""The two exact acceptance rules over a draft tree, in plain Python: what every runtime's own kernel must equal.

A tree is a flat list of tokens with the index of each one's parent, -1 standing for the last committed token; parents
come before children. A chain is the simple case.

         -1 ── 0 ── 1 ── 3          tokens  [a, b, c, d]
               └─── 2               parents [-1, 0, 0, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from pardec_chat.kernels.sampling.reference import Chance, Distribution

ROOT = -1


@dataclass(slots=True)
class Acceptance:
    """What one forward pass of the target made of a tree.

    path: indices of the accepted nodes, from the root on.
    tokens: what is emitted: the accepted tokens, then the target's own one. That last one is missing only when the
        path ends in an end token.
    """

    path: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


def children(parents: Sequence[int]) -> dict[int, list[int]]:
    """Node → its children in the order they were drafted."""
    table: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        table.setdefault(parent, []).append(node)
    return table


def walk(tokens: Sequence[int], parents: Sequence[int], own: Callable[[int], int], ends: Container[int]) -> Acceptance:
    """Walk-and-sample: the target's own token at each node, as long as it equals a child.

    own: samples the target at a node; called once for each emitted token, in the order of the text. Every emitted token is
        the target's own sample, so the rule is exact for every sampler, and for one stream of random numbers the text is
        that of plain decoding.
    ends: end tokens; nothing is sampled after one.
    """
    table = children(parents)
    result = Acceptance()
    node = ROOT
    while True:
        token = own(node)
        result.tokens.append(token)
        node = next((child for child in table.get(node, ()) if tokens[child] == token), ROOT)
        if node == ROOT:
            return result
        result.path.append(node)
        if token in ends:
            return result


def reject(
    tokens: Sequence[int],
    parents: Sequence[int],
    target: Callable[[int], Distribution],
    drafted: Sequence[Distribution],
    chance: Chance,
    emit: Callable[[int], None],
    ends: Container[int],
) -> Acceptance:
    """Rejection sampling: accept x with min(1, p(x)/q(x)), else go on with norm(max(0, p - q)).

    Leviathan et al. 2023 (Theorem 3.5 of the appendix) for chains; for siblings drawn without replacement the drawn token
    also leaves q, renormalised (Chen et al. 2024, Sequoia, algorithm 2).

    target: p at a node, after the whole sampler chain, with the emitted tokens as its prefix.
    drafted: for each node, the distribution its first sibling was drawn from; the later ones from what was left of it.
    emit: called with each emitted token, before the next node's `target`.
    """
    table = children(parents)
    result = Acceptance()
    node = ROOT
    while True:
        p = target(node)
        q: Distribution | None = None
        accepted = ROOT
        for child in table.get(node, ()):
            q = drafted[child] if q is None else q
            token = tokens[child]
            if chance.coin(min(1.0, p.probability(token) / q.probability(token))):
                accepted = child
                break
            p, q = p.minus(q), q.without(token)
        token = chance.pick(p) if accepted == ROOT else tokens[accepted]
        result.tokens.append(token)
        emit(token)
        if accepted == ROOT:
            return result
        result.path.append(accepted)
        if token in ends:
            return result
        node = accepted
