"""What is the pytorch runtime's own: logits as transformers computes them, folders, features, memory."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType as Quantised

pytest.importorskip("torch", reason="the pytorch runtime is not installed")

import torch

from pardec_chat.backends.base import Draft, LoadOptions, Method, NumberType, Runtime
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.errors import BadSetting, LoadGivenUp, ModelUnreadable, OutOfMemory
from pardec_chat.backends.pytorch.runtime import make
from pardec_chat.backends.pytorch.target import PytorchTarget
from pardec_chat.kernels.quant_matmul import native
from pardec_chat.tests import hf_models, tiny_models
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import generate, never
from pardec_chat.tests.hf_models import CONFIGS, VOCABULARY

IDS = [(7 * i * i + 3 * i) % VOCABULARY for i in range(1, 65)]
#: The largest difference of a logit that float32 may make.
CLOSE = 1e-4


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return make()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Folder and transformers' model of each family."""
    found = {}
    for name in CONFIGS:
        folder = tmp_path_factory.mktemp("hf") / name.replace(" ", "-")
        found[name] = (folder, hf_models.write(folder, name, shards=name == "qwen2"))
    return found


@pytest.fixture(params=CONFIGS)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def target(runtime: Runtime, folders: dict[str, tuple[Path, Any]], family: str) -> Iterator[PytorchTarget]:
    loaded = runtime.load(LoadOptions(folders[family][0], n_ctx=128, branches=8, threads=1, dtype="fp32"))
    assert isinstance(loaded, PytorchTarget)
    yield loaded
    loaded.close()


def wanted(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return logits


def rows(target: PytorchTarget, ids: list[int], start: int) -> torch.Tensor:
    block = target.cache.chain(0, start, 0, len(ids))
    positions = torch.arange(start, start + len(ids))
    return target.decoder.forward(torch.tensor(ids), positions, [block], target.cache, torch.arange(len(ids)))[0]


# Logits


def test_logits_of_a_prefill_are_those_of_transformers(
    target: PytorchTarget, folders: dict[str, tuple[Path, Any]], family: str
) -> None:
    right = wanted(folders[family][1], IDS)
    assert right.std() > 0.5, "a model that says something"
    assert (rows(target, IDS, 0) - right).abs().max() < CLOSE


def test_logits_step_by_step_are_those_of_transformers(
    target: PytorchTarget, folders: dict[str, tuple[Path, Any]], family: str
) -> None:
    right = wanted(folders[family][1], IDS)
    found = torch.cat([rows(target, [token], i) for i, token in enumerate(IDS)])
    assert (found - right).abs().max() < CLOSE


def test_logits_of_a_tree_are_those_of_transformers_on_each_path(
    target: PytorchTarget, folders: dict[str, tuple[Path, Any]], family: str
) -> None:
    tree = Draft([11, 12, 13, 14, 15, 16, 17], [-1, -1, 0, 0, 2, 1, 5], Method.DRAFT)
    n = 40
    rows(target, IDS[:n], 0)
    block = target.cache.tree(0, n, 0, tree)
    positions = torch.tensor([n, *(n + depth for depth in (1, 1, 2, 2, 3, 2, 3))])
    found, _ = target.decoder.forward(
        torch.tensor([IDS[n], *tree.tokens]), positions, [block], target.cache, torch.arange(8)
    )
    for node in range(-1, len(tree)):
        path: list[int] = []
        at = node
        while at != -1:
            path.insert(0, tree.tokens[at])
            at = tree.parents[at]
        right = wanted(folders[family][1], [*IDS[: n + 1], *path])[-1]
        assert (found[node + 1] - right).abs().max() < CLOSE
    # The accepted path is moved to the front: what follows it is as if it had been written so.
    target.cache.keep(0, n, [0, 2, 6, 7])
    after = rows(target, [18], n + 4)[0]
    assert (after - wanted(folders[family][1], [*IDS[: n + 1], 12, 16, 17, 18])[-1]).abs().max() < CLOSE


def test_greedy_text_is_that_of_transformers(
    target: PytorchTarget, folders: dict[str, tuple[Path, Any]], family: str
) -> None:
    model = folders[family][1]
    right = model.generate(
        torch.tensor([IDS[:12]]),
        max_new_tokens=20,
        min_new_tokens=20,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=3,
    )[0, 12:].tolist()
    slot = target.open()
    slot.prefill(IDS[:12], never)
    ids: list[int] = []
    for _ in range(20):
        ids.append(int(torch.from_numpy(target._next(slot, [slot.tokens[-1]])).argmax()))
        slot.committed.append(ids[-1])
    slot.close()
    assert ids == right


# Features


def test_D13_features_are_the_hidden_states_of_what_is_committed(
    target: PytorchTarget, folders: dict[str, tuple[Path, Any]], family: str
) -> None:
    from pardec_chat.backends.decoding.params import SamplingParams
    from pardec_chat.backends.decoding.sampler import Sampler

    with torch.no_grad():
        states = folders[family][1](torch.tensor([IDS]), output_hidden_states=True).hidden_states
    assert target.capabilities.features
    target.read_features([1, 0])
    slot = target.open()
    prefill = slot.prefill(IDS[:30], never)
    (first,) = prefill.features
    assert isinstance(first, torch.Tensor)
    right = torch.cat([states[1][0], states[2][0]], dim=-1)
    assert (first - right[:29]).abs().max() < CLOSE
    best = int(wanted(folders[family][1], IDS[:30])[-1].argmax())
    draft = Draft([5, best, 6], [-1, -1, 1], Method.DRAFT)
    (verdict,) = target.verify([(slot, draft, Sampler(SamplingParams(temperature=0), IDS[:30]))])
    assert isinstance(verdict.features, torch.Tensor)
    assert verdict.features.shape[0] == 1 + verdict.n_accepted >= 2
    assert (verdict.features[0] - right[29]).abs().max() < CLOSE
    target.read_features([])
    assert slot.prefill(IDS[:40], never).features == ()


def test_D13_layers_that_there_are_not_are_refused(target: PytorchTarget) -> None:
    with pytest.raises(BadSetting):
        target.read_features([99])


# Folders


def test_a_folder_says_what_it_is_before_it_is_loaded(runtime: Runtime, folders: dict[str, tuple[Path, Any]]) -> None:
    folder, model = folders["qwen2"]
    found = runtime.read_model(folder)
    assert (found.architecture, found.cache, found.is_model, found.shape.layers) == ("qwen2", "full", True, 3)
    assert found.shape.weights == 2 * sum(p.numel() for p in model.parameters())
    assert found.shape.cache_per_token == 3 * 2 * 2 * 8 * 2
    table = found.vocabulary()
    assert len(table.texts) == VOCABULARY
    assert table.special == {0, 1, 2, 3, *range(260, VOCABULARY)}


def test_the_vocabulary_of_a_folder(target: PytorchTarget) -> None:
    vocabulary = target.vocabulary
    assert (vocabulary.bos, vocabulary.eos, vocabulary.begins_with_bos) == ("<s>", "</s>", False)
    assert vocabulary.end_ids == {1, 2}
    for text in ("the cat", "héé 👩‍👩‍👧 한글", "tabs\tand\nlines"):
        ids = vocabulary.encode(text, add_special=True, parse_special=True)
        assert b"".join(vocabulary.piece(i) for i in ids).decode() == text
    assert vocabulary.encode("a</s>", add_special=False, parse_special=True)[1:] == [1]
    assert 1 not in vocabulary.encode("a</s>", add_special=False, parse_special=False)
    assert (vocabulary.piece(1), vocabulary.text(1), vocabulary.piece(319)) == (b"", "</s>", b"")
    assert target.chat_template == "{{ messages[0].content }}"


def test_X04_pickled_weights_are_never_read(
    runtime: Runtime, folders: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    marker = tmp_path / "marker"

    class Payload:
        def __reduce__(self) -> tuple[Any, tuple[Path]]:
            return Path.touch, (marker,)

    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((folders["llama"][0] / name).read_bytes())
    for name in ("pytorch_model.bin", "model.pt", "model.safetensors"):
        (folder / name).write_bytes(pickle.dumps(Payload()))
        with pytest.raises(ModelUnreadable):
            runtime.load(LoadOptions(folder, n_ctx=64))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", None),
        ("config.json", "{"),
        ("config.json", "[]"),
        ("config.json", '{"model_type": "mamba"}'),
        ("config.json", '{"model_type": "llama"}'),
        ("tokenizer.json", None),
        ("tokenizer.json", "{}"),
        ("model.safetensors", None),
        ("model.safetensors", "junk"),
        ("model.safetensors.index.json", "{}"),
    ],
)
def test_U03_a_broken_folder_is_named(
    runtime: Runtime, folders: dict[str, tuple[Path, Any]], tmp_path: Path, name: str, content: str | None
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in folders["llama"][0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(ModelUnreadable) as caught:
        runtime.load(LoadOptions(folder, n_ctx=64))
    assert caught.value.next_step


def test_a_shard_that_is_missing_is_named(
    runtime: Runtime, folders: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in folders["qwen2"][0].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    gone = sorted(set(index["weight_map"].values()))[1]
    (folder / gone).unlink()
    with pytest.raises(ModelUnreadable, match=gone):
        runtime.read_model(folder)


# GGUF files


@pytest.mark.parametrize("arch", ["mamba", "jamba"])
def test_K01_a_running_state_is_refused_at_load(runtime: Runtime, tiny: Tiny, arch: str) -> None:
    with pytest.raises(ModelUnreadable, match=arch) as caught:
        runtime.load(LoadOptions(tiny(arch), n_ctx=64))
    assert "llamacpp" in caught.value.next_step
    with pytest.raises(ModelUnreadable, match=arch):  # before anything is given up for it
        runtime.read_model(tiny(arch))


def test_L06_loading_reports_and_can_be_given_up(runtime: Runtime, tiny: Tiny) -> None:
    told: list[float] = []

    def report(done: float) -> bool:
        told.append(done)
        return len(told) < 2

    with pytest.raises(LoadGivenUp):
        runtime.load(LoadOptions(tiny("llama"), n_ctx=64, progress=report))
    assert told == [1 / 3, 2 / 3]


@pytest.mark.parametrize("wrong", [{"cache_type": "q8_0"}, {"threads": 0}, {"n_ctx": 8}, {"dtype": "fp16"}])
def test_what_it_cannot_do_is_refused(runtime: Runtime, tiny: Tiny, wrong: dict[str, Any]) -> None:
    with pytest.raises(BadSetting):
        runtime.load(LoadOptions(tiny("llama"), **{"n_ctx": 64, **wrong}))


def test_bf16_is_the_default_and_half_as_large(runtime: Runtime, tiny: Tiny) -> None:
    sizes = []
    for dtype in ("auto", "fp32"):
        target = runtime.load(LoadOptions(tiny("llama"), n_ctx=64, dtype=dtype))
        sizes.append(sum(target.placed.values()))
        assert len(generate(target, [1, 20, 30], max_tokens=4).ids) >= 1
        target.close()
    norms = 5 * (64 + 1) * 4  # which a CPU keeps in 32 bits
    assert sizes[1] - norms == 2 * (sizes[0] - norms)


# Memory


@pytest.mark.parametrize("dtype", ["auto", "fp32"])
@pytest.mark.parametrize("name", ["tiny", "llama", "gemma3"])
def test_what_is_planned_is_what_is_held(
    runtime: Runtime, tiny: Tiny, folders: dict[str, tuple[Path, Any]], name: str, dtype: NumberType
) -> None:
    path = tiny("llama") if name == "tiny" else folders[name][0]
    shape = runtime.read_model(path, dtype).shape
    target = runtime.load(LoadOptions(path, n_ctx=64, dtype=dtype))
    assert isinstance(target, PytorchTarget)
    planned = shape.weights + shape.repacked + shape.cache_per_token * target.cache.data.shape[4]
    assert planned == pytest.approx(sum(target.placed.values()), rel=0.03)
    assert not shape.mapped
    target.close()


def test_K03_a_cache_that_does_not_fit_ends_in_a_message(runtime: Runtime, tiny: Tiny) -> None:
    with pytest.raises(OutOfMemory) as caught:
        runtime.load(LoadOptions(tiny("llama"), n_ctx=1 << 44, dtype="fp32"))
    assert "--ctx" in caught.value.next_step
    target = runtime.load(LoadOptions(tiny("llama"), n_ctx=64))
    assert target.capabilities.n_ctx == 64
    target.close()


def test_H02_closing_frees_weights_and_cache(runtime: Runtime, tiny: Tiny) -> None:
    import gc
    import weakref

    target = runtime.load(LoadOptions(tiny("llama"), n_ctx=64))
    assert isinstance(target, PytorchTarget)
    generate(target, [1, 20, 30], max_tokens=4)
    storages = [
        weakref.ref(tensor)
        for tensor in (target.decoder.embedding, target.cache.data, target.decoder.layers[0].attn_norm.gain)
    ]
    target.close()
    target.close()
    gc.collect()
    assert [storage() for storage in storages] == [None] * 3


# A draft model in blocks


def has_kernels() -> bool:
    try:
        return bool(native.variants())
    except native.Unavailable:
        return False


needs_kernels = pytest.mark.skipif(not has_kernels(), reason="the kernels were not compiled")


@pytest.fixture(params=[("llama", Quantised.Q4_0), ("gemma3", Quantised.Q8_0)], ids=["llama", "gemma3"])
def in_blocks(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    arch, quantised = request.param
    return tiny_models.write(tmp_path / "blocks.gguf", arch, quantised=quantised)


def rows_of(runtime: Runtime, path: Path, ids: list[int], **options: Any) -> torch.Tensor:
    """Logits behind each of `ids`."""
    target = runtime.load(LoadOptions(path, n_ctx=64, **options))
    assert isinstance(target, PytorchTarget)
    slot = target.open()
    slot.prefill(ids[:9], never)
    block = target.cache.chain(slot.index, 8, 0, len(ids) - 8)
    logits, _ = target._forward(ids[8:], range(8, len(ids)), [block], range(len(ids) - 8))
    target.close()
    return logits


@needs_kernels
def test_a_draft_model_stays_in_blocks_and_says_nearly_the_same(runtime: Runtime, in_blocks: Path) -> None:
    ids = [(7 * i * i + 3 * i) % 200 + 5 for i in range(24)]
    packed, exact = rows_of(runtime, in_blocks, ids, draft=True), rows_of(runtime, in_blocks, ids, dtype="fp32")
    assert not packed.equal(exact)
    assert (packed - exact).std() < 0.05 * exact.std()


@needs_kernels
def test_a_draft_in_blocks_changes_no_text(runtime: Runtime, in_blocks: Path) -> None:
    target = runtime.load(LoadOptions(in_blocks, n_ctx=64, branches=16, dtype="fp32"))
    plain = generate(target, [1, 20, 30], max_tokens=24).ids
    for tree in (0, 6):
        drafter = DraftModel(runtime.load(LoadOptions(in_blocks, n_ctx=64, draft=True)), tree=tree)
        answer = generate(target, [1, 20, 30], max_tokens=24, drafter=drafter)
        assert answer.ids == plain
        assert answer.generation.stats.draft_n_accepted >= 8
        drafter.close()
    target.close()


@needs_kernels
def test_of_a_draft_in_blocks_too_what_is_planned_is_what_is_held(runtime: Runtime, in_blocks: Path) -> None:
    shape = runtime.read_model(in_blocks, draft=True).shape
    draft = runtime.load(LoadOptions(in_blocks, n_ctx=64, draft=True))
    assert isinstance(draft, PytorchTarget)
    planned = shape.weights + shape.repacked + shape.cache_per_token * draft.cache.data.shape[4]
    assert planned == pytest.approx(sum(draft.placed.values()), rel=0.03)
    draft.close()


@needs_kernels
def test_numbers_that_were_asked_for_are_those_of_a_draft_model(runtime: Runtime, in_blocks: Path) -> None:
    sizes = [runtime.read_model(in_blocks, dtype, draft=True).shape.weights for dtype in ("auto", "bf16", "fp32")]
    assert 2 * sizes[1] == sizes[2] > 3 * sizes[0]
