"""Where a line of Chinese or Japanese may end: between almost any two characters, not only at blanks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, chop_cells

#: Scripts without blanks between words, with the punctuation that is as wide. Korean has blanks, and breaks at them.
_IDEOGRAPHIC = (
    r"\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_FIND = re.compile(f"[{_IDEOGRAPHIC}]")
#: What never begins a line, and what never ends one (JIS X 4051; Unicode Standard Annex 14).
_CLOSING = frozenset(
    "、。，．・：；！？）］｝」』】〉》〕〗〙〟’”｡､｣…‥‐–—〜ー゛゜ゝゞ々〻％‰℃°"
    "ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶㇰㇱㇲㇳㇴㇵㇶㇷㇸㇹㇺㇻㇼㇽㇾㇿｧｨｩｪｫｬｭｮｯｰﾞﾟ"
    ")]},.!?:;%\"'\u200d"
)
_OPENING = frozenset("（［｛「『【〈《〔〖〘〝‘“｢￥＄$#([{\"'\u200d")


def breaks(text: str, width: int) -> Sequence[int] | None:
    """Where one line of text is cut so that no part has more than `width` cells; None where blanks alone matter."""
    if _FIND.search(text) is None:
        return None
    cuts: list[int] = []
    at = used = 0
    for piece in _pieces(text):
        cells = cell_len(piece.rstrip())
        if used + cells > width:
            if used:
                cuts.append(at)
            used = 0
            if cells > width:
                *full, piece_rest = chop_cells(piece, width)
                for part in full:
                    at += len(part)
                    cuts.append(at)
                at += len(piece_rest)
                used = cell_len(piece_rest)
                continue
        used += cell_len(piece)
        at += len(piece)
    return cuts


def _pieces(text: str) -> Iterator[str]:
    """What stays on one line, with the blanks behind it."""
    start = 0
    for n in range(1, len(text)):
        if _may_end(text[n - 1], text[n]):
            yield text[start:n]
            start = n
    yield text[start:]


def _may_end(last: str, next_: str) -> bool:
    """Whether a line may end between these two characters."""
    if next_.isspace():
        return False
    if last.isspace():
        return True
    if next_ in _CLOSING or last in _OPENING or unicodedata.category(next_) in ("Mn", "Me", "Mc"):
        return False
    return _FIND.match(last) is not None or _FIND.match(next_) is not None
