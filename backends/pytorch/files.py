"""What a model's files say about it before anything large is loaded, for the pytorch runtime."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

from pardec_chat.backends.folder import read_config, shards, tensors
from pardec_chat.backends.gguf import model as gguf_model
from pardec_chat.backends.gguf.header import read
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.pytorch.spec import of_config
from pardec_chat.backends.vocabulary.folder import FolderVocabulary

#: Bytes of a number in the default types of weights and cache.
_BYTES: Final = 2


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

    return ModelFile(
        path=folder,
        name=folder.name,
        kind="model",
        architecture=spec.family,
        size=sum(path.stat().st_size for path in paths),
        shape=Shape(
            name=folder.name,
            weights=sum(n for path in paths for _, n, _ in tensors(path)) * _BYTES,
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
        vocabulary=lambda: FolderVocabulary(folder, spec.vocabulary, config).table(),
    )
