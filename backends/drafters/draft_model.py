"""A small model of the same vocabulary guesses (Leviathan et al. 2023; Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
        # A target may have more ids (padding, added turn markers); the draft model reads another in place of those.
        self._size = model.vocabulary.size
        self._stand_in = min(model.vocabulary.end_ids, default=0)
        self._lacks_some = False

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`."""
        self._slot = slot
        self._sampler = sampler.for_draft(self._banned)
        self._lacks_some = max(slot.tokens) >= self._size
        if len(slot.tokens) <= self._own.n_ctx:
            self._own.prefill(self._readable(slot.tokens), should_stop)

    def draft(self, n_max: int) -> Draft:
        """See `Drafter`. Greedy up to temperature 0.5, drawn from the model's own distribution above it."""
        if self._slot is None or self._sampler is None:
            raise RuntimeError("begin comes before draft")
        committed = self._slot.tokens
        room = min(n_max, self._own.n_ctx - len(committed))
        if room < 1:
            return NO_DRAFT
        return self._model.propose(self._own, self._readable(committed), room, self._sampler)

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`. Nothing to feed: `draft` compares its slot with the target's."""
        self._lacks_some = self._lacks_some or max(verdict.tokens) >= self._size

    def _readable(self, ids: Sequence[int]) -> Sequence[int]:
        return [i if i < self._size else self._stand_in for i in ids] if self._lacks_some else ids

    def close(self) -> None:
        """Give the draft model's slot back."""
        self._own.close()
