"""What a model's files say about it before anything large is loaded, for the MLX runtime."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
from mlx.utils import tree_flatten

from pardec_chat.backends.folder import read_config, shards
from pardec_chat.backends.gguf import model as gguf_model
from pardec_chat.backends.gguf.header import read
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.mlx import packed
from pardec_chat.backends.mlx.device import on_metal
from pardec_chat.backends.mlx.memory import Memory
from pardec_chat.backends.mlx.model import context, of_folder, vocabulary_size
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.vocabulary.folder import FolderVocabulary

#: Bytes of a number of the cache where there is a GPU; a CPU computes in 32 bits.
_CACHE_ON_METAL: Final = 2


def read_model(path: Path) -> ModelFile:
    """Describe what lies at `path`. Raises ModelUnreadable."""
    if path.is_dir():
        return _folder(path)
    found = gguf_model.read_model(path)
    if not found.is_model:
        return found
    headers = [read(part) for part in gguf_model.parts(path)]
    packed.check(headers)
    tensors = [tensor for header in headers for tensor in header.tensors]
    shape = found.shape
    scale = 1 if on_metal() else 2
    return replace(
        found,
        shape=replace(
            shape,
            # Two 16-bit numbers for each block of 32, where llama.cpp's formats may have one.
            weights=sum(_bytes(tensor.type, prod(tensor.shape), tensor.bytes) for tensor in tensors),
            cache_per_token=shape.cache_per_token * scale,
            window_per_token=shape.window_per_token * scale,
            repacked=0,
            mapped=False,
        ),
    )


def _bytes(kind: int, n: int, stored: int) -> int:
    number = 2 if on_metal() else 4
    if kind in packed.BITS:
        return n * packed.BITS[kind] // 8 + n // packed.GROUP * 2 * number
    return stored if on_metal() else n * number


def _folder(folder: Path) -> ModelFile:
    config = read_config(folder)
    size = vocabulary_size(config, folder)
    model = of_folder(folder)
    memory = Memory(model)
    # The graph of one pass tells the shapes of all caches; it is never computed.
    memory.forward(mx.zeros((1, 1), mx.int32))
    full, windowed, window, states = memory.sizes()
    number = _CACHE_ON_METAL if on_metal() else 4
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    width = _number(text, "hidden_size")
    return ModelFile(
        path=folder,
        name=folder.name,
        kind="model",
        architecture=str(config.get("model_type", "unknown")),
        size=sum(path.stat().st_size for path in shards(folder)),
        shape=Shape(
            name=folder.name,
            weights=sum(_in_memory(array) for _, array in tree_flatten(model.parameters())),
            layers=len(model.layers),
            cache_per_token=full * number,
            vocabulary=size,
            context=context(config),
            width=max(width, _number(text, "intermediate_size")),
            window=window,
            window_per_token=windowed * number,
            state=states * 4,
            mapped=False,
        ),
        cache=memory.kind,
        tokenizer="tokenizer.json",
        width=width,
        vocabulary=lambda: FolderVocabulary(folder, size, config).table(),
    )


def _in_memory(array: Any) -> int:
    is_float = mx.issubdtype(array.dtype, mx.floating)
    return int(array.size) * 4 if is_float and not on_metal() else int(array.nbytes)


def _number(config: dict[str, Any], key: str) -> int:
    found = config.get(key)
    return found if isinstance(found, int) else 0
