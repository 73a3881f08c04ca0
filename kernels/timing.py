"""What the kernels take on a GPU, against the time that reading their bytes takes at the bandwidth of a large copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pardec_chat.kernels.checks import FORMATS, random_blocks
from pardec_chat.kernels.quant_matmul import triton as matmul_kernel
from pardec_chat.kernels.tree_attention import triton as attention_kernel
from pardec_chat.kernels.tree_attention.reference import ancestors

#: An 8B model: width, hidden, heads, kv heads, values of a head, layers, vocabulary; and the cache it looks back on.
WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD, LAYERS, VOCABULARY = 4096, 14_336, 32, 8, 128, 32, 128_256
CACHE: Final = 4096
#: Matrices of an 8B and of a 32B model: rows, columns.
SHAPES: Final = {
    "8B qkv": (6144, 4096),
    "8B gate and up": (28_672, 4096),
    "8B down": (4096, 14_336),
    "32B qkv": (7168, 5120),
    "32B gate and up": (55_296, 5120),
    "32B down": (5120, 27_648),
}
#: Rows of a pass that are timed.
ROWS: Final = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Timing:
    """ms: median. share: of the copy's bandwidth, in bytes that have to be read; 0 where nothing is compared."""

    name: str
    ms: float
    share: float = 0.0


def milliseconds(work: Callable[[], object], rounds: int = 30) -> float:
    """Median time of `work` by events, after a few rounds to warm up."""
    for _ in range(5):
        work()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return float(median(times))


def bandwidth() -> float:
    """Bytes a millisecond that a copy of 2 GiB reads and writes."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    to = torch.empty_like(source)
    return 2 * source.numel() / milliseconds(lambda: to.copy_(source))


def kernels(copy: float) -> Iterator[Timing]:
    """Each kernel at the shapes of decoding. copy: as `bandwidth` gives it."""
    for shape, (n, k) in SHAPES.items():
        for name in ("Q4_K", "Q6_K") if shape != "8B down" else FORMATS:
            kind = FORMATS[name][0]
            # Several copies, so that no cache holds what was read before.
            copies = [random_blocks(name, n, k, "cuda") for _ in range(4)]
            for rows in (1, 8):
                x = torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)

                def work(kind: int = kind, copies: list[Tensor] = copies, x: Tensor = x) -> None:
                    for raw in copies:
                        matmul_kernel.matmul(kind, raw, x)

                ms = milliseconds(work) / len(copies)
                yield Timing(f"quant_matmul {name} {shape} x{rows}", ms, copies[0].numel() / copy / ms)
    for rows in (1, 8, 32):
        attend, n_bytes = _attention(rows)
        ms = milliseconds(attend)
        yield Timing(f"tree_attention x{rows} over {CACHE}, {LAYERS} layers", ms, LAYERS * n_bytes / copy / ms)


def _attention(rows: int) -> tuple[Callable[[], None], int]:
    """Attention of all layers, and the bytes of one layer's cache."""
    cells = CACHE + rows
    cache = torch.randn(LAYERS, 2, KV_HEADS, cells, HEAD, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(rows, HEADS, HEAD, device="cuda", dtype=torch.bfloat16)
    own = ancestors(range(-1, rows - 2), "cuda").to(torch.uint8)
    depth = torch.arange(rows, device="cuda", dtype=torch.int32)
    start = torch.tensor([CACHE], device="cuda", dtype=torch.int32)

    def work() -> None:
        for layer in range(LAYERS):
            attention_kernel.attend(q, cache[layer, 0], cache[layer, 1], own, start, depth, HEAD**-0.5)

    return work, cache[0].numel() * 2


def model(copy: float) -> Iterator[Timing]:
    """t(rows) of a pass of an 8B-shaped random model in Q4_K, launched kernel by kernel and as one captured graph."""
    kind = FORMATS["Q4_K"][0]
    shapes = (SHAPES["8B qkv"], (WIDTH, WIDTH), SHAPES["8B gate and up"], SHAPES["8B down"])
    matrices = [[random_blocks("Q4_K", n, k, "cuda") for n, k in shapes] for _ in range(LAYERS)]
    head = random_blocks("Q6_K", VOCABULARY, WIDTH, "cuda")
    n_bytes = sum(raw.numel() for layer in matrices for raw in layer) + head.numel()
    gain = torch.ones(WIDTH, device="cuda", dtype=torch.bfloat16)
    for rows in ROWS:
        cells = CACHE + rows
        cache = torch.randn(LAYERS, 2, KV_HEADS, cells, HEAD, device="cuda", dtype=torch.bfloat16)
        own = ancestors(range(-1, rows - 2), "cuda").to(torch.uint8)
        depth = torch.arange(rows, device="cuda", dtype=torch.int32)
        start = torch.tensor([CACHE], device="cuda", dtype=torch.int32)
        x = torch.randn(rows, WIDTH, device="cuda", dtype=torch.bfloat16) * 0.01

        def work(
            rows: int = rows,
            cache: Tensor = cache,
            own: Tensor = own,
            depth: Tensor = depth,
            start: Tensor = start,
            x: Tensor = x,
        ) -> Tensor:
            state = x
            for layer, (qkv, out, gate_up, down) in enumerate(matrices):
                h = matmul_kernel.matmul(kind, qkv, F.rms_norm(state, gain.shape, gain))
                q, k, v = h.view(rows, HEADS + 2 * KV_HEADS, HEAD).split((HEADS, KV_HEADS, KV_HEADS), dim=1)
                cache[layer, 0, :, CACHE:] = k.transpose(0, 1)
                cache[layer, 1, :, CACHE:] = v.transpose(0, 1)
                seen = attention_kernel.attend(q, cache[layer, 0], cache[layer, 1], own, start, depth, HEAD**-0.5)
                state = state + matmul_kernel.matmul(kind, out, seen.reshape(rows, -1))
                gate, up = matmul_kernel.matmul(kind, gate_up, F.rms_norm(state, gain.shape, gain)).chunk(2, dim=-1)
                state = state + matmul_kernel.matmul(kind, down, F.silu(gate) * up)
            return matmul_kernel.matmul(FORMATS["Q6_K"][0], head, state)

        read = n_bytes + cache.numel() * 2
        ms = milliseconds(work, rounds=10)
        yield Timing(f"8B Q4_K, {rows} rows, kernel by kernel", ms, read / copy / ms)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        ms = milliseconds(graph.replay, rounds=10)
        yield Timing(f"8B Q4_K, {rows} rows, one graph", ms, read / copy / ms)
