"""Steps judged where the logits are, under Triton's interpreter: the texts are those of steps judged on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

pytest.importorskip("torch", reason="the pytorch runtime is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

from pardec_chat.backends.base import Draft, Drafter, LoadOptions, Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.lookahead import Lookahead
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.pytorch import on_device
from pardec_chat.backends.pytorch.graphs import Graphs
from pardec_chat.backends.pytorch.runtime import make
from pardec_chat.backends.pytorch.target import PytorchTarget
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import generate, never

PROMPT = list(range(20, 50))
GREEDY = SamplingParams(temperature=0)
#: Drafts are chosen and walked at this temperature.
DRAWN = SamplingParams(temperature=0.5, top_k=0, top_p=1.0, min_p=0.02, seed=4)


@pytest.fixture
def target(tiny: Tiny) -> Iterator[PytorchTarget]:
    loaded = load(tiny)
    loaded.judges_on_device = True
    yield loaded
    loaded.close()


def load(tiny: Tiny, seed: int = 0) -> PytorchTarget:
    options = LoadOptions(tiny("llama", seed), n_ctx=128, slots=2, branches=60, threads=1, dtype="fp32")
    return cast(PytorchTarget, make().load(options))


def drafters(tiny: Tiny) -> Iterator[tuple[str, Drafter]]:
    yield "twin", DraftModel(load(tiny))
    yield "stranger", DraftModel(load(tiny, 1))
    yield "tree", DraftModel(load(tiny), tree=8)
    yield "ngram", Ngram(min_match=1)
    yield "lookahead", Lookahead(window=4, ngram=4, candidates=4)


@pytest.mark.parametrize("params", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_the_text_is_that_of_plain_steps(target: PytorchTarget, tiny: Tiny, params: SamplingParams) -> None:
    wanted = generate(target, PROMPT, params=params, max_tokens=16).ids
    assert len(wanted) > 8
    if params.greedy:
        target.judges_on_device = False
        assert generate(target, PROMPT, params=params, max_tokens=16).ids == wanted
        target.judges_on_device = True
    for name, drafter in drafters(tiny):
        found = generate(target, PROMPT, params=params, max_tokens=16, drafter=drafter)
        assert found.ids == wanted, name
        if name in ("twin", "tree"):
            assert found.generation.stats.draft_n_accepted > 4, name
        drafter.close()


def test_two_slots_and_a_captured_pass(target: PytorchTarget) -> None:
    wanted = generate(target, PROMPT, max_tokens=3).ids
    slots = [target.open() for _ in range(2)]
    for slot in slots:
        slot.prefill(PROMPT, never)
    drafts = [
        Draft([wanted[0] + 1, wanted[0], wanted[1]], [-1, -1, 1], Method.NGRAM),
        Draft.chain([wanted[0]], Method.NGRAM),
    ]
    items = [(slot, draft, Sampler(GREEDY, PROMPT)) for slot, draft in zip(slots, drafts, strict=True)]
    first, second = target.verify(items)
    assert (list(first.tokens), list(first.path)) == (wanted, [1, 2])
    assert (list(second.tokens), list(second.path)) == (wanted[:2], [0])
    assert list(slots[0].tokens) == PROMPT + wanted
    # The pass that is captured on a GPU, kernel by kernel: what follows is what plain steps say.
    target._graphs = Graphs(target.decoder, target.cache, capture=False)
    (third,) = target.verify([(slots[1], Draft.chain([wanted[2]], Method.NGRAM), Sampler(GREEDY, PROMPT))])
    assert third.tokens[0] == wanted[2] and list(third.path) == [0]


def test_what_needs_more_than_a_row_is_judged_on_the_host(target: PytorchTarget) -> None:
    draft = Draft.chain([1], Method.NGRAM)
    for params, suits in (
        (GREEDY, True),
        (DRAWN, True),
        (SamplingParams(temperature=0, repeat_penalty=1.1), False),
        (SamplingParams(temperature=0, logit_bias={3: 1.0}), False),
        (SamplingParams(temperature=0, logprobs=2), False),
    ):
        assert on_device.suits(target.cache, draft, Sampler(params, PROMPT)) is suits
    drawn = Draft([1], [-1], Method.DRAFT, probabilities=[object()])
    assert not on_device.suits(target.cache, drawn, Sampler(DRAWN, PROMPT))


def test_random_numbers_are_looked_at_before_they_are_used() -> None:
    sampler, twin = Sampler(DRAWN, PROMPT), Sampler(DRAWN, PROMPT)
    ahead = sampler.peek(3)
    assert sampler.peek(3) == ahead
    sampler.use(2)
    assert sampler.peek(1) == ahead[2:]
    assert twin.peek(3) == ahead
