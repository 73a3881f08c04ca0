"""Repetition guesses: the longest suffix of prompt and answer that stood there before is taken to go on as it did.

The text is kept in a suffix automaton (Blumer et al. 1985), which knows that longest suffix after each token at amortised
constant cost, whatever the length of the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pardec_chat.backends.base import NO_DRAFT, Draft, Drafter, Method, Slot, Verdict
from pardec_chat.backends.decoding.sampler import Sampler

#: A shorter match says little about what follows; measured on code, chat and summaries, below it most guesses are wrong.
MIN_MATCH = 4
#: How many states on the way to shorter suffixes learn of a newer occurrence: bounds the cost in text like "aaaa…".
_REFRESHED = 32


class SuffixAutomaton:
    """All substrings of a growing sequence of ids, with the newest end of each."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._newest = [-1]
        self._last = 0
        self._match = (0, -1)

    def append(self, token: int) -> None:
        """The sequence grows by `token`."""
        nexts, links, lengths = self._next, self._link, self._length
        position = len(self.tokens)
        self.tokens.append(token)
        current = len(nexts)
        nexts.append({})
        links.append(0)
        lengths.append(lengths[self._last] + 1)
        self._newest.append(position)
        state = self._last
        while state != -1 and token not in nexts[state]:
            nexts[state][token] = current
            state = links[state]
        if state != -1:
            after = nexts[state][token]
            if lengths[after] == lengths[state] + 1:
                links[current] = after
            else:
                clone = len(nexts)
                nexts.append(nexts[after].copy())
                links.append(links[after])
                lengths.append(lengths[state] + 1)
                self._newest.append(self._newest[after])
                while state != -1 and nexts[state].get(token) == after:
                    nexts[state][token] = clone
                    state = links[state]
                links[after] = links[current] = clone
        self._last = current
        found = links[current]
        self._match = (lengths[found], self._newest[found])
        for _ in range(_REFRESHED):
            if found <= 0:
                break
            self._newest[found] = position
            found = links[found]

    def longest_match(self) -> tuple[int, int]:
        """Length of the longest suffix that also ends earlier, and the index just after its newest earlier occurrence."""
        length, end = self._match
        return length, end + 1


class Ngram(Drafter):
    """Copies what followed the newest earlier occurrence of the longest matching suffix.

    min_match: shortest match to act on, in tokens. After drafts of which nothing was accepted the requirement doubles, up
    to 8 times `min_match`, and one acceptance brings it back.
    """

    method = Method.NGRAM

    def __init__(self, min_match: int = MIN_MATCH) -> None:
        self._min_match = self._required = min_match
        self._text = SuffixAutomaton()
        self._drafted = False

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`. The automaton goes on where the conversation only grew."""
        committed = slot.tokens
        known = self._text.tokens
        if len(known) > len(committed) or not _starts_with(committed, known):
            self._text = SuffixAutomaton()
        for token in committed[len(self._text.tokens) :]:
            self._text.append(token)
        self._required = self._min_match

    def draft(self, n_max: int) -> Draft:
        """See `Drafter`. No longer than the match that speaks for it."""
        length, start = self._text.longest_match()
        self._drafted = length >= self._required
        if not self._drafted:
            return NO_DRAFT
        text = self._text.tokens
        # Past the end of the text the copy goes on with itself: a period repeats.
        period = len(text) - start
        return Draft.chain([text[start + i % period] for i in range(min(n_max, length))], Method.NGRAM)

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`."""
        if self._drafted:
            hit = verdict.n_accepted > 0
            self._required = self._min_match if hit else min(2 * self._required, 8 * self._min_match)
        for token in verdict.tokens:
            self._text.append(token)


def _starts_with(ids: Sequence[int], head: list[int]) -> bool:
    return list(ids[: len(head)]) == head
