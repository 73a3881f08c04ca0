"""The built-in model on both runtimes, from the same file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch", reason="the pytorch runtime is not installed")

import torch

from pardec_chat.app import locations
from pardec_chat.backends import registry
from pardec_chat.backends.base import LoadOptions
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
def in_float32(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same model with the numbers that its blocks stand for, by the gguf package's own reading of them."""
    path = tmp_path_factory.mktemp("float32") / "smollm2.gguf"
    reader = gguf.GGUFReader(PATH)
    writer = gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind = field.types[0]
            of = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, of)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    yield path
    path.unlink()  # half a gigabyte, which pytest would keep


def _compare(target: PytorchTarget, path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits of 300 positions, ours and llama.cpp's from `path` with its own kernels, each [300, V]."""
    from pardec_chat.backends.llamacpp.target import LlamaCppTarget

    other = registry.load("llamacpp").load(LoadOptions(path, n_ctx=512, kernels="stock"))
    assert isinstance(other, LlamaCppTarget)
    ids = target.vocabulary.encode(TEXT, add_special=True, parse_special=True)
    assert ids == other.vocabulary.encode(TEXT, add_special=True, parse_special=True)
    assert len(ids) > 300
    n = 300
    block = target.cache.chain(0, 0, 0, n)
    logits, _ = target.decoder.forward(torch.tensor(ids[:n]), torch.arange(n), [block], target.cache, torch.arange(n))
    theirs = []
    for start in range(0, n, 32):
        some = ids[start : min(start + 32, n)]
        other.context.batch.clear()
        other.context.batch.extend(some, start, 0, wanted=True)
        other.context.decode()
        theirs.append(np.array(other.context.rows()[: len(some)]))
    other.close()
    return logits.numpy(), np.concatenate(theirs)


def test_it_agrees_with_llama_cpp_on_the_next_token(target: PytorchTarget, in_float32: Path) -> None:
    # Of the two runtimes' differences float32 weights leave llama.cpp's 16-bit cache alone: its kernels for blocks round
    # activations to 8 bits too, see the next test.
    mine, theirs = _compare(target, in_float32)
    assert np.abs(mine - theirs).max() < mine.std() / 50
    assert np.count_nonzero(mine.argmax(axis=1) == theirs.argmax(axis=1)) >= 299


def test_activations_of_8_bits_tell_the_runtimes_apart_only_where_tokens_tie(target: PytorchTarget) -> None:
    mine, theirs = _compare(target, PATH)
    a, b = mine.argmax(axis=1), theirs.argmax(axis=1)
    (at,) = np.nonzero(a != b)
    assert len(at) <= 0.04 * len(mine)
    assert (mine[at, a[at]] - mine[at, b[at]]).max(initial=0.0) < mine.std() / 30


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
