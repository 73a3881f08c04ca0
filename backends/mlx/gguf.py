"""GGUF files whose blocks MLX keeps packed, under the names of mlx-lm's models."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
from mlx import nn

from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.header import Header
from pardec_chat.backends.gguf.names import of_layer
from pardec_chat.backends.mlx.packed import BITS, GROUP, MODULES

#: Of Gemma 3's layers each sixth sees the whole context.
_GEMMA_EVERY: Final = 6

_OTHER: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def load(headers: Sequence[Header], vocabulary: int) -> Any:
    """mlx-lm's model with the weights of these files, which `packed.check` has let through. Raises ModelUnreadable."""
    family = headers[0].text("general.architecture")
    weights: dict[str, Any] = {}
    for header in headers:
        weights |= _read(header.path, family)
    module = import_module(f"mlx_lm.models.{MODULES[family]}")
    config = _config(headers[0], family, vocabulary, weights)
    model = module.Model(module.ModelArgs.from_dict(config))
    kinds = {_mlx_name(tensor.name, family): tensor.type for header in headers for tensor in header.tensors}
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)

    def predicate(path: str, _module: Any) -> bool | dict[str, int]:
        if f"{path}.scales" not in weights:
            return False
        return {"group_size": GROUP, "bits": BITS[kinds[f"{path}.weight"]]}

    nn.quantize(model, group_size=GROUP, bits=4, class_predicate=predicate)
    model.eval()
    try:
        model.load_weights(list(weights.items()), strict=True)
    except ValueError as error:
        raise ModelUnreadable(
            f"{headers[0].path.name} has other tensors than a {family} model: {str(error).splitlines()[0]}",
            "Take --runtime llamacpp.",
        ) from error
    return model


def _read(path: Path, family: str) -> dict[str, Any]:
    try:
        found: Any = mx.load(str(path), format="gguf")
    except RuntimeError as error:
        raise ModelUnreadable(f"MLX cannot read {path.name}: {error}.", "Take --runtime llamacpp.") from error
    weights = {_mlx_name(name, family): array for name, array in found.items()}
    if family == "gemma3":
        # The files hold the gain of a norm, MLX's model what it differs from one.
        weights = {name: array - 1 if "norm" in name else array for name, array in weights.items()}
    return weights


def _mlx_name(name: str, family: str) -> str:
    stem, _, end = name.rpartition(".")
    if stem.startswith("blk."):
        _, layer, own = stem.split(".", 2)
        return f"model.layers.{layer}.{of_layer(family).get(own, own)}.{end}"
    return f"{_OTHER.get(stem, stem)}.{end}"


def _config(header: Header, family: str, vocabulary: int, weights: dict[str, Any]) -> dict[str, Any]:
    def number(key: str, default: float = 0.0) -> float:
        value = header.metadata.get(f"{family}.{key}", default)
        return float(value) if isinstance(value, int | float) else default

    width, heads, layers = (int(number(key)) for key in ("embedding_length", "attention.head_count", "block_count"))
    if min(width, heads, layers) < 1:
        raise ModelUnreadable(f"{header.path.name} is described wrongly: its sizes make no decoder.", "Fetch it again.")
    head = int(number("attention.key_length", width // heads))
    linear = header.text(f"{family}.rope.scaling.type") == "linear"
    scaling = {"rope_type": "linear", "factor": number("rope.scaling.factor", 1.0) or 1.0} if linear else None
    config: dict[str, Any] = {
        "model_type": MODULES[family],
        "hidden_size": width,
        "num_hidden_layers": layers,
        "intermediate_size": int(number("feed_forward_length")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(number("attention.head_count_kv", heads)),
        "head_dim": head,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon", 1e-5),
        "vocab_size": vocabulary,
        "max_position_embeddings": int(number("context_length")),
        "rope_theta": number("rope.freq_base", 10_000.0),
        "rope_scaling": scaling,
        "tie_word_embeddings": "lm_head.weight" not in weights,
    }
    if family == "llama":
        # These files keep the two numbers of a rotated pair beside each other.
        config |= {"rope_traditional": True, "attention_bias": "model.layers.0.self_attn.q_proj.bias" in weights}
    if family == "gemma3":
        config |= {
            "sliding_window": int(number("attention.sliding_window")),
            "sliding_window_pattern": _GEMMA_EVERY,
            # The 27B scales by its width, and the file does not say so.
            "query_pre_attn_scalar": width / heads if layers == 62 else head,
        }
    return config
