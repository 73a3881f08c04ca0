"""The pass that is captured on CUDA, run kernel by kernel under Triton's interpreter: same logits, same cells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pardec_chat.tests.conftest import Tiny

pytest.importorskip("torch", reason="the pytorch runtime is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

_CODE = """
import sys
from pathlib import Path

import torch

from pardec_chat.backends.base import LoadOptions, depths
from pardec_chat.backends.pytorch.graphs import Graphs
from pardec_chat.backends.pytorch.runtime import make

for path in sys.argv[1:]:
    target = make().load(LoadOptions(Path(path), n_ctx=64, slots=2, threads=1, dtype="fp32"))
    decoder, cache = target.decoder, target.cache
    for slot in (0, 1):
        ids = list(range(20, 60))
        decoder.forward(torch.tensor(ids), torch.arange(40), [cache.chain(slot, 0, 0, 40)], cache, None)
    graphs = Graphs(decoder, cache, capture=False)
    for tokens, parents in (([7], []), ([7, 8, 9], [-1, 0]), ([7, 8, 9, 10, 11, 12, 13], [-1, -1, 0, 1, 1, 4])):
        positions = torch.tensor([40, *(40 + depth for depth in depths(parents))])
        block = cache._block(1, 40, 0, parents)
        n = len(tokens)
        wanted, _ = decoder.forward(torch.tensor(tokens), positions, [block], cache, torch.arange(n))
        cells = cache.data[:, :, 1, :, : 40 + n].clone()
        cache.data[:, :, 1, :, 40:] = 0
        found = graphs.run(1, tokens, parents, 40)
        assert found.shape == wanted.shape
        print(float((found - wanted).abs().max()), float((cache.data[:, :, 1, :, : 40 + n] - cells).abs().max()))
    target.close()
"""


def test_a_pass_on_the_device_says_what_one_on_the_host_says(tiny: Tiny) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(tiny("llama")), str(tiny("gemma3"))],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": _root()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    differences = [float(number) for line in done.stdout.splitlines() for number in line.split()]
    assert len(differences) == 2 * 3 * 2
    assert max(differences) < 1e-4


def _root() -> str:
    import pardec_chat.backends

    (folder,) = {str(Path(path).parent.parent) for path in pardec_chat.backends.__path__}
    return os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
