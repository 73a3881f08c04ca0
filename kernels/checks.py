"""Each Triton kernel beside its reference on one device: how far apart they are, and how far they may be.

On a CPU it needs TRITON_INTERPRET=1 in the environment before this is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from pardec_chat.kernels.kv_compact import reference as compact_reference
from pardec_chat.kernels.kv_compact import triton as compact_kernel
from pardec_chat.kernels.quant_matmul import torch_reference as matmul_reference
from pardec_chat.kernels.quant_matmul import triton as matmul_kernel
from pardec_chat.kernels.tree_attention import reference as attention_reference
from pardec_chat.kernels.tree_attention import triton as attention_kernel
from pardec_chat.kernels.verify_accept import triton as accept_kernel

#: Format → its number, and where the 16-bit scales of a block lie.
FORMATS: Final = {
    "Q4_0": (2, (0,)),
    "Q8_0": (8, (0,)),
    "Q4_K": (12, (0, 2)),
    "Q5_K": (13, (0, 2)),
    "Q6_K": (14, (208,)),
}


@dataclass(frozen=True, slots=True)
class Check:
    """error: largest difference over the largest right value. allowed: what rounding may make of it."""

    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the kernel is right; NaN is not."""
        return self.error <= self.allowed


def random_blocks(name: str, rows: int, columns: int, device: torch.device | str) -> Tensor:
    """A random matrix in a block format, uint8 [rows, bytes of a row], with scales that are ordinary numbers."""
    kind, scales = FORMATS[name]
    values, size = matmul_kernel.STEPS[kind]
    blocks = torch.randint(0, 256, (rows * columns // values, size), dtype=torch.uint8, device=device)
    for at in scales:
        halves = torch.randn(len(blocks), 1, device=device).mul_(0.01).half()
        blocks[:, at : at + 2] = halves.view(torch.uint8)
    return blocks.view(rows, -1)


def run(device: torch.device | str) -> Iterator[Check]:
    """All kernels, a few shapes each."""
    torch.manual_seed(0)
    is_gpu = torch.device(device).type == "cuda"
    dtype = torch.bfloat16 if is_gpu else torch.float32
    allowed = 2e-2 if is_gpu else 1e-4
    for name, (kind, _) in FORMATS.items():
        raw = random_blocks(name, 4096 if is_gpu else 48, 4096 if is_gpu else 512, device)
        for rows in (1, 4, 8, 32):
            x = torch.randn(rows, 4096 if is_gpu else 512, device=device, dtype=dtype)
            wanted = matmul_reference.matmul(kind, raw, x)
            yield Check(f"quant_matmul {name} x{rows}", _error(matmul_kernel.matmul(kind, raw, x), wanted), allowed)
    for rows, before in ((1, 500), (8, 4000 if is_gpu else 300), (64, 1000 if is_gpu else 100)):
        yield Check(f"tree_attention x{rows} over {before}", _attention(rows, before, device, dtype), allowed)
    cache = torch.randn(4, 2, 2, 4, 64, 64, device=device, dtype=dtype)
    wanted = cache.clone()
    compact_reference.compact(wanted, 1, 20, [0, 3, 4, 9])
    start = torch.tensor([20], dtype=torch.int32, device=device)
    number = torch.tensor([4], dtype=torch.int32, device=device)
    kept = torch.tensor([0, 3, 4, 9], dtype=torch.int32, device=device)
    compact_kernel.compact(cache, 1, start, kept, number)
    yield Check("kv_compact", float((cache != wanted).sum()), 0.0)
    logits = torch.randn(4, 151_936 if is_gpu else 6000, device=device) * 3
    found = accept_kernel.distribution(logits, 0.8, 40, 1.0, 0.05)
    yield Check("verify_accept distribution", _error(found, _top(logits, 0.8, 40, 0.05)), 1e-4)
    yield Check("verify_accept walk", _walk(device), 0.0)


def _error(found: Tensor, wanted: Tensor) -> float:
    return float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max())


def _attention(rows: int, start: int, device: torch.device | str, dtype: torch.dtype) -> float:
    heads, kv_heads, head = 32, 8, 128
    if torch.device(device).type != "cuda":
        heads, kv_heads, head = 8, 2, 32
    parents = [max(-1, node - 1 - node % 3) for node in range(rows - 1)]
    q = torch.randn(rows, heads, head, device=device, dtype=dtype)
    k, v = torch.randn(2, kv_heads, start + rows, head, device=device, dtype=dtype)
    own = attention_reference.ancestors(parents, device)
    depth = own.sum(dim=1).int() - 1
    seen = attention_reference.visible(start, own, depth)
    wanted = attention_reference.attend(q.float(), k.float(), v.float(), seen, head**-0.5)
    begin = torch.tensor([start], dtype=torch.int32, device=device)
    found = attention_kernel.attend(q, k, v, own.to(torch.uint8), begin, depth, head**-0.5)
    return _error(found, wanted)


def _top(logits: Tensor, temperature: float, top_k: int, min_p: float) -> Tensor:
    """The sampler chain without top-p, in torch's own words."""
    weights = torch.softmax(logits / temperature, dim=-1)
    least = weights.topk(top_k, dim=-1).values
    kept = torch.where(weights >= least[:, -1:], weights, 0.0)
    kept = torch.where(kept >= min_p * least[:, :1], kept, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def _walk(device: torch.device | str) -> float:
    """A tree whose right path is known: 0 when the kernel finds it."""
    size, parents = 5000, [-1, -1, 1, 1, 3]
    right = torch.tensor([3000, 0, 4999, 7, 9, 11], device=device)
    logits = torch.zeros(6, size, device=device).scatter_(1, right.unsqueeze(1), 1.0)
    tokens = torch.tensor([5, 3000, 6, 4999, 9], dtype=torch.int32, device=device)
    numbers = torch.zeros(6, device=device)
    out, path, count = accept_kernel.accept(
        logits,
        None,
        tokens,
        torch.tensor(parents, dtype=torch.int32, device=device),
        torch.zeros(size, dtype=torch.uint8, device=device),
        numbers,
        numbers,
        greedy=True,
    )
    # Rows: the root's says 3000, node 1's 4999, node 3's 9, node 4's 11.
    return float((out.tolist()[:4], path.tolist()[:3], count.tolist()) != ([3000, 4999, 9, 11], [1, 3, 4], [4, 3]))
