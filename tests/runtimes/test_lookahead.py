"""Lookahead on every runtime whose caches can branch: trees and probes in one forward pass."""

from __future__ import annotations

import pytest

from pardec_chat.backends.base import Draft, Method, Probes, Target
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.lookahead import Lookahead, branches
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import begin, generate, never
from pardec_chat.tests.runtimes.conftest import Far, Load
from pardec_chat.tests.runtimes.test_contract import ON, PROMPT, N, plain

pytestmark = pytest.mark.usefixtures("in_float32")

ARCHS = ["llama", "gemma3"]


def small() -> Lookahead:
    return Lookahead(window=5, ngram=4, candidates=5)


def branching(load: Load, path: Tiny, arch: str, **options: int) -> Target:
    return load(path(arch), **{"branches": branches(5, 5), **options})


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("depth", range(1, 4))
def test_D02_lookahead_gives_the_ids_of_plain_decoding(load: Load, tiny: Tiny, arch: str, depth: int) -> None:
    target = branching(load, tiny, arch)
    prompt = [*PROMPT, *plain(target), *PROMPT]
    wanted = plain(target, prompt)
    found = generate(target, prompt, params=ON, max_tokens=N, depth=depth, drafter=small())
    assert found.ids == wanted
    assert found.generation.stats.draft_n_accepted > 0


def test_D02_the_papers_window(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"), branches=branches())
    prompt = [*PROMPT, *plain(target), *PROMPT]
    found = generate(target, prompt, params=ON, max_tokens=N, drafter=Lookahead())
    assert found.ids == plain(target, prompt)


@pytest.mark.parametrize("arch", ARCHS)
def test_D08_same_seed_same_text(load: Load, tiny: Tiny, arch: str) -> None:
    params = SamplingParams(temperature=0.9, seed=3, logit_bias=ON.logit_bias)
    target = branching(load, tiny, arch)
    wanted = plain(target, PROMPT * 2, params=params)
    assert generate(target, PROMPT * 2, params=params, max_tokens=N, drafter=small()).ids == wanted


@pytest.mark.parametrize("arch", ARCHS)
def test_probes_are_told_what_plain_decoding_would_say_and_leave_nothing_behind(
    load: Load, tiny: Tiny, arch: str
) -> None:
    target = branching(load, tiny, arch)
    bare = SamplingParams(temperature=0)
    paths = [[50], [60, 61], [60, 62, 63]]
    behind = [plain(target, [*PROMPT, *path], 1, bare)[0] for path in paths]
    wanted = plain(target)
    slot = target.open()
    slot.prefill(PROMPT, never)
    sampler = Sampler(ON, PROMPT)
    probes = Probes([50, 60, 61, 62, 63], [-1, -1, 1, 1, 3])
    draft = Draft([wanted[0], 9, wanted[1]], [-1, -1, 0], Method.LOOKAHEAD, probes=probes)
    (verdict,) = target.verify([(slot, draft, sampler)])
    assert (list(verdict.tokens), list(verdict.path)) == (wanted[:3], [0, 2])
    assert list(verdict.probe_tokens) == behind
    # Probes alone.
    (verdict,) = target.verify([(slot, Draft((), (), Method.LOOKAHEAD, probes=Probes([7, 8], [-1, -1])), sampler)])
    assert list(verdict.tokens) == wanted[3:4]
    rest = generate(target, list(slot.tokens), params=ON, max_tokens=N - 4, slot=slot)
    assert rest.ids == wanted[4:]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("room", [6, 7, 9])
def test_K07_the_contexts_edge(load: Load, tiny: Tiny, arch: str, room: int) -> None:
    target = branching(load, tiny, arch, n_ctx=len(PROMPT) + room)
    wanted = plain(load(tiny(arch)))[:room]
    assert generate(target, PROMPT, params=ON, drafter=small()).ids == wanted


@pytest.mark.parametrize("arch", ARCHS)
def test_D01_a_text_longer_than_the_window_and_its_cache(load: Load, tiny: Tiny, far: Far, arch: str) -> None:
    target = branching(load, tiny, arch, n_ctx=far.n_ctx)
    n = far.answer
    wanted = plain(target, far.prompt, n)
    assert generate(target, far.prompt, params=ON, max_tokens=n, drafter=small()).ids == wanted


def test_K05_two_answers_in_one_pass(load: Load, tiny: Tiny) -> None:
    prompts = [PROMPT, [1, *range(60, 80)]]
    alone = [plain(load(tiny("llama")), prompt) for prompt in prompts]
    target = load(tiny("llama"), slots=2, branches=2 * branches(5, 5))
    together = [begin(target, p, params=ON, drafter=small(), max_tokens=N) for p in prompts]
    controller = Controller()
    while live := [g for g in together if g.finish_reason is None]:
        step(target, live, controller)
    assert [g.token_ids for g in together] == alone
