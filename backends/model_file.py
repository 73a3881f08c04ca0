"""A model as its file describes it, before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pardec_chat.backends.decoding.pairing import TokenTable
    from pardec_chat.backends.memory import Shape

#: What a cache keeps: everything, the newest tokens in some layers, or one running state in all or some layers.
CacheKind = Literal["full", "sliding window", "recurrent", "hybrid"]

#: A model, or what lies beside models and is none.
Kind = Literal["model", "vision projector", "adapter", "importance matrix", "vocabulary", "draft head"]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One model, all files of a split one together.

    size: bytes on disk.
    mtp_promised, mtp_present: multi-token-prediction layers that the metadata speaks of, and that the tensors hold.
    width: of the hidden state, in values. vocabulary: reads the names of all ids.
    """

    path: Path
    name: str
    kind: Kind
    architecture: str
    size: int
    shape: Shape
    cache: CacheKind
    tokenizer: str
    width: int
    vocabulary: Callable[[], TokenTable]
    mtp_promised: int = 0
    mtp_present: int = 0

    @property
    def is_model(self) -> bool:
        """Whether it can be loaded by itself."""
        return self.kind == "model"
