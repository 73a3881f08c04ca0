"""Tiny random models of mlx-lm's own architectures as MLX folders in float32, written in a moment, the same for the same seed."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten, tree_unflatten
from tokenizers import AddedToken, Tokenizer
from tokenizers.models import BPE

from pardec_chat.tests.tiny_models import HEAD, HEADS, HIDDEN, TEMPLATE, VOCABULARY, WIDTH, WINDOW

_SIZES: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS // 2,
    "head_dim": HEAD,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": False,
}
#: Architecture → its config. `qwen3_5` and `jamba` have layers with a running state and layers with attention, `falcon_h1` both
#: in each layer, `mamba` states alone, `recurrent_gemma` states and windows.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": _SIZES,
    "qwen2": _SIZES,
    "qwen3": _SIZES,
    "gemma3": {
        **_SIZES,
        "model_type": "gemma3_text",
        "sliding_window": WINDOW,
        "sliding_window_pattern": 2,
        "query_pre_attn_scalar": HEAD,
    },
    "qwen3_5": {
        **_SIZES,
        "full_attention_interval": 2,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 16,
    },
    "jamba": {
        **_SIZES,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
        "num_experts": 1,
        "num_experts_per_tok": 1,
    },
    "mamba": {
        **_SIZES,
        "intermediate_size": 2 * WIDTH,
        "state_size": 8,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
    },
}


def write(folder: Path, arch: str, seed: int = 0, *, bits: int = 0, **changes: Any) -> Path:
    """A folder with config, weights, tokenizer and chat template. bits: of quantised matrices, 0 for none.

    changes: of the config; with fewer ids the tokenizer's others are of no model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": arch, "eos_token_id": VOCABULARY.texts.index("</s>"), **CONFIGS[arch], **changes}
    module = import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(seed)  # what `_random` leaves as it was made
    model = module.Model(module.ModelArgs.from_dict(config))
    keys = iter(mx.random.split(mx.random.key(seed), 1000))
    model.update(
        tree_unflatten([(name, _random(name, old, next(keys))) for name, old in tree_flatten(model.parameters())])
    )
    if bits:
        config["quantization"] = {"group_size": 32, "bits": bits}
        nn.quantize(model, group_size=32, bits=bits)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())), {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer(
        BPE({text: i for i, text in enumerate(VOCABULARY.texts)}, [], byte_fallback=True, unk_token="<unk>")
    )
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in VOCABULARY.texts[:6]])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _random(name: str, old: Any, key: Any) -> Any:
    """Numbers that keep the size of what goes through; parameters of running states vary around what they begin with."""
    noise = mx.random.normal(old.shape, key=key)
    if old.ndim == 1 or "A_log" in name:
        return old + 0.1 * noise
    if "embed" in name:
        return noise
    return noise * ((3.0 if "lm_head" in name else 1.5) / old.shape[-1] ** 0.5)
