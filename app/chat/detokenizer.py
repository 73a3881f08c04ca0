"""Token ids to text, as they come."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

_RUNS = re.compile("\ufffd+")


class Detokenizer:
    """Holds back the bytes of an unfinished character; the joined texts equal `decode` of all bytes at once.

    A run of bytes that are no UTF-8 becomes one replacement mark, and the text goes on behind it.
    """

    def __init__(self, piece: Callable[[int], bytes]) -> None:
        self._piece = piece
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._after_mark = False

    def push(self, token: int) -> str:
        """The characters that `token` completes; empty in the middle of one."""
        return self._clean(self._decoder.decode(self._piece(token)))

    def finish(self) -> str:
        """What was held back: a mark for a character that never became whole."""
        return self._clean(self._decoder.decode(b"", final=True))

    def _clean(self, text: str) -> str:
        if not text:
            return ""
        collapsed = _RUNS.sub("\ufffd", text)
        if self._after_mark and collapsed.startswith("\ufffd"):
            collapsed = collapsed[1:]
        self._after_mark = text.endswith("\ufffd")
        return collapsed


def decode(data: bytes) -> str:
    """`data` as text, in one go."""
    return _RUNS.sub("\ufffd", data.decode("utf-8", "replace"))
