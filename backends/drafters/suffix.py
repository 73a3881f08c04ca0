"""All substrings of a growing text, and where each of them ended last (suffix automaton; Blumer et al. 1985).

Amortised constant time and memory a token, whatever the length of the text.
"""

from __future__ import annotations

from collections.abc import Iterable

#: How many states on the way to shorter suffixes learn of a newer occurrence: bounds the cost in text like "aaaa…".
_REFRESHED = 32


class SuffixAutomaton:
    """All substrings of a growing sequence of ids, with the newest end of each.

    most: tokens kept; past it the older half is forgotten, so that memory stays bounded (a few hundred bytes a token).
    """

    def __init__(self, most: int = 1 << 17) -> None:
        self._most = most
        self._clear()

    def _clear(self) -> None:
        self.tokens: list[int] = []
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._newest = [-1]
        self._last = 0
        self._match = (0, -1)

    def extend(self, tokens: Iterable[int]) -> None:
        """The sequence grows by `tokens`."""
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        """The sequence grows by `token`."""
        if len(self.tokens) >= self._most:
            kept = self.tokens[-(self._most // 2) :]
            self._clear()
            self.extend(kept)
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

    def copied(self, start: int, i: int) -> int:
        """The `i`th token of a copy from `start` on. Past the end of the text it goes on with itself: a period repeats."""
        return self.tokens[start + i % (len(self.tokens) - start)]

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """Where the longest suffix of another text ends here, one token on: its state and its length; (0, 0) at first."""
        while state and token not in self._next[state]:
            state = self._link[state]
            length = self._length[state]
        after = self._next[state].get(token)
        return (0, 0) if after is None else (after, length + 1)

    def behind(self, state: int) -> int:
        """Index just after the newest occurrence of what `step` found."""
        return self._newest[state] + 1


class Follower:
    """Follows one text in the automaton of another: the longest suffix of the one that stands anywhere in the other."""

    def __init__(self, text: SuffixAutomaton) -> None:
        self._text = text
        self._state = self._length = 0
        self._first = text.tokens

    def restart(self, tokens: Iterable[int]) -> None:
        """Follow another text, of which `tokens` are there already."""
        self._state = self._length = 0
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        """The followed text grows by `token`."""
        if self._text.tokens is not self._first:  # the other text forgot its older half, and its states with it
            self._first, self._state, self._length = self._text.tokens, 0, 0
        self._state, self._length = self._text.step(self._state, self._length, token)

    def longest_match(self) -> tuple[int, int]:
        """Length of that suffix, and the index just after its newest occurrence; length 0 where nothing follows it."""
        start, tokens = self._text.behind(self._state), self._text.tokens
        follows = self._length > 0 and start < len(tokens) and tokens[start] >= 0
        return (self._length, start) if follows else (0, 0)

    def copied(self, start: int, n: int) -> list[int]:
        """Up to `n` tokens from `start` on; negative ids stand between two texts, and nothing is copied across them."""
        copied = self._text.tokens[start : start + n]
        return copied[: next((i for i, token in enumerate(copied) if token < 0), n)]
