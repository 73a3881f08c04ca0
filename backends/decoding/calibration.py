"""Measures directly what passes and guesses take here, for whoever does not want to wait until real answers have shown it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from pardec_chat.backends.base import Draft, Drafter, Method, Target
from pardec_chat.backends.decoding.costs import Costs
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler

#: Rows measured: every one while kernels switch often, then the ends of likely steps.
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 17, 24, 25, 32, 33)
_GUESSES = (1, 2, 3, 4, 6, 8)
#: Tokens in the cache meanwhile, and rounds over all sizes at most.
_CONTEXT, _ROUNDS = 256, 8
#: Passes of one size in a row.
_SERIES = 3


def calibrate(
    target: Target,
    drafter: Drafter | None,
    costs: Costs,
    *,
    seconds: float,
    progress: Callable[[float], bool],
    clock: Callable[[], float] = perf_counter,
) -> None:
    """Take turns over all sizes for up to `seconds`, once each at least; `costs` learns as from real steps.

    drafter: the draft model, if there is one. progress: called with 0…1; returning False ends it early. The target has a
    free slot, and the cache room for a few hundred tokens.
    """
    begin = clock()
    slot = target.open()
    try:
        # Any ids do: the time of a pass does not depend on what stands in it.
        usable = max(1, min(1000, target.vocabulary.size) - 1)
        n_context = min(_CONTEXT, slot.n_ctx - max(ROWS))
        ids = [1 + (37 * i) % usable for i in range(max(1, n_context))]
        slot.prefill(ids, lambda: False)
        sampler = Sampler(SamplingParams(temperature=0.0), ids)
        n_context = len(ids)
        if drafter is not None:
            drafter.begin(slot, sampler, lambda: False)
            drafter.prepare(lambda: False)
        can_draft = target.capabilities.rewind != "none"
        sizes = [n for n in ROWS if n == 1 or (can_draft and n_context + n <= slot.n_ctx)]
        n_sizes = len(sizes) + (len(_GUESSES) if drafter is not None else 0)
        done = 0
        for round_ in range(_ROUNDS):
            for size in sizes:
                guesses = _filler(ids, size - 1)
                # Steps come in series: the first one behind another size finds caches and clocks as that left them.
                times = []
                for _ in range(_SERIES):
                    start = clock()
                    target.verify([(slot, guesses, sampler)])
                    times.append((clock() - start) * 1e3)
                    slot.rewind(n_context)
                costs.observe_pass(n_context, size, min(times[1:]))
                done += 1
                spent = (clock() - begin) / seconds
                if not progress(min(1.0, max(spent, done / (n_sizes * _ROUNDS)))) or (round_ and spent > 1.0):
                    return
            for n in _GUESSES if drafter is not None else ():
                assert drafter is not None
                start = clock()
                draft = drafter.draft(n)
                if len(draft) == n:
                    costs.observe_draft(draft.source.value, n, 0, (clock() - start) * 1e3)
                done += 1
    finally:
        slot.close()


def _filler(ids: Sequence[int], n: int) -> Draft:
    return Draft.chain([ids[i % len(ids)] for i in range(n)], Method.NGRAM)
