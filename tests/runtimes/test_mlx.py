"""What is the mlx runtime's own: mlx-lm's architectures in folders, their caches taken back, plain decoding that runs ahead."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

pytest.importorskip("mlx_lm", reason="the mlx runtime is not installed")

import mlx.core as mx
from mlx_lm import utils as mlx_lm
from mlx_lm.models.cache import make_prompt_cache

from pardec_chat.backends.base import Draft, Drafter, LoadOptions, Method, Runtime
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.lookahead import Lookahead, branches
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.errors import BadSetting, LoadGivenUp, ModelUnreadable, OutOfMemory
from pardec_chat.backends.gguf.header import Header, Tensor
from pardec_chat.backends.machine import Device, Machine
from pardec_chat.backends.mlx import attention, device
from pardec_chat.backends.mlx import passes as passes_module
from pardec_chat.backends.mlx.branches import behind_last
from pardec_chat.backends.mlx.memory import Memory, forward
from pardec_chat.backends.mlx.packed import check
from pardec_chat.backends.mlx.rows import SLACK, Rows
from pardec_chat.backends.mlx.runtime import make
from pardec_chat.backends.mlx.slot import Chosen
from pardec_chat.backends.mlx.target import MlxTarget
from pardec_chat.tests import mlx_models, tiny_models
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import Fixed, begin, generate, never
from pardec_chat.tests.enumeration import distance
from pardec_chat.tests.mlx_models import CONFIGS
from pardec_chat.tests.tiny_models import EOS, TURN, VOCABULARY, WIDTH, WINDOW
from pardec_chat.tests.unit.test_lossless import PROMPT as LAW_PROMPT
from pardec_chat.tests.unit.test_lossless import text_law

Folders = Callable[..., Path]
LoadFolder = Callable[..., MlxTarget]

#: Greedy, without the end tokens that random weights would say at random.
ON = SamplingParams(temperature=0, logit_bias={EOS: -100.0, TURN: -100.0})
PROMPT = [1, 20, 30, 40, 20, 30, 41, 20, 30, 42]
N = 40
#: Architectures that the contract suite has not.
OWN = ["qwen2", "qwen3", "qwen3_5"]


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return make()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Folders by architecture and seed, each written once."""
    root = tmp_path_factory.mktemp("mlx")
    known: dict[tuple[str, int, int], Path] = {}

    def path(arch: str, seed: int = 0, bits: int = 0) -> Path:
        key = (arch, seed, bits)
        if key not in known:
            known[key] = mlx_models.write(root / f"{arch}-{seed}-{bits}", arch, seed, bits=bits)
        return known[key]

    return path


@pytest.fixture
def load(runtime: Runtime, folders: Folders) -> Iterator[LoadFolder]:
    targets: list[MlxTarget] = []

    def make_one(arch: str, seed: int = 0, bits: int = 0, **options: Any) -> MlxTarget:
        loaded = runtime.load(LoadOptions(folders(arch, seed, bits), **{"n_ctx": 512, **options}))
        assert isinstance(loaded, MlxTarget)
        targets.append(loaded)
        return loaded

    yield make_one
    for target in targets:
        target.close()


@pytest.fixture(params=CONFIGS)
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def of_mlx_lm(folder: Path, n: int, prompt: list[int] = PROMPT) -> list[int]:
    """What mlx-lm itself says, one token at a time with its own caches."""
    model, _ = mlx_lm.load_model(folder)
    cache = make_prompt_cache(model)
    ids = list(prompt)
    fresh = ids
    while len(ids) < len(prompt) + n:
        row = np.array(model(mx.array([fresh]), cache=cache)[0, -1])
        row[[EOS, TURN]] = -np.inf
        fresh = [int(row.argmax())]
        ids += fresh
    return ids[len(prompt) :]


def wrong_at(ids: list[int], every: int) -> list[int]:
    return [5 + (token + 1) % 100 if i % every == every - 1 else token for i, token in enumerate(ids)]


def plain(target: MlxTarget, prompt: list[int] = PROMPT, n: int = N) -> list[int]:
    return generate(target, prompt, params=ON, max_tokens=n).ids


# The text of mlx-lm, whoever guesses


def test_D02_plain_text_is_that_of_mlx_lm(load: LoadFolder, folders: Folders, arch: str) -> None:
    wanted = of_mlx_lm(folders(arch), 60)
    assert len(set(wanted)) > 15, "a model that says something"
    assert plain(load(arch), n=60) == wanted


@pytest.mark.parametrize("arch", OWN)
@pytest.mark.parametrize("depth", [2, 8])
def test_D02_every_drafter_gives_the_text_of_plain_decoding(load: LoadFolder, arch: str, depth: int) -> None:
    target = load(arch)
    wanted = plain(target)
    same = DraftModel(load(arch, draft=True))
    found = generate(target, PROMPT, params=ON, max_tokens=N, depth=depth, drafter=same)
    assert (found.ids, found.generation.stats.acceptance_rate) == (wanted, 1.0)
    other = DraftModel(load(arch, 1, draft=True))
    assert generate(target, PROMPT, params=ON, max_tokens=N, depth=depth, drafter=other).ids == wanted
    for every in range(1, depth + 2):
        drafter = Fixed(PROMPT + wrong_at(wanted, every))
        assert generate(target, PROMPT, params=ON, max_tokens=N, depth=depth, drafter=drafter).ids == wanted
    prompt = [*PROMPT, *wanted, *PROMPT]
    copied = generate(target, prompt, params=ON, max_tokens=N, depth=depth, drafter=Ngram(min_match=1))
    assert copied.ids == plain(target, prompt)
    assert copied.generation.stats.draft_n > 0


@pytest.mark.parametrize("arch", ["gemma3", "qwen3_5"])
@pytest.mark.parametrize("depth", [1, 5])
def test_D01_a_text_far_longer_than_the_window(load: LoadFolder, folders: Folders, arch: str, depth: int) -> None:
    prompt = [1, *(5 + (i * i) % 250 for i in range(219))]
    n = 60  # the buffer is full at 256 rows
    wanted = of_mlx_lm(folders(arch), n, prompt)
    target = load(arch)
    for drafter in (Fixed(prompt + wrong_at(wanted, 3)), DraftModel(load(arch, 1, draft=True))):
        slot = target.open()
        answer = generate(target, prompt, params=ON, max_tokens=n, depth=depth, drafter=drafter, slot=slot)
        assert answer.ids == wanted
        assert slot.memory.n_visible <= WINDOW - 1
        slot.close()


@pytest.mark.parametrize("arch", OWN)
def test_D15_a_draft_model_catches_up_after_a_rejection_and_a_pause(load: LoadFolder, arch: str) -> None:
    target, draft = load(arch), load(arch, draft=True)
    wanted = plain(target, n=60)
    slot, own = target.open(), draft.open()
    slot.prefill(PROMPT, never)
    sampler = Sampler(ON, PROMPT)
    (verdict,) = target.verify([(slot, Draft.chain(wrong_at(wanted[:4], 2), Method.DRAFT), sampler)])
    assert list(verdict.tokens) == wanted[:2]
    draft.propose(own, PROMPT, 8, sampler)
    for _ in range(30):
        target.verify([(slot, Draft.chain((), Method.PLAIN), sampler)])
    assert list(slot.tokens) == PROMPT + wanted[:32]
    for _ in range(3):
        at = len(slot.tokens) - len(PROMPT)
        guessed = draft.propose(own, slot.tokens, 4, sampler)
        assert list(guessed.tokens) == wanted[at : at + 4]
        (verdict,) = target.verify([(slot, guessed, sampler)])
        assert verdict.n_accepted == 4


@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_folders_say_what_mlx_lm_says(load: LoadFolder, folders: Folders, bits: int) -> None:
    wanted = of_mlx_lm(folders("llama", 0, bits), N)
    target = load("llama", 0, bits)
    assert plain(target) == wanted
    drafter = Fixed(PROMPT + wrong_at(wanted, 3))
    assert generate(target, PROMPT, params=ON, max_tokens=N, drafter=drafter).ids == wanted


# The law of a text


@pytest.mark.parametrize("way", ["plain", "draft", "tree", "ngram"])
def test_D08_the_law_at_temperature_08_is_the_models(runtime: Runtime, tmp_path: Path, way: str) -> None:
    size, n = 3, 2 if way == "draft" else 3
    paths = [
        mlx_models.write(tmp_path / str(seed), "llama", seed, vocab_size=size, num_hidden_layers=1, eos_token_id=2)
        for seed in (0, 1)
    ]
    target, draft = (runtime.load(LoadOptions(path, n_ctx=32, branches=8, slots=2)) for path in paths)
    for one in (target, draft):
        one.vocabulary.end_ids = frozenset()
    model, _ = mlx_lm.load_model(paths[0])
    wanted: dict[tuple[int, ...], float] = {}
    for text in itertools.product(range(size), repeat=n):
        rows = np.array(model(mx.array([[*LAW_PROMPT, *text]]))[0, len(LAW_PROMPT) - 1 : -1], np.float64) / 0.8
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
        rows /= rows.sum(axis=1, keepdims=True)
        wanted[text] = float(np.prod(rows[range(n), text]))
    make_drafter = {
        "plain": None,
        "draft": lambda: DraftModel(draft),
        "tree": lambda: DraftModel(draft, tree=4),
        "ngram": lambda: Ngram(1),
    }[way]
    settings = SamplingParams(temperature=0.8, top_k=0, top_p=1.0, min_p=0.0)
    found = text_law(target, settings, n, make_drafter)
    assert distance(found, wanted) < 1e-5
    assert max(wanted.values()) < 0.7, "a law that a guess cannot be mistaken for"
    target.close()
    draft.close()


# Memory


def test_K01_what_can_be_taken_back_is_known_at_load(load: LoadFolder, arch: str) -> None:
    stateful = arch in ("qwen3_5", "jamba", "mamba")
    assert load(arch).capabilities.rewind == ("snapshot" if stateful else "trim")


def test_K01_a_cache_of_an_unknown_kind_decodes_plainly_and_refuses_drafts(
    load: LoadFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlx_lm.models.cache import ConcatenateKVCache, KVCache

    wanted = plain(load("llama"))
    monkeypatch.setattr(
        "pardec_chat.backends.mlx.memory.make_prompt_cache", lambda model: [KVCache(), ConcatenateKVCache()]
    )
    target = load("llama")
    assert target.capabilities.rewind == "none"
    slot = target.open()
    assert generate(target, PROMPT, params=ON, max_tokens=10, slot=slot).ids == wanted[:10]
    slot.rewind(len(PROMPT) + 4)
    assert generate(target, list(slot.tokens), params=ON, max_tokens=10, slot=slot).ids == wanted[4:14]
    with pytest.raises(BadSetting):
        target.verify([(slot, Draft.chain([5], Method.DRAFT), Sampler(ON, PROMPT))])


@pytest.mark.parametrize("arch", OWN)
def test_K05_rewinding_anywhere_gives_the_same_text_again(load: LoadFolder, arch: str) -> None:
    target = load(arch)
    wanted = plain(target, n=90)
    slot = target.open()
    generate(target, PROMPT, params=ON, max_tokens=90, slot=slot, drafter=Fixed(PROMPT + wrong_at(wanted, 4)))
    for length in (80, 79, 30, 3, 0):
        slot.rewind(len(PROMPT) + length)
        slot.rewind(len(PROMPT) + length)
        assert list(slot.tokens) == PROMPT + wanted[:length]
        again = generate(target, list(slot.tokens), params=ON, max_tokens=90 - length, slot=slot)
        assert again.ids == wanted[length:]


def test_D01_a_window_gives_what_the_last_tokens_are_and_can_be_taken_back() -> None:
    window = Rows(8)
    rows: list[int] = []

    def add(new: list[int]) -> list[int]:
        array = mx.array(new, mx.float32).reshape(1, 1, -1, 1)
        keys, values = window.update_and_fetch(array, array + 0.5)
        assert (values - keys).tolist() == mx.full(keys.shape, 0.5).tolist()
        return [int(value) for value in keys.reshape(-1).tolist()]

    for i in range(700):
        if i % 7 == 3:
            new = [1000 + j for j in range(5)]
            assert add(new) == rows[-7:] + new
            assert window.can_trim(5)
            window.trim(5)
        rows.append(i)
        assert add([i]) == rows[-8:]
        assert window.size() == min(i + 1, 7)
        assert window.keys.shape[2] == 256
    assert window.can_trim(SLACK)
    assert not window.can_trim(500)


def test_masks_of_a_window_are_those_of_its_rows() -> None:
    window = Rows(6)
    window.update_and_fetch(mx.zeros((1, 1, 9, 1)), mx.zeros((1, 1, 9, 1)))
    mask = np.array(window.make_mask(3))
    assert mask.shape == (3, 8)
    for row in range(3):
        assert [i for i in range(8) if mask[row, i]] == list(range(row, row + 6))
    assert window.make_mask(1) is None
    assert window.make_mask(1, window_size=4).tolist() == [False] * 2 + [True] * 4
    assert Rows(6).make_mask(3) == "causal"


def test_H02_closing_frees_weights_and_caches(load: LoadFolder) -> None:
    target = load("llama")
    slot = target.open()
    before = mx.get_active_memory()
    generate(target, PROMPT, params=ON, max_tokens=4, slot=slot)
    target.close()
    target.close()
    slot.close()
    assert before - mx.get_active_memory() >= sum(target.placed.values())
    assert target.peak >= sum(target.placed.values())


def test_M04_a_pass_that_finds_no_memory_leaves_the_conversation_as_it_was(
    load: LoadFolder, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = load(arch)
    wanted = plain(target)
    slot = target.open()
    head = generate(target, PROMPT, params=ON, max_tokens=10, slot=slot).ids
    compute = mx.eval

    def fail(*arrays: Any) -> None:
        raise RuntimeError("[malloc] Unable to allocate 1 bytes.")

    monkeypatch.setattr(mx, "eval", fail)
    with pytest.raises(OutOfMemory):
        target.verify([(slot, Draft.chain(wrong_at(wanted[10:14], 2), Method.DRAFT), Sampler(ON, PROMPT))])
    monkeypatch.setattr(mx, "eval", compute)
    assert list(slot.tokens) == PROMPT + head
    assert generate(target, list(slot.tokens), params=ON, max_tokens=N - 10, slot=slot).ids == wanted[10:]


def test_M04_a_plan_for_metal_stays_below_what_the_system_lets_it_keep(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, other = Device("M4 Max", "metal", 48, 40, shared=True), Device("RTX 4090", "cuda", 24, 24)
    here = Machine("", "", 1, (), 64, 60, (gpu, other))
    monkeypatch.setattr(device, "on_metal", lambda: False)
    assert runtime.usable(here).devices == ()
    monkeypatch.setattr(device, "on_metal", lambda: True)
    monkeypatch.setattr(device, "wired_limit", lambda: 36)
    assert runtime.usable(here).devices == (Device("M4 Max", "metal", 36, 36, shared=True),)


# Plain decoding that runs ahead


@pytest.mark.parametrize("arch", ["llama", "gemma3", "qwen3_5", "mamba"])
def test_a_pass_that_was_begun_ahead_is_used_or_undone(load: LoadFolder, folders: Folders, arch: str) -> None:
    bare = SamplingParams(temperature=0)
    target = load(arch)
    target.vocabulary.end_ids = frozenset()
    wanted = generate(target, PROMPT, params=bare, max_tokens=60).ids
    slow = SamplingParams(temperature=0, repeat_penalty=1.0 + 1e-12)  # nothing runs ahead of a penalty
    assert generate(target, PROMPT, params=slow, max_tokens=60).ids == wanted
    for draft in ([], wanted[20:23], [wanted[20], 7, 7], [7]):
        slot = target.open()
        head = generate(target, PROMPT, params=bare, max_tokens=20, slot=slot).ids
        assert head == wanted[:20]
        assert slot.ahead is not None
        sampler = Sampler(bare, PROMPT)
        target.verify([(slot, Draft.chain(draft, Method.DRAFT), sampler)])
        at = len(slot.tokens) - len(PROMPT)
        assert list(slot.tokens) == PROMPT + wanted[:at]
        assert generate(target, list(slot.tokens), params=bare, max_tokens=60 - at, slot=slot).ids == wanted[at:]
        twin_at = len(PROMPT) + 30
        slot.rewind(twin_at)
        assert generate(target, list(slot.tokens), params=bare, max_tokens=30, slot=slot).ids == wanted[30:]
        slot.close()


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_D03_best_ids_found_on_the_device_are_those_of_the_rows(load: LoadFolder, arch: str) -> None:
    bare = SamplingParams(temperature=0)
    slow = SamplingParams(temperature=0, repeat_penalty=1.0 + 1e-12)  # a penalty is counted on the host
    target = load(arch, branches=branches(5, 5))
    target.vocabulary.end_ids = frozenset()
    prompt = PROMPT + generate(target, PROMPT, params=slow, max_tokens=30).ids + PROMPT
    found = [
        generate(target, prompt, params=params, max_tokens=30, drafter=Lookahead(window=5, ngram=4, candidates=5))
        for params in (slow, bare)
    ]
    assert found[0].ids == found[1].ids == generate(target, prompt, params=slow, max_tokens=30).ids
    assert found[1].generation.stats.draft_n_accepted > 0
    assert [one.tokens for one in found[0].steps] == [one.tokens for one in found[1].steps]


# Drafts that are on their way


def test_a_pass_is_begun_before_the_tokens_of_its_draft_are_known(load: LoadFolder) -> None:
    bare = SamplingParams(temperature=0)
    target, guesses = load("llama"), load("llama", draft=True)
    wanted = generate(target, PROMPT, params=bare, max_tokens=8).ids
    slot, own, sampler = target.open(), guesses.open(), Sampler(bare, PROMPT)
    slot.prefill(PROMPT, never)
    draft = guesses.propose(own, PROMPT, 4, sampler)
    assert isinstance(draft.tokens, Chosen)
    assert (len(draft), draft.depth, draft.tokens.array is None) == (4, 4, False)
    (verdict,) = target.verify([(slot, draft, sampler)])
    assert (list(verdict.tokens), verdict.n_accepted) == (wanted[:5], 4)
    assert verdict.drafting_ms > 0
    # What goes to other threads are numbers, and the draft model's cells are those of its guesses.
    assert (draft.tokens.array, list(draft.tokens), draft.tokens[1:3]) == (None, wanted[:4], wanted[1:3])
    assert own.cells == PROMPT + wanted[:3]
    # Read before the pass is begun, as another runtime does, they say the same.
    again = guesses.propose(own, list(slot.tokens), 3, sampler)
    assert list(again.tokens) == wanted[5:8]
    (verdict,) = target.verify([(slot, again, sampler)])
    assert verdict.n_accepted == 3


@pytest.mark.parametrize("arch", ["gemma3", "qwen3_5"])
def test_D05_a_text_ends_where_it_ends_though_a_draft_goes_on(load: LoadFolder, arch: str) -> None:
    bare = SamplingParams(temperature=0)
    target, guesses = load(arch), load(arch, draft=True)
    target.vocabulary.end_ids = frozenset()
    wanted = generate(target, PROMPT, params=bare, max_tokens=30).ids
    end = next(token for token in wanted[8:] if token not in wanted[:8])
    at = wanted.index(end)
    target.vocabulary.end_ids = frozenset({end})
    for depth in range(1, 6):
        slot, drafter = target.open(), DraftModel(guesses)
        found = generate(target, PROMPT, params=bare, depth=depth, drafter=drafter, slot=slot)
        assert (found.ids, found.generation.finish_reason) == (wanted[: at + 1], "stop")
        assert found.generation.stats.draft_n_accepted > 0
        drafter.close()
        # What was evaluated behind the end is gone.
        target.vocabulary.end_ids = frozenset()
        rest = generate(target, list(slot.tokens), params=bare, max_tokens=30 - at - 1, slot=slot).ids
        assert rest == wanted[at + 1 :]
        target.vocabulary.end_ids = frozenset({end})
        slot.close()


def test_M04_a_draft_that_finds_no_memory_leaves_its_model_as_it_was(
    load: LoadFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = Sampler(SamplingParams(temperature=0), PROMPT)
    guesses = load("llama", draft=True)
    own = guesses.open()
    wanted = list(guesses.propose(own, PROMPT, 6, bare).tokens)
    calls = 0

    def fail(*arrays: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise RuntimeError("[malloc] Unable to allocate 1 bytes.")

    with monkeypatch.context() as broken:
        broken.setattr(passes_module, "begin", fail)
        with pytest.raises(OutOfMemory):
            guesses.propose(own, [*PROMPT, *wanted[:2]], 4, bare)
    assert list(guesses.propose(own, [*PROMPT, *wanted[:2]], 4, bare).tokens) == wanted[2:]


# Several conversations in one pass


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[MlxTarget], list[int]]:
    """Rows of each pass that a model goes through from now on."""

    def count(target: MlxTarget) -> list[int]:
        found: list[int] = []
        kind = type(target.model)
        own = kind.__call__

        def counted(model: Any, ids: Any, cache: Any) -> Any:
            if model is target.model:
                found.append(ids.shape[1])
            return own(model, ids, cache=cache)

        monkeypatch.setattr(kind, "__call__", counted)
        return found

    return count


@pytest.mark.parametrize("arch", ["llama", "gemma3", "qwen2", "qwen3"])
def test_rows_of_several_conversations_are_those_of_each_alone(load: LoadFolder, arch: str) -> None:
    model = load(arch, branches=8).model
    bushy = behind_last((-1, -1, 0, 0, 1, 4), with_last=True)
    # Windows that are not full, full with this pass, long full, and a buffer that is full with this pass.
    shapes = [(3, 1, None), (14, 4, None), (40, len(bushy.sees), bushy), (0, 6, None), (254, 3, None), (90, 1, None)]
    alone, shared = [], []
    for i, (length, n, shape) in enumerate(shapes):
        memory = Memory(model)
        ids = [5 + (i + j * j) % 250 for j in range(length + n)]
        if length:
            memory.forward(mx.array([ids[:length]], mx.int32))
        twin = memory.copy()
        new = mx.array([ids[length:]], mx.int32)
        alone.append((memory, new, shape))
        shared.append((twin, new, shape))
    rows = [np.array(memory.forward(new, shape)) for memory, new, shape in alone]
    together = [np.array(part) for part in forward(shared)]
    for one, other in zip(rows, together, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() < 1e-5 * np.abs(one).max()
    # The caches agree too, and what follows a tree of which a branch was kept.
    alone[2][0].keep(40, [0, 2, 5, 6])
    shared[2][0].keep(40, [0, 2, 5, 6])
    for (memory, _, _), (twin, _, _) in zip(alone, shared, strict=True):
        assert memory.length == twin.length
        one, other = (np.array(each.forward(mx.array([[7]], mx.int32))) for each in (memory, twin))
        assert np.abs(one - other).max() < 1e-5 * np.abs(one).max()


@pytest.mark.parametrize("arch", ["gemma3", "qwen3"])
def test_K05_a_tree_a_chain_probes_and_plain_text_share_a_pass(
    load: LoadFolder, passes: Callable[[MlxTarget], list[int]], arch: str
) -> None:
    target = load(arch, slots=4, branches=40)
    prompts = [PROMPT, [1, 77], [1, *(5 + (i * i) % 250 for i in range(240))], PROMPT * 3]
    alone = [plain(target, prompt) for prompt in prompts]
    guesses = load(arch, draft=True, slots=2, branches=8)
    drafters = [
        DraftModel(guesses, tree=6),
        Fixed(prompts[1] + wrong_at(alone[1], 3)),
        None,
        Lookahead(window=4, ngram=3, candidates=4),
    ]
    together = [
        begin(target, prompt, params=ON, drafter=drafter, depth=4, max_tokens=N)
        for prompt, drafter in zip(prompts, drafters, strict=True)
    ]
    found, steps, controller = passes(target), 0, Controller()
    while live := [one for one in together if one.finish_reason is None]:
        step(target, live, controller)
        steps += 1
    assert [one.token_ids for one in together] == alone
    assert len(found) == steps
    assert max(found) > 20
    assert min(together[i].stats.draft_n_accepted for i in (0, 1)) > 10


@pytest.mark.parametrize("arch", ["gemma3", "qwen3_5"])
def test_K05_plain_answers_run_ahead_together(
    load: LoadFolder, passes: Callable[[MlxTarget], list[int]], arch: str
) -> None:
    bare = SamplingParams(temperature=0)
    target = load(arch, slots=3)
    target.vocabulary.end_ids = frozenset()
    prompts = [PROMPT, [1, 77], [1, *(5 + (i * i) % 250 for i in range(240))]]
    limits = [60, 24, 30]
    alone = [generate(target, prompt, params=bare, max_tokens=60).ids for prompt in prompts]
    first, second = (begin(target, prompts[i], params=bare, max_tokens=limits[i]) for i in (0, 1))
    found, controller = passes(target), Controller()
    for _ in range(12):
        step(target, [first, second], controller)
    assert found == ([2] * 13 if arch != "qwen3_5" else [1] * 26), "a pass more than steps: the one begun ahead"
    third = begin(target, prompts[2], params=bare, max_tokens=limits[2])
    while live := [one for one in (first, second, third) if one.finish_reason is None]:
        step(target, live, controller)
    for one, limit, wanted in zip((first, second, third), limits, alone, strict=True):
        assert one.token_ids == wanted[:limit]
        rest = generate(target, list(one.slot.tokens), params=bare, max_tokens=60 - limit or 1, slot=one.slot)
        assert (one.token_ids + rest.ids)[:60] == wanted


@pytest.mark.parametrize("ahead", [False, True])
def test_M04_a_shared_pass_that_finds_no_memory_leaves_every_conversation_as_it_was(
    load: LoadFolder, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    bare = SamplingParams(temperature=0)
    target = load("llama", slots=2)
    target.vocabulary.end_ids = frozenset()
    prompts = [PROMPT, [1, 77]]
    alone = [generate(target, prompt, params=bare, max_tokens=40).ids for prompt in prompts]
    both = [begin(target, prompt, params=bare, max_tokens=40) for prompt in prompts]
    controller = Controller()
    for _ in range(20 if ahead else 3):
        step(target, both, controller)

    def fail(*arrays: Any) -> None:
        raise RuntimeError("[malloc] Unable to allocate 1 bytes.")

    before = [list(one.slot.tokens) for one in both]
    with monkeypatch.context() as broken:
        broken.setattr(passes_module, "begin", fail)
        broken.setattr(mx, "eval", fail)
        with pytest.raises(OutOfMemory):
            step(target, both, controller)
    assert [list(one.slot.tokens) for one in both] == before
    while both[0].finish_reason is None:
        step(target, both, controller)
    assert [one.token_ids for one in both] == alone


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
@pytest.mark.parametrize("n", [1, 2])
def test_M04_a_pass_that_finds_no_memory_half_built_leaves_every_conversation_as_it_was(
    load: LoadFolder, monkeypatch: pytest.MonkeyPatch, arch: str, n: int
) -> None:
    target = load(arch, slots=n)
    prompts = [PROMPT * 3, [1, 77]][:n]
    alone = [plain(target, prompt) for prompt in prompts]
    live = [
        begin(target, prompt, params=ON, drafter=Fixed(prompt + wrong_at(ids, 5)), depth=3, max_tokens=N)
        for prompt, ids in zip(prompts, alone, strict=True)
    ]
    controller = Controller()

    def fail(*arrays: Any) -> None:
        raise RuntimeError("[malloc] Unable to allocate 1 bytes.")

    for _ in range(4):
        step(target, live, controller)
        before = [list(one.slot.tokens) for one in live]
        with monkeypatch.context() as broken:
            broken.setattr(attention, "begin", fail)
            with pytest.raises(OutOfMemory):
                step(target, live, controller)
        assert [list(one.slot.tokens) for one in live] == before
    while waiting := [one for one in live if one.finish_reason is None]:
        step(target, waiting, controller)
    assert [one.token_ids for one in live] == alone


@pytest.mark.parametrize(
    ("drafted", "wanted"),
    [("model", 1), ("given", 1), ("no", 0)],
    ids=["a draft model's first pass", "a draft", "plain"],
)
def test_the_first_layers_are_begun_where_mlx_has_nothing_else_to_do(
    load: LoadFolder, monkeypatch: pytest.MonkeyPatch, drafted: str, wanted: int
) -> None:
    bare = SamplingParams(temperature=0)
    target = load("llama")
    target.vocabulary.end_ids = frozenset()
    drafter: Drafter | None = None
    if drafted == "model":
        drafter = DraftModel(load("llama", draft=True))
    elif drafted == "given":
        drafter = Fixed(PROMPT + generate(target, PROMPT, params=bare, max_tokens=30).ids)
    answer = begin(target, PROMPT, params=bare, drafter=drafter, depth=3, max_tokens=30)
    controller = Controller()
    begun: list[Any] = []
    step(target, [answer], controller)
    monkeypatch.setattr(attention, "begin", begun.append)
    for _ in range(3):
        step(target, [answer], controller)
    assert len(begun) == 3 * wanted


# Files


def test_a_folder_says_what_it_is_before_it_is_loaded(runtime: Runtime, folders: Folders, arch: str) -> None:
    found = runtime.read_model(folders(arch))
    kinds = {"gemma3": "sliding window", "qwen3_5": "hybrid", "jamba": "hybrid", "mamba": "recurrent"}
    assert (found.is_model, found.cache) == (True, kinds.get(arch, "full"))
    assert found.shape.weights == (folders(arch) / "model.safetensors").stat().st_size - _header_size(folders(arch))
    full = {"gemma3": 1, "qwen3_5": 1, "jamba": 1, "mamba": 0}.get(arch, 2)
    assert found.shape.cache_per_token == full * 2 * (WIDTH // 2) * 4
    if arch == "gemma3":
        assert (found.shape.window, found.shape.window_per_token) == (WINDOW, 2 * (WIDTH // 2) * 4)
    assert (found.shape.state > 0) == (arch in ("qwen3_5", "jamba", "mamba"))
    assert list(found.vocabulary().texts) == [text.encode() for text in VOCABULARY.texts]


def _header_size(folder: Path) -> int:
    with (folder / "model.safetensors").open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


def test_L06_loading_reports_and_can_be_given_up(load: LoadFolder) -> None:
    told: list[float] = []

    def report(done: float) -> bool:
        told.append(done)
        return len(told) < 2

    with pytest.raises(LoadGivenUp):
        load("llama", progress=report)
    assert told == [1 / 3, 2 / 3]


@pytest.mark.parametrize("wrong", [{"cache_type": "q8_0"}, {"threads": 0}, {"n_ctx": 8}, {"dtype": "fp16"}])
def test_what_it_cannot_do_is_refused(load: LoadFolder, wrong: dict[str, Any]) -> None:
    if mx.metal.is_available() and "dtype" in wrong:
        pytest.skip("a GPU computes in 16 bits")
    with pytest.raises(BadSetting):
        load("llama", **wrong)


def test_X04_code_in_a_folder_is_never_run(runtime: Runtime, folders: Folders, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in folders("llama").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_file": "own.py"}))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')")
    for call in (runtime.read_model, lambda path: runtime.load(LoadOptions(path))):
        with pytest.raises(ModelUnreadable):
            call(folder)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", None),
        ("config.json", "{"),
        ("config.json", '{"model_type": "no such", "vocab_size": 9}'),
        ("config.json", '{"model_type": "llama", "vocab_size": 9}'),
        ("config.json", '{"model_type": "llama"}'),
        ("tokenizer.json", None),
        ("model.safetensors", None),
        ("model.safetensors", "junk"),
    ],
)
def test_U03_a_broken_folder_is_named(
    runtime: Runtime, folders: Folders, tmp_path: Path, name: str, content: str | None
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in folders("llama").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(ModelUnreadable) as caught:
        runtime.load(LoadOptions(folder, n_ctx=64))
    assert caught.value.next_step


# GGUF files


@pytest.mark.parametrize(("kind", "bits"), [("Q4_0", 4), ("Q4_1", 4), ("Q8_0", 8)])
def test_blocks_of_a_file_stay_packed_and_mean_the_same(runtime: Runtime, tmp_path: Path, kind: str, bits: int) -> None:
    quantised = gguf.GGMLQuantizationType[kind]
    path = tiny_models.write(tmp_path / "tiny.gguf", "llama", quantised=quantised)
    target = runtime.load(LoadOptions(path, n_ctx=64))
    assert isinstance(target, MlxTarget)
    raw = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    inner = target.model.model
    modules = {
        "token_embd": inner.embed_tokens,
        "output": target.model.lm_head,
        "blk.0.attn_q": inner.layers[0].self_attn.q_proj,
        "blk.1.ffn_down": inner.layers[1].mlp.down_proj,
    }
    for name, module in modules.items():
        right = gguf.quants.dequantize(raw[f"{name}.weight"].data, quantised)
        found = mx.dequantize(module.weight, module.scales, module.biases, group_size=32, bits=bits)
        assert module.weight.dtype == mx.uint32
        assert np.abs(np.array(found) - right).max() < 2e-3 * np.abs(right).max()
    assert sum(target.placed.values()) == runtime.read_model(path).shape.weights
    wanted = generate(target, PROMPT, params=ON, max_tokens=20).ids
    drafter = Fixed(PROMPT + wrong_at(wanted, 3))
    assert generate(target, PROMPT, params=ON, max_tokens=20, drafter=drafter).ids == wanted
    target.close()


def test_K03_a_file_that_mlx_would_expand_or_cannot_read_is_refused_with_the_numbers(
    runtime: Runtime, tmp_path: Path
) -> None:
    path = tiny_models.write(tmp_path / "q5.gguf", "llama", quantised=gguf.GGMLQuantizationType.Q5_0)
    for call in (runtime.read_model, lambda path: runtime.load(LoadOptions(path))):
        with pytest.raises(ModelUnreadable, match=r"16 of Q5_0 tensors, which MLX cannot read") as caught:
            call(path)
        assert "llamacpp" in caught.value.next_step
    tensors = (Tensor("a", (256, 1000), 12, 0, 144_000), Tensor("b", (256, 2000), 14, 0, 420_000))
    header = Header(tmp_path / "k.gguf", 564_000, {"general.architecture": "llama"}, tensors)
    with pytest.raises(ModelUnreadable, match=r"1 of Q4_K, 1 of Q6_K tensors, which MLX would expand .* 2 MB instead"):
        check([header])


def test_K01_a_running_state_in_a_file_is_refused_at_load(runtime: Runtime, tiny: Tiny) -> None:
    with pytest.raises(ModelUnreadable, match="mamba") as caught:
        runtime.load(LoadOptions(tiny("mamba"), n_ctx=64))
    assert "llamacpp" in caught.value.next_step


def test_a_memory_knows_its_kind(load: LoadFolder) -> None:
    assert Memory(load("gemma3").model).kind == "sliding window"
