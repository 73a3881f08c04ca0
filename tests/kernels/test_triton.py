"""Every Triton kernel against its reference, under Triton's interpreter: no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the pytorch runtime is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

import torch

from pardec_chat.kernels.kv_compact import reference as kv_reference
from pardec_chat.kernels.kv_compact import triton as kv_triton
from pardec_chat.kernels.quant_matmul import torch_reference as matmul_reference
from pardec_chat.kernels.quant_matmul import triton as matmul_triton
from pardec_chat.kernels.sampling.reference import Distribution
from pardec_chat.kernels.sampling.reference import distribution as reference_distribution
from pardec_chat.kernels.tree_attention import reference as attention_reference
from pardec_chat.kernels.tree_attention import triton as attention_triton
from pardec_chat.kernels.verify_accept import reference as accept_reference
from pardec_chat.kernels.verify_accept import triton as accept_triton
from pardec_chat.tests.kernels.test_quant_blocks import KINDS, random_blocks

KERNELS = ("Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


# quant_matmul


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("rows", [1, 2, 7, 16, 17, 32])
def test_quant_matmul(name: str, rows: int) -> None:
    kind = KINDS[name]
    raw = torch.from_numpy(random_blocks(kind, 21, 512))  # no multiple of a program's rows
    x = torch.randn(rows, 512, generator=torch.Generator().manual_seed(rows))
    wanted = matmul_reference.matmul(kind, raw, x)
    found = matmul_triton.matmul(kind, raw, x)
    assert (found - wanted).abs().max() < 1e-4 * wanted.abs().max()


@pytest.mark.parametrize("name", KERNELS)
def test_quant_matmul_in_half_precision(name: str) -> None:
    kind = KINDS[name]
    raw = torch.from_numpy(random_blocks(kind, 16, 256))
    x = torch.randn(3, 256, generator=torch.Generator().manual_seed(0)).half()
    wanted = matmul_reference.matmul(kind, raw, x)
    found = matmul_triton.matmul(kind, raw, x)
    assert found.dtype == torch.float16
    assert (found.float() - wanted).abs().max() < 3e-3 * wanted.abs().max()


# tree_attention


def tree(rows: int) -> list[int]:
    """Parents of a tree with that many rows: each node hangs below one of those before it."""
    rng = np.random.default_rng(rows)
    return [int(rng.integers(-1, node)) if node else -1 for node in range(rows - 1)]


@pytest.mark.parametrize(("heads", "kv_heads", "head"), [(4, 4, 32), (8, 2, 64), (7, 1, 16)])
@pytest.mark.parametrize(
    ("rows", "start", "window", "softcap"),
    [
        (1, 0, 0, 0.0),
        (1, 100, 0, 0.0),
        (5, 63, 0, 0.0),
        (5, 63, 40, 0.0),
        (5, 63, 0, 5.0),
        (16, 200, 0, 0.0),
        (16, 200, 40, 0.0),
        (64, 70, 0, 0.0),
    ],
)
def test_tree_attention(
    heads: int, kv_heads: int, head: int, rows: int, start: int, window: int, softcap: float
) -> None:
    from pardec_chat.backends.base import depths

    parents = tree(rows)
    generator = torch.Generator().manual_seed(rows + start)
    q = torch.randn(rows, heads, head, generator=generator)
    k, v = torch.randn(2, kv_heads, start + rows + 9, head, generator=generator)
    own = attention_reference.ancestors(parents)
    depth = torch.tensor([0, *depths(parents)], dtype=torch.int32)
    seen = attention_reference.visible(start, own, depth, window)
    end = start + rows
    wanted = attention_reference.attend(q, k[:, :end], v[:, :end], seen, head**-0.5, softcap)
    found = attention_triton.attend(
        q,
        k,
        v,
        own.to(torch.uint8),
        torch.tensor([start], dtype=torch.int32),
        depth,
        head**-0.5,
        softcap=softcap,
        window=window,
    )
    assert (found - wanted).abs().max() < 1e-5


# kv_compact


@pytest.mark.parametrize("rows", [[0], [0, 1, 2], [0, 2, 5], [0, 3], [0, 1, 4, 6]])
def test_kv_compact(rows: list[int]) -> None:
    cache = torch.randn(3, 2, 2, 2, 40, 16)
    wanted = cache.clone()
    kv_reference.compact(wanted, 1, 20, rows)
    padded = torch.tensor([*rows, 39, 39], dtype=torch.int32)
    number = torch.tensor([len(rows)], dtype=torch.int32)
    before = cache[:, :, 1, :, 20:].clone()
    kv_triton.compact(cache, 1, torch.tensor([20], dtype=torch.int32), padded, number)
    assert torch.equal(cache, wanted)
    assert torch.equal(cache[:, :, 1, :, 20 : 20 + len(rows)], before[:, :, :, rows])


# verify_accept


CHAINS = [(1.0, 0, 1.0, 0.0), (0.7, 5, 1.0, 0.0), (1.3, 0, 0.8, 0.0), (0.9, 0, 1.0, 0.1), (0.8, 20, 0.9, 0.05)]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("size", [7, 1024, 2500])
def test_distribution(chain: tuple[float, int, float, float], size: int) -> None:
    logits = torch.randn(3, size, generator=torch.Generator().manual_seed(size)) * 3
    found = accept_triton.distribution(logits, *chain)
    for row, weights in zip(logits.numpy(), found.numpy(), strict=True):
        wanted = reference_distribution(row, *chain).dense(size)
        assert np.array_equal(weights > 0, wanted > 0)
        assert weights == pytest.approx(wanted, rel=1e-4, abs=1e-7)


class Given:
    """A `Chance` that uses up the same numbers as the kernel."""

    def __init__(self, coins: list[float], picks: list[float]) -> None:
        self._coins, self._picks = iter(coins), picks
        self.n = 0

    def coin(self, probability: float) -> bool:
        """See `Chance`."""
        return next(self._coins) < probability

    def pick(self, distribution: Distribution) -> int:
        """See `Chance`."""
        return distribution.quantile(self._picks[self.n])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rule", ["greedy", "walk", "reject"])
def test_accept(rule: str, seed: int) -> None:
    size, nodes = 9, 8
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(-1, node)) if node else -1 for node in range(nodes)]
    p = rng.dirichlet(np.full(size, 0.4), nodes + 1)
    q = rng.dirichlet(np.full(size, 0.6), nodes)
    tokens: list[int] = []
    first_of: dict[int, int] = {}
    for node, parent in enumerate(parents):
        # Siblings are drawn without replacement, the way a draft model draws them.
        q[node] = q[first_of.setdefault(parent, node)]
        left = q[node].copy()
        left[[tokens[other] for other in range(node) if parents[other] == parent]] = 0
        tokens.append(int(rng.choice(size, p=left / left.sum())))
    if rule == "greedy":  # make some of it right
        tokens = [
            int(p[parent + 1].argmax()) if rng.random() < 0.6 else t for t, parent in zip(tokens, parents, strict=True)
        ]
    coins, picks = rng.random(nodes).tolist(), rng.random(nodes + 1).tolist()
    ends = {int(rng.integers(size))}
    chance = Given(coins, picks)
    table = torch.zeros(size, dtype=torch.uint8)
    table[list(ends)] = 1

    def emit(token: int) -> None:
        chance.n += 1

    def own(node: int) -> int:
        token = int(p[node + 1].argmax()) if rule == "greedy" else chance.pick(Distribution(None, p[node + 1]))
        emit(token)
        return token

    if rule == "reject":
        wanted = accept_reference.reject(
            tokens,
            parents,
            lambda node: Distribution(None, p[node + 1]),
            [Distribution(None, row) for row in q],
            chance,
            emit,
            ends,
        )
    else:
        wanted = accept_reference.walk(tokens, parents, own, ends)
    out, path, count = accept_triton.accept(
        torch.tensor(p, dtype=torch.float32),
        torch.tensor(q, dtype=torch.float32) if rule == "reject" else None,
        torch.tensor(tokens, dtype=torch.int32),
        torch.tensor(parents, dtype=torch.int32),
        table,
        torch.tensor(coins, dtype=torch.float32),
        torch.tensor(picks, dtype=torch.float32),
        greedy=rule == "greedy",
    )
    n, n_path = count.tolist()
    assert out[:n].tolist() == wanted.tokens
    assert path[:n_path].tolist() == wanted.path
