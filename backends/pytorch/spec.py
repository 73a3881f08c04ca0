"""What a decoder is made of, as data: read from a GGUF file's metadata or a Hugging Face folder's config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.header import Header

#: Families with one decoder for all of them; what a family has that others have not is a value below, or a tensor.
FAMILIES: Final = ("llama", "qwen2", "qwen3", "gemma3")
#: Names in config.json → family; Vicuna and SmolLM2 call themselves llama.
_MODEL_TYPES: Final = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
}
#: Of Gemma 3's layers each sixth sees the whole context, and the others turn their positions by this base.
_GEMMA_EVERY, _GEMMA_WINDOW_BASE = 6, 10_000.0


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions (Su et al. 2021), pairs being the two halves of a head.

    base: of the geometric row of frequencies. linear: positions are divided by it. smooth: Llama 3.1's stretching, as
    (factor, low_freq_factor, high_freq_factor, original context); None without.
    """

    base: float
    linear: float = 1.0
    smooth: tuple[float, float, float, float] | None = None

    def frequencies(self, head: int) -> list[float]:
        """Radians a position for each pair of a head, [head / 2]."""
        found = [self.base ** (-2 * i / head) / self.linear for i in range(head // 2)]
        if self.smooth is None:
            return found
        factor, low, high, context = self.smooth
        stretched = []
        for frequency in found:
            turns = context * frequency / (2 * math.pi)
            share = min(1.0, max(0.0, (turns - low) / (high - low)))
            stretched.append(frequency * (share + (1 - share) / factor))
        return stretched


@dataclass(frozen=True, slots=True)
class Spec:
    """Sizes in values; window 0 stands for none.

    scale: of the scores of attention. embedding_scale: what embeddings are multiplied with. gelu: the gate's activation is
    tanh-GELU instead of SiLU. norm_offset: what norms' gains are short of in the files, 1 where they are kept as differences.
    windowed: for each layer whether it sees the last `window` tokens alone. rope_windowed: for those layers.
    attention_cap, logit_cap: see `attend`; 0 without.
    """

    family: str
    name: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    hidden: int
    vocabulary: int
    context: int
    eps: float
    scale: float
    rope: Rope
    rope_windowed: Rope
    windowed: tuple[bool, ...]
    window: int = 0
    embedding_scale: float = 1.0
    gelu: bool = False
    norm_offset: float = 0.0
    attention_cap: float = 0.0
    logit_cap: float = 0.0

    def __post_init__(self) -> None:
        sizes = (self.width, self.layers, self.heads, self.kv_heads, self.head, self.hidden, self.vocabulary)
        if min(sizes) < 1 or self.heads % self.kv_heads or self.head % 2:
            raise ModelUnreadable(f"{self.name} is described wrongly: its sizes make no decoder.", "Fetch it again.")


def of_gguf(header: Header, vocabulary: int) -> Spec:
    """From a file's metadata. Raises ModelUnreadable for a family that is not known here."""
    family = header.text("general.architecture")
    name = header.text("general.name") or header.path.stem
    if family not in FAMILIES:
        raise _unknown(name, family)

    def number(key: str, default: float = 0.0) -> float:
        value = header.metadata.get(f"{family}.{key}", default)
        return float(value) if isinstance(value, int | float) else default

    layers, width, heads = (int(number(key)) for key in ("block_count", "embedding_length", "attention.head_count"))
    head = int(number("attention.key_length", width // max(1, heads)))
    if header.text(f"{family}.rope.scaling.type", "none") not in ("none", "linear"):
        raise _unknown(name, f"positions scaled as {header.text(f'{family}.rope.scaling.type')}")
    linear = number("rope.scaling.factor", 1.0) if header.text(f"{family}.rope.scaling.type") == "linear" else 1.0
    rope = Rope(number("rope.freq_base", 10_000.0), linear or 1.0)
    window = int(number("attention.sliding_window"))
    gemma = family == "gemma3"
    scale = head**-0.5
    if gemma and layers == 62:  # the 27B scales by its width, and the file does not say so
        scale = (width / heads) ** -0.5
    return Spec(
        family=family,
        name=name,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=int(number("attention.head_count_kv", heads)),
        head=head,
        hidden=int(number("feed_forward_length")),
        vocabulary=vocabulary,
        context=int(number("context_length")),
        eps=number("attention.layer_norm_rms_epsilon", 1e-5),
        scale=scale,
        rope=rope,
        rope_windowed=Rope(_GEMMA_WINDOW_BASE) if gemma else rope,
        windowed=tuple(bool(window) and (not gemma or (i + 1) % _GEMMA_EVERY != 0) for i in range(layers)),
        window=window,
        embedding_scale=width**0.5 if gemma else 1.0,
        gelu=gemma,
        attention_cap=number("attn_logit_softcapping"),
        logit_cap=number("final_logit_softcapping"),
    )


def of_config(config: Mapping[str, Any], name: str) -> Spec:
    """From the content of a config.json. Raises ModelUnreadable for a family that is not known here."""
    family = _MODEL_TYPES.get(str(config.get("model_type")))
    if family is None:
        raise _unknown(name, str(config.get("model_type")))
    config = {**config, **config.get("text_config", {})}
    try:
        return _of_config(config, family, name)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnreadable(
            f"{name}: its config.json makes no sense ({error}).", "Fetch the folder again."
        ) from error


def _of_config(config: Mapping[str, Any], family: str, name: str) -> Spec:
    width, heads, layers = (int(config[key]) for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    head = int(config.get("head_dim") or width // heads)
    gemma = family == "gemma3"
    window = int(config.get("sliding_window") or 0)
    kinds: Sequence[str] | None = config.get("layer_types")
    if config.get("use_sliding_window") is False:
        window = 0
    if kinds is not None:
        windowed = tuple(kind == "sliding_attention" for kind in kinds)
    elif gemma:
        every = int(config.get("sliding_window_pattern") or _GEMMA_EVERY)
        windowed = tuple((i + 1) % every != 0 for i in range(layers))
    else:
        windowed = (config.get("model_type") == "mistral" and window > 0,) * layers
    full, local = _ropes(config, gemma, name)
    scaled = float(config.get("query_pre_attn_scalar") or head) if gemma else head
    return Spec(
        family=family,
        name=name,
        width=width,
        layers=layers,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head=head,
        hidden=int(config["intermediate_size"]),
        vocabulary=int(config["vocab_size"]),
        context=int(config.get("max_position_embeddings") or 0),
        eps=float(config.get("rms_norm_eps", 1e-6)),
        scale=scaled**-0.5,
        rope=full,
        rope_windowed=local,
        windowed=tuple(is_windowed and window > 0 for is_windowed in windowed),
        window=window,
        embedding_scale=width**0.5 if gemma else 1.0,
        gelu=gemma,
        norm_offset=1.0 if gemma else 0.0,
        attention_cap=float(config.get("attn_logit_softcapping") or 0.0),
        logit_cap=float(config.get("final_logit_softcapping") or 0.0),
    )


def _ropes(config: Mapping[str, Any], gemma: bool, name: str) -> tuple[Rope, Rope]:
    """For layers that see everything, and for those that do not; configs of both generations are read."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    base = float(config.get("rope_theta", 1_000_000.0 if gemma else 10_000.0))
    if "full_attention" in given:
        full = _rope(given["full_attention"], base, name)
        local = _rope(given.get("sliding_attention", {}), _GEMMA_WINDOW_BASE, name)
        return full, local
    full = _rope(given, base, name)
    return full, Rope(float(config.get("rope_local_base_freq", _GEMMA_WINDOW_BASE))) if gemma else full


def _rope(given: Mapping[str, Any], base: float, name: str) -> Rope:
    kind = given.get("rope_type", given.get("type", "default"))
    base = float(given.get("rope_theta", base))
    if kind in (None, "default"):
        return Rope(base)
    if kind == "linear":
        return Rope(base, linear=float(given["factor"]))
    if kind == "llama3":
        keys = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
        factor, low, high, context = (float(given[key]) for key in keys)
        return Rope(base, smooth=(factor, low, high, context))
    raise _unknown(name, f"positions scaled as {kind}")


def _unknown(name: str, what: str) -> ModelUnreadable:
    return ModelUnreadable(
        f"{name} is of a kind that the pytorch runtime does not know: {what}.",
        f"It runs {', '.join(FAMILIES)} models; the llamacpp runtime runs many more.",
    )
