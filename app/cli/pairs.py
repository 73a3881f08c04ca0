"""`pardec-chat models why` and `models pairs`: which model can guess for which, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pardec_chat.app.cli.output import print_json

if TYPE_CHECKING:
    from pathlib import Path

    from pardec_chat.app.downloads.library import Entry, Library
    from pardec_chat.backends.pairs import PairVerdict

#: Masked ids are many where a vocabulary is padded; the first ones show what they are.
_SHOWN = 8


def why(library: Library, target: str, draft: str, *, as_json: bool) -> int:
    """Print the verdict on one pair. Raises UserError for what is not here or cannot be read."""
    verdict = judge(library.resolve(target, any_kind=True), library.resolve(draft, any_kind=True))
    if as_json:
        print_json(described(verdict, target, draft))
        return 0
    names = f"{_shown(target)} + {_shown(draft)}"
    print(f"{verdict.verdict}  {names}  (method {verdict.method})")
    for reason in verdict.reasons:
        print(f"  {_shown(reason)}")
    if verdict.masked_ids:
        first = ", ".join(map(str, verdict.masked_ids[:_SHOWN]))
        more = f" and {len(verdict.masked_ids) - _SHOWN:,} more" if len(verdict.masked_ids) > _SHOWN else ""
        print(f"  Never drafted: ids {first}{more}.")
    if verdict.verdict != "impossible":
        _print_plan(verdict.target, verdict.draft)
    return 0


def pairs(library: Library, target: str | None, *, as_json: bool) -> int:
    """Print every candidate on disk for one target, or for all, and what could be fetched. Raises UserError."""
    here = [entry for entry in [*library.entries(), *library.cached()] if entry.state == "on disk"]
    if target is None:
        targets = [entry for entry in here if not entry.helper]
    else:
        path = library.resolve(target)
        targets = [entry for entry in here if entry.path == path] or [_entry(target, path)]
    found = [_of_target(library, entry, here) for entry in targets]
    if as_json:
        print_json({"targets": found})
        return 0
    if not found:
        print("No model is on this disk. `pardec-chat models pull` fetches the built-in one.")
    for number, row in enumerate(found):
        if number:
            print()
        print(_shown(row["target"]))
        width = max((len(_shown(pair["draft"])) for pair in row["pairs"]), default=0)
        for pair in row["pairs"]:
            mark = {"exact": "✓", "tolerable": "✓", "impossible": "✗"}[pair["verdict"]]
            print(f"  {mark} {_shown(pair['draft']):<{width}}  {pair['verdict']:<10}  {_shown(pair['reasons'][0])}")
        for other in row["fetchable"]:
            gain = f", {other['gain']}" if other["gain"] else ""
            how = f"pardec-chat models pull {other['id']}"
            print(f"  + {_shown(other['id'])}  {other['method']}, {other['bytes'] / 1e9:.2f} GB{_shown(gain)}: {how}")
        if not row["pairs"] and not row["fetchable"]:
            print("  nothing here guesses for it, and nothing is known that does; n-grams need no second model")
    return 0


def described(verdict: PairVerdict, target: str, draft: str) -> dict[str, Any]:
    """As JSON."""
    first = verdict.first_difference
    return {
        "target": target,
        "draft": draft,
        "method": verdict.method,
        "verdict": verdict.verdict,
        "reasons": list(verdict.reasons),
        "masked_ids": list(verdict.masked_ids),
        "first_difference": None if first is None else {"id": first.id, "target": first.target, "draft": first.draft},
    }


def _of_target(library: Library, target: Entry, here: list[Entry]) -> dict[str, Any]:
    from pardec_chat.backends.errors import UserError

    rows: list[dict[str, Any]] = []
    for entry in here:
        if entry.path == target.path or (not entry.helper and entry.size >= target.size):
            continue  # a draft as large as its target cannot gain
        try:
            rows.append(described(judge(target.path, entry.path), target.id, entry.id))
        except UserError as error:
            rows.append(
                {
                    "target": target.id,
                    "draft": entry.id,
                    "method": "draft",
                    "verdict": "impossible",
                    "reasons": [error.what],
                    "masked_ids": [],
                    "first_difference": None,
                }
            )
    rows.sort(key=lambda row: (row["verdict"] == "impossible", row["verdict"] == "tolerable"))
    listed = {entry.id for entry in here}
    others = []
    for pair in target.model.pairs if target.model is not None else ():
        other = library.catalogue.find(pair.model_id) if pair.model_id is not None else None
        if other is not None and other.id not in listed:
            others.append({"id": other.id, "method": pair.method, "bytes": other.size, "gain": pair.gain})
    return {"target": target.id, "pairs": rows, "fetchable": others}


def judge(target: Path, draft: Path) -> PairVerdict:
    """The verdict on two files. Raises ModelUnreadable."""
    from pardec_chat.backends import pairs
    from pardec_chat.backends.gguf.model import read_model

    return pairs.judge(read_model(target), read_model(draft))


def _entry(name: str, path: Path) -> Entry:
    from pardec_chat.app.downloads.library import Entry

    size = path.stat().st_size
    return Entry(name, path, size, size, "on disk")


def _print_plan(target: Path, draft: Path) -> None:
    from pardec_chat.app import fit_words, lines
    from pardec_chat.backends import machine, memory
    from pardec_chat.backends.gguf.model import read_model
    from pardec_chat.backends.llamacpp import build

    wish = memory.Wish(read_model(target).shape, read_model(draft).shape)
    planned = memory.plan(wish, build.usable(machine.inspect()))
    print()
    for line in fit_words.plan_lines(planned, 76):
        print("  " + lines.plain(line))


def _shown(text: str) -> str:
    from pardec_chat.app.plain_text import visible_line

    return visible_line(text)
