"""What a model's files say about it before anything large is loaded, for the pytorch runtime."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

from pardec_chat.backends.decoding.pairing import TokenTable
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf import model as gguf_model
from pardec_chat.backends.gguf.header import read
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.pytorch.folder_vocabulary import FolderVocabulary
from pardec_chat.backends.pytorch.model import read_config
from pardec_chat.backends.pytorch.spec import of_config
from pardec_chat.backends.pytorch.weights import shards

#: Bytes of a number in the default types of weights and cache.
_BYTES: Final = 2
#: More than this is no header of a safetensors file.
_MOST_HEADER: Final = 1 << 27


def read_model(path: Path, *, in_blocks: bool) -> ModelFile:
    """Describe what lies at `path`; in_blocks: weights stay as they lie in the file. Raises ModelUnreadable."""
    if path.is_dir():
        return _folder(path)
    found = gguf_model.read_model(path)
    if not found.is_model:
        return found
    shape = found.shape
    weights = shape.weights
    if not in_blocks:
        headers = [read(part) for part in gguf_model.parts(path)]
        weights = sum(prod(tensor.shape) * _BYTES for header in headers for tensor in header.tensors)
    # The static cache keeps everything, windows included.
    kept = shape.cache_per_token + shape.window_per_token
    return replace(
        found,
        shape=replace(shape, weights=weights, cache_per_token=kept, window=0, window_per_token=0, repacked=0),
        cache="full" if found.cache == "sliding window" else found.cache,
    )


def _folder(folder: Path) -> ModelFile:
    config = read_config(folder)
    spec = of_config(config, folder.name)
    paths = shards(folder)

    def vocabulary() -> TokenTable:
        found = FolderVocabulary(folder, spec.vocabulary, config)
        special = frozenset(i for i in range(found.size) if found.is_control(i) or not found.piece(i))
        return TokenTable([found.text(i).encode() for i in range(found.size)], special)

    return ModelFile(
        path=folder,
        name=folder.name,
        kind="model",
        architecture=spec.family,
        size=sum(path.stat().st_size for path in paths),
        shape=Shape(
            name=folder.name,
            weights=sum(_n_values(path) for path in paths) * _BYTES,
            layers=spec.layers,
            cache_per_token=spec.layers * 2 * spec.kv_heads * spec.head * _BYTES,
            vocabulary=spec.vocabulary,
            context=spec.context,
            width=max(spec.width, spec.hidden),
            head=spec.head,
        ),
        cache="full",
        tokenizer="tokenizer.json",
        width=spec.width,
        vocabulary=vocabulary,
    )


def _n_values(path: Path) -> int:
    """Numbers in a safetensors file, from its header."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MOST_HEADER:
                raise ValueError("no header")
            header = json.loads(file.read(length))
        return sum(prod(one["shape"]) for name, one in header.items() if name != "__metadata__")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ModelUnreadable(f"{path} is damaged.", "Fetch the file again.") from error
