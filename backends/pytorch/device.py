"""Where a model runs and in which numbers; memory, and errors about it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from pardec_chat.backends import errors
from pardec_chat.backends.base import NumberType
from pardec_chat.backends.errors import BadSetting, LoadGivenUp
from pardec_chat.kernels.quant_matmul import native

if TYPE_CHECKING:
    from pardec_chat.backends.pytorch.target import PytorchTarget

_TYPES: Final = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_SMALLER: Final = (
    "Ask for a shorter context (--ctx), take a smaller model, or the llamacpp runtime, which keeps weights in blocks."
)


def choose(gpu_layers: int | None) -> torch.device:
    """CUDA where there is one, then Apple's GPU, then the CPU; gpu_layers 0 asks for the CPU."""
    if gpu_layers != 0 and torch.cuda.is_available():
        return torch.device("cuda")
    if gpu_layers != 0 and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def number_type(asked: NumberType, device: torch.device) -> torch.dtype:
    """What weights and cache are kept in. Raises BadSetting for what a device cannot do well."""
    if asked == "auto":
        return torch.bfloat16
    if asked == "fp16" and device.type == "cpu":
        raise BadSetting("A CPU multiplies 16-bit floats (fp16) one by one.", "Give --dtype bf16 or fp32.")
    return _TYPES[asked]


def bytes_of(target: PytorchTarget) -> Mapping[str, int]:
    """Bytes of weights and cache on the device of `target`."""
    decoder = target.decoder
    tensors: dict[int, Tensor] = {}
    in_blocks = 0
    stack: list[object] = [decoder.embedding, decoder.output_norm, decoder.output, target.cache.data, *decoder.layers]
    while stack:
        one = stack.pop()
        if isinstance(one, Tensor):
            # Views share memory; reordered weights do not say where theirs is.
            tensors[id(one) if one.is_mkldnn else one.data_ptr()] = one
        elif isinstance(one, native.Packed):
            in_blocks += one.nbytes
        elif isinstance(one, tuple):
            stack += one
        elif hasattr(one, "__slots__"):
            stack += [getattr(one, name) for name in one.__slots__]
    kind = decoder.device.type
    name = str(torch.cuda.get_device_name(decoder.device)) if kind == "cuda" else kind.upper()
    return {name: in_blocks + sum(one.numel() * one.element_size() for one in tensors.values())}


def give_back() -> None:
    """Let the allocators return what nothing refers to any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def memory_errors(path: Path) -> Iterator[None]:
    """An allocation that fails, and a load that is given up, as what they are."""
    try:
        with errors.memory_errors(path, _SMALLER):
            yield
    except InterruptedError:
        raise LoadGivenUp from None
