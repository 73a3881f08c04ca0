"""SentencePiece's merging of pieces by score, as llama.cpp does it: same ids for the same file."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

_SPACE = "\u2581"


class SpmSplitter:
    """Cuts text into the pieces of a vocabulary; what is no piece becomes bytes.

    ids: piece → id. scores: by id. The two neighbours whose joint piece has the highest score are merged first, the leftmost
    of equals; pieces that lead nowhere are taken apart again.
    """

    def __init__(self, ids: Mapping[str, int], scores: Sequence[float]) -> None:
        self._ids, self._scores = ids, scores
        self._bytes = [ids.get(f"<0x{byte:02X}>", ids.get(chr(byte), 0)) for byte in range(256)]

    def split(self, text: str) -> list[int]:
        """Ids of `text`."""
        symbols = list(text.replace(" ", _SPACE))
        n = len(symbols)
        before, after = list(range(-1, n - 1)), [*range(1, n), -1]
        queue: list[tuple[float, int, int, int]] = []
        made_of: dict[str, tuple[int, int]] = {}

        def offer(left: int, right: int) -> None:
            if left < 0 or right < 0:
                return
            joint = symbols[left] + symbols[right]
            token = self._ids.get(joint)
            if token is not None:
                heapq.heappush(queue, (-self._scores[token], left, right, len(joint)))
                made_of[joint] = (left, right)

        for i in range(1, n):
            offer(i - 1, i)
        while queue:
            _, left, right, size = heapq.heappop(queue)
            if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != size:
                continue  # one of them was merged with another before
            symbols[left] += symbols[right]
            symbols[right] = ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        found: list[int] = []
        i = 0 if n else -1
        while i != -1:
            found += self._ids_of(symbols[i])
            i = after[i]
        return found

    def _ids_of(self, symbol: str) -> list[int]:
        token = self._ids.get(symbol)
        return [token] if token is not None else [self._bytes[byte] for byte in symbol.encode("utf-8", "replace")]

    def piece(self, text: str) -> bytes:
        """The bytes that an ordinary piece stands for."""
        return text.replace(_SPACE, " ").encode()
