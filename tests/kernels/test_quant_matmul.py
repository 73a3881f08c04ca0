"""Products with quantised weights: the reference against the blocks' meaning, every compiled variant against the reference."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from pardec_chat.kernels.quant_matmul import native, reference
from pardec_chat.kernels.quant_matmul.reference import SIZES, BlockType, Bytes, Floats

SHAPES = [(16, 256), (37, 768), (1, 512)]


def compiled() -> list[str]:
    try:
        return native.variants()
    except native.Unavailable:
        return []


needs_compiled = pytest.mark.skipif(not compiled(), reason="the kernels were not compiled, or cannot run here")
VARIANTS = list(enumerate(compiled()))


def random_blocks(block_type: BlockType, n: int, k: int, seed: int = 0) -> Bytes:
    """Every bit of the integers random; scales that are numbers."""
    rng = np.random.default_rng(seed)
    size, n_bytes = SIZES[block_type]
    blocks = rng.integers(0, 256, (n, k // size, n_bytes), dtype=np.uint8)
    scales = {BlockType.Q6_K: (208,), BlockType.Q4_1: (0, 2), BlockType.Q4_K: (0, 2), BlockType.Q5_K: (0, 2)}
    for at in scales.get(block_type, (0,)):
        blocks[..., at : at + 2] = rng.normal(size=(n, k // size, 1)).astype(np.float16).view(np.uint8)
    return blocks.reshape(n, -1)


def same_bits(a: Floats, b: Floats) -> bool:
    return a.shape == b.shape and bool((a.view(np.int32) == b.view(np.int32)).all())


def meaning(blocks: Bytes, block_type: BlockType) -> Floats:
    """Weights as the reference understands them."""
    w = reference.unpack(blocks, block_type)
    n, b, size = w.q.shape
    scales = np.repeat(w.scales, size // w.scales.shape[2], axis=2)
    weights = w.d[..., None] * scales * w.q
    if w.minima is not None and w.dmin is not None:
        weights = weights - w.dmin[..., None] * np.repeat(w.minima, size // w.minima.shape[2], axis=2)
    if w.m is not None:
        weights = weights + w.m[..., None]
    result: Floats = weights.reshape(n, b * size).astype(np.float32)
    return result


@pytest.mark.parametrize("block_type", BlockType)
def test_the_reference_reads_blocks_as_gguf_does(block_type: BlockType) -> None:
    blocks = random_blocks(block_type, 5, 512)
    theirs = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(block_type))
    np.testing.assert_allclose(meaning(blocks, block_type), theirs, rtol=1e-5, atol=1e-5)


def test_activations_are_quantised_by_their_extreme_value() -> None:
    row = np.zeros((1, 256), np.float32)
    row[0, 3], row[0, 9], row[0, 10] = -2.0, 1.0, 0.5
    x = reference.quantise(row, BlockType.Q4_K)
    assert list(x.q[0, 0, [3, 9, 10, 0]]) == [
        -127,
        64,
        32,
        0,
    ]  # 63.5 and 31.75, ties to even, turned round by the scale
    assert x.d[0, 0] == np.float32(1) / (np.float32(-127) / np.float32(-2))
    thirty_two = reference.quantise(row[:, :32], BlockType.Q4_1)
    assert list(thirty_two.q[0, 0, [3, 9, 10, 0]]) == [-127, 64, 32, 0]
    d = np.float32(2) / np.float32(127)
    assert thirty_two.d[0, 0] == np.float32(np.float16(d))
    assert thirty_two.s[0, 0] == np.float32(np.float16(d * np.float32(-31)))


def test_a_row_of_zeros_gives_zeros() -> None:
    for block_type in BlockType:
        out = reference.matmul(random_blocks(block_type, 3, 256), block_type, np.zeros((1, 256), np.float32))
        assert not out.any()


@pytest.mark.parametrize("block_type", BlockType)
def test_the_reference_is_near_the_product_of_the_weights_themselves(block_type: BlockType) -> None:
    blocks = random_blocks(block_type, 16, 512)
    x = np.random.default_rng(1).normal(size=(3, 512)).astype(np.float32)
    exact = x @ meaning(blocks, block_type).T
    error = reference.matmul(blocks, block_type, x) - exact
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(exact)


@needs_compiled
@pytest.mark.parametrize(("variant", "name"), VARIANTS)
@pytest.mark.parametrize("block_type", BlockType)
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_every_variant_is_the_reference_to_the_last_bit(
    block_type: BlockType, n: int, k: int, variant: int, name: str
) -> None:
    blocks = random_blocks(block_type, n, k, seed=n)
    rows = np.random.default_rng(k).normal(size=(35, k)).astype(np.float32)
    rows[3] = 0
    rows[4] *= 1000
    rows[5, :32] = [1, -1] * 16  # two values are as extreme as each other
    expected = reference.matmul(blocks, block_type, rows)
    assert same_bits(native.matmul(blocks, block_type, rows, variant=variant), expected)


@needs_compiled
@pytest.mark.parametrize(("variant", "name"), VARIANTS)
@pytest.mark.parametrize("block_type", BlockType)
def test_the_largest_sums_do_not_overflow(block_type: BlockType, variant: int, name: str) -> None:
    """All bits of the integers set, and the activations at their ends."""
    size, n_bytes = SIZES[block_type]
    blocks = np.full((16, 512 // size, n_bytes), 255, np.uint8)
    at = 208 if block_type == BlockType.Q6_K else 0
    n_scales = 2 if block_type in (BlockType.Q4_1, BlockType.Q4_K, BlockType.Q5_K) else 1
    blocks[..., at : at + 2 * n_scales] = np.frombuffer(np.full(n_scales, 0.5, np.float16).tobytes(), np.uint8)
    rows = np.stack([np.full(512, 3.0), np.full(512, -3.0), np.tile([3.0, -3.0], 256)]).astype(np.float32)
    if block_type == BlockType.Q8_0:
        blocks[..., 2:] = 0x80  # -128
    expected = reference.matmul(blocks.reshape(16, -1), block_type, rows)
    assert same_bits(native.matmul(blocks.reshape(16, -1), block_type, rows, variant=variant), expected)


@needs_compiled
@pytest.mark.parametrize(("variant", "name"), VARIANTS)
@pytest.mark.parametrize("block_type", BlockType)
def test_a_row_is_the_same_whatever_rows_are_beside_it(block_type: BlockType, variant: int, name: str) -> None:
    packed = native.Packed(random_blocks(block_type, 24, 512), block_type)
    rows = np.random.default_rng(2).normal(size=(40, 512)).astype(np.float32)
    alone = np.concatenate([packed.multiply(rows[i : i + 1], variant=variant) for i in range(len(rows))])
    for count in range(1, 41):
        assert same_bits(packed.multiply(rows[:count], variant=variant), alone[:count]), count
    assert same_bits(packed.multiply(rows, variant=variant, threads=2), alone)


@needs_compiled
@pytest.mark.parametrize("block_type", BlockType)
def test_packing_loses_nothing(block_type: BlockType) -> None:
    blocks = random_blocks(block_type, 35, 512)
    assert (native.Packed(blocks, block_type).unpack() == blocks).all()


@pytest.mark.model
@needs_compiled
def test_real_weights_give_the_same_bits() -> None:
    from pardec_chat.app.downloads.library import Library

    path = Library().resolve("smollm2-135m-instruct-q4_1")
    reader = gguf.GGUFReader(path)
    seen: set[int] = set()
    for tensor in reader.tensors:
        if tensor.tensor_type in seen or tensor.tensor_type not in set(BlockType):
            continue
        seen.add(tensor.tensor_type)
        blocks = np.array(tensor.data[:100])
        rows = np.random.default_rng(3).normal(size=(5, int(tensor.shape[0]))).astype(np.float32)
        block_type = BlockType(tensor.tensor_type)
        expected = reference.matmul(blocks, block_type, rows)
        for variant, _ in VARIANTS:
            assert same_bits(native.matmul(blocks, block_type, rows, variant=variant), expected)
    assert seen == {BlockType.Q4_1, BlockType.Q8_0}


@pytest.mark.parametrize("matmul", [reference.matmul, pytest.param(native.matmul, marks=needs_compiled)])
@pytest.mark.parametrize(
    ("blocks", "rows"),
    [
        ((4, 144), (1, 255)),  # no whole block
        ((4, 143), (1, 256)),  # a truncated row
        ((4, 288), (1, 256)),  # another width
        ((576,), (1, 256)),
        ((4, 144), (256,)),
        ((4, 0), (1, 0)),
    ],
)
def test_shapes_that_do_not_belong_together_are_refused(
    matmul: object, blocks: tuple[int, ...], rows: tuple[int, ...]
) -> None:
    assert callable(matmul)
    with pytest.raises(ValueError, match=r"matrices|blocks of|bytes a row"):
        matmul(np.zeros(blocks, np.uint8), BlockType.Q4_K, np.zeros(rows, np.float32))


def test_without_a_compiled_library_there_is_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "_FOLDER", tmp_path)
    native._library.cache_clear()
    try:
        with pytest.raises(native.Unavailable, match="not compiled"):
            native.variants()
        (tmp_path / "_native.so").write_bytes(b"not a library")
        with pytest.raises(native.Unavailable, match="could not be loaded"):
            native.variants()
    finally:
        native._library.cache_clear()
