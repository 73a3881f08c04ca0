"""A small model of the same vocabulary guesses (Leviathan et al. 2023; Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, GoOn, Method, Outcome, Slot, Target, Verdict
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.decoding.sampler import Sampler


class DraftModel(Drafter):
    """Guesses with a second `Target`, whose slot follows the target's committed ids.

    The draft model is fed when it drafts, not when tokens are accepted: so it catches up by itself after steps without a
    draft, and a step that drafts nothing costs it nothing.

    tree: tokens of a draft that may branch, which only the walk rule checks; 0 guesses chains.
    """

    method = Method.DRAFT

    def __init__(self, model: Target, banned: Iterable[int] = (), *, tree: int = 0) -> None:
        self._model = model
        self._tree = tree
        self._banned = frozenset(banned)
        self._own = model.open()
        self._slot: Slot | None = None
        self._sampler: Sampler | None = None
        # A target may have more ids (padding, added turn markers); the draft model reads another in place of those.
        self._size = model.vocabulary.size
        self._stand_in = min(model.vocabulary.end_ids, default=0)
        self._lacks_some = False
        # Committed ids that its own cache has, and the draft that waits for its verdict.
        self._known = 0
        self._drafted = NO_DRAFT
        self._outcomes: list[Outcome] = []

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`."""
        self._slot = slot
        self._sampler = sampler.for_draft(self._banned)
        self._lacks_some = max(slot.tokens) >= self._size
        self._known = common_prefix(list(self._own.tokens), self._readable(slot.tokens))
        self._drafted = NO_DRAFT

    def prepare(self, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`."""
        if self._slot is not None and len(self._slot.tokens) <= self._own.n_ctx:
            self._own.prefill(self._readable(self._slot.tokens), should_stop)
            self._known = len(self._own.tokens)

    @property
    def behind(self) -> int:
        """See `Drafter`."""
        return 0 if self._slot is None else len(self._slot.tokens) - self._known

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`. Greedy up to temperature 0.5, drawn from the model's own distribution above it."""
        if self._slot is None or self._sampler is None:
            raise RuntimeError("begin comes before draft")
        committed = self._slot.tokens
        room = min(n_max, self._own.n_ctx - len(committed))
        if room < 1:
            return NO_DRAFT
        if self._tree:
            ids = self._readable(committed)
            self._drafted = self._model.propose_tree(self._own, ids, room, self._tree, self._sampler)
        else:
            self._drafted = self._model.propose(self._own, self._readable(committed), room, self._sampler, go_on)
        # The last guess is not in its cache: nothing was asked to follow it. Of a tree none is.
        self._known = len(committed) + (0 if self._tree else len(self._drafted) - 1)
        return self._drafted

    def evidence(self, n_max: int) -> Sequence[int]:
        """See `Drafter`. Nothing past the edge of its own context."""
        room = 0 if self._slot is None else self._own.n_ctx - len(self._slot.tokens)
        return range(1, min(n_max, room) + 1)

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`. Nothing to feed: `draft` compares its slot with the target's."""
        self._lacks_some = self._lacks_some or max(verdict.tokens) >= self._size
        drafted, self._drafted = self._drafted, NO_DRAFT
        depth = drafted.depth
        n = min(verdict.n_accepted, depth)  # what another one guessed says nothing about this model
        if not self._tree:
            self._known -= max(0, depth - 1 - n)
        # Behind the last accepted token the target said something else, unless the draft or the answer ended there.
        checked = n + 1 if n < depth and n < len(verdict.tokens) else n
        asked = bool(drafted.confidence)
        self._outcomes = [Outcome(i + 1, i < n, drafted.confidence[i] if asked else None) for i in range(checked)]

    def outcomes(self) -> Sequence[Outcome]:
        """See `Drafter`."""
        return self._outcomes

    def _readable(self, ids: Sequence[int]) -> Sequence[int]:
        return [i if i < self._size else self._stand_in for i in ids] if self._lacks_some else ids

    def close(self) -> None:
        """Give the draft model's slot back."""
        self._own.close()
