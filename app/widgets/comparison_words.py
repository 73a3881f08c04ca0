"""What two answers to one message have in common, in words; no widget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from pardec_chat.app.conversations.conversation import Node
from pardec_chat.app.plain_text import visible, visible_line
from pardec_chat.app.widgets import answer_words, wording
from pardec_chat.backends.base import Method

TITLE = "Two answers"
_NO_FIGURES = "no figures are kept"
_TIES = (
    "At temperature 0 only tokens that tie within the arithmetic's tolerance may make a difference; "
    "`pardec-chat check` tells."
)
_TAB = " " * 4


@dataclass(frozen=True, slots=True)
class Side:
    """An answer as it is shown. name: which it is, and how it was written. figures: what it came to.

    text: harmless for a terminal. mark: where in it the difference begins; None where there is none.
    """

    name: tuple[str, ...]
    figures: tuple[str, ...]
    text: str
    mark: int | None


def in_common(left: str, right: str) -> int:
    """How many characters are the same from the start on."""
    lengths = range(min(len(left), len(right)) + 1)
    return bisect_left(lengths, True, key=lambda n: left[:n] != right[:n]) - 1


def verdict(left: Node, right: Node) -> str:
    """Whether they are the same, and whether they have to be."""
    if left is right:
        return "There is only this answer."
    n = in_common(left.text, right.text)
    greedy = _greedy(left, right)
    if left.text == right.text:
        if not left.text:
            return "Both are empty."
        first = f"The same text, all {n:,} {'character' if n == 1 else 'characters'} of it."
        if not greedy:
            return first
        ways = {_way(left), _way(right)}
        if len(ways) == 1:
            return f"{first} Both were written at temperature 0 with {_way(left)}."
        return f"{first} At temperature 0, {_way(left)} and {_way(right)} write the same: only the speed differs."
    if n == 0:
        first = "They differ from the first character on."
    else:
        shorter = next((name for name, node in (("first", left), ("second", right)) if len(node.text) == n), None)
        first = f"The same up to character {n:,}" + (f", where the {shorter} one ends." if shorter else ".")
    if greedy:
        return first if _cut(left, right) else f"{first} {_TIES}"
    drawn = [node.record.temperature for node in (left, right) if node.record is not None and node.record.temperature]
    return f"{first} At temperature {drawn[0]:g} each is drawn anew." if drawn else first


def side(nodes: Sequence[Node], node: Node, other: Node) -> Side:
    """An answer beside another one."""
    name = [f"{nodes.index(node) + 1} of {len(nodes)}"]
    record = node.record
    figures: list[str] = []
    if record is None:
        figures.append(_NO_FIGURES)
    else:
        name += [answer_words.method(record), f"temperature {record.temperature:g}"]
        if other.record is None or other.record.model != record.model:
            name.append(record.model)
        figures.append(f"{wording.rate(record.tokens_per_second)} tok/s")
        if record.method != Method.PLAIN and record.speedup is not None:
            figures.append(f"{wording.times(record.speedup)} plain")
        figures.append(f"{wording.ratio(record.tokens_per_step)} a step")
        figures.append(f"{answer_words.accepted(record)} accepted" if record.draft_n > 0 else "nothing guessed")
    if node.state != "whole":
        figures.append(answer_words.ENDS[node.state])
    text, mark = _shown(node.text, None if node.text == other.text else in_common(node.text, other.text))
    return Side(tuple(map(visible_line, name)), tuple(figures), text, mark)


def _shown(text: str, mark: int | None) -> tuple[str, int | None]:
    """The text without control bytes, and where `mark` is in it then."""
    if mark is None:
        return _harmless(text), None
    before = _harmless(text[:mark])
    return before + _harmless(text[mark:]), len(before)


def _harmless(text: str) -> str:
    # A tab is as wide wherever it stands, so that the mark can be found.
    return visible(text).replace("\t", _TAB)


def _way(node: Node) -> str:
    record = node.record
    assert record is not None
    return wording.method(record.method.value, 0, record.using.value)


def _greedy(left: Node, right: Node) -> bool:
    """Whether the same model wrote both at temperature 0."""
    a, b = left.record, right.record
    return a is not None and b is not None and a.temperature == b.temperature == 0 and a.model == b.model


def _cut(left: Node, right: Node) -> bool:
    """Whether they only differ in their lengths, since the shorter one did not come to its end."""
    shorter, longer = sorted((left, right), key=lambda node: len(node.text))
    return longer.text.startswith(shorter.text) and shorter.state != "whole"
