"""Every block format against the gguf package's own reading of it."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

pytest.importorskip("torch", reason="the pytorch runtime is not installed")

import torch

from pardec_chat.kernels.quant_matmul import torch_reference as reference

KINDS = {
    name: int(getattr(gguf.GGMLQuantizationType, name))
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
}


def random_blocks(kind: int, rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Bytes of any kind, with scales that are ordinary numbers."""
    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    blocks = np.random.default_rng(seed).integers(0, 256, (rows, columns // values, size), np.uint8)
    halves = {8: [0], 2: [0], 3: [0, 2], 6: [0], 7: [0, 2], 10: [80, 82], 11: [108], 12: [0, 2], 13: [0, 2], 14: [208]}
    for at in halves[kind]:
        scales = np.random.default_rng(seed + at).normal(0, 0.01, blocks.shape[:2]).astype(np.float16)
        blocks[:, :, at : at + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(rows, -1)


@pytest.mark.parametrize("name", KINDS)
def test_blocks_stand_for_what_the_format_says(name: str) -> None:
    raw = random_blocks(KINDS[name], 7, 512)
    wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(KINDS[name]))
    found = reference.dequantise(KINDS[name], torch.from_numpy(raw))
    assert found.shape == (7, 512)
    assert torch.equal(found, torch.from_numpy(wanted)) or torch.allclose(
        found, torch.from_numpy(wanted), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize(("kind", "dtype"), [(0, torch.float32), (1, torch.float16), (30, torch.bfloat16)])
def test_plain_numbers_stay_what_they_are(kind: int, dtype: torch.dtype) -> None:
    values = torch.randn(3, 8).to(dtype)
    assert torch.equal(reference.dequantise(kind, values.view(torch.uint8)), values.float())


def test_the_product_is_that_of_the_values() -> None:
    raw = torch.from_numpy(random_blocks(12, 5, 512))
    x = torch.randn(3, 512)
    assert torch.allclose(reference.matmul(12, raw, x), x @ reference.dequantise(12, raw).T)


def test_unknown_formats_are_told_apart() -> None:
    assert reference.readable(12)
    assert not reference.readable(16)
    with pytest.raises(KeyError):
        reference.dequantise(16, torch.zeros(1, 66, dtype=torch.uint8))
