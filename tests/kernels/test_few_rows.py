"""The compiled functions for a few rows against plain torch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the kernels run beside torch")

import torch
from torch import Tensor

from pardec_chat.kernels.few_rows import native, reference

pytestmark = pytest.mark.skipif(
    not native.usable(torch.float32, torch.device("cpu")), reason="the kernels were not compiled"
)

DTYPES = (torch.float32, torch.bfloat16)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def close(found: Tensor, wanted: Tensor) -> bool:
    """Up to the last place, which is where the order of a sum shows."""
    step = 4e-6 if found.dtype == torch.float32 else 2**-7
    same_kind = (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    return same_kind and torch.allclose(found, wanted, rtol=step, atol=step)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 576), (3, 896), (16, 33), (2, 5)])
def test_norm(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    x, gain = numbers(*shape, dtype=dtype), numbers(shape[1]) * shape[1] ** 0.5
    assert close(native.norm(x, gain, 1e-3), reference.norm(x, gain, 1e-3))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("shape", [(1, 1536), (5, 40), (2, 7)])
def test_gated(dtype: torch.dtype, gelu: bool, shape: tuple[int, int]) -> None:
    gate_up = 4 * numbers(shape[0], 2 * shape[1], dtype=dtype)
    assert close(native.gated(gate_up, gelu=gelu), reference.gated(gate_up, gelu=gelu))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_norm", [False, True])
@pytest.mark.parametrize(
    ("heads", "key_heads", "head", "m"), [(9, 3, 64, 1), (4, 2, 32, 3), (14, 2, 128, 6), (2, 1, 24, 2)]
)
def test_turn(dtype: torch.dtype, with_norm: bool, heads: int, key_heads: int, head: int, m: int) -> None:
    rows = numbers(m, heads + 2 * key_heads, head, dtype=dtype)
    angles = numbers(m, head // 2)
    turns = torch.cat([angles.cos(), angles.sin()], dim=1)
    gain = numbers(heads + key_heads, head) * head**0.5 if with_norm else None
    caches = [torch.zeros(2, key_heads, 12, head, dtype=dtype) for _ in range(2)]
    found, wanted = (
        turn(rows, turns, key_heads, gain, 1e-3, cache[:, :, 4 : 4 + m])
        for turn, cache in zip((native.turn, reference.turn), caches, strict=True)
    )
    assert close(found, wanted)
    assert close(caches[0], caches[1])
    assert not caches[0][:, :, :4].any()
    assert not caches[0][:, :, 4 + m :].any()


def test_what_is_no_number_stays_none() -> None:
    x = torch.tensor([[float("nan"), 1.0] * 16], dtype=torch.bfloat16)
    assert native.norm(x, torch.ones(32), 1.0).isnan().all()
    assert native.gated(x, gelu=False).isnan()[0, ::2].all()
