"""A matrix that rows of activations go through, dense or in blocks; several that read the same rows are one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from torch import Tensor

from pardec_chat.backends.base import NumberType
from pardec_chat.backends.pytorch.weights import Packed, Weights
from pardec_chat.kernels.quant_matmul import native
from pardec_chat.kernels.quant_matmul import torch_reference as blocks
from pardec_chat.kernels.quant_matmul.reference import BlockType

#: Formats that stay in blocks on a GPU.
KEPT: Final = frozenset({blocks.Q4_0, blocks.Q8_0, blocks.Q4_K, blocks.Q5_K, blocks.Q6_K})
#: Formats that compiled kernels read on a CPU.
_COMPILED: Final = frozenset(BlockType)


class Linear(ABC):
    """x [rows, K] → [rows, N]."""

    @abstractmethod
    def __call__(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """The product, with the bias where there is one, and added to `onto` [rows, N] where that is given."""


@dataclass(frozen=True, slots=True)
class Dense(Linear):
    """Weights in the activations' own dtype; transposed: [K, N], a view of rows [N, K]."""

    transposed: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        if onto is None:
            return torch.mm(x, self.transposed) if self.bias is None else torch.addmm(self.bias, x, self.transposed)
        return torch.addmm(onto if self.bias is None else onto + self.bias, x, self.transposed)


@dataclass(frozen=True, slots=True)
class Reordered(Linear):
    """Weights in the order that oneDNN multiplies them in, on a CPU.

    It reads them as fast as memory gives them, for one row as for sixteen, which rows of weights one after the other do not
    allow in 16 bits.
    """

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        found: Tensor
        if onto is None:
            found = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        else:
            found = torch.ops.mkldnn._linear_pointwise.binary(x, onto, self.weight, self.bias, "add")
        return found

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None) -> Reordered:
        """Of a matrix [N, K]. Ordered for one row: what suits that suits more."""
        return Reordered(torch.ops.mkldnn._reorder_linear_weight(weight, 1), bias)


@dataclass(frozen=True, slots=True)
class InBlocks(Linear):
    """On a GPU: the weights are read as they lie in the file. parts: one product each, their outputs side by side."""

    parts: tuple[Packed, ...]
    bias: Tensor | None

    def __call__(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        from pardec_chat.kernels.quant_matmul.triton import matmul

        outputs = [matmul(part.kind, part.raw, x) for part in self.parts]
        found: Tensor = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        found = found if self.bias is None else found + self.bias
        return found if onto is None else onto + found


@dataclass(frozen=True, slots=True)
class Compiled(Linear):
    """On a CPU: the weights stay as small as in the file, and kernels compiled for it multiply float32 rows with them.

    An output is the same number whatever the number of rows. parts: one product each, their outputs side by side.
    """

    parts: tuple[native.Packed, ...]
    bias: Tensor | None

    def __call__(self, x: Tensor, onto: Tensor | None = None) -> Tensor:
        """See `Linear`."""
        rows, threads = x.numpy(), torch.get_num_threads()
        outputs = [torch.from_numpy(part.multiply(rows, threads=threads)) for part in self.parts]
        found = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        if self.bias is not None:
            found += self.bias
        return found if onto is None else found.add_(onto)

    @staticmethod
    def of(packed: Sequence[Packed], bias: Tensor | None) -> Compiled:
        """Of matrices whose kinds `is_compiled` has accepted."""
        parts = [native.Packed(one.raw.numpy(), BlockType(one.kind)) for one in _joined(packed)]
        return Compiled(tuple(parts), bias)


def dense(weight: Tensor, bias: Tensor | None) -> Linear:
    """Of a matrix [N, K] in the activations' own dtype, on its device."""
    if reorders(weight.dtype, weight.device):
        return Reordered.of(weight, bias)
    return Dense(weight.t(), bias)


def load_linear(
    weights: Weights, names: Sequence[str], dtype: torch.dtype, device: torch.device, *, compiled: bool = False
) -> Linear:
    """The matrices `names` as one. On a GPU blocks stay blocks where a kernel reads them; elsewhere they become numbers.

    compiled: they stay blocks on a CPU.
    """
    packed = [weights.packed(f"{name}.weight") for name in names]
    biases = [weights.values(f"{name}.bias", dtype) for name in names if f"{name}.bias" in weights.names]
    bias = torch.cat(biases).to(device) if biases else None
    if compiled:
        return Compiled.of(packed, bias)
    if device.type == "cuda" and all(one.kind in KEPT for one in packed):
        kept = [Packed(one.kind, one.raw.contiguous().to(device), one.columns) for one in packed]
        return InBlocks(tuple(_joined(kept)), bias)
    values = [weights.values(f"{name}.weight", dtype) for name in names]
    return dense((values[0] if len(values) == 1 else torch.cat(values)).to(device), bias)


def _joined(packed: Sequence[Packed]) -> list[Packed]:
    """Neighbours of one format as one matrix: fewer launches."""
    found: list[Packed] = []
    for one in packed:
        if found and found[-1].kind == one.kind:
            found[-1] = Packed(one.kind, torch.cat([found[-1].raw, one.raw]), one.columns)
        else:
            found.append(one)
    return found


def is_compiled(dtype: NumberType, device: torch.device, kinds: frozenset[int]) -> bool:
    """Whether a draft model with matrices of these kinds stays in blocks: on a CPU, where nobody chose its numbers.

    Its guesses are checked, so it may be the fastest; and what costs time is reading the weights, a third of bf16.
    """
    if dtype != "auto" or device.type != "cpu" or not kinds <= _COMPILED:
        return False
    try:
        return bool(native.variants())
    except native.Unavailable:
        return False


def reorders(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether weights are kept in another order: 16-bit ones on a CPU; in 32 bits that is slower for one row."""
    return device.type == "cpu" and dtype == torch.bfloat16 and _can_reorder()


@cache
def _can_reorder() -> bool:
    """Whether this torch and this CPU multiply with reordered 16-bit weights: that takes AVX-512, and oneDNN."""
    ones = torch.ones(16, 16, dtype=torch.bfloat16)
    try:
        found = Reordered.of(ones, ones[0])(ones[:1])
        onto = Reordered.of(ones, None)(ones[:1], ones[:1])
    except (RuntimeError, AttributeError):
        return False
    return bool((found == 17).all() and (onto == 17).all())
