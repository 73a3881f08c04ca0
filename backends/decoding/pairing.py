"""Does a draft model's vocabulary fit the target's? Asked before any weights are placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pardec_chat.backends.base import Vocabulary

#: More ids of difference than this are two vocabularies, not one with small changes.
_MOST_MASKED = 64


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


def compare(target: Vocabulary, draft: Vocabulary) -> Pairing:
    """Compare id by id. Padding rows and special tokens may differ: those ids are masked in the draft's proposals."""
    ours, theirs = target.texts(), draft.texts()
    common = min(len(ours), len(theirs))
    differing = [i for i in range(common) if ours[i] != theirs[i]]
    written = [i for i in differing if not (target.is_special(i) or draft.is_special(i))]
    first = next((_difference(target, draft, i) for i in (*written, *differing)), None)
    sizes = f"{target.size:,} and {draft.size:,} ids"
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


def _difference(target: Vocabulary, draft: Vocabulary, token: int) -> Difference:
    return Difference(token, target.text(token), draft.text(token))
