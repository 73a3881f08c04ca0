"""GGUF files whose blocks MLX keeps packed, under the names of mlx-lm's models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
from mlx import nn

from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.header import Header
from pardec_chat.backends.gguf.names import of_layer
from pardec_chat.backends.units import size
from pardec_chat.kernels.quant_matmul.reference import BlockType

#: Tensor types that MLX leaves as they are: floats, and blocks of `GROUP` with their bits.
_FLOATS: Final = frozenset({0, 1})
BITS: Final[dict[int, int]] = {BlockType.Q4_0: 4, BlockType.Q4_1: 4, BlockType.Q8_0: 8}
GROUP: Final = 32
#: Those that its reader expands to 16-bit floats: Q2_K to Q8_K. It refuses all others.
_EXPANDED: Final = frozenset(range(10, 16))
_NAMES: Final = {
    2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
    14: "Q6_K", 15: "Q8_K", 20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16", 39: "MXFP4",
}  # fmt: skip
#: Family → module of mlx-lm.
_MODULES: Final = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text"}
#: Of Gemma 3's layers each sixth sees the whole context.
_GEMMA_EVERY: Final = 6

_OTHER: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def check(headers: Sequence[Header]) -> None:
    """Raises ModelUnreadable for files whose blocks MLX would expand or cannot read, and for other families."""
    tensors = [tensor for header in headers for tensor in header.tensors]
    name = headers[0].path.name
    others = Counter(tensor.type for tensor in tensors if tensor.type not in _FLOATS and tensor.type not in BITS)
    if others:
        kinds = ", ".join(f"{n} of {_NAMES.get(kind, f'type {kind}')}" for kind, n in sorted(others.items()))
        if others.keys() <= _EXPANDED:
            now = sum(tensor.bytes for tensor in tensors)
            then = sum(2 * prod(tensor.shape) if tensor.type in _EXPANDED else tensor.bytes for tensor in tensors)
            what = f"MLX would expand to 16 bits: {size(then)} instead of {size(now)}"
        else:
            what = "MLX cannot read"
        raise ModelUnreadable(
            f"{name} has {kinds} tensors, which {what}.",
            "Take --runtime llamacpp, which keeps them as they are, or a Q4_0, Q4_1 or Q8_0 file without others.",
        )
    family = headers[0].text("general.architecture")
    if family not in _MODULES:
        raise _unknown(name, family)
    if any(tensor.name == "rope_freqs.weight" for tensor in tensors):
        raise _unknown(name, "positions stretched by a table")
    if headers[0].text(f"{family}.rope.scaling.type", "none") not in ("none", "linear"):
        raise _unknown(name, f"positions scaled as {headers[0].text(f'{family}.rope.scaling.type')}")
    if headers[0].number(f"{family}.expert_count"):
        raise _unknown(name, "experts")


def _unknown(name: str, what: str) -> ModelUnreadable:
    return ModelUnreadable(
        f"{name} is of a kind that the mlx runtime reads no GGUF file of: {what}.",
        f"It reads those of {', '.join(_MODULES)}; take --runtime llamacpp, or the model's MLX folder.",
    )


def load(headers: Sequence[Header], vocabulary: int) -> Any:
    """mlx-lm's model with the weights of these files, which MLX has read and nothing else. Raises ModelUnreadable."""
    check(headers)
    family = headers[0].text("general.architecture")
    weights: dict[str, Any] = {}
    for header in headers:
        weights |= _read(header.path, family)
    module = import_module(f"mlx_lm.models.{_MODULES[family]}")
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
        "model_type": _MODULES[family],
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
