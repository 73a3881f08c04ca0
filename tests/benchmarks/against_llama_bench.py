"""Plain decoding against llama.cpp's own llama-bench, in turns.

    python -m pardec_chat.tests.benchmarks.against_llama_bench LLAMA_BENCH MODEL.gguf [ROUNDS]

Build llama-bench from the sdist of the installed llama-cpp-python with the flags of the Makefile, so that both run the same
kernels. Each round: tg128 there, 128 tokens here, both from an almost empty context and with the same number of threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from pardec_chat.backends import registry
from pardec_chat.backends.base import LoadOptions, Target
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.llamacpp import library
from pardec_chat.backends.machine import physical_cores

_TOKENS = 128


def _here(target: Target, n: int) -> float:
    slot = target.open()
    ids = target.vocabulary.encode("Once upon a time", add_special=True, parse_special=False)
    slot.prefill(ids, lambda: False)
    generation = Generation(slot, Sampler(SamplingParams(temperature=0.0), ids), [], 0, n)
    controller = Controller()
    while generation.finish_reason is None:
        step(target, [generation], controller)
    slot.close()
    rate = generation.stats.tokens_per_second
    assert rate is not None
    return rate


def _there(program: str, model: str, threads: int, repack: bool) -> float:
    command = [program, "-m", model, "-p", "0", "-n", str(_TOKENS), "-r", "1", "-t", str(threads), "-o", "json"]
    done = subprocess.run([*command, "--repack", str(int(repack))], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)[0]["avg_ts"])


def main() -> None:
    """Print each pair and the median ratio."""
    program, model = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    ratios: list[float] = []
    for _ in range(rounds):
        there = _there(program, model, physical_cores(), not library.has_tile_kernels())
        # Loaded and freed for each round: llama.cpp's waiting threads would take the cores from the other side.
        target = registry.load("llamacpp").load(LoadOptions(Path(model), n_ctx=512, kernels="stock"))
        _here(target, 2)  # maps the pages of the weights, as llama-bench's own warm-up does
        here = _here(target, _TOKENS)
        target.close()
        ratios.append(here / there)
        print(f"llama-bench {there:.2f}  here {here:.2f} tokens/s  ratio {ratios[-1]:.3f}")
    print(f"median ratio {median(ratios):.3f}")


if __name__ == "__main__":
    main()
