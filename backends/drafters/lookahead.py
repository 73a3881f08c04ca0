"""Jacobi iteration guesses: n-grams that the target itself makes up beside the text (Fu et al. 2024, Lookahead Decoding).

One forward pass does two things. The *window* looks ahead: W columns of N - 1 guesses each, of which the oldest row lies
along the text and the others behind it, become one token longer. The *candidates*, n-grams found that way that begin with
the last committed token, are checked. For W = 4, N = 4, with `·` for the last committed token:

    text         ·  a1  a2  a3          row 0: a guess for each of the next places; all see those before them
    behind it    b0  b1  b2  b3         row 1: what seemed to follow ·, a1, a2, a3
                 c0  c1  c2  c3         row 2: what seemed to follow the b of the same column
    new          d0  d1  d2  d3         what the target says behind each c; the n-gram of column 1 is a1 b1 c1 d1

Then b takes the place of a, c that of b, and d that of c: the window moves on by one place, even where more was accepted, so
that its columns stay whole. As a tree, each a follows the a before it, and below each of them
hangs its column. Nothing of the window is ever accepted; candidates are, by the walk rule, which is exact for every sampler.

What it costs: a forward pass has (N - 1) W rows for the window and up to (N - 1) G for the candidates, beside the last
token's; with the paper's W 15, N 5, G 15 that is up to 120 rows, fewer where candidates begin alike. Where a pass of so many
rows takes more than tau single steps (tau: tokens a step, 1.5 to 2.3 on code), plain decoding is faster: a GPU with idle
arithmetic gains, a CPU does not. A larger W finds n-grams sooner, a larger N makes longer ones out of more passes, a larger G
checks more of those that begin alike; the paper takes W = G, and 15 for 7B, 10 for 13B, 7 for 33B models.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence

from pardec_chat.backends.base import (
    MAX_NODES,
    MAX_PROBES,
    NO_DRAFT,
    Draft,
    Drafter,
    GoOn,
    Method,
    Probes,
    Slot,
    Verdict,
)
from pardec_chat.backends.decoding.sampler import Sampler

#: The paper's parameters for a 7B model: columns of the window, tokens of an n-gram, candidates checked in a step.
WINDOW, NGRAM, CANDIDATES = 15, 5, 15
#: N-grams kept: a few hundred bytes each.
MOST_KEPT = 1 << 13


def branches(window: int = WINDOW, candidates: int = CANDIDATES) -> int:
    """Leaves that a step may have; see `LoadOptions.branches`."""
    return window + candidates


class NgramPool:
    """What was seen to follow a token: the newest `each` continuations of it, of the `most` newest altogether."""

    def __init__(self, each: int, most: int = MOST_KEPT) -> None:
        self._each, self._most = each, most
        # First token → its continuations, oldest first; the token used longest ago comes first.
        self._known: OrderedDict[int, OrderedDict[tuple[int, ...], None]] = OrderedDict()
        self._n = 0

    def add(self, first: int, rest: tuple[int, ...]) -> None:
        """`rest` was seen behind `first`; what was seen before becomes the newest again."""
        known = self._known.setdefault(first, OrderedDict())
        self._known.move_to_end(first)
        if rest in known:
            known.move_to_end(rest)
            return
        known[rest] = None
        self._n += 1
        if len(known) > self._each:
            known.popitem(last=False)
            self._n -= 1
        while self._n > self._most:
            oldest = next(iter(self._known.values()))
            oldest.popitem(last=False)
            self._n -= 1
            if not oldest:
                self._known.popitem(last=False)

    def behind(self, first: int) -> list[tuple[int, ...]]:
        """Continuations of `first`, the newest one first."""
        return list(reversed(self._known.get(first, ())))

    def __len__(self) -> int:
        return self._n


class Lookahead(Drafter):
    """See the module's text. It needs a target that takes trees.

    window, ngram, candidates: W, N and G of the paper, in columns, tokens and n-grams.
    copies: n-grams of prompt and answer go into the pool too, as the authors' program does with the prompt.
    most: n-grams kept.
    """

    method = Method.LOOKAHEAD

    def __init__(
        self,
        window: int = WINDOW,
        ngram: int = NGRAM,
        candidates: int = CANDIDATES,
        *,
        copies: bool = True,
        most: int = MOST_KEPT,
    ) -> None:
        if window < 1 or ngram < 3 or candidates < 1:
            raise ValueError("a window has a column at least, an n-gram three tokens, and a step one candidate")
        if window * (ngram - 1) - 1 > MAX_PROBES:
            raise ValueError(f"a window of {window} columns and {ngram}-grams has more than {MAX_PROBES} rows")
        self._window, self._ngram, self._candidates, self._copies = window, ngram, candidates, copies
        self._pool = NgramPool(candidates, most)
        # Rows 0 … N-2 of the window, each of W tokens; the place of the last committed token in row 0 is not read.
        self._rows: list[list[int]] = []
        self._parents = _window_parents(window, ngram)
        self._slot: Slot | None = None
        self._asked = False
        # Committed ids whose n-grams are in the pool.
        self._noted = 0
        self._random = random.Random(0)

    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """See `Drafter`. The window starts with tokens of the prompt at random places; the pool stays as it was."""
        self._slot = slot
        self._random.seed(len(slot.tokens))
        self._rows = [[self._any() for _ in range(self._window)] for _ in range(self._ngram - 1)]
        self._noted = 0
        self._asked = False
        self._note_text()

    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """See `Drafter`. Candidates up to `n_max` deep as a tree, and the window beside it."""
        if self._slot is None:
            raise RuntimeError("begin comes before draft")
        if n_max < 1:
            return NO_DRAFT
        tokens, parents = _tree(self._pool.behind(self._slot.tokens[-1])[: self._candidates], n_max)
        window = [*self._rows[0][1:], *(token for row in self._rows[1:] for token in row)]
        self._asked = True
        return Draft(tokens, parents, Method.LOOKAHEAD, probes=Probes(window, self._parents))

    def accept(self, verdict: Verdict) -> None:
        """See `Drafter`. The columns of the window become one token longer, and it loses its oldest row."""
        if self._slot is None:
            raise RuntimeError("begin comes before accept")
        asked, self._asked = self._asked, False
        if asked and len(verdict.probe_tokens) == self._window:
            first = [self._slot.tokens[-1 - len(verdict.tokens)], *self._rows[0][1:]]
            self._rows = [*self._rows[1:], list(verdict.probe_tokens)]
            for column, token in enumerate(first):
                self._pool.add(token, tuple(row[column] for row in self._rows))
        self._note_text()

    def _note_text(self) -> None:
        if self._slot is None or not self._copies:
            return
        text, n = self._slot.tokens, self._ngram
        for end in range(max(n, self._noted + 1), len(text) + 1):
            self._pool.add(text[end - n], tuple(text[end - n + 1 : end]))
        self._noted = len(text)

    def _any(self) -> int:
        assert self._slot is not None
        return self._slot.tokens[self._random.randrange(len(self._slot.tokens))]


def _window_parents(window: int, ngram: int) -> list[int]:
    """Parents of the window's tokens, row by row; the last committed token stands in row 0, column 0."""
    parents = list(range(-1, window - 2))
    above = [-1, *range(window - 1)]
    for _ in range(ngram - 2):
        parents += above
        above = list(range(len(parents) - window, len(parents)))
    return parents


def _tree(candidates: Sequence[tuple[int, ...]], depth: int) -> tuple[list[int], list[int]]:
    """Tokens and parents of a tree with all `candidates`, those that begin alike sharing nodes."""
    tokens: list[int] = []
    parents: list[int] = []
    known: dict[tuple[int, int], int] = {}
    for candidate in candidates:
        node = -1
        for token in candidate[:depth]:
            child = known.get((node, token))
            if child is None:
                if len(tokens) == MAX_NODES:
                    return tokens, parents
                child = known[node, token] = len(tokens)
                tokens.append(token)
                parents.append(node)
            node = child
    return tokens, parents
