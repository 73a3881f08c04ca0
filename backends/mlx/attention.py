"""Attention of mlx-lm's models by our own caches: rows of a pass may stand in a tree, and belong to several conversations."""

from __future__ import annotations

from typing import Any, Final

import mlx.core as mx
from mlx import nn

#: Modules of mlx-lm whose attention is what `Attention` does, and in which a token's place counts nowhere else.
_SUITED: Final = frozenset({"gemma3_text", "llama", "qwen2", "qwen3"})

#: Computes what of a pass is built, without waiting for it.
begin: Any = mx.async_eval


def suits(model: Any) -> bool:
    """Whether mlx-lm's model can be prepared."""
    return type(model).__module__.rpartition(".")[2] in _SUITED


def prepare(model: Any) -> None:
    """Let a model that suits attend by its caches, all of which are `Rows` from then on."""
    for i, layer in enumerate(model.layers):
        layer.self_attn = Attention(layer.self_attn, i)


class Attention(nn.Module):  # type: ignore[misc]
    """With the weights of `inner`, mlx-lm's module, and its arithmetic.

    mlx-lm's has all rows of a pass follow one another in one text and see one cache, or pads them to a batch of one length
    that grows and shrinks as one. Here a row has a place of its own, and its cache attends: see `Rows` and `Together`.

    Where MLX has nothing else to do, what was built of a pass is begun while the rest is being built.
    index: of its layer.
    """

    def __init__(self, inner: Any, index: int) -> None:
        super().__init__()
        #: Before the layers 1, 2, 4, 8 and so on: there is always as much to compute as there is to build, or more.
        self.begins = index.bit_count() == 1
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = inner.q_proj, inner.k_proj, inner.v_proj, inner.o_proj
        self.q_norm, self.k_norm = inner.get("q_norm"), inner.get("k_norm")
        self.rope, self.scale = inner.rope, inner.scale
        self.heads, self.kv_heads = inner.n_heads, inner.n_kv_heads

    def __call__(self, x: Any, mask: Any, cache: Any) -> Any:
        """x: [1, n, width]. mask: what `cache` made for this pass."""
        if self.begins and cache.common.idle:
            begin(x)
        n, places = x.shape[1], cache.offset
        queries = self._rotated(self.q_proj(x), self.heads, self.q_norm, places)
        keys = self._rotated(self.k_proj(x), self.kv_heads, self.k_norm, places)
        values = self.v_proj(x).reshape(1, n, self.kv_heads, -1).transpose(0, 2, 1, 3)
        seen = cache.attend(queries, keys, values, self.scale, mask)
        return self.o_proj(seen.transpose(0, 2, 1, 3).reshape(1, n, -1))

    def _rotated(self, x: Any, heads: int, norm: Any | None, places: Any) -> Any:
        """[1, heads, n, head]. places: of the first row where they follow one another, of each row otherwise."""
        in_order = isinstance(places, int)
        x = x.reshape(1, -1, heads, x.shape[2] // heads) if in_order else x.reshape(-1, heads, 1, x.shape[2] // heads)
        if norm is not None:
            x = norm(x)
        if in_order:
            return self.rope(x.transpose(0, 2, 1, 3), offset=places)
        # One place for each member of a batch is what MLX has: rows are members.
        return self.rope(x, offset=places).transpose(2, 1, 0, 3)
