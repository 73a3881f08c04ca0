"""One decoder for all families (llama, qwen2, qwen3, gemma3): what differs is data, or a tensor that is there or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pardec_chat.backends.pytorch.cache import Cache
from pardec_chat.backends.pytorch.linear import Linear, load_linear
from pardec_chat.backends.pytorch.spec import Rope, Spec
from pardec_chat.backends.pytorch.weights import Weights


class AttendingBlock(Protocol):
    """Rows of one slot: `cache.Block`, or `graphs.DeviceBlock` in a captured pass."""

    @property
    def rows(self) -> slice:
        """Which of the pass's rows they are."""
        ...

    def attend(
        self, layer: int, cache: Cache, q: Tensor, k: Tensor, v: Tensor, scale: float, softcap: float, *, windowed: bool
    ) -> Tensor:
        """See `cache.Block`."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; None for a norm that the family does not have."""

    attn_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    attn_output: Linear
    post_attention_norm: Tensor | None
    ffn_norm: Tensor
    gate_up: Linear
    ffn_down: Linear
    post_ffw_norm: Tensor | None


class Decoder:
    """Weights on one device, and the forward pass. Raises ModelUnreadable for missing tensors.

    progress: called with 0…1 for each layer; returning False gives the load up (LoadGivenUp is the caller's to raise).
    """

    def __init__(
        self,
        spec: Spec,
        weights: Weights,
        dtype: torch.dtype,
        device: torch.device,
        progress: Callable[[float], bool] | None,
    ) -> None:
        self.spec, self.dtype, self.device = spec, dtype, device
        names = weights.names

        def vector(name: str) -> Tensor:
            found = weights.values(name, torch.float32)
            return (found + spec.norm_offset).to(device, dtype)

        def norm(name: str) -> Tensor | None:
            return vector(name) if name in names else None

        def linear(*parts: str) -> Linear:
            return load_linear(weights, parts, dtype, device)

        # Rounded as the embeddings are, since that is what models were trained with.
        self._embedding_scale = float(torch.tensor(spec.embedding_scale, dtype=dtype))
        self.embedding = weights.values("token_embd.weight", dtype).to(device)
        self.layers: list[Layer] = []
        for i in range(spec.layers):
            at = f"blk.{i}"
            self.layers.append(
                Layer(
                    attn_norm=vector(f"{at}.attn_norm.weight"),
                    qkv=linear(f"{at}.attn_q", f"{at}.attn_k", f"{at}.attn_v"),
                    q_norm=norm(f"{at}.attn_q_norm.weight"),
                    k_norm=norm(f"{at}.attn_k_norm.weight"),
                    attn_output=linear(f"{at}.attn_output"),
                    post_attention_norm=norm(f"{at}.post_attention_norm.weight"),
                    ffn_norm=vector(f"{at}.ffn_norm.weight"),
                    gate_up=linear(f"{at}.ffn_gate", f"{at}.ffn_up"),
                    ffn_down=linear(f"{at}.ffn_down"),
                    post_ffw_norm=norm(f"{at}.post_ffw_norm.weight"),
                )
            )
            if progress is not None and not progress((i + 1) / (spec.layers + 1)):
                raise InterruptedError
        self.output_norm = vector("output_norm.weight")
        self.output = linear("output") if "output.weight" in names else Linear.dense(self.embedding, None)
        factors = weights.values("rope_freqs.weight", torch.float32) if "rope_freqs.weight" in names else None
        self._frequencies = (
            _frequencies(spec, spec.rope, factors, device),
            _frequencies(spec, spec.rope_windowed, None, device),
        )

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        blocks: Sequence[AttendingBlock],
        cache: Cache,
        wanted: Tensor | None,
        taps: Sequence[int] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Evaluate rows, which become cells of `cache`; gives logits of the `wanted` rows and the states at `taps`.

        tokens, positions: [rows], the rows of all blocks one after the other. wanted: indices of rows, None for no logits.
        taps: layers behind which the states of all rows are kept, each [rows, width]. Logits: [wanted, V], float32.
        """
        spec = self.spec
        x = F.embedding(tokens, self.embedding)
        if spec.embedding_scale != 1.0:
            x = x * self._embedding_scale
        turns = [self._turn(positions, frequencies) for frequencies in self._frequencies[: 1 + any(spec.windowed)]]
        tapped: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            windowed = spec.windowed[i]
            h = layer.qkv(self._norm(x, layer.attn_norm))
            h = layer.attn_output(self._attention(h, layer, i, turns[windowed], windowed, blocks, cache))
            x = x + (h if layer.post_attention_norm is None else self._norm(h, layer.post_attention_norm))
            gate, up = layer.gate_up(self._norm(x, layer.ffn_norm)).chunk(2, dim=-1)
            h = layer.ffn_down((F.gelu(gate, approximate="tanh") if spec.gelu else F.silu(gate)) * up)
            x = x + (h if layer.post_ffw_norm is None else self._norm(h, layer.post_ffw_norm))
            if i in taps:
                tapped.append(x)
        if wanted is None:
            return x.new_zeros(0, spec.vocabulary, dtype=torch.float32), tapped
        logits = self.output(self._norm(x if len(wanted) == len(x) else x[wanted], self.output_norm)).float()
        if spec.logit_cap:
            logits = torch.tanh(logits / spec.logit_cap) * spec.logit_cap
        return logits, tapped

    def _attention(
        self,
        qkv: Tensor,
        layer: Layer,
        i: int,
        turn: tuple[Tensor, Tensor],
        windowed: bool,
        blocks: Sequence[AttendingBlock],
        cache: Cache,
    ) -> Tensor:
        spec = self.spec
        rows, n_turned = len(qkv), spec.heads + spec.kv_heads
        heads = qkv.view(rows, n_turned + spec.kv_heads, spec.head)
        turned, values = heads[:, :n_turned], heads[:, n_turned:]
        if layer.q_norm is not None and layer.k_norm is not None:
            turned = torch.cat(
                [self._norm(turned[:, : spec.heads], layer.q_norm), self._norm(turned[:, spec.heads :], layer.k_norm)],
                dim=1,
            )
        turned = _rotate(turned, turn)
        out = []
        for block in blocks:
            rows_ = block.rows
            q, k, v = turned[rows_, : spec.heads], turned[rows_, spec.heads :], values[rows_]
            out.append(block.attend(i, cache, q, k, v, spec.scale, spec.attention_cap, windowed=windowed))
        return (out[0] if len(out) == 1 else torch.cat(out)).reshape(rows, spec.heads * spec.head)

    def _norm(self, x: Tensor, gain: Tensor) -> Tensor:
        return F.rms_norm(x, gain.shape, gain, self.spec.eps)

    def _turn(self, positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions.float().unsqueeze(1) * frequencies
        both = torch.cat([angles, angles], dim=1)
        return both.cos().to(self.dtype).unsqueeze(1), both.sin().to(self.dtype).unsqueeze(1)


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """x: [rows, heads, head]; its halves are the two coordinates of each pair."""
    cos, sin = turn
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


def _frequencies(spec: Spec, rope: Rope, factors: Tensor | None, device: torch.device) -> Tensor:
    found = torch.tensor(rope.frequencies(spec.head), dtype=torch.float32)
    return (found if factors is None else found / factors).to(device)
