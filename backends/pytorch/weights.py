"""Tensors of a model by one set of names, whatever file they lie in. Nothing is ever unpickled.

The names are those of GGUF files: `token_embd.weight`, `blk.3.attn_q.weight`, `output_norm.weight`, …
"""

from __future__ import annotations

import mmap
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.folder import shards
from pardec_chat.backends.gguf.header import Header
from pardec_chat.backends.gguf.header import Tensor as Place
from pardec_chat.backends.gguf.names import of_layer
from pardec_chat.backends.pytorch.spec import Spec
from pardec_chat.kernels.quant_matmul import torch_reference as blocks


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix in blocks: kind as in ggml, raw uint8 [rows, bytes of a row], and how many values a row has."""

    kind: int
    raw: Tensor
    columns: int

    def values(self) -> Tensor:
        """As float32, [rows, columns]."""
        return blocks.dequantise(self.kind, self.raw)

    def rows(self, indices: Tensor) -> Tensor:
        """Some rows as float32, [indices, columns]."""
        return blocks.dequantise(self.kind, self.raw[indices])


class Weights(ABC):
    """Where tensors come from. Used while a model is loaded, then closed."""

    @property
    @abstractmethod
    def names(self) -> frozenset[str]:
        """What there is."""

    @property
    @abstractmethod
    def kinds(self) -> frozenset[int]:
        """Formats of the matrices."""

    @abstractmethod
    def packed(self, name: str) -> Packed:
        """A matrix or vector as it lies there, vectors as one row. Raises ModelUnreadable when there is none."""

    def values(self, name: str, dtype: torch.dtype) -> Tensor:
        """The numbers, [rows, columns], or [columns] of a vector."""
        found = self.packed(name)
        if found.kind in (blocks.F32, blocks.F16, blocks.BF16) or len(found.raw) <= _AT_ONCE:
            return _squeezed(name, found.values().to(dtype))
        # A large matrix in float32 would take several times what the model takes.
        out = torch.empty(len(found.raw), found.columns, dtype=dtype)
        for start in range(0, len(found.raw), _AT_ONCE):
            out[start : start + _AT_ONCE] = blocks.dequantise(found.kind, found.raw[start : start + _AT_ONCE])
        return out

    def close(self) -> None:
        """Let go of the files."""


#: Rows of a matrix whose values are made in one go.
_AT_ONCE: Final = 4096


def _squeezed(name: str, values: Tensor) -> Tensor:
    is_vector = len(values) == 1 and (name.endswith(".bias") or "norm" in name or name == "rope_freqs.weight")
    return values[0] if is_vector else values


class GgufWeights(Weights):
    """The tensors of a model's GGUF files, mapped into memory. Raises ModelUnreadable for types that are not known here."""

    def __init__(self, headers: Iterable[Header], spec: Spec) -> None:
        self._spec = spec
        self._places: dict[str, tuple[Place, Tensor]] = {}
        self._views: list[mmap.mmap] = []
        for header in headers:
            with header.path.open("rb") as file:
                view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            self._views.append(view)
            whole = torch.frombuffer(view, dtype=torch.uint8)
            check_types(header)
            self._places |= {place.name: (place, whole) for place in header.tensors}

    @property
    def names(self) -> frozenset[str]:
        """See `Weights`."""
        return frozenset(self._places)

    @property
    def kinds(self) -> frozenset[int]:
        """See `Weights`."""
        return kinds_of(place for place, _ in self._places.values())

    def packed(self, name: str) -> Packed:
        """See `Weights`."""
        if name not in self._places:
            raise _missing(name)
        place, whole = self._places[name]
        columns = place.shape[0]
        rows = 1
        for n in place.shape[1:]:
            rows *= n
        raw = whole[place.offset : place.offset + place.bytes].view(rows, -1)
        if self._spec.family == "llama" and re.search(r"attn_[qk]\.(weight|bias)$", name):
            raw = self._halves(raw.view(-1, 4) if name.endswith("bias") else raw, name)
        return Packed(place.type, raw, columns)

    def _halves(self, raw: Tensor, name: str) -> Tensor:
        """Llama files keep the pairs of a head beside each other: rows 0 1 2 3 … are 0 h 1 h+1 … of what is wanted here."""
        heads = self._spec.heads if "attn_q" in name else self._spec.kv_heads
        pairs = raw.view(heads, len(raw) // heads // 2, 2, -1).transpose(1, 2)
        turned = pairs.reshape(len(raw), -1)
        return turned.view(1, -1) if name.endswith("bias") else turned

    def close(self) -> None:
        """See `Weights`. The maps go when the last tensor that looks into them does."""
        self._places.clear()
        self._views.clear()


def kinds_of(tensors: Iterable[Place]) -> frozenset[int]:
    """Formats of the matrices among `tensors`."""
    return frozenset(tensor.type for tensor in tensors if len(tensor.shape) > 1)


def check_types(header: Header) -> None:
    """Raises ModelUnreadable for a file with types of tensors that are not known here."""
    for tensor in header.tensors:
        if not blocks.readable(tensor.type):
            raise ModelUnreadable(
                f"{header.path.name} has tensors of type {tensor.type}, which the pytorch runtime cannot read.",
                "Take the llamacpp runtime, or a Q4_K_M, Q6_K or Q8_0 file of the model.",
            )


#: Names in Hugging Face folders → ours, outside of layers.
_OTHER_NAMES: Final = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
_IN_LAYER: Final = re.compile(r"layers\.(\d+)\.(.+)\.(weight|bias)$")


class FolderWeights(Weights):
    """The tensors of a Hugging Face folder, sharded or not, from its safetensors files."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        from safetensors import SafetensorError, safe_open

        # The package has no types.
        self._files: dict[Path, Any] = {}
        self._where: dict[str, tuple[str, Path]] = {}
        ours = {theirs: name for name, theirs in of_layer(spec.family).items()}
        for path in shards(folder):
            try:
                self._files[path] = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise ModelUnreadable(f"{path} cannot be read: {error}.", "Fetch the file again.") from error
            for theirs in self._files[path].keys():  # noqa: SIM118  # no dict
                name = _ours(theirs, ours)
                if name is not None:
                    self._where[name] = (theirs, path)

    @property
    def names(self) -> frozenset[str]:
        """See `Weights`."""
        return frozenset(self._where)

    @property
    def kinds(self) -> frozenset[int]:
        """See `Weights`. None is in blocks."""
        return frozenset({blocks.F32})

    def packed(self, name: str) -> Packed:
        """See `Weights`."""
        if name not in self._where:
            raise _missing(name)
        theirs, path = self._where[name]
        values: Tensor = self._files[path].get_tensor(theirs)
        kinds = {torch.float32: blocks.F32, torch.float16: blocks.F16, torch.bfloat16: blocks.BF16}
        if values.dtype not in kinds:
            raise ModelUnreadable(
                f"{path.name} has numbers of type {values.dtype}, which the pytorch runtime cannot read.",
                "Take a bf16 or fp16 folder, or a GGUF file of the model.",
            )
        rows = values.reshape(-1, values.shape[-1]).contiguous()
        return Packed(kinds[values.dtype], rows.view(torch.uint8), rows.shape[1])

    def close(self) -> None:
        """See `Weights`."""
        self._files.clear()


def _ours(theirs: str, layer_names: dict[str, str]) -> str | None:
    if match := _IN_LAYER.search(theirs):
        known = layer_names.get(match[2])
        return None if known is None else f"blk.{match[1]}.{known}.{match[3]}"
    stem, _, end = theirs.rpartition(".")
    known = _OTHER_NAMES.get(stem.rpartition(".")[2])
    return None if known is None or end != "weight" else f"{known}.{end}"


def _missing(name: str) -> ModelUnreadable:
    return ModelUnreadable(f"The model has no tensor {name}.", "Fetch it again, or choose another file.")
