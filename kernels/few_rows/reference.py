"""What the compiled functions for a few rows must equal up to rounding: plain torch, any device."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def norm(x: Tensor, gain: Tensor, offset: float) -> Tensor:
    """x / sqrt(sum of squares + offset) * gain along the last axis, in the dtype of `x`; gain: float32, as x ends."""
    wide = x.float()
    return (wide / (wide.square().sum(-1, keepdim=True) + offset).sqrt() * gain).to(x.dtype)


def gated(gate_up: Tensor, *, gelu: bool) -> Tensor:
    """silu(gate) * up, or with the tanh form of gelu: [rows, 2 * n], gates first → [rows, n]."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return ((F.gelu(gate, approximate="tanh") if gelu else F.silu(gate)) * up).to(gate_up.dtype)


def turn(rows: Tensor, turns: Tensor, key_heads: int, gain: Tensor | None, offset: float, cells: Tensor) -> Tensor:
    """Turn heads by their positions (Su et al. 2021) and put keys and values into the cache; gives the queries.

    rows: [rows, heads + 2 * key_heads, head], queries, keys, values. turns: float32 [rows, head], the cosines of a head's
    first half, then the sines. gain: float32 [heads + key_heads, head], a norm of each head before it is turned. cells:
    [2, key_heads, rows, head], to write to. Queries: [heads, rows, head].
    """
    n_turned, half = rows.shape[1] - key_heads, rows.shape[2] // 2
    turned = rows[:, :n_turned]
    if gain is not None:
        turned = norm(turned, gain, offset)
    first, second = turned.float().chunk(2, dim=-1)
    cosines, sines = turns.unsqueeze(1).split(half, dim=-1)
    turned = torch.cat([first * cosines - second * sines, second * cosines + first * sines], dim=-1).to(rows.dtype)
    heads = n_turned - key_heads
    cells[0].copy_(turned[:, heads:].transpose(0, 1))
    cells[1].copy_(rows[:, n_turned:].transpose(0, 1))
    return turned[:, :heads].transpose(0, 1).contiguous()
