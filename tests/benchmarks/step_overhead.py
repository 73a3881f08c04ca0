"""Time of a step outside the model's forward passes.

    python -m pardec_chat.tests.benchmarks.step_overhead TARGET.gguf [DRAFT.gguf]

Wraps the runtime's decode call, and takes what is left of each step: drafting on the host, sampling, acceptance, batches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from time import perf_counter

import llama_cpp

from pardec_chat.backends import registry
from pardec_chat.backends.base import Drafter, LoadOptions, Target
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.llamacpp.context import Context

_STEPS = 40
_PROMPT = "Here is a list of numbers: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4,"
_SAMPLED = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, min_p=0.0, seed=1)


def _measure(target: Target, drafter: Drafter | None, params: SamplingParams, depth: int) -> tuple[float, float]:
    """Median milliseconds outside forward passes: of a step, and of a step for each row that was sampled."""
    forward = 0.0
    decode = Context.decode

    def timed(self: Context) -> None:
        nonlocal forward
        start = perf_counter()
        decode(self)
        # Decoding is asynchronous on some devices: waiting for it is no overhead.
        llama_cpp.llama_synchronize(self.handle)
        forward += perf_counter() - start

    slot = target.open()
    ids = target.vocabulary.encode(_PROMPT, add_special=True, parse_special=False)
    slot.prefill(ids, lambda: False)
    sampler = Sampler(params, ids)
    if drafter is not None:
        drafter.begin(slot, sampler, lambda: False)
        drafter.prepare(lambda: False)
    generation = Generation(slot, sampler, [] if drafter is None else [drafter], depth)
    controller = Controller()
    Context.decode = timed  # type: ignore[method-assign]
    steps, rows = [], []
    try:
        for _ in range(_STEPS):
            forward = 0.0
            start = perf_counter()
            done = step(target, [generation], controller)[0]
            outside = (perf_counter() - start - forward) * 1e3
            steps.append(outside)
            rows.append(
                outside / (len(done.tokens) + (len(done.proposed) if drafter and drafter.method == "draft" else 0))
            )
    finally:
        Context.decode = decode  # type: ignore[method-assign]
        slot.close()
        if drafter is not None:
            drafter.close()
    return median(steps[5:]), median(rows[5:])


def main() -> None:
    """Print one line for each way to decode."""
    runtime = registry.load("llamacpp")
    target = runtime.load(LoadOptions(Path(sys.argv[1]), n_ctx=2048))
    draft = runtime.load(LoadOptions(Path(sys.argv[2]), n_ctx=2048, draft=True)) if len(sys.argv) > 2 else None
    print(f"vocabulary {target.vocabulary.size:,}; median of {_STEPS - 5} steps, ms outside forward passes")
    for name, params in (("greedy", SamplingParams(temperature=0.0)), ("T 0.8, top-k 40, top-p 0.95", _SAMPLED)):
        print(f"{name}\n  plain     {_measure(target, None, params, 0)[0]:.3f} a step")
        step_ms, row_ms = _measure(target, Ngram(2), params, 8)
        print(f"  ngram, 8  {step_ms:.3f} a step, {row_ms:.3f} a row")
        if draft is not None:
            step_ms, row_ms = _measure(target, DraftModel(draft), params, 3)
            print(f"  draft, 3  {step_ms:.3f} a step, {row_ms:.3f} a row")
    if draft is not None:
        draft.close()
    target.close()


if __name__ == "__main__":
    main()
