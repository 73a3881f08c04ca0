"""Draft models that guess trees, on every runtime: those that cannot guess chains, and all give plain decoding's text."""

from __future__ import annotations

import pytest

from pardec_chat.backends.base import Runtime
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import generate
from pardec_chat.tests.runtimes.conftest import Load
from pardec_chat.tests.runtimes.test_contract import ON, PROMPT, N, plain

pytestmark = pytest.mark.usefixtures("in_float32")

ARCHS = ["llama", "gemma3"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("nodes", [1, 4, 12, 30])
def test_D03_every_tree_gives_the_ids_of_plain_decoding(load: Load, tiny: Tiny, arch: str, nodes: int) -> None:
    target = load(tiny(arch), branches=30)
    wanted = plain(target)
    for seed in (0, 1):
        drafter = DraftModel(load(tiny(arch, seed), draft=True), tree=nodes)
        found = generate(target, PROMPT, params=ON, max_tokens=N, depth=4, drafter=drafter)
        assert found.ids == wanted
        assert all(len(one.proposed) <= nodes for one in found.steps)
        if seed == 0:  # the target's own twin: its best path is in every tree
            assert all(one.n_accepted >= 1 for one in found.steps[:-1])


@pytest.mark.parametrize("arch", ARCHS)
def test_D08_same_seed_same_text(runtime: Runtime, load: Load, tiny: Tiny, arch: str) -> None:
    if runtime.name != "pytorch":
        pytest.skip("chains are drawn at this temperature, and checked by another rule")
    params = SamplingParams(temperature=0.9, seed=3, logit_bias=ON.logit_bias)
    target = load(tiny(arch), branches=30)
    wanted = plain(target, params=params)
    drafter = DraftModel(load(tiny(arch), draft=True), tree=16)
    found = generate(target, PROMPT, params=params, max_tokens=N, depth=4, drafter=drafter)
    assert found.ids == wanted
    assert found.generation.stats.draft_n_accepted > 0


@pytest.mark.parametrize("arch", ARCHS)
def test_D01_a_text_longer_than_the_window(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch), branches=30, n_ctx=300)
    wanted = plain(target, n=200)
    drafter = DraftModel(load(tiny(arch), draft=True, n_ctx=300), tree=12)
    assert generate(target, PROMPT, params=ON, max_tokens=200, depth=4, drafter=drafter).ids == wanted
