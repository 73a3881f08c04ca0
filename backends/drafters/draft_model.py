"""A small model of the same vocabulary guesses (Leviathan et al. 2023; Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, Method, Slot, Target, Verdict
from pardec_chat.backends.decoding.sampler import Sampler


class DraftModel(Drafter):
    """Guesses with a second `Target`, whose slot follows the target's committed ids.

    The draft model is fed when it drafts, not when tokens are accepted: so it catches up by itself after steps without a
    draft, and a step that drafts nothing costs it nothing.
    """

    method = Method.DRAFT

    def __init__(self, model: Target, banned: Iterable[int] = ()) -> None:
        self._model = model
        self._banned = frozenset(banned)
        self._own = model.open()
        self._slot: Slot | None = None
        self._sampler: Sampler | None = None

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`."""
        self._slot = slot
        self._sampler = sampler.for_draft(self._banned)
        if len(slot.tokens) <= self._own.n_ctx:
            self._own.prefill(slot.tokens, should_stop)

    def draft(self, n_max: int) -> Draft:
        """See `Drafter`. Greedy up to temperature 0.5, drawn from the model's own distribution above it."""
        if self._slot is None or self._sampler is None:
            raise RuntimeError("begin comes before draft")
        committed = self._slot.tokens
        room = min(n_max, self._own.n_ctx - len(committed))
        if room < 1:
            return NO_DRAFT
        return self._model.propose(self._own, committed, room, self._sampler)

    def accept(self, verdict: Verdict) -> None:
        """Nothing to do: `draft` compares its slot with the target's."""

    def close(self) -> None:
        """Give the draft model's slot back."""
        self._own.close()
