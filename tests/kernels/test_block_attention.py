"""Attention with rows that do not depend on each other, against the reference."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from pardec_chat.kernels.block_attention import native, reference
from pardec_chat.tests.kernels.test_quant_matmul import VARIANTS, needs_compiled, same_bits

SHAPES = [(12, 2, 128, 128), (4, 1, 256, 256), (9, 3, 64, 64), (4, 4, 80, 48)]


def test_the_reference_on_scores_worked_out_by_hand() -> None:
    """Scores ln 3 and 0 weigh the values 3 : 1; a cell that is not seen counts for nothing."""
    q = np.array([[[1.0]]], np.float32)
    k = np.array([[[np.log(3.0)]], [[0.0]], [[99.0]]], np.float32)
    v = np.array([[[4.0]], [[8.0]], [[1e6]]], np.float32)
    mask = np.array([[0.0, 0.0, -np.inf]], np.float32)
    assert reference.attend(q, k, v, mask, 1.0)[0, 0, 0] == pytest.approx(5.0)
    assert reference.attend(q, k, v, np.full((1, 3), -np.inf, np.float32), 1.0)[0, 0, 0] == 0.0


def made(
    m: int, heads: int, key_heads: int, width: int, value_width: int, cells: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Queries, a cache, and a causal mask in which some cells belong to others."""
    rng = np.random.default_rng(seed)
    q = rng.normal(size=(m, heads, width)).astype(np.float32)
    k = rng.normal(size=(cells, key_heads, width)).astype(np.float16)
    v = rng.normal(size=(cells, key_heads, value_width)).astype(np.float16)
    mask = np.zeros((m, cells), np.float16)
    mask[:, rng.random(cells) < 0.2] = -np.inf
    for row in range(m):
        mask[row, cells - m + row + 1 :] = -np.inf
        mask[row, cells - m + row] = 0
    return q, k, v, mask


@needs_compiled
@pytest.mark.parametrize(("variant", "name"), VARIANTS)
@pytest.mark.parametrize(("heads", "key_heads", "width", "value_width"), SHAPES)
@pytest.mark.parametrize("softcap", [0.0, 5.0])
def test_every_variant_is_near_the_reference(
    heads: int, key_heads: int, width: int, value_width: int, softcap: float, variant: int, name: str
) -> None:
    q, k, v, mask = made(11, heads, key_heads, width, value_width, 1100)
    mask[2:5, 7:30] = np.float16(-1.5)  # a bias rather than a mask
    mask[10] = -np.inf
    scale = width**-0.5
    expected = reference.attend(q, k.astype(np.float32), v.astype(np.float32), mask.astype(np.float32), scale, softcap)
    got = native.attend(q, k, v, mask, scale, softcap, variant=variant)
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)
    assert not got[10].any()


@needs_compiled
@pytest.mark.parametrize(("variant", "name"), VARIANTS)
def test_a_row_is_the_same_whatever_rows_and_cells_are_beside_it(variant: int, name: str) -> None:
    """Alone, in blocks, and with cells of others scattered between its own."""
    q, k, v, mask = made(32, 6, 2, 64, 64, 1300)
    block = native.attend(q, k, v, mask, 0.125, variant=variant)
    for row in (0, 7, 8, 31):
        alone = native.attend(q[row : row + 1], k, v, mask[row : row + 1], 0.125, variant=variant)
        assert same_bits(alone[0], block[row])
    for count in (2, 9, 31):
        assert same_bits(native.attend(q[:count], k, v, mask[:count], 0.125, variant=variant), block[:count])
    seen = np.flatnonzero(np.isfinite(mask).any(axis=0))
    packed = native.attend(q, k[seen], v[seen], mask[:, seen], 0.125, variant=variant)
    assert same_bits(packed, block)


def in_blocks(values: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random Q8_0 blocks in the shape of `values`, and what they mean, which 16 bits hold, too: scales are powers of 2."""
    rng = np.random.default_rng(seed)
    *rest, width = values.shape
    scales = np.ldexp(1.0, rng.integers(-9, -5, (*rest, width // 32, 1))).astype(np.float16)
    q = rng.integers(-127, 128, (*rest, width // 32, 32), dtype=np.int8)
    blocks = np.concatenate([scales.view(np.uint8), q.view(np.uint8)], axis=-1).reshape(*rest, -1)
    meant = gguf.quants.dequantize(blocks.reshape(-1, blocks.shape[-1]), gguf.GGMLQuantizationType.Q8_0)
    return blocks, meant.reshape(values.shape)


@needs_compiled
@pytest.mark.parametrize(("variant", "name"), VARIANTS)
@pytest.mark.parametrize(("heads", "key_heads", "width", "value_width"), [(12, 2, 128, 128), (9, 3, 64, 32)])
def test_a_cache_of_8_bits_is_read_as_gguf_does_to_the_last_bit(
    heads: int, key_heads: int, width: int, value_width: int, variant: int, name: str
) -> None:
    """The same numbers in 16 bits give the same bits, and the reference is near."""
    q, k, v, mask = made(11, heads, key_heads, width, value_width, 700)
    (k_blocks, k_meant), (v_blocks, v_meant) = in_blocks(k, 1), in_blocks(v, 2)
    halves = k_meant.astype(np.float16), v_meant.astype(np.float16)
    assert (halves[0] == k_meant).all()
    assert (halves[1] == v_meant).all()
    scale = width**-0.5
    got = native.attend(q, k_blocks, v_blocks, mask, scale, variant=variant)
    assert same_bits(got, native.attend(q, *halves, mask, scale, variant=variant))
    expected = reference.attend(q, k_meant, v_meant, mask.astype(np.float32), scale)
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@needs_compiled
def test_shapes_that_do_not_belong_together_are_refused() -> None:
    q, k, v, mask = made(2, 4, 2, 32, 32, 64)
    with pytest.raises(ValueError, match="multiple of 16"):
        native.attend(q[:, :, :24], k[:, :, :24], v, mask, 1.0)
    with pytest.raises(ValueError, match="share key heads"):
        native.attend(q[:, :3], k, v, mask, 1.0)
    blocks, _ = in_blocks(k, 1)
    with pytest.raises(ValueError, match="multiple of 32"):
        native.attend(q, blocks[:, :, :30], blocks, mask, 1.0)
    with pytest.raises(ValueError, match="mask"):
        native.attend(q, k, v, mask[:1], 1.0)
