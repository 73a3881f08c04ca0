"""What a file's header says, without the weights: models, helpers, damage."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf import header
from pardec_chat.backends.gguf.model import parts, read_model
from pardec_chat.tests import tiny_models
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.tiny_models import BOS, EOS, HEAD, HIDDEN, N_CTX, UNUSED, VOCABULARY, WIDTH, WINDOW

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A file with the given metadata and tensors of 64 numbers."""

    def make(arch: str = "llama", tensors: tuple[str, ...] = (), name: str = "x.gguf", **values: object) -> Path:
        writer = gguf.GGUFWriter(tmp_path / name, arch)
        for key, value in values.items():
            key = key.replace("__", ".").replace("ARCH", arch)
            if isinstance(value, str):
                writer.add_string(key, value)
            elif isinstance(value, int):
                writer.add_uint32(key, value)
            else:
                writer.add_array(key, value)
        for tensor in tensors:
            writer.add_tensor(tensor, np.zeros((8, 8), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return tmp_path / name

    return make


def test_a_model_is_described_from_its_header(tiny: Tiny) -> None:
    file = read_model(tiny("llama"))
    assert (file.kind, file.architecture, file.name) == ("model", "llama", "tiny llama")
    assert (file.size, file.cache, file.width) == (tiny("llama").stat().st_size, "full", WIDTH)
    shape = file.shape
    assert (shape.layers, shape.context, shape.vocabulary) == (2, N_CTX, len(VOCABULARY))
    # Two layers, two of four heads, keys and values, two bytes each.
    assert shape.cache_per_token == 2 * 2 * HEAD * 2 * 2
    assert (shape.window, shape.window_per_token, shape.state, shape.repacked) == (0, 0, 0, 0)
    assert (shape.head, shape.width) == (HEAD, HIDDEN)
    numbers = 2 * len(VOCABULARY) * WIDTH + WIDTH  # embeddings, output, last norm
    numbers += 2 * (2 * WIDTH + 3 * WIDTH * WIDTH + 3 * HIDDEN * WIDTH)
    assert shape.weights == numbers * 4


def test_the_vocabulary_is_that_of_the_file(tiny: Tiny) -> None:
    table = read_model(tiny("llama")).vocabulary()
    assert list(table.texts) == [text.encode() for text in VOCABULARY.texts]
    assert {0, BOS, EOS, UNUSED} <= table.special
    assert not table.special & set(range(6, 262))


@pytest.mark.parametrize(
    ("arch", "cache"), [("gemma3", "sliding window"), ("mamba", "recurrent"), ("jamba", "hybrid"), ("llama", "full")]
)
def test_K01_the_kind_of_cache(tiny: Tiny, arch: str, cache: str) -> None:
    file = read_model(tiny(arch))
    assert file.cache == cache
    whole = 2 * HEAD * 2 * 2  # of one layer of attention
    shape = file.shape
    if arch == "gemma3":  # one in six sees everything: of two layers none
        assert (shape.window, shape.cache_per_token, shape.window_per_token) == (WINDOW, 0, 2 * whole)
    elif arch == "mamba":
        assert shape.cache_per_token == 0
        inner, state, kernel = tiny_models.INNER, tiny_models.STATE, tiny_models.KERNEL
        assert shape.state == 2 * 4 * (inner * state + (kernel - 1) * inner)
    elif arch == "jamba":
        assert shape.cache_per_token == whole


def test_a_window_of_an_architecture_that_is_not_known_is_planned_as_if_there_were_none(write: Write) -> None:
    path = write(
        "newcomer",
        ("blk.0.attn_k.weight",),
        ARCH__block_count=1,
        ARCH__embedding_length=8,
        ARCH__attention__head_count=2,
        ARCH__attention__sliding_window=16,
    )
    shape = read_model(path).shape
    assert (shape.cache_per_token, shape.window) == (2 * 8 * 2, 0)


@pytest.mark.parametrize(
    ("arch", "values", "tensors", "kind"),
    [
        ("clip", {"general__type": "mmproj"}, ("v.patch",), "vision projector"),
        ("clip", {}, ("v.patch",), "vision projector"),
        ("llama", {"general__type": "adapter"}, ("blk.0.attn_q.weight.lora_a",), "adapter"),
        ("llama", {"general__type": "imatrix"}, ("blk.0.x",), "importance matrix"),
        ("llama", {}, (), "vocabulary"),
        ("eagle3", {"ARCH__block_count": 1}, ("blk.0.attn_q.weight",), "draft head"),
        ("dflash", {"ARCH__block_count": 5}, ("blk.0.attn_q.weight",), "draft head"),
        ("gemma4-assistant", {"ARCH__block_count": 4}, ("blk.0.attn_q.weight",), "draft head"),
        ("qwen35", {"ARCH__block_count": 33, "ARCH__nextn_predict_layers": 1}, ("blk.32.nextn.eh_proj",), "draft head"),
        ("llama", {"ARCH__block_count": 1}, ("blk.0.attn_q.weight",), "model"),
    ],
)
def test_L08_helpers_are_known_for_what_they_are(
    write: Write, arch: str, values: dict[str, object], tensors: tuple[str, ...], kind: str
) -> None:
    assert read_model(write(arch, tensors, **values)).kind == kind


@pytest.mark.parametrize(
    ("tensors", "present"),
    [
        (("blk.0.attn_q.weight", "blk.1.nextn.eh_proj.weight"), 1),
        (("blk.0.attn_q.weight",), 0),
        (("blk.0.attn_q.weight", "blk.1.attn_q.weight"), 0),
    ],
)
def test_D18_promised_prediction_layers_are_counted_among_the_tensors(
    write: Write, tensors: tuple[str, ...], present: int
) -> None:
    file = read_model(write("qwen35", tensors, ARCH__block_count=2, ARCH__nextn_predict_layers=1))
    assert (file.kind, file.mtp_promised, file.mtp_present, file.shape.layers) == ("model", 1, present, 1)


def test_L08_a_changed_file_is_read_anew(write: Write) -> None:
    path = write("llama", ("blk.0.x",), ARCH__block_count=1, general__name="before")
    assert read_model(path).name == "before"
    write("llama", ("blk.0.x",), ARCH__block_count=1, general__name="after")
    assert read_model(path).name == "after"


def test_a_split_model_is_one(write: Write) -> None:
    for n in (1, 2):
        write("llama", (f"blk.{n - 1}.x",), f"m-{n:05}-of-00002.gguf", ARCH__block_count=2, general__name=f"part {n}")
    folder = write("llama", (), "other.gguf").parent
    first = folder / "m-00001-of-00002.gguf"
    assert [part.name for part in parts(first)] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    file = read_model(first)
    assert file.size == sum(part.stat().st_size for part in parts(first))
    assert (file.name, file.shape.weights) == ("part 1", 2 * 64 * 4)
    (folder / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ModelUnreadable, match=r"m-00002-of-00002\.gguf is missing"):
        read_model(first)


def test_repacked_weights_are_those_that_the_kernels_take(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    block = np.zeros((16, 18 * 2), np.uint8)  # 16 rows of 64 numbers in Q4_0
    odd = np.zeros((15, 18 * 2), np.uint8)
    for name, data in (("token_embd.weight", block), ("blk.0.attn_q.weight", block), ("blk.0.odd.weight", odd)):
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    shape = read_model(tmp_path / "x.gguf").shape
    assert shape.repacked == 16 * 18 * 2
    assert shape.tied == 16 * 18 * 2  # there is no output of its own


def test_a_cut_off_file_is_named_with_both_sizes(write: Write) -> None:
    path = write("llama", ("blk.0.x", "blk.1.x"), ARCH__block_count=2)
    whole = path.stat().st_size
    os.truncate(path, whole - 100)
    with pytest.raises(ModelUnreadable, match=f"is cut off: it has {whole - 100:,} bytes") as caught:
        read_model(path)
    assert "again" in caught.value.next_step


@pytest.mark.parametrize("seed", range(8))
def test_damage_anywhere_in_the_header_is_an_error_or_harmless(tiny: Tiny, tmp_path: Path, seed: int) -> None:
    """No crash, no endless reading, no other exception, whatever the bytes say."""
    rng = np.random.default_rng(seed)
    raw = tiny("llama").read_bytes()
    path = tmp_path / "x.gguf"
    for _ in range(60):
        changed = bytearray(raw)
        for at in rng.integers(4, 9000, rng.integers(1, 6)):
            changed[at] = rng.integers(256)
        path.write_bytes(bytes(changed[: len(changed) if rng.random() < 0.7 else int(rng.integers(4, 9000))]))
        try:
            read_model(path).vocabulary()
        except ModelUnreadable as error:
            assert "\n" not in str(error)


def test_counts_that_no_file_can_hold(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60))
    with pytest.raises(ModelUnreadable, match="damaged"):
        header.read(path)


def test_little_of_a_large_file_is_read(write: Write) -> None:
    """The weights are behind the header and are not touched: here they are a hole of 20 GB."""
    path = write("llama", ("blk.0.x",), ARCH__block_count=1)
    os.truncate(path, 20 * 10**9)
    before = _bytes_read()
    assert read_model(path).size == 20 * 10**9
    assert _bytes_read() - before < 1 << 20


def _bytes_read() -> int:
    (line,) = [line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")]
    return int(line.split()[1])
