"""Does a draft model's vocabulary fit the target's? Asked before any weights are placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

#: More ids of difference than this are two vocabularies, not one with small changes.
_MOST_MASKED = 64


@dataclass(frozen=True, slots=True)
class TokenTable:
    """A vocabulary as its file lists it, without the means to encode.

    texts: the name of each id as UTF-8. special: ids that are never part of a written text.
    """

    texts: Sequence[bytes]
    special: frozenset[int]

    def text(self, token: int) -> str:
        """The name of `token`, a note where the file has none."""
        return self.texts[token].decode("utf-8", "replace") if token < len(self.texts) else "(no such id)"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first id that the two files give other texts."""

    id: int
    target: str
    draft: str


@dataclass(frozen=True, slots=True)
class Pairing:
    """Whether ids of the draft model mean the same to the target.

    verdict: `exact`, `tolerable` (the masked ids are never drafted) or `impossible`.
    """

    verdict: Literal["exact", "tolerable", "impossible"]
    masked_ids: tuple[int, ...]
    reasons: tuple[str, ...]
    first_difference: Difference | None


def compare(target: TokenTable, draft: TokenTable) -> Pairing:
    """Compare id by id. Padding rows and special tokens may differ: those ids are masked in the draft's proposals."""
    ours, theirs = target.texts, draft.texts
    common = min(len(ours), len(theirs))
    differing = [i for i in range(common) if ours[i] != theirs[i]]
    written = [i for i in differing if not (i in target.special or i in draft.special)]
    first = next((_difference(target, draft, i) for i in (*written, *differing)), None)
    sizes = f"{len(ours):,} and {len(theirs):,} ids"
    if written or len(differing) > _MOST_MASKED:
        what = f"{len(differing):,} of {common:,} common ids have other texts ({sizes})"
        return Pairing("impossible", (), (what,), first)
    masked = tuple(sorted({*differing, *range(len(ours), len(theirs))}))
    reasons = []
    if len(ours) != len(theirs):
        reasons.append(f"padded differently ({sizes})")
    if differing:
        reasons.append(f"{len(differing)} special tokens differ and are never drafted")
    return Pairing("tolerable" if reasons else "exact", masked, tuple(reasons), first)


def _difference(target: TokenTable, draft: TokenTable, token: int) -> Difference:
    return Difference(token, target.text(token), draft.text(token))
