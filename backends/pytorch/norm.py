"""Root mean square norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pardec_chat.kernels.few_rows import native as few_rows


@dataclass(frozen=True, slots=True)
class Norm:
    """x / sqrt(mean(x²) + eps) * gain along the last axis (Zhang and Sennrich 2019); gain: [..., width], as x ends.

    On a CPU torch makes it of a dozen operations, which cost more than their arithmetic. Few rows are one call of a compiled
    function, for which the gain has sqrt(width) in it and `offset` is width * eps. Else four operations do: the length of x is
    sqrt(width * mean(x²)), and a right-angled triangle of it and `side`, the root of the offset, has what is divided by as its
    longest side.
    """

    gain: Tensor
    side: Tensor | None
    eps: float
    offset: float = 0.0
    compiled: bool = False

    @staticmethod
    def of(gain: Tensor, eps: float, dtype: torch.dtype) -> Norm:
        """gain: float32, on the device of the activations, which are `dtype`."""
        if gain.device.type != "cpu":
            return Norm(gain.to(dtype), None, eps)
        width = gain.shape[-1]
        offset = width * eps
        compiled = few_rows.usable(dtype, gain.device)
        return Norm(gain * width**0.5, torch.tensor(offset**0.5), eps, offset, compiled)

    def __call__(self, x: Tensor) -> Tensor:
        """The norm of x, in its dtype."""
        if self.side is None:
            if self.gain.dim() == 1:
                return F.rms_norm(x, self.gain.shape, self.gain, self.eps)
            return F.rms_norm(x, self.gain.shape[-1:], None, self.eps) * self.gain
        if self.compiled and x.dim() == 2 and len(x) <= few_rows.MOST_ROWS:
            return few_rows.norm(x, self.gain, self.offset)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return torch.mul(x / length.hypot_(self.side), self.gain).to(x.dtype)
