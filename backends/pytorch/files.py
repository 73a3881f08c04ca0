"""What a model's files say about it before anything large is loaded, for the pytorch runtime."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

from pardec_chat.backends.folder import read_config, shards, tensors
from pardec_chat.backends.gguf import model as gguf_model
from pardec_chat.backends.gguf.header import read
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.pytorch.spec import of_config, of_gguf
from pardec_chat.backends.pytorch.weights import check_types, kinds_of
from pardec_chat.backends.vocabulary.folder import FolderVocabulary
from pardec_chat.kernels.quant_matmul.torch_reference import F32


def read_model(path: Path, number: int, *, in_blocks: bool, reordered: bool) -> ModelFile:
    """Describe what lies at `path`. Raises ModelUnreadable, also for what this runtime cannot run.

    number: bytes of one in weights and cache. in_blocks: weights stay as they lie in a GGUF file. reordered: the output is not
    the table of embeddings, even where its numbers are.
    """
    found = _folder(path, number) if path.is_dir() else _gguf(path, number, in_blocks=in_blocks)
    return found if reordered else replace(found, shape=replace(found.shape, repacked=0))


def kinds(path: Path) -> frozenset[int]:
    """Formats of the matrices of what lies at `path`; none of a folder's is in blocks. Raises ModelUnreadable."""
    if path.is_dir():
        return frozenset({F32})
    return kinds_of(tensor for part in gguf_model.parts(path) for tensor in read(part).tensors)


def _gguf(path: Path, number: int, *, in_blocks: bool) -> ModelFile:
    found = gguf_model.read_model(path)
    if not found.is_model:
        return found
    headers = [read(part) for part in gguf_model.parts(path)]
    of_gguf(headers[0], 1)
    for header in headers:
        check_types(header)
    shape = found.shape
    tensors = [tensor for header in headers for tensor in header.tensors]
    weights = shape.weights if in_blocks else sum(prod(tensor.shape) for tensor in tensors) * number
    tables = [tensor for tensor in tensors if tensor.name == "token_embd.weight"]
    table = sum(tensor.bytes if in_blocks else prod(tensor.shape) * number for tensor in tables)
    # The static cache keeps everything, windows included; what is planned are numbers of 16 bits.
    kept = (shape.cache_per_token + shape.window_per_token) * number // 2
    return replace(
        found,
        shape=replace(
            shape,
            weights=weights,
            cache_per_token=kept,
            window=0,
            window_per_token=0,
            repacked=table if shape.tied else 0,
            mapped=False,
        ),
        cache="full" if found.cache == "sliding window" else found.cache,
    )


def _folder(folder: Path, number: int) -> ModelFile:
    config = read_config(folder)
    spec = of_config(config, folder.name)
    paths = shards(folder)
    counts = {name: count for path in paths for name, count in tensors(path)}
    tied = not any(name.endswith("lm_head.weight") for name in counts)
    return ModelFile(
        path=folder,
        name=folder.name,
        kind="model",
        architecture=spec.family,
        size=sum(path.stat().st_size for path in paths),
        shape=Shape(
            name=folder.name,
            weights=sum(counts.values()) * number,
            layers=spec.layers,
            cache_per_token=spec.layers * 2 * spec.kv_heads * spec.head * number,
            vocabulary=spec.vocabulary,
            context=spec.context,
            width=max(spec.width, spec.hidden),
            head=spec.head,
            repacked=spec.vocabulary * spec.width * number if tied else 0,
            mapped=False,
        ),
        cache="full",
        tokenizer="tokenizer.json",
        width=spec.width,
        vocabulary=lambda: FolderVocabulary(folder, spec.vocabulary, config).table(),
    )
