"""What Hugging Face's models call the tensors of a GGUF file's layers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
#: Gemma has norms behind attention and feed-forward too, and calls the one before the latter differently.
_GEMMA_LAYER: Final = {
    **_LAYER,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def of_layer(family: str) -> Mapping[str, str]:
    """Name in a file, between `blk.N.` and `.weight` → name in a model's layer, for llama, qwen2, qwen3 and gemma3."""
    return MappingProxyType(_GEMMA_LAYER if family == "gemma3" else _LAYER)
