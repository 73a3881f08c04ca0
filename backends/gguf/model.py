"""What a GGUF file is, from its header: a model with its shape and vocabulary, or one of the helpers that lie beside them."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from pardec_chat.backends.decoding.pairing import TokenTable
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.header import Header, Tensor, peek, read
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.model_file import CacheKind, Kind, ModelFile

#: Token types that are never part of a written text: unknown, control, unused.
_SPECIAL: Final = frozenset({2, 3, 5})
#: Architectures with sliding windows → every how many layers one sees the whole context. Others with a window in their
#: metadata are planned as if each layer saw everything.
_WINDOW_EVERY: Final = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "olmo2": 4}
#: Architectures of heads that read a target's hidden states.
_HEADS: Final = re.compile(r"eagle|dflash|dspark|medusa|assistant")
_LAYER: Final = re.compile(r"blk\.(\d+)\.(.+)")
_SPLIT: Final = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
#: Weights that llama.cpp keeps a second time, in the order its CPU kernels want: Q4_0, Q2_K, Q4_K, IQ4_NL.
_REPACKED: Final = frozenset({2, 10, 12, 20})
#: Architectures whose layers have a running state and attention at once.
_BOTH: Final = frozenset({"falcon-h1"})
_MOST_LAYERS: Final = 1 << 12


def read_model(path: Path) -> ModelFile:
    """Describe the model at `path`; the same answer is given again while the files stay as they are.

    Raises ModelUnreadable.
    """
    return _described(tuple((part, *stamp(part)) for part in parts(path)))


def parts(path: Path) -> list[Path]:
    """The files of a split model, the first of them given; any other file alone. Raises ModelUnreadable for a missing one."""
    match = _SPLIT.search(path.name)
    if match is None:
        return [path]
    count = int(match[2])
    found = [path.with_name(f"{path.name[: match.start()]}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1)]
    for part in found:
        if not part.is_file():
            raise ModelUnreadable(
                f"{path.name} is one of {count} parts, and {part.name} is missing.", "Fetch the missing part."
            )
    return found


def stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file does."""
    try:
        found = path.stat()
    except OSError as error:
        raise ModelUnreadable(f"{path} cannot be read: {error.strerror}.", "Check the path and its rights.") from error
    return found.st_size, found.st_mtime_ns, found.st_ino


@lru_cache(maxsize=32)
def _described(files: tuple[tuple[Path, int, int, int], ...]) -> ModelFile:
    headers = [read(path) for path, *_ in files]
    first = headers[0]
    tensors = [tensor for header in headers for tensor in header.tensors]
    arch = first.text("general.architecture", "unknown")
    layers = first.number(f"{arch}.block_count")
    if not 0 <= layers <= _MOST_LAYERS:
        raise ModelUnreadable(f"{first.path.name} is damaged: it speaks of {layers:,} layers.", "Fetch it again.")
    promised = first.number(f"{arch}.nextn_predict_layers")
    by_layer = _by_layer(tensors)
    # llama.cpp counts the prediction layers among the blocks; they come last.
    main = layers - promised if promised < layers else layers
    present = sum(1 for layer, names in by_layer.items() if layer >= main and any("nextn" in name for name in names))
    texts = first.texts("tokenizer.ggml.tokens")
    types = first.numbers("tokenizer.ggml.token_type")

    def vocabulary() -> TokenTable:
        special = frozenset(i for i, kind in enumerate(types[: len(texts)]) if kind in _SPECIAL)
        return TokenTable(texts, special)

    return ModelFile(
        path=first.path,
        name=first.text("general.name") or first.path.stem,
        kind=_kind(first, by_layer, main),
        architecture=arch,
        size=sum(header.size for header in headers),
        shape=_shape(first, arch, main, by_layer, tensors, len(texts)),
        cache=_cache(first, arch, main, by_layer),
        tokenizer=" ".join(filter(None, (first.text("tokenizer.ggml.model"), first.text("tokenizer.ggml.pre")))),
        width=first.number(f"{arch}.embedding_length"),
        vocabulary=vocabulary,
        mtp_promised=promised,
        mtp_present=present,
    )


def _by_layer(tensors: list[Tensor]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for tensor in tensors:
        if match := _LAYER.match(tensor.name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def kind_of(path: Path) -> Kind:
    """What the file says that it is, in its first lines: quick, and blind for a head that calls itself a model."""
    return _told(*peek(path))


def _told(arch: str, general: str) -> Kind:
    if general == "mmproj" or arch == "clip":
        return "vision projector"
    if general == "adapter":
        return "adapter"
    if general == "imatrix":
        return "importance matrix"
    return "draft head" if _HEADS.search(arch) else "model"


def _kind(header: Header, by_layer: dict[int, set[str]], main: int) -> Kind:
    told = _told(header.text("general.architecture"), header.text("general.type"))
    if told != "model":
        return told
    if not header.tensors:
        return "vocabulary"
    # A file of prediction layers alone has the last blocks of its target and not the first.
    return "draft head" if by_layer and min(by_layer) >= main > 0 else "model"


def _is_recurrent(names: set[str]) -> bool:
    return any(name.startswith(("ssm_", "time_mix", "shortconv")) for name in names)


def _cache(header: Header, arch: str, layers: int, by_layer: dict[int, set[str]]) -> CacheKind:
    running = sum(_is_recurrent(by_layer.get(layer, set())) for layer in range(layers))
    if running:
        return "recurrent" if running == layers else "hybrid"
    return "sliding window" if header.number(f"{arch}.attention.sliding_window") else "full"


def _shape(
    header: Header,
    arch: str,
    layers: int,
    by_layer: dict[int, set[str]],
    tensors: list[Tensor],
    vocabulary: int,
) -> Shape:
    width, heads = header.number(f"{arch}.embedding_length"), header.number(f"{arch}.attention.head_count")
    head = width // heads if heads else 0
    key = header.number(f"{arch}.attention.key_length", head)
    value = header.number(f"{arch}.attention.value_length", head)
    each = header.numbers(f"{arch}.attention.head_count_kv")
    same = header.number(f"{arch}.attention.head_count_kv", heads)
    window, every = header.number(f"{arch}.attention.sliding_window"), _WINDOW_EVERY.get(arch, 0)
    whole = windowed = 0
    running = 0
    for layer in range(layers):
        if _is_recurrent(by_layer.get(layer, set())):
            running += 1
            if arch not in _BOTH:
                continue
        kept = (each[layer] if layer < len(each) else same) * (key + value) * 2
        if window and every and (layer + 1) % every:
            windowed += kept
        else:
            whole += kept
    inner, state = header.number(f"{arch}.ssm.inner_size"), header.number(f"{arch}.ssm.state_size")
    kernel, groups = header.number(f"{arch}.ssm.conv_kernel"), header.number(f"{arch}.ssm.group_count")
    return Shape(
        name=header.text("general.name") or header.path.stem,
        weights=sum(tensor.bytes for tensor in tensors),
        layers=layers,
        cache_per_token=whole,
        vocabulary=vocabulary or header.number(f"{arch}.vocab_size"),
        context=header.number(f"{arch}.context_length"),
        width=max(width, header.number(f"{arch}.feed_forward_length")),
        head=key,
        window=window if windowed else 0,
        window_per_token=windowed,
        state=running * 4 * (inner * state + max(0, kernel - 1) * (inner + 2 * groups * state)),
        repacked=sum(
            tensor.bytes
            for tensor in tensors
            if tensor.type in _REPACKED
            and len(tensor.shape) == 2
            and tensor.shape[1] % 8 == 0
            and tensor.name != "token_embd.weight"
        ),
        tied=sum(tensor.bytes for tensor in tensors if tensor.name == "token_embd.weight")
        if not any(tensor.name == "output.weight" for tensor in tensors)
        else 0,
    )
