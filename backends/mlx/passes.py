"""The passes of one step: what each slot puts into them, what was begun ahead of them, and when they are computed."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import mlx.core as mx

from pardec_chat.backends.base import Draft
from pardec_chat.backends.mlx import branches, memory
from pardec_chat.backends.mlx.memory import Part
from pardec_chat.backends.mlx.slot import Ahead, Chosen, MlxSlot

#: Computes arrays without waiting for them. Whoever waits for one of them waits for all that were begun with it.
begin: Any = mx.async_eval


def begun(row: Any) -> Ahead:
    """A row of logits whose most probable id is being computed."""
    ahead = Ahead(row, mx.argmax(row))
    begin(ahead.best, row)
    return ahead


def rows(slots: Sequence[MlxSlot], drafts: Sequence[Draft]) -> list[Any]:
    """For each slot the logits of the last committed token, of the draft and of the leaves of its probes, on their way.

    [n, V] each. What was begun ahead is taken, all else goes through one pass where it can.
    """
    aheads = [slot.ahead for slot in slots]
    parts: list[Part] = []
    evaluated = []
    for slot, draft in zip(slots, drafts, strict=True):
        shape = None if is_chain(draft) else branches.behind_last(draft.all_parents, with_last=slot.ahead is None)
        if draft.n_rows:
            slot.memory.save()
        evaluated.append(slot.ahead is None or draft.n_rows > 0)
        if evaluated[-1]:
            parts.append((slot.memory, slot.missing(draft), shape))
        slot.ahead = None
    busy = any(ahead is not None for ahead in aheads) or any(
        isinstance(draft.tokens, Chosen) and draft.tokens.array is not None for draft in drafts
    )
    rows_of = iter(memory.forward(parts, idle=not busy))
    found = []
    for draft, ahead, is_there in zip(drafts, aheads, evaluated, strict=True):
        own = [] if ahead is None else [ahead.row[None]]
        if is_there:
            logits = next(rows_of)
            if draft.probes:
                first = logits.shape[0] - len(draft.probes)
                logits = logits[mx.array([*range(first), *(first + leaf for leaf in draft.probes.leaves)])]
            own.append(logits)
        found.append(own[0] if len(own) == 1 else mx.concatenate(own))
    return found


def drafting(drafts: Sequence[Draft], since: float) -> list[float]:
    """Milliseconds from `since` on in which each draft was still being chosen."""
    found = [0.0] * len(drafts)
    late = [i for i, draft in enumerate(drafts) if isinstance(draft.tokens, Chosen)]
    for i in late:
        _ = drafts[i].tokens[0]
        now = perf_counter()
        found[i], since = (now - since) * 1e3, now
    return found


def is_chain(draft: Draft) -> bool:
    """Whether each row of its pass follows the one before."""
    return draft.is_chain and not draft.probes
