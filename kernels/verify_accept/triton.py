"""From rows of target logits to accepted tokens without leaving the device, in Triton: ids come out.

Two launches. `distribution` puts each row through temperature, top-k, top-p and min-p: all three cuts keep the tokens above
some weight, so each is the search for a threshold, bit by bit over the pattern of a positive float, and nothing is sorted.
`accept` walks the tree in one program, with the same two rules as `reference`, and draws what the residual distribution says.
Random numbers are given, so that a step is a function of its inputs and a graph can be captured.

Tokens of equal weight at the edge of a cut are all kept, where the reference keeps those with the lowest ids.
"""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Tokens that a program looks at together.
BLOCK: Final = 1024


@triton.jit
def _weights(x_ptr, at, size, peak, temperature, block: tl.constexpr):
    """exp((logit - peak) / temperature) of some tokens, 0 behind the end; between 0 and 1."""
    ids = at + tl.arange(0, block)
    x = tl.load(x_ptr + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
    return tl.where(ids < size, tl.exp((x - peak) / temperature), 0.0)


@triton.jit
def _count_above(x_ptr, size, peak, temperature, least, block: tl.constexpr):
    """How many tokens weigh at least `least`, and their weight together."""
    n = tl.zeros((), tl.int32)
    mass = tl.zeros((), tl.float32)
    for at in range(0, size, block):
        w = _weights(x_ptr, at, size, peak, temperature, block)
        above = (w >= least) & (w > 0.0)
        n += tl.sum(above.to(tl.int32), axis=0)
        mass += tl.sum(tl.where(above, w, 0.0), axis=0)
    return n, mass


@triton.jit
def _distribution(x_ptr, p_ptr, size, temperature, top_k, top_p, min_p, block: tl.constexpr):
    """One row of logits [V] to one of probabilities [V]."""
    x_ptr += tl.program_id(0).to(tl.int64) * size
    p_ptr += tl.program_id(0).to(tl.int64) * size
    peak = tl.full((), float("-inf"), tl.float32)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        x = tl.load(x_ptr + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(x, axis=0))
    least = tl.zeros((), tl.float32)
    if top_k > 0:
        # The largest threshold that still keeps k tokens: the k-th largest weight.
        bits = tl.zeros((), tl.int32)
        for i in range(31):
            tried = bits | (1 << (30 - i))
            n, mass = _count_above(x_ptr, size, peak, temperature, tried.to(tl.float32, bitcast=True), block)
            bits = tl.where(n >= top_k, tried, bits)
        least = bits.to(tl.float32, bitcast=True)
    n, total = _count_above(x_ptr, size, peak, temperature, least, block)
    if top_p < 1.0:
        # The largest threshold that still keeps the mass; the token that crosses it stays.
        bits = tl.zeros((), tl.int32)
        for i in range(31):
            tried = bits | (1 << (30 - i))
            n, mass = _count_above(x_ptr, size, peak, temperature, tried.to(tl.float32, bitcast=True), block)
            bits = tl.where(mass >= top_p * total, tried, bits)
        least = tl.maximum(least, bits.to(tl.float32, bitcast=True))
    # The heaviest token weighs 1.
    least = tl.maximum(least, min_p)
    n, total = _count_above(x_ptr, size, peak, temperature, least, block)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        w = _weights(x_ptr, at, size, peak, temperature, block)
        tl.store(p_ptr + ids, tl.where(w >= least, w / total, 0.0), mask=ids < size)


@triton.jit
def _best(row_ptr, size, block: tl.constexpr):
    """The id of the largest value, the lowest of equals."""
    peak = tl.full((), float("-inf"), tl.float32)
    best = tl.zeros((), tl.int32)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        x = tl.load(row_ptr + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
        here = tl.max(x, axis=0)
        first = tl.min(tl.where((x == here) & (ids < size), ids, 2147483647), axis=0)
        best = tl.where(here > peak, first, best)
        peak = tl.maximum(peak, here)
    return best


@triton.jit
def _quantile(row_ptr, size, u, block: tl.constexpr):
    """The id at `u` of the cumulated weights, in the order of ids."""
    total = tl.zeros((), tl.float32)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        total += tl.sum(tl.load(row_ptr + ids, mask=ids < size, other=0.0), axis=0)
    wanted = u * total
    before = tl.zeros((), tl.float32)
    found = tl.full((), 2147483647, tl.int32)
    last = tl.zeros((), tl.int32)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        w = tl.load(row_ptr + ids, mask=ids < size, other=0.0)
        reached = (before + tl.cumsum(w, axis=0) > wanted) & (w > 0.0)
        found = tl.minimum(found, tl.min(tl.where(reached, ids, 2147483647), axis=0))
        last = tl.maximum(last, tl.max(tl.where(w > 0.0, ids, 0), axis=0))
        before += tl.sum(w, axis=0)
    return tl.where(found == 2147483647, last, found)  # beyond the last weight by rounding


@triton.jit
def _leave(p_ptr, q_ptr, size, token, block: tl.constexpr):
    """p becomes norm(max(0, p - q)), and q loses `token`, renormalised; where nothing is left, they stay as they are."""
    left = tl.zeros((), tl.float32)
    rest = tl.zeros((), tl.float32)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        p = tl.load(p_ptr + ids, mask=ids < size, other=0.0)
        q = tl.load(q_ptr + ids, mask=ids < size, other=0.0)
        left += tl.sum(tl.maximum(p - q, 0.0), axis=0)
        rest += tl.sum(tl.where(ids == token, 0.0, q), axis=0)
    for at in range(0, size, block):
        ids = at + tl.arange(0, block)
        p = tl.load(p_ptr + ids, mask=ids < size, other=0.0)
        q = tl.load(q_ptr + ids, mask=ids < size, other=0.0)
        tl.store(p_ptr + ids, tl.where(left > 0.0, tl.maximum(p - q, 0.0) / left, p), mask=ids < size)
        tl.store(q_ptr + ids, tl.where(rest > 0.0, tl.where(ids == token, 0.0, q) / rest, q), mask=ids < size)
    # What the threads of this program wrote, others of them read next.
    tl.debug_barrier()


@triton.jit
def _accept(
    p_ptr,
    q_ptr,
    tokens_ptr,
    parents_ptr,
    ends_ptr,
    coins_ptr,
    picks_ptr,
    out_ptr,
    path_ptr,
    count_ptr,
    n_nodes,
    size,
    rule: tl.constexpr,
    block: tl.constexpr,
):
    """One tree. rule: 0 walks to the best token, 1 walks to a drawn one, 2 accepts and rejects."""
    node = tl.full((), -1, tl.int32)
    n = tl.zeros((), tl.int32)
    n_path = tl.zeros((), tl.int32)
    n_coins = tl.zeros((), tl.int32)
    going = tl.full((), 1, tl.int32)
    while going == 1:
        row = p_ptr + (node + 1).to(tl.int64) * size
        accepted = tl.full((), -1, tl.int32)
        token = tl.zeros((), tl.int32)
        if rule == 2:
            first = tl.full((), -1, tl.int32)
            for child in range(n_nodes):
                if (tl.load(parents_ptr + child) == node) & (accepted < 0):
                    # Siblings drawn without replacement share the first one's row.
                    first = tl.where(first < 0, child, first)
                    guess = tl.load(tokens_ptr + child)
                    q_row = q_ptr + first.to(tl.int64) * size
                    coin = tl.load(coins_ptr + n_coins)
                    n_coins += 1
                    if coin * tl.load(q_row + guess) < tl.load(row + guess):
                        accepted = accepted * 0 + child
                    else:
                        _leave(row, q_row, size, guess, block)
            if accepted < 0:
                token = _quantile(row, size, tl.load(picks_ptr + n), block)
            else:
                token = tl.load(tokens_ptr + accepted)
        else:
            if rule == 1:
                token = _quantile(row, size, tl.load(picks_ptr + n), block)
            else:
                token = _best(row, size, block)
            for child in range(n_nodes):
                fits = (tl.load(parents_ptr + child) == node) & (tl.load(tokens_ptr + child) == token)
                accepted = tl.where(fits & (accepted < 0), child, accepted)
        tl.store(out_ptr + n, token)
        n += 1
        going = tl.zeros((), tl.int32)
        if accepted >= 0:
            tl.store(path_ptr + n_path, accepted)
            n_path += 1
            node = accepted
            going = tl.where(tl.load(ends_ptr + token) != 0, 0, 1)
    tl.store(count_ptr, n)
    tl.store(count_ptr + 1, n_path)


def distribution(logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float) -> Tensor:
    """Rows of logits [R, V] after the sampler chain, penalised and biased before: float32 [R, V], each with the sum 1."""
    rows, size = logits.shape
    out = torch.empty(rows, size, dtype=torch.float32, device=logits.device)
    _distribution[(rows,)](logits.contiguous(), out, size, temperature, top_k, top_p, min_p, block=BLOCK, num_warps=8)
    return out


def accept(
    p: Tensor,
    q: Tensor | None,
    tokens: Tensor,
    parents: Tensor,
    ends: Tensor,
    coins: Tensor,
    picks: Tensor,
    *,
    greedy: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """What a tree's rows make of it: emitted ids [nodes + 1], accepted nodes [nodes], and how many there are of both [2].

    p: target rows [nodes + 1, V], the root's first: distributions, or logits when `greedy`; used up. q: the rows that the
    tokens were drawn from, [nodes, V], used up too; None for chosen ones, which are walked. ends: uint8 [V], not 0 for end
    tokens. coins, picks: uniform numbers in [0, 1), [nodes] and [nodes + 1]. tokens, parents: int32 [nodes].
    """
    n = len(tokens)
    out = torch.full((n + 1,), -1, dtype=torch.int32, device=p.device)
    path = torch.full((max(1, n),), -1, dtype=torch.int32, device=p.device)
    count = torch.zeros(2, dtype=torch.int32, device=p.device)
    rule = 0 if greedy else 1 if q is None else 2
    drawn_from = p if q is None else q
    _accept[(1,)](
        p,
        drawn_from,
        tokens,
        parents,
        ends,
        coins,
        picks,
        out,
        path,
        count,
        n,
        p.shape[1],
        rule=rule,
        block=BLOCK,
        num_warps=8,
    )
    return out, path, count
