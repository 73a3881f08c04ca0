"""Attention of a block of rows, the nodes of a token tree, over a long cache: plain torch, any device.

A block's rows are written behind the cache first, so that row i sees the `start` cells before the block, and of the block
those cells that its mask names: itself and its ancestors. A chain is the triangle.

          cache (start cells)   block
    -1    1 1 1 1 1 1 1 1       1
     0    1 1 1 1 1 1 1 1       1 1
     1    1 1 1 1 1 1 1 1       1 . 1        a sibling of 0: it does not see it
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def ancestors(parents: Sequence[int], device: torch.device | str = "cpu") -> Tensor:
    """Which rows of a block each row sees, bool [rows, rows]; row 0 is the root, row i + 1 node i of the tree."""
    n = len(parents) + 1
    rows = [[False] * n for _ in range(n)]
    rows[0][0] = True
    for node, parent in enumerate(parents):
        rows[node + 1] = rows[parent + 1].copy()
        rows[node + 1][node + 1] = True
    return torch.tensor(rows, dtype=torch.bool, device=device)


def visible(start: int, block: Tensor, depths: Tensor, window: int = 0) -> Tensor:
    """What rows of a tree see of the cells before it and of its own, bool [rows, start + nodes].

    block: which of the tree's nodes each row sees, [rows, nodes], as `ancestors` gives it; the rows are the last ones of
    them, those before were evaluated already. depths: how far each node is behind cell `start`, [nodes]; a node of depth d is
    at position start + d. window: positions that a row looks back on, itself included; 0 for all.
    """
    rows = len(block)
    seen = torch.cat([block.new_ones(rows, start), block], dim=1)
    if window:
        positions = torch.cat([torch.arange(start, device=block.device), start + depths])
        seen &= positions[-rows:].unsqueeze(1) - positions.unsqueeze(0) < window
    return seen


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float = 0.0) -> Tensor:
    """Attention with grouped heads: [rows, heads, head], in the dtype of `q`.

    q: [rows, heads, head]. k, v: [kv_heads, cells, head]. mask: bool [rows, cells], None where every row sees all cells.
    softcap: scores are bent to softcap * tanh(score / softcap) first, as Gemma 2 does; 0 leaves them.
    """
    heads = q.shape[1]
    barred = None if mask is None else bars(mask, heads // k.shape[0], q.dtype)
    return attend_by_head(q.transpose(0, 1), k, v, barred, scale, softcap)


def bars(mask: Tensor, groups: int, dtype: torch.dtype) -> Tensor:
    """What `mask` [rows, cells] adds to the scores of the heads that share keys: 0 or -inf, [groups * rows, cells]."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf")).repeat(groups, 1)


def attend_by_head(
    q: Tensor, k: Tensor, v: Tensor, barred: Tensor | None, scale: float, softcap: float = 0.0
) -> Tensor:
    """As `attend`, with q [heads, rows, head] and what `bars` gives; the result is [rows, heads, head] all the same."""
    heads, rows, head = q.shape
    kv_heads = k.shape[0]
    # The heads of a group share keys and values: they are more rows of the same product.
    stacked = q.reshape(kv_heads, heads // kv_heads * rows, head)
    if softcap:
        scores = torch.tanh(stacked.float() @ k.float().transpose(1, 2) * (scale / softcap)) * softcap
        if barred is not None:
            scores = scores + barred
        out = (torch.softmax(scores, dim=-1) @ v.float()).to(q.dtype)
    else:
        out = F.scaled_dot_product_attention(
            stacked.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), attn_mask=barred, scale=scale
        )[0]
    if rows == 1:
        return out.view(1, heads, head)
    return out.view(heads, rows, head).transpose(0, 1).contiguous()
