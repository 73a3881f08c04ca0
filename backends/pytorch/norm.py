"""Root mean square norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Norm:
    """x / sqrt(mean(x²) + eps) * gain along the last axis (Zhang and Sennrich 2019); gain: [..., width], as x ends.

    On a CPU torch makes it of a dozen operations, which cost more than their arithmetic. Four do: the length of x is
    sqrt(width * mean(x²)), and a right-angled triangle of it and sqrt(width * eps) has what is divided by as its longest side,
    times sqrt(width).
    """

    gain: Tensor
    side: Tensor | None
    eps: float

    @staticmethod
    def of(gain: Tensor, eps: float, dtype: torch.dtype) -> Norm:
        """gain: float32, on the device of the activations, which are `dtype`."""
        if gain.device.type != "cpu":
            return Norm(gain.to(dtype), None, eps)
        width = gain.shape[-1]
        return Norm(gain * width**0.5, torch.tensor((width * eps) ** 0.5), eps)

    def __call__(self, x: Tensor) -> Tensor:
        """The norm of x, in its dtype."""
        if self.side is None:
            if self.gain.dim() == 1:
                return F.rms_norm(x, self.gain.shape, self.gain, self.eps)
            return F.rms_norm(x, self.gain.shape[-1:], None, self.eps) * self.gain
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return torch.mul(x / length.hypot_(self.side), self.gain).to(x.dtype)
