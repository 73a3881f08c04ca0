"""The built-in model on both runtimes, from the same file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

pytest.importorskip("torch", reason="the pytorch runtime is not installed")

import torch

from pardec_chat.app import locations
from pardec_chat.backends import registry
from pardec_chat.backends.base import LoadOptions, Target
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.lookahead import Lookahead
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.pytorch.target import PytorchTarget
from pardec_chat.tests.decode import generate

PATH = locations.models() / "smollm2-135m-instruct-q4_1.gguf"
TEXT = """The lighthouse at the end of the bay was built in 1874, after three ships had been lost on the rocks in one winter.
Its keeper climbed the hundred and twelve steps every evening to light the lamp, and every morning to put it out. When the
fog came in from the sea, he rang a bell by hand, twice a minute, until it lifted. People in the village said that they
could tell how tired he was by the sound of it. In 1931 the lamp was made electric, and the bell was replaced by a horn that
needed nobody. The keeper stayed on for some years more, painting the railings and showing visitors the view.

def total(prices, tax=0.2):
    \"\"\"Sum of all prices, with tax.\"\"\"
    result = 0.0
    for price in prices:
        result += price * (1 + tax)
    return round(result, 2)

The recipe asks for two cups of flour, one teaspoon of salt, a quarter of a teaspoon of yeast and a cup and a half of water.
Mix everything in a large bowl, cover it, and let it rest overnight.
The next day heat the oven with the heavy pot inside, for half an hour.

Questions: 1. Why was the lighthouse built? 2. What did the keeper do when the fog came in? 3. What changed in 1931?
"""

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not PATH.is_file(), reason="the built-in model is not on this disk"),
]


@pytest.fixture(scope="module")
def target() -> Iterator[PytorchTarget]:
    loaded = registry.load("pytorch").load(LoadOptions(PATH, n_ctx=512, branches=30, dtype="fp32"))
    yield cast(PytorchTarget, loaded)
    loaded.close()


@pytest.fixture(scope="module")
def other() -> Iterator[Target]:
    loaded = registry.load("llamacpp").load(LoadOptions(PATH, n_ctx=512, kernels="stock"))
    yield loaded
    loaded.close()


def test_it_agrees_with_llama_cpp_on_the_next_token(target: PytorchTarget, other: Target) -> None:
    from pardec_chat.backends.llamacpp.target import LlamaCppTarget

    assert isinstance(other, LlamaCppTarget)
    ids = target.vocabulary.encode(TEXT, add_special=True, parse_special=True)
    assert ids == other.vocabulary.encode(TEXT, add_special=True, parse_special=True)
    ids = ids[:301]
    n = len(ids) - 1
    assert n == 300
    block = target.cache.chain(0, 0, 0, n)
    logits, _ = target.decoder.forward(torch.tensor(ids[:n]), torch.arange(n), [block], target.cache, torch.arange(n))
    mine = logits.argmax(dim=-1).tolist()
    theirs: list[int] = []
    for start in range(0, n, 32):
        other.context.batch.clear()
        other.context.batch.extend(ids[start : min(start + 32, n)], start, 0, wanted=True)
        other.context.decode()
        theirs += [int(np.argmax(row)) for row in other.context.rows()[: min(32, n - start)]]
    other.context.remove(0, 0)
    # llama.cpp rounds activations to 8 bits, which decides where two tokens are about as likely: nowhere else. What is
    # allowed is a thirtieth of the logits' standard deviation.
    gaps = [float(logits[i, a] - logits[i, b]) for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    assert len(gaps) <= 0.04 * n
    assert max(gaps) < float(logits.std()) / 30


PROMPT = "<|im_start|>user\nRepeat three times: The quick brown fox jumps.<|im_end|>\n<|im_start|>assistant\n"


def test_D02_every_drafter_gives_the_ids_of_plain_decoding(target: PytorchTarget) -> None:
    ids = target.vocabulary.encode(PROMPT, add_special=True, parse_special=True)
    wanted = generate(target, ids, max_tokens=24).ids
    draft = registry.load("pytorch").load(LoadOptions(PATH, n_ctx=512, draft=True, dtype="fp32"))
    drafters = {
        "chain": DraftModel(draft),
        "ngram": Ngram(min_match=1),
        "lookahead": Lookahead(window=5, ngram=4, candidates=5),
    }
    for name, drafter in drafters.items():
        found = generate(target, ids, max_tokens=24, drafter=drafter)
        assert found.ids == wanted, name
        drafter.close()
    tree = DraftModel(draft, tree=8)
    found = generate(target, ids, max_tokens=24, drafter=tree)
    assert found.ids == wanted
    assert found.generation.stats.draft_n_accepted > 0
    tree.close()
    draft.close()


def test_a_draft_on_another_runtime_than_its_target(target: PytorchTarget) -> None:
    ids = target.vocabulary.encode(PROMPT, add_special=True, parse_special=True)
    wanted = generate(target, ids, max_tokens=24).ids
    draft = registry.load("llamacpp").load(LoadOptions(PATH, n_ctx=512, draft=True))
    drafter = DraftModel(draft)
    found = generate(target, ids, max_tokens=24, drafter=drafter)
    assert found.ids == wanted
    assert found.generation.stats.acceptance_rate is not None
    assert found.generation.stats.acceptance_rate > 0.8
    drafter.close()
    draft.close()
