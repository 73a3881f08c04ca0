"""Can one model guess for another? The verdict, from the files' headers alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pardec_chat.backends.decoding.pairing import Difference, compare
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.units import size

Verdict = Literal["exact", "tolerable", "impossible"]

#: Of what a helper is called, what it is for.
_HELPERS = {
    "vision projector": "is a vision projector: it shows pictures to a model and writes no text",
    "adapter": "is an adapter: it changes a model and is none",
    "importance matrix": "is an importance matrix: a model is quantised with it",
    "vocabulary": "holds a vocabulary and no weights",
}


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """Whether `draft` can guess for `target`, by which method, and why.

    reasons: what decides first, then what else is worth knowing. masked_ids: never drafted, since they mean another thing
    or nothing to the target.
    """

    target: Path
    draft: Path
    method: str
    verdict: Verdict
    reasons: tuple[str, ...]
    masked_ids: tuple[int, ...] = ()
    first_difference: Difference | None = None


def judge(target: ModelFile, draft: ModelFile) -> PairVerdict:
    """Compare two files. Nothing is loaded."""
    for file in (target, draft):
        if file.kind in _HELPERS:
            return _no(target, draft, f"{file.path.name} {_HELPERS[file.kind]}.")
    if target.kind == "draft head":
        return _no(target, draft, f"{target.path.name} is a head that guesses for another model; it is no target.")
    if draft.kind == "draft head":
        return _judge_head(target, draft)
    pairing = compare(target.vocabulary(), draft.vocabulary())
    reasons = [f"{reason[0].upper()}{reason[1:]}." for reason in pairing.reasons]
    if pairing.verdict == "exact":
        reasons.append(f"Both have the same {target.shape.vocabulary:,} ids.")
    first = pairing.first_difference
    if first is not None and pairing.verdict != "tolerable":
        reasons.append(f"Id {first.id} is {first.target!r} in the target, {first.draft!r} in the draft.")
    if target.tokenizer != draft.tokenizer:
        reasons.append(f"The tokenizers call themselves {target.tokenizer!r} and {draft.tokenizer!r}.")
    if pairing.verdict != "impossible":
        reasons += _notes(target, draft)
    return PairVerdict(
        target.path, draft.path, "draft", pairing.verdict, tuple(reasons), pairing.masked_ids, pairing.first_difference
    )


def _judge_head(target: ModelFile, head: ModelFile) -> PairVerdict:
    method = "mtp" if head.mtp_present or "assistant" in head.architecture else "eagle"
    what = f"{head.path.name} is a head of the method {method} ({head.architecture})"
    if head.width != target.width:
        reason = f"{what} for a model of width {head.width:,}; {target.path.name} has {target.width:,}."
        return _no(target, head, reason, method)
    return _no(target, head, f"{what}. It may belong to this target, but this version has no method {method}.", method)


def _notes(target: ModelFile, draft: ModelFile) -> list[str]:
    notes = []
    if draft.size:
        ratio = target.size / draft.size
        sizes = f"{size(draft.size)} guesses for {size(target.size)}, {ratio:.1f} to 1"
        alike = "too alike to gain much" if ratio < 2 else "a smaller draft would gain more"
        notes.append(f"{sizes}: {alike}." if ratio < 4 else f"{sizes}.")
    if target.cache in ("recurrent", "hybrid"):
        notes.append(f"The target's {target.cache} cache cannot be trimmed: its state is saved before each check.")
    elif target.cache == "sliding window":
        notes.append(
            "The target keeps the newest tokens only in some layers (sliding window); drafts stay shorter than it."
        )
    if target.mtp_promised:
        found = "holds them" if target.mtp_present == target.mtp_promised else f"holds {target.mtp_present}"
        notes.append(f"The target's metadata promises {target.mtp_promised} MTP layers; the file {found}.")
    return notes


def _no(target: ModelFile, draft: ModelFile, reason: str, method: str = "draft") -> PairVerdict:
    return PairVerdict(target.path, draft.path, method, "impossible", (reason,))
