"""From rows of target logits to a verdict, on the host: what runtimes with rows in numpy share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from pardec_chat.backends.base import NO_DRAFT, Draft, GoOn, Method, TokenLogprobs, Verdict
from pardec_chat.backends.decoding.constraint import NothingAllowed
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.kernels.sampling.reference import Distribution, Logits, largest, log_softmax
from pardec_chat.kernels.verify_accept import reference


def takes_the_best(sampler: Sampler) -> bool:
    """Whether all that is asked of a row is its most probable id."""
    return sampler.bare and sampler.params.greedy and sampler.params.logprobs is None


def judge(draft: Draft, row: Callable[[int], Logits], sampler: Sampler, best: Sequence[int] | None = None) -> Verdict:
    """Check `draft` against the target's rows and advance `sampler` by what is emitted.

    row: logits [V] after a node of the draft, -1 standing for the last committed token; only nodes on the accepted path are
        asked for. Behind the draft's nodes come the leaves of its probes. A drawn draft goes through rejection sampling, a
        chosen one through the walk.
    best: the most probable id of each row in order, where a runtime has found them and the sampler `takes_the_best`; then no
        row of a chosen draft is asked for.
    """
    probed = range(len(draft), len(draft) + len(draft.probes.leaves))
    probe_tokens = [int(row(leaf).argmax()) if best is None else best[leaf + 1] for leaf in probed]
    visited: list[int] = []

    def look(node: int) -> Logits:
        visited.append(node)
        return row(node)

    if draft.probabilities is None:

        def own(node: int) -> int:
            token = sampler.choose(look(node)) if best is None else best[node + 1]
            sampler.push(token)
            return token

        result = reference.walk(draft.tokens, draft.parents, own, sampler.ends)
    else:
        result = reference.reject(
            draft.tokens,
            draft.parents,
            lambda node: sampler.distribution(look(node)),
            cast("Sequence[Distribution]", draft.probabilities),
            sampler,
            sampler.push,
            sampler.ends,
        )
    top = sampler.params.logprobs
    logprobs = None
    if top is not None:
        logprobs = [_logprobs(row(node), token, top) for node, token in zip(visited, result.tokens, strict=True)]
    return Verdict(result.tokens, result.path, logprobs, probe_tokens)


def propose(next_row: Callable[[int | None], Logits], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
    """A chain of up to `n` tokens from a draft model whose rows come one at a time; see `Target.propose`.

    next_row: logits [V] after the committed ids for None, then after each guessed token. Stops behind an end token, since
        nothing can be accepted after one, and before a token where the answer's grammar allows none that may be guessed.
    """
    tokens: list[int] = []
    rows: list[Distribution] | None = [] if sampler.draws_drafts else None
    confidence: list[float] = []
    token: int | None = None
    try:
        while len(tokens) < n and token not in sampler.ends:
            logits = next_row(token)
            try:
                if rows is None:
                    token = sampler.best(logits)
                else:
                    rows.append(sampler.distribution(logits))
                    token = sampler.pick(rows[-1])
            except NothingAllowed:
                break
            if go_on is not None:
                confidence.append(
                    _confidence(logits, token, sampler) if rows is None else float(rows[-1].weights.max())
                )
            tokens.append(token)
            sampler.push(token)
            if go_on is not None and not go_on(len(tokens), confidence[-1]):
                break
    finally:
        sampler.pop(len(tokens))
    return Draft.chain(tokens, Method.DRAFT, rows, confidence) if tokens else NO_DRAFT


def _confidence(logits: Logits, token: int, sampler: Sampler) -> float:
    """The model's own probability of its best `token`, among those that the answer's grammar allows."""
    row = logits if sampler.constraint is None else sampler.scores(logits)
    return math.exp(float(log_softmax(row, np.array([token]))[0]))


def _logprobs(logits: Logits, token: int, top: int) -> TokenLogprobs:
    ids = largest(logits, top)
    values = log_softmax(logits, ids)
    own = float(log_softmax(logits, np.array([token]))[0])
    return TokenLogprobs(own, [(int(i), float(v)) for i, v in zip(ids, values, strict=True)])
