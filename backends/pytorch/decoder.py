"""One decoder for all families (llama, qwen2, qwen3, gemma3): what differs is data, or a tensor that is there or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pardec_chat.backends.pytorch.cache import Block, Cache
from pardec_chat.backends.pytorch.linear import Linear, dense, load_linear
from pardec_chat.backends.pytorch.norm import Norm
from pardec_chat.backends.pytorch.spec import Rope, Spec
from pardec_chat.backends.pytorch.weights import Packed, Weights
from pardec_chat.kernels.few_rows import native as few_rows


class AttendingBlock(Protocol):
    """Rows of one slot: `cache.Block`, or `graphs.DeviceBlock` in a captured pass."""

    @property
    def rows(self) -> slice:
        """Which of the pass's rows they are."""
        ...

    def attend(
        self, layer: int, cache: Cache, q: Tensor, kv: Tensor, scale: float, softcap: float, *, windowed: bool
    ) -> Tensor:
        """See `cache.Block`."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; None for a norm that the family does not have. qk_norm: of each head that positions turn."""

    attn_norm: Norm
    qkv: Linear
    qk_norm: Norm | None
    attn_output: Linear
    post_attention_norm: Norm | None
    ffn_norm: Norm
    gate_up: Linear
    ffn_down: Linear
    post_ffw_norm: Norm | None


class Decoder:
    """Weights on one device, and the forward pass. Raises ModelUnreadable for missing tensors.

    compiled: matrices stay in blocks on a CPU, see `linear.Compiled`.
    progress: called with 0…1 for each layer; returning False gives the load up (LoadGivenUp is the caller's to raise).
    """

    def __init__(
        self,
        spec: Spec,
        weights: Weights,
        dtype: torch.dtype,
        device: torch.device,
        progress: Callable[[float], bool] | None,
        *,
        compiled: bool = False,
    ) -> None:
        self.spec, self.dtype, self.device = spec, dtype, device
        self._compiled = few_rows.usable(dtype, device)
        names = weights.names

        def gain(name: str) -> Tensor:
            return (weights.values(name, torch.float32) + spec.norm_offset).to(device)

        def norm(name: str) -> Norm:
            return Norm.of(gain(name), spec.eps, dtype)

        def norm_if_any(name: str) -> Norm | None:
            return norm(name) if name in names else None

        def qk_norm(at: str) -> Norm | None:
            if f"{at}.attn_q_norm.weight" not in names:
                return None
            q, k = gain(f"{at}.attn_q_norm.weight"), gain(f"{at}.attn_k_norm.weight")
            return Norm.of(torch.cat([q.expand(spec.heads, -1), k.expand(spec.kv_heads, -1)]), spec.eps, dtype)

        def linear(*parts: str) -> Linear:
            return load_linear(weights, parts, dtype, device, compiled=compiled)

        # Rounded as the embeddings are, since that is what models were trained with.
        self._embedding_scale = float(torch.tensor(spec.embedding_scale, dtype=dtype))
        self.embedding = _table(weights, dtype, device, in_blocks=compiled)
        self.layers: list[Layer] = []
        for i in range(spec.layers):
            at = f"blk.{i}"
            self.layers.append(
                Layer(
                    attn_norm=norm(f"{at}.attn_norm.weight"),
                    qkv=linear(f"{at}.attn_q", f"{at}.attn_k", f"{at}.attn_v"),
                    qk_norm=qk_norm(at),
                    attn_output=linear(f"{at}.attn_output"),
                    post_attention_norm=norm_if_any(f"{at}.post_attention_norm.weight"),
                    ffn_norm=norm(f"{at}.ffn_norm.weight"),
                    gate_up=linear(f"{at}.ffn_gate", f"{at}.ffn_up"),
                    ffn_down=linear(f"{at}.ffn_down"),
                    post_ffw_norm=norm_if_any(f"{at}.post_ffw_norm.weight"),
                )
            )
            if progress is not None and not progress((i + 1) / (spec.layers + 1)):
                raise InterruptedError
        self.output_norm = norm("output_norm.weight")
        if "output.weight" in names or isinstance(self.embedding, Packed):
            self.output = linear("output" if "output.weight" in names else "token_embd")
        else:
            self.output = dense(self.embedding, None)
        factors = weights.values("rope_freqs.weight", torch.float32) if "rope_freqs.weight" in names else None
        # Of a head's values, with its halves exchanged.
        self._exchanged = torch.arange(spec.head, device=device).roll(spec.head // 2)
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
        x = self.embedding.rows(tokens) if isinstance(self.embedding, Packed) else F.embedding(tokens, self.embedding)
        if spec.embedding_scale != 1.0:
            x = x * self._embedding_scale
        placed = [block for block in blocks if isinstance(block, Block)]
        few = self._compiled and len(tokens) <= few_rows.MOST_ROWS and len(placed) == len(blocks)
        turns = [
            self._turns(positions, frequencies) if few else self._turn(positions, frequencies)
            for frequencies in self._frequencies[: 1 + any(spec.windowed)]
        ]
        tapped: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            windowed = spec.windowed[i]
            heads = layer.qkv(layer.attn_norm(x)).view(len(x), -1, spec.head)
            if few:
                h = self._attention_of_few(heads, layer, i, turns[windowed], windowed, placed, cache)
            else:
                h = self._attention(heads, layer, i, turns[windowed], windowed, blocks, cache)
            norm = layer.post_attention_norm
            x = layer.attn_output(h, x) if norm is None else x + norm(layer.attn_output(h))
            h = layer.gate_up(layer.ffn_norm(x))
            h = few_rows.gated(h, gelu=spec.gelu) if few else _gated(h, spec.hidden, gelu=spec.gelu)
            norm = layer.post_ffw_norm
            x = layer.ffn_down(h, x) if norm is None else x + norm(layer.ffn_down(h))
            if i in taps:
                tapped.append(x)
        if wanted is None:
            return x.new_zeros(0, spec.vocabulary, dtype=torch.float32), tapped
        logits = self.output(self.output_norm(x if len(wanted) == len(x) else x[wanted])).float()
        if spec.logit_cap:
            logits = torch.tanh(logits / spec.logit_cap) * spec.logit_cap
        return logits, tapped

    def _attention(
        self,
        heads: Tensor,
        layer: Layer,
        i: int,
        turn: Sequence[Tensor],
        windowed: bool,
        blocks: Sequence[AttendingBlock],
        cache: Cache,
    ) -> Tensor:
        spec = self.spec
        rows = len(heads)
        if layer.qk_norm is not None:
            n_turned = spec.heads + spec.kv_heads
            heads = torch.cat([layer.qk_norm(heads[:, :n_turned]), heads[:, n_turned:]], dim=1)
        cos, sin = turn
        heads = torch.addcmul(heads * cos, heads.index_select(-1, self._exchanged), sin)
        q, kv = heads[:, : spec.heads], heads[:, spec.heads :].view(rows, 2, spec.kv_heads, spec.head)
        if len(blocks) == 1:
            out = blocks[0].attend(i, cache, q, kv, spec.scale, spec.attention_cap, windowed=windowed)
        else:
            out = torch.cat(
                [
                    block.attend(
                        i, cache, q[block.rows], kv[block.rows], spec.scale, spec.attention_cap, windowed=windowed
                    )
                    for block in blocks
                ]
            )
        return out.reshape(rows, -1)

    def _attention_of_few(
        self,
        heads: Tensor,
        layer: Layer,
        i: int,
        turns: Sequence[Tensor],
        windowed: bool,
        blocks: Sequence[Block],
        cache: Cache,
    ) -> Tensor:
        """The same where compiled functions turn the heads, and put keys and values into the cache by the way."""
        spec, norm = self.spec, layer.qk_norm
        gain, offset = (None, 0.0) if norm is None else (norm.gain, norm.offset)
        found = []
        for block in blocks:
            rows = heads if len(blocks) == 1 else heads[block.rows]
            turn = turns[0] if len(blocks) == 1 else turns[0][block.rows]
            cells = cache.cells(i, block.slot, block.start, len(rows))
            q = few_rows.turn(rows, turn, spec.kv_heads, gain, offset, cells)
            found.append(block.look(i, cache, q, spec.scale, spec.attention_cap, windowed=windowed))
        return (found[0] if len(found) == 1 else torch.cat(found)).view(len(heads), -1)

    def _turns(self, positions: Tensor, frequencies: Tensor) -> Sequence[Tensor]:
        """What the compiled functions turn heads by: cosines of each pair, then sines, [rows, head]."""
        angles = positions.float().unsqueeze(1) * frequencies
        return (torch.cat([angles.cos(), angles.sin()], dim=1),)

    def _turn(self, positions: Tensor, frequencies: Tensor) -> Sequence[Tensor]:
        """Cosines and sines that turn the heads of queries and keys, and leave those of values: [rows, all heads, head].

        A head's halves are the two coordinates of each pair; the sines are those of the halves exchanged.
        """
        spec = self.spec
        angles = (positions.float().unsqueeze(1) * frequencies).unsqueeze(1)
        sin, cos = angles.sin(), angles.cos()
        turned = (len(positions), spec.heads + spec.kv_heads, spec.head)
        left = (len(positions), spec.kv_heads, spec.head)
        cos, sin = torch.cat([cos, cos], dim=-1).to(self.dtype), torch.cat([-sin, sin], dim=-1).to(self.dtype)
        return (
            torch.cat([cos.expand(turned), cos.new_ones(left)], dim=1),
            torch.cat([sin.expand(turned), sin.new_zeros(left)], dim=1),
        )


def _gated(gate_up: Tensor, hidden: int, *, gelu: bool) -> Tensor:
    gate, up = gate_up.view(-1, 2, hidden).unbind(1)
    return (F.gelu(gate, approximate="tanh") if gelu else F.silu(gate)).mul_(up)


def _table(weights: Weights, dtype: torch.dtype, device: torch.device, *, in_blocks: bool) -> Tensor | Packed:
    """Of embeddings, by id."""
    if in_blocks:
        packed = weights.packed("token_embd.weight")
        # The file is closed after the load.
        return Packed(packed.kind, packed.raw.clone(), packed.columns)
    return weights.values("token_embd.weight", dtype).to(device)


def _frequencies(spec: Spec, rope: Rope, factors: Tensor | None, device: torch.device) -> Tensor:
    found = torch.tensor(rope.frequencies(spec.head), dtype=torch.float32)
    return (found if factors is None else found / factors).to(device)
