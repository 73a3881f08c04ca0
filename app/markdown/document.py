"""A Markdown text that grows: what came before is not parsed again, so that an addition costs only the last block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pardec_chat.app.markdown.blocks import Block, Item, Numbering, Paper, Stack, Text
from pardec_chat.app.markdown.build import Builder, Env, Unit, language, row_of
from pardec_chat.app.markdown.code import Code
from pardec_chat.app.markdown.lines import Line
from pardec_chat.app.markdown.parser import references
from pardec_chat.app.markdown.table import Table
from pardec_chat.backends.base import Method

# A line that goes on with a table, whatever stands around it.
_ROW = re.compile(r" {0,3}\|")
# What may be the second line of a table.
_DELIMITER = re.compile(r"[-:|\s]*")
_References = dict[str, dict[str, Any]]


@dataclass(slots=True)
class _Growing:
    """A fence or a table at the end that takes lines without the parser. at: where the line that is being written begins.

    closer: what ends a fence, opener: what such a line may begin with.
    """

    block: Code | Table
    at: int
    closer: re.Pattern[str] | None = None
    opener: re.Pattern[str] | None = None


class Document:
    """A part of a message, see `Part`. All text is what `visible` has gone over.

    What may still change, as the last paragraph, is its tail; the blocks before it are done. An item of a list at the top
    counts as a block, since such lists get long.
    """

    def __init__(self) -> None:
        self.source = ""
        self._paper = Paper()
        # What is done, and where in the source each of it begins and ends.
        self._done: list[Block] = []
        self._ranges: list[tuple[int, int]] = []
        self._tail: list[Unit] = []
        self._tail_at = 0
        # The list that goes on at the start of the tail, and how many of its items are done.
        self._list: tuple[Numbering, int] | None = None
        self._growing: _Growing | None = None
        # Definitions of links in what is done, and where each label leads, the tail's among them.
        self._references: _References = {}
        self._addresses: dict[str, str] = {}
        self._stack = Stack()

    # ---- growing ----

    def append(self, text: str, method: Method = Method.PLAIN) -> None:
        """More text, all of it guessed by one method."""
        self.extend(((text, method),))

    def extend(self, pieces: Sequence[tuple[str, Method]]) -> None:
        """More text, with what guessed each piece of it."""
        for piece, method in pieces:
            self._paper.origins.add(len(piece), method)
        text = "".join(piece for piece, _ in pieces)
        if not text:
            return
        self.source += text
        growing = self._growing
        if growing is None:
            self._parse()
        elif isinstance(growing.block, Code):
            self._grow_code(growing, growing.block)
        else:
            self._grow_table(growing, growing.block)

    def close(self) -> None:
        """No text comes any more."""
        growing = self._growing
        if growing is not None and growing.closer is not None and isinstance(growing.block, Code):
            part = self.source[growing.at :]
            growing.block.add((), (part, growing.at) if part and not growing.closer.fullmatch(part) else None)
        for unit in self._tail:
            _complete(unit)

    def _grow_code(self, growing: _Growing, code: Code) -> None:
        assert growing.closer is not None and growing.opener is not None
        *lines, part = self.source[growing.at :].split("\n")
        added: list[tuple[str, int]] = []
        for line in lines:
            if growing.closer.fullmatch(line):
                code.add(added)
                self._finish_growing(growing.at + len(line) + 1)
                return
            added.append((line, growing.at))
            growing.at += len(line) + 1
        # What may be on its way to end the block is not shown before it is something else.
        code.add(added, (part, growing.at) if part and not growing.opener.fullmatch(part) else None)

    def _grow_table(self, growing: _Growing, table: Table) -> None:
        *lines, part = self.source[growing.at :].split("\n")
        rows = []
        for line in takewhile(_ROW.match, lines):
            rows.append(self._row(table, line, growing.at))
            growing.at += len(line) + 1
        if len(rows) == len(lines) and (not part or _ROW.match(part)):
            table.add(rows, self._row(table, part, growing.at) if part else None)
        elif len(rows) < len(lines) and not lines[len(rows)].strip(" \t"):
            table.add(rows)
            self._finish_growing(growing.at)
        else:
            # A row without a bar before it, or the end of the table.
            self._growing = None
            self._parse()

    def _row(self, table: Table, line: str, at: int) -> Sequence[Any]:
        return row_of(line, at, table.n_columns, self._env())

    def _finish_growing(self, at: int) -> None:
        self._growing = None
        self._commit(1, [self._tail_at, at], None)
        if at < len(self.source):
            self._parse()

    # ---- parsing ----

    def _env(self) -> Env:
        return {"references": dict(self._references)}

    def _parse(self) -> None:
        """Parse the tail anew, and see what of it is done."""
        env, source, n_done = self._env(), self.source[self._tail_at :], len(self._done)
        goes_on: Numbering | None = None
        if self._list is not None:
            goes_on, n_items = self._list
            goes_on.count = n_items
        codes = [code for unit in self._tail for code in unit.codes]
        builder = Builder(self._paper, source, self._tail_at, env, codes)
        self._tail = builder.units(goes_on)
        found = {label: one for label, one in references(env).items() if label not in self._references}
        if n := self._sure(builder):
            last, first = self._tail[n - 1], self._tail[n]
            self._references |= {label: one for label, one in found.items() if one["map"][0] < first.first}
            starts = [self._tail_at, *(builder.starts[unit.first] for unit in self._tail[1 : n + 1])]
            self._commit(n, starts, _is_one_list(last, first))
        self._refer(found, n_done)
        self._begin_growing(builder)

    def _sure(self, builder: Builder) -> int:
        """How many blocks of the tail are done: those before one that begins at a line which will stay its beginning."""
        whole = len(builder.lines) - 1
        for n in range(len(self._tail) - 1, 0, -1):
            unit = self._tail[n]
            # Whatever a line with a bar looks like, the next one can make a table of it; but not of an item among others.
            bar = "|" in builder.lines[unit.first]
            if unit.first + bar >= whole:
                continue
            if bar and _is_one_list(self._tail[n - 1], unit) and _DELIMITER.fullmatch(builder.lines[unit.first + 1]):
                continue
            # What stands right before a text and in no block defines a link, and may take lines of the text yet.
            apart = self._tail[n - 1].end >= unit.first or not builder.lines[unit.first - 1].strip()
            if apart or not isinstance(unit.block, Text):
                return n
        return 0

    def _commit(self, n: int, starts: Sequence[int], goes_on: Numbering | None) -> None:
        """The first `n` blocks of the tail are done. starts: where they and what is behind begin. goes_on: a list does."""
        done = self._tail[:n]
        del self._tail[:n]
        for unit, start, end in zip(done, starts[:-1], starts[1:], strict=True):
            _complete(unit)
            self._done.append(unit.block)
            self._ranges.append((start, end))
        self._tail_at = starts[-1]
        self._list = None
        if goes_on is not None:
            items = sum(isinstance(one.block, Item) and one.block.numbering is goes_on for one in self._tail)
            self._list = goes_on, goes_on.count - items

    def _begin_growing(self, builder: Builder) -> None:
        """Take the lines to come without the parser, where the tail is nothing but a fence or a table."""
        if len(self._tail) != 1 or (token := self._tail[0].token) is None:
            return
        block, first, whole = self._tail[0].block, self._tail[0].first, len(builder.lines) - 1
        opening = builder.lines[first]
        if isinstance(block, Code) and first + ("|" in opening) < whole and opening.startswith(token.markup):
            code = Code(self._paper, language(token.info), complete=False)
            code.take_over(block)
            self._tail[0] = Unit(code, 0, 0, codes=[code])
            mark, marks = re.escape(token.markup[0]), len(token.markup)
            closer = re.compile(rf" {{0,3}}{mark}{{{marks},}}[ \t]*")
            opener = re.compile(rf" {{0,3}}{mark}+[ \t]*")
            self._growing = _Growing(code, builder.starts[first + 1], closer, opener)
            self._grow_code(self._growing, code)
        elif isinstance(block, Table) and first + 1 < whole:
            *rows, part = builder.lines[first + 2 :]
            if all(map(_ROW.match, rows)) and (not part or _ROW.match(part)):
                table = block.emptied()
                self._tail[0] = Unit(table, 0, 0)
                self._growing = _Growing(table, builder.starts[first + 2])
                self._grow_table(self._growing, table)

    def _refer(self, found: _References, n_done: int) -> None:
        """Where a label leads elsewhere now, what was done before and may hold it is made anew."""
        addresses = {label: one["href"] for label, one in (found | self._references).items()}
        if addresses == self._addresses:
            return
        self._addresses = addresses
        env = {"references": found | self._references}
        for n, (block, (start, end)) in enumerate(zip(self._done[:n_done], self._ranges, strict=False)):
            if isinstance(block, Code) or "[" not in self.source[start:end]:
                continue
            numbering = block.numbering if isinstance(block, Item) else None
            if numbering is not None and isinstance(block, Item):
                count, numbering.count = numbering.count, block.n
            made = Builder(self._paper, self.source[start:end], start, env).units(numbering)
            if numbering is not None:
                numbering.count = count
            if [type(unit.block) for unit in made] == [type(block)]:
                _complete(made[0])
                self._done[n] = made[0].block
        self._stack.clear()

    # ---- drawing ----

    def height(self, width: int) -> int:
        """See `Part`."""
        return self._stack.update(width, self._done, [unit.block for unit in self._tail])

    def line(self, n: int) -> Line:
        """See `Part`."""
        return self._stack.line(n)

    @property
    def tint(self) -> bool:
        """Whether each character stands on the ground of its origin; changes no line's length."""
        return self._paper.tint

    @tint.setter
    def tint(self, tint: bool) -> None:
        if tint != self._paper.tint:
            self._paper.tint = tint
            self._redraw()

    def _redraw(self) -> None:
        for block in (*self._done, *(unit.block for unit in self._tail)):
            block.clear()

    def codes(self) -> Iterator[str]:
        """The texts of all blocks of code."""
        for block in (*self._done, *(unit.block for unit in self._tail)):
            yield from block.codes()

    @property
    def busy(self) -> bool:
        """Whether there is something left for `work`; known when lines were drawn."""
        return bool(self._paper.jobs)

    def work(self, until: float) -> bool:
        """Go on with what was too much to be done at once, until `perf_counter` reaches `until`.

        Says whether lines look different now.
        """
        jobs = self._paper.jobs
        if not jobs or jobs[0](until):
            return False
        del jobs[0]
        self._redraw()
        return True


def _is_one_list(unit: Unit, other: Unit) -> Numbering | None:
    """The list that both are items of."""
    block, behind = unit.block, other.block
    same = isinstance(block, Item) and isinstance(behind, Item) and block.numbering is behind.numbering
    return block.numbering if same and isinstance(block, Item) else None


def _complete(unit: Unit) -> None:
    for code in unit.codes:
        code.complete = True
