"""Repetition guesses: the longest suffix of prompt and answer that stood there before is taken to go on as it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, GoOn, Method, Outcome, Slot, Verdict
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.suffix import Follower, SuffixAutomaton

#: A shorter match says little about what follows; measured on code, chat and summaries, below it most guesses are wrong.
MIN_MATCH = 4


class Ngram(Drafter):
    """Copies what followed the newest earlier occurrence of the longest matching suffix.

    min_match: shortest match to act on, in tokens; None takes 1 when guided, else MIN_MATCH. After drafts of which nothing
    was accepted the requirement doubles, up to 8 times `min_match`, and one acceptance brings it back.
    guided: somebody else decides what a match is worth, from `evidence` and `outcomes`: every match is acted on, as far as
    is asked for.
    earlier: text of earlier conversations, copied from where it has the longer match.
    """

    method = Method.NGRAM
    shows_unasked = True

    def __init__(
        self, min_match: int | None = None, *, guided: bool = False, earlier: SuffixAutomaton | None = None
    ) -> None:
        self._guided = guided
        self._min_match = self._required = min_match or (1 if guided else MIN_MATCH)
        self._text = SuffixAutomaton()
        self._earlier = None if earlier is None else Follower(earlier)
        self._drafted = False
        self._outcomes: list[Outcome] = []

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`. The automaton goes on where the conversation only grew."""
        committed = slot.tokens
        known = self._text.tokens
        if len(known) > len(committed) or not _starts_with(committed, known):
            self._text = SuffixAutomaton()
            if self._earlier is not None:
                self._earlier.restart(())
        for token in committed[len(self._text.tokens) :]:
            self._append(token)
        self._required = self._min_match
        self._drafted = False

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`. No longer than the match that speaks for it, unless guided."""
        length = self._longest()
        self._drafted = length >= self._required
        if not self._drafted:
            return NO_DRAFT
        return Draft.chain(self._copied(n_max if self._guided else min(n_max, length)), Method.NGRAM)

    def evidence(self, n_max: int) -> Sequence[int]:
        """See `Drafter`. The length of the match, which grows with every guess that holds."""
        length = self._longest()
        return range(length, length + n_max) if length >= max(1, self._required) else ()

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`. Each token shows whether the match before it spoke true: that costs nothing, drafted or not."""
        if self._drafted:
            self._drafted = False
            hit = verdict.n_accepted > 0
            if not self._guided:
                self._required = self._min_match if hit else min(2 * self._required, 8 * self._min_match)
        self._outcomes = []
        for token in verdict.tokens:
            length = self._longest()
            if length:
                self._outcomes.append(Outcome(length, self._copied(1) == [token]))
            self._append(token)

    def outcomes(self) -> Sequence[Outcome]:
        """See `Drafter`."""
        return self._outcomes

    def _append(self, token: int) -> None:
        self._text.append(token)
        if self._earlier is not None:
            self._earlier.append(token)

    def _longest(self) -> int:
        own = self._text.longest_match()[0]
        return own if self._earlier is None else max(own, self._earlier.longest_match()[0])

    def _copied(self, n: int) -> list[int]:
        length, start = self._text.longest_match()
        if self._earlier is not None:
            other, there = self._earlier.longest_match()
            if other > length:
                return self._earlier.copied(there, n)
        return [self._text.copied(start, i) for i in range(n)]


def _starts_with(ids: Sequence[int], head: list[int]) -> bool:
    return list(ids[: len(head)]) == head
