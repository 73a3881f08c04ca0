"""From the parser's tokens to blocks, each with the lines of the source that it was made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from markdown_it.common.utils import mdTrim
from markdown_it.rules_block.table import escapedSplit

from pardec_chat.app.markdown.blocks import Block, Item, Numbering, Paper, Quote, Rule, Text
from pardec_chat.app.markdown.code import Code
from pardec_chat.app.markdown.inline import Inline, Places, parse_inline, styled
from pardec_chat.app.markdown.parser import parser
from pardec_chat.app.markdown.table import Row, Table

if TYPE_CHECKING:
    from markdown_it.token import Token

Env = dict[str, Any]


@dataclass(slots=True, eq=False)
class Unit:
    """A block at the top, or an item of a list at the top. first, end: its lines in the source that was built from.

    token: what it was made of, where that is a fence or a table. codes: the code in it.
    """

    block: Block
    first: int
    end: int
    token: Token | None = None
    codes: Sequence[Code] = ()


class Builder:
    """Builds the blocks of one source, which stands at `place` of the document.

    codes: the blocks of code that were there before, whose colours go on in the new ones.
    """

    def __init__(self, paper: Paper, source: str, place: int, env: Env, codes: Sequence[Code] = ()) -> None:
        self._paper = paper
        self.lines = source.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=place))
        self._source = source
        self._env = env
        self._before = list(codes)
        #: The blocks of code, in order.
        self.codes: list[Code] = []

    def units(self, goes_on: Numbering | None = None) -> list[Unit]:
        """All of it. goes_on: the list that the first item belongs to, if it was begun before."""
        units: list[Unit] = []
        for tokens in _groups(parser().parse(self._source, self._env)):
            first, end = tokens[0].map or (0, 0)
            if tokens[0].type in ("bullet_list_open", "ordered_list_open"):
                numbering = goes_on if goes_on is not None and not units else _numbering(tokens[0], 0)
                for item in _groups(tokens[1:-1]):
                    first, end = item[0].map or (0, 0)
                    before = len(self.codes)
                    block = self._item(item, numbering, 0)
                    units.append(Unit(block, first, end, codes=self.codes[before:]))
                continue
            before = len(self.codes)
            unit = Unit(self._block(tokens, 0), first, end)
            unit.codes = self.codes[before:]
            if tokens[0].type in ("fence", "table_open"):
                unit.token = tokens[0]
            units.append(unit)
        return units

    def _blocks(self, tokens: Sequence[Token], depth: int) -> Iterator[Block]:
        for group in _groups(tokens):
            if group[0].type in ("bullet_list_open", "ordered_list_open"):
                numbering = _numbering(group[0], depth)
                for item in _groups(group[1:-1]):
                    yield self._item(item, numbering, depth)
            else:
                yield self._block(group, depth)

    def _item(self, tokens: Sequence[Token], numbering: Numbering, depth: int) -> Item:
        return Item(list(self._blocks(tokens[1:-1], depth + (numbering.first is None))), numbering)

    def _block(self, tokens: Sequence[Token], depth: int) -> Block:
        token = tokens[0]
        match token.type:
            case "heading_open":
                return Text(self._paper, self._inline(tokens[1]), token.tag)
            case "paragraph_open":
                return Text(self._paper, self._inline(tokens[1]))
            case "fence" | "code_block":
                return self._code(token)
            case "blockquote_open":
                return Quote(list(self._blocks(tokens[1:-1], depth)))
            case "table_open":
                return self._table(tokens)
            case _:
                return Rule()

    # ---- texts ----

    def _inline(self, token: Token) -> Inline:
        first = (token.map or (0, 0))[0]
        pieces, at = [], 0
        for n, line in enumerate(token.content.split("\n")):
            pieces.append((at, self._find(line, first + n)))
            at += len(line) + 1
        return styled(token.children or (), token.content, Places(pieces))

    def _find(self, text: str, n: int) -> int:
        """Where in the document what the parser took from line `n` stands; marks stand before it, seldom behind."""
        if n >= len(self.lines):
            return self.starts[-1]
        line = self.lines[n]
        for whole in (line, line.rstrip()):
            if whole.endswith(text):
                return self.starts[n] + len(whole) - len(text)
        return self.starts[n] + max(0, line.find(text))

    # ---- code ----

    def _code(self, token: Token) -> Code:
        first = (token.map or (0, 0))[0] + (token.type == "fence")
        code = Code(self._paper, language(token.info), complete=False)
        text = token.content.removesuffix("\n") if token.type == "fence" else token.content.rstrip("\n")
        lines = text.split("\n") if token.content else []
        code.add((line, self._find(line, first + n)) for n, line in enumerate(lines))
        if len(self.codes) < len(self._before):
            code.take_over(self._before[len(self.codes)])
        self.codes.append(code)
        return code

    # ---- tables ----

    def _table(self, tokens: Sequence[Token]) -> Table:
        rows: list[list[Inline]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
                line = (token.map or (0, 0))[0]
                at = self.starts[line] if line < len(self.lines) else 0
            elif token.type == "inline":
                places, at = locate(token.content, self.lines[line], self.starts[line], at)
                rows[-1].append(styled(token.children or (), token.content, places))
        table = Table(self._paper, _aligns(tokens), rows[0])
        table.add(rows[1:])
        return table


def _groups(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """What stands side by side: single tokens, and those from one that opens to the one that closes it."""
    start = depth = 0
    for n, token in enumerate(tokens):
        depth += token.nesting
        if depth == 0:
            yield tokens[start : n + 1]
            start = n + 1


def _numbering(token: Token, depth: int) -> Numbering:
    if token.type == "bullet_list_open":
        return Numbering(token.markup, depth=depth)
    return Numbering(token.markup, int(token.attrs.get("start", 1)), depth)


def _aligns(tokens: Sequence[Token]) -> list[str]:
    return [str(one.attrs.get("style", "")).removeprefix("text-align:") for one in tokens if one.type == "th_open"]


def language(info: str) -> str:
    """The language that the line above a block of code names."""
    words = info.replace("{", " ").replace("}", " ").split()
    return words[0].lstrip(".").lower() if words else ""


def row_of(line: str, place: int, n_columns: int, env: Env) -> Row:
    """The cells of a table's line, which stands at `place`; what the parser does, for a line alone."""
    texts = escapedSplit(mdTrim(line))
    if texts and not texts[0]:
        texts.pop(0)
    if texts and not texts[-1]:
        texts.pop()
    cells, at = [], place
    for n in range(n_columns):
        text = mdTrim(texts[n]) if n < len(texts) else ""
        places, at = locate(text, line, place, at)
        cells.append(parse_inline(text, places, env))
    return cells


def locate(text: str, line: str, place: int, at: int) -> tuple[Places, int]:
    """Where in the document a cell of `line`, which stands at `place`, has its characters; it is looked for from `at` on.

    Also where the next cell is to be looked for.
    """
    found = line.find(text, at - place)
    if found >= 0 or not text:
        return Places(((0, place + max(0, found)),)), place + max(0, found) + len(text)
    # Each bar in it was escaped in the line.
    found = max(0, line.find(text.replace("|", "\\|"), at - place))
    bars = [n for n, character in enumerate(text) if character == "|"]
    pieces = [(0, place + found), *((n, place + found + n + before) for before, n in enumerate(bars, 1))]
    return Places(pieces), place + found + len(text) + len(bars)
