"""Own kernels in llama.cpp: rows that do not depend on each other, numbers near ggml's, and a reason where they are not used."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Quantised
from numpy.typing import NDArray

from pardec_chat.backends.base import LoadOptions
from pardec_chat.tests import tiny_models

pytest.importorskip("llama_cpp")

from pardec_chat.backends.llamacpp.accelerator import loading
from pardec_chat.backends.llamacpp.target import LlamaCppTarget

Rows = NDArray[np.float32]

needs_kernels = pytest.mark.skipif(
    not loading.load().usable, reason=f"own kernels cannot be used: {loading.load().reason}"
)

MODELS = {
    "q4_0": ("llama", Quantised.Q4_0, 0),
    "q8_0 with windows": ("gemma3", Quantised.Q8_0, 0),
    "q5_0 with experts": ("llama", Quantised.Q5_0, 4),
    "q4_1": ("llama", Quantised.Q4_1, 0),
    "f16": ("llama", Quantised.F16, 0),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    arch, quantised, experts = MODELS[request.param]
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    return tiny_models.write(path, arch, quantised=quantised, experts=experts)


class Direct:
    """Rows of logits of a target, without slots and samplers between."""

    def __init__(self, path: Path, kernels: str = "auto", slots: int = 1) -> None:
        self.target = LlamaCppTarget(
            LoadOptions(
                path,
                n_ctx=1024,
                slots=slots,
                threads=2,
                kernels="stock" if kernels == "stock" else "auto",
            )
        )
        self.context = self.target.context

    def read(self, ids: list[int], start: int = 0, sequence: int = 0) -> None:
        for at in range(0, len(ids), 100):
            self.context.batch.clear()
            self.context.batch.extend(ids[at : at + 100], start + at, sequence, wanted=False)
            self.context.decode()

    def rows(self, *parts: tuple[list[int], int, int]) -> Rows:
        """Logits of (ids, position, sequence) in one pass."""
        self.context.batch.clear()
        for ids, start, sequence in parts:
            self.context.batch.extend(ids, start, sequence, wanted=True)
        self.context.decode()
        return self.context.rows()[: sum(len(ids) for ids, _, _ in parts)].copy()

    def forget(self, start: int, sequence: int = 0) -> None:
        self.context.remove(sequence, start)


@pytest.fixture
def closing() -> Iterator[list[Direct]]:
    made: list[Direct] = []
    yield made
    for one in made:
        one.target.close()


def ids(n: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(10, len(tiny_models.VOCABULARY), n)]


def same_bits(a: Rows, b: Rows) -> bool:
    return a.shape == b.shape and bool((a.view(np.int32) == b.view(np.int32)).all())


@needs_kernels
@pytest.mark.parametrize("n_read", [30, 600])
def test_a_block_has_the_logits_of_single_steps_to_the_bit(model: Path, closing: list[Direct], n_read: int) -> None:
    one = Direct(model)
    closing.append(one)
    text = ids(n_read + 33)
    one.read(text[:n_read])
    single = np.concatenate([one.rows(([text[i]], i, 0)) for i in range(n_read, n_read + 33)])
    assert len({row.tobytes() for row in single}) == 33
    for count in (2, 3, 5, 8, 13, 16, 17, 32, 33):
        one.forget(n_read)
        assert same_bits(one.rows((text[n_read : n_read + count], n_read, 0)), single[:count]), count


@needs_kernels
def test_slots_do_not_touch_each_other_whatever_cells_they_have(model: Path, closing: list[Direct]) -> None:
    """Steps of three conversations in turn mix their cells; a block of each does not."""
    several = Direct(model, slots=3)
    closing.append(several)
    texts = [ids(40 + 10 * i, seed=i) for i in range(3)]
    for sequence, text in enumerate(texts):
        several.read(text[:-8], sequence=sequence)
    steps = [several.rows(*[([text[i - 8]], len(text) + i - 8, s) for s, text in enumerate(texts)]) for i in range(8)]
    for sequence, text in enumerate(texts):
        several.forget(len(text) - 8, sequence)
    blocks = several.rows(*[(text[-8:], len(text) - 8, s) for s, text in enumerate(texts)])
    for sequence in range(3):
        expected = np.stack([step[sequence] for step in steps])
        assert same_bits(blocks[8 * sequence : 8 * sequence + 8], expected)
    alone = Direct(model)
    closing.append(alone)
    alone.read(texts[1][:-8])
    assert same_bits(alone.rows((texts[1][-8:], len(texts[1]) - 8, 0)), blocks[8:16])


@needs_kernels
def test_the_numbers_are_those_of_llama_cpp(model: Path, closing: list[Direct]) -> None:
    """Two ways of computing the same: they differ by rounding, and a fault would differ by far more."""
    own, stock = Direct(model), Direct(model, "stock")
    closing += [own, stock]
    text = ids(200)
    for one in (own, stock):
        one.read(text[:180])
    a, b = own.rows((text[180:], 180, 0)), stock.rows((text[180:], 180, 0))
    # Random weights amplify rounding: 8-bit activations alone cost a percent or two.
    assert np.linalg.norm(a - b) < 0.06 * np.linalg.norm(b)


@needs_kernels
def test_models_on_own_and_on_stock_kernels_live_side_by_side(model: Path, closing: list[Direct]) -> None:
    text = ids(60)
    own, stock = Direct(model), Direct(model, "stock")
    closing += [own, stock]
    assert (own.target.kernels.own, stock.target.kernels.own) == (True, False)
    assert stock.target.kernels.reason == "own kernels are switched off"
    first = []
    for one in (own, stock):
        one.read(text[:50])
        first.append(one.rows((text[50:], 50, 0)))
    for one, expected in zip((own, stock), first, strict=True):
        one.forget(50)
        again = one.rows((text[50:], 50, 0))
        assert same_bits(again, expected)
    assert "CPU_TILES" not in stock.target.placed


@needs_kernels
@pytest.mark.parametrize("arch", ["mamba", "jamba"])
def test_what_the_kernels_do_not_know_stays_with_llama_cpp(arch: str, tmp_path: Path, closing: list[Direct]) -> None:
    path = tiny_models.write(tmp_path / "x.gguf", arch, quantised=Quantised.Q8_0)
    own, stock = Direct(path), Direct(path, "stock")
    closing += [own, stock]
    text = ids(40)
    a, b = own.rows((text[:20], 0, 0)), stock.rows((text[:20], 0, 0))
    assert np.linalg.norm(a - b) < 0.06 * np.linalg.norm(b)


# Reasons


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty folder in place of the installed one; what is loaded already stays as it is."""
    monkeypatch.setattr(loading, "_FOLDER", tmp_path)
    return tmp_path


def test_without_a_compiled_plug_in(fresh: Path) -> None:
    assert "not compiled" in loading._load().reason


def test_a_library_that_does_not_load(fresh: Path) -> None:
    (fresh / "_plugin.so").write_bytes(b"\x7fELF and nothing else")
    assert "could not be loaded" in loading._load().reason


@needs_kernels
@pytest.mark.parametrize("what", ["version", "slower"])
def test_another_ggml_or_faster_stock_kernels(fresh: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A copy of the plug-in, so that nothing of the loaded one is touched."""
    (installed,) = Path(loading.__file__).parent.glob("_plugin*.so")
    shutil.copy(installed, fresh / "_plugin_copy.so")
    if what == "version":
        monkeypatch.setattr(loading, "_GGML", "0.1.2")
    else:
        monkeypatch.setattr(loading, "_SLOWER_BY", 0.0)
    reason = loading._load().reason
    assert reason.startswith(
        "they were made for ggml 0.1.2" if what == "version" else "llama.cpp's own are faster here"
    )


def test_layers_on_a_gpu_leave_the_kernels_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pardec_chat.backends.llamacpp.build.device_kinds", lambda: frozenset({"cuda"}))
    assert loading.kernels("auto", None).reason == "layers are on a GPU"
    assert loading.kernels("auto", 3).own is False
    assert loading.kernels("auto", 0) == loading.kernels("auto", 0)
