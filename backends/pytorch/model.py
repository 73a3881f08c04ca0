"""A model's files on disk: a GGUF file (or its parts), or a Hugging Face folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pardec_chat.backends.base import Vocabulary
from pardec_chat.backends.folder import read_config
from pardec_chat.backends.gguf.header import read
from pardec_chat.backends.gguf.model import parts
from pardec_chat.backends.pytorch.spec import Spec, of_config, of_gguf
from pardec_chat.backends.pytorch.weights import FolderWeights, GgufWeights, Weights
from pardec_chat.backends.vocabulary.folder import FolderVocabulary, read_template
from pardec_chat.backends.vocabulary.gguf import GgufVocabulary


@dataclass(frozen=True, slots=True)
class OpenModel:
    """What a target is made of; `weights` has to be closed."""

    spec: Spec
    weights: Weights
    vocabulary: Vocabulary
    chat_template: str | None


def open_model(path: Path) -> OpenModel:
    """Open what lies at `path`. Raises ModelUnreadable."""
    if path.is_dir():
        config = read_config(path)
        spec = of_config(config, path.name)
        return OpenModel(
            spec, FolderWeights(path, spec), FolderVocabulary(path, spec.vocabulary, config), read_template(path)
        )
    headers = [read(part, everything=True) for part in parts(path)]
    # The family first: what is no decoder need not have a vocabulary.
    spec = of_gguf(headers[0], max(1, len(headers[0].texts("tokenizer.ggml.tokens"))))
    vocabulary = GgufVocabulary(headers[0])
    template = headers[0].text("tokenizer.chat_template") or None
    return OpenModel(spec, GgufWeights(headers, spec), vocabulary, template)
