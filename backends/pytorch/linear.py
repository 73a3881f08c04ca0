"""A matrix that rows of activations go through, dense or in blocks; several that read the same rows are one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pardec_chat.backends.pytorch.weights import Packed, Weights
from pardec_chat.kernels.quant_matmul import torch_reference as blocks

#: Formats that stay in blocks on a GPU.
KEPT = frozenset({blocks.Q4_0, blocks.Q8_0, blocks.Q4_K, blocks.Q5_K, blocks.Q6_K})


@dataclass(frozen=True, slots=True)
class Linear:
    """x [rows, K] → [rows, N]. parts: one product each, their outputs side by side."""

    parts: tuple[Callable[[Tensor], Tensor], ...]
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """The product, with the bias where there is one."""
        outputs = [part(x) for part in self.parts]
        found = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        return found if self.bias is None else found + self.bias

    @staticmethod
    def dense(weight: Tensor, bias: Tensor | None) -> Linear:
        """Of a matrix [N, K] in the activations' own dtype."""
        return Linear((_Dense(weight, bias),), None)


@dataclass(frozen=True, slots=True)
class _Dense:
    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _InBlocks:
    """On a GPU: the weights are read as they lie in the file."""

    packed: Packed

    def __call__(self, x: Tensor) -> Tensor:
        from pardec_chat.kernels.quant_matmul.triton import matmul

        found: Tensor = matmul(self.packed.kind, self.packed.raw, x)
        return found


def load_linear(weights: Weights, names: Sequence[str], dtype: torch.dtype, device: torch.device) -> Linear:
    """The matrices `names` as one. On a GPU blocks stay blocks where a kernel reads them; elsewhere they become numbers."""
    packed = [weights.packed(f"{name}.weight") for name in names]
    biases = [weights.values(f"{name}.bias", dtype) for name in names if f"{name}.bias" in weights.names]
    bias = torch.cat(biases).to(device) if biases else None
    if device.type == "cuda" and all(one.kind in KEPT for one in packed):
        kept = [Packed(one.kind, one.raw.contiguous().to(device), one.columns) for one in packed]
        return Linear(tuple(_InBlocks(one) for one in _joined(kept)), bias)
    values = [weights.values(f"{name}.weight", dtype) for name in names]
    return Linear.dense((values[0] if len(values) == 1 else torch.cat(values)).to(device), bias)


def _joined(packed: Sequence[Packed]) -> list[Packed]:
    """Neighbours of one format as one matrix: fewer launches."""
    found: list[Packed] = []
    for one in packed:
        if found and found[-1].kind == one.kind:
            found[-1] = Packed(one.kind, torch.cat([found[-1].raw, one.raw]), one.columns)
        else:
            found.append(one)
    return found
