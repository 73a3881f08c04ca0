"""A model's files on disk as mlx-lm's model: an MLX or Hugging Face folder, or a GGUF file that MLX keeps packed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from pardec_chat.backends.base import Vocabulary
from pardec_chat.backends.errors import LoadGivenUp, ModelUnreadable
from pardec_chat.backends.folder import read_config, shards
from pardec_chat.backends.gguf.header import read
from pardec_chat.backends.gguf.model import parts
from pardec_chat.backends.mlx import gguf, packed
from pardec_chat.backends.vocabulary.folder import FolderVocabulary, read_template
from pardec_chat.backends.vocabulary.gguf import GgufVocabulary

_LAYER: Final = re.compile(r"\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class OpenModel:
    """model: mlx-lm's, its weights not read yet where they lie in safetensors files. context: tokens it was trained for."""

    name: str
    model: Any
    vocabulary: Vocabulary
    chat_template: str | None
    context: int


def open_model(path: Path) -> OpenModel:
    """Open what lies at `path`. Raises ModelUnreadable."""
    if path.is_dir():
        config = read_config(path)
        vocabulary = FolderVocabulary(path, vocabulary_size(config, path), config)
        return OpenModel(path.name, of_folder(path), vocabulary, read_template(path), context(config))
    headers = [read(part, everything=True) for part in parts(path)]
    packed.check(headers)
    family = headers[0].text("general.architecture")
    of_file = GgufVocabulary(headers[0])
    return OpenModel(
        headers[0].text("general.name") or path.stem,
        gguf.load(headers, of_file.size),
        of_file,
        headers[0].text("tokenizer.chat_template") or None,
        headers[0].number(f"{family}.context_length"),
    )


def of_folder(folder: Path) -> Any:
    """mlx-lm's model, nothing of which is read yet. Code that lies in the folder is never run. Raises ModelUnreadable."""
    for path in shards(folder):
        if not path.name.startswith("model"):
            raise ModelUnreadable(f"{folder.name} has weights in {path.name}.", "MLX reads model*.safetensors alone.")
    if "model_file" in read_config(folder):
        raise ModelUnreadable(
            f"{folder.name} wants to run code of its own, which is never done.", "Take another model."
        )
    try:
        return load_model(folder, lazy=True, strict=True, trust_remote_code=False)[0]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelUnreadable(
            f"{folder.name} is no model that mlx-lm can load: {reason}.", "Fetch it again, or take another runtime."
        ) from error


def vocabulary_size(config: dict[str, Any], folder: Path) -> int:
    """Rows of the output. Raises ModelUnreadable."""
    for part in (config, config.get("text_config")):
        found = part.get("vocab_size") if isinstance(part, dict) else None
        if isinstance(found, int) and found > 0:
            return found
    raise ModelUnreadable(f"{folder.name}: its config.json names no vocabulary.", "Fetch the folder again.")


def context(config: dict[str, Any]) -> int:
    """Tokens that a model was trained for, 0 where its config does not say."""
    for part in (config, config.get("text_config")):
        found = part.get("max_position_embeddings") if isinstance(part, dict) else None
        if isinstance(found, int):
            return found
    return 0


def read_weights(model: Any, dtype: Any | None, progress: Callable[[float], bool] | None) -> int:
    """Bring the weights into memory, layer by layer, their floats as `dtype` (None: as they are); gives their bytes.

    Raises LoadGivenUp when `progress` says so.
    """
    if dtype is not None:
        model.set_dtype(dtype)
    groups: dict[int, list[Any]] = {}
    for name, array in tree_flatten(model.parameters()):
        match = _LAYER.search(name)
        groups.setdefault(int(match[1]) if match else -1, []).append(array)
    read_bytes = 0
    for i, arrays in enumerate(groups.values()):
        mx.eval(arrays)
        read_bytes += sum(int(array.nbytes) for array in arrays)
        if progress is not None and not progress((i + 1) / len(groups)):
            raise LoadGivenUp
    return read_bytes
