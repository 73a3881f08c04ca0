"""Lists of an answer, drawn as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.widgets._markdown import (
    MarkdownBulletList,
    MarkdownList,
    MarkdownListItem,
    MarkdownOrderedList,
    MarkdownParagraph,
)
from textual.widgets.markdown import MarkdownBlock

_Item = tuple[str, list["Content | _Tree"]]
_Tree = list[_Item]


class _TextList(MarkdownList):
    """Draws itself, and the lists in it, in one widget where there is nothing but text in them.

    Textual's has four widgets an item and makes all of them anew for every addition.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"bullet"}

    _tree: _Tree | None = None

    def compose(self) -> ComposeResult:
        """Widgets only where an item holds code or the like."""
        self._tree = _read(self)
        if self._tree is None:
            yield from super().compose()
        self._blocks.clear()

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        tree = _read(block) if type(block) is type(self) else None
        if tree is None or self._tree is None:
            await super()._update_from_block(block)
            return
        self._tree = tree
        self._copy_context(block)
        # A layout of the whole screen only when there is a line more.
        width, height = self.content_size
        self.refresh(layout=sum(1 for _ in _lines(tree, width)) != height)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the items take."""
        if self._tree is None:
            return super().get_content_height(container, viewport, width)
        return sum(1 for _ in _lines(self._tree, width))

    def render(self) -> Content:
        """All items."""
        return Content("\n").join(_lines(self._tree or [], self.content_size.width))


class BulletList(_TextList, MarkdownBulletList):
    """See `_TextList`."""


class OrderedList(_TextList, MarkdownOrderedList):
    """See `_TextList`."""


def _read(block: MarkdownBlock) -> _Tree | None:
    """Bullets and texts; None where there is more than text."""
    items = [item for item in block._blocks if isinstance(item, MarkdownListItem)]
    bullets = [item.bullet for item in items]
    if isinstance(block, MarkdownOrderedList) and items:
        # As CommonMark has it, only the first number counts.
        first = int(bullets[0]) if bullets[0].isdecimal() else 1
        numbers = [f"{number}. " for number in range(first, first + len(items))]
        bullets = [number.rjust(max(map(len, numbers))) for number in numbers]
    tree: _Tree = []
    for bullet, item in zip(bullets, items, strict=True):
        parts: list[Content | _Tree] = []
        for part in item._blocks:
            if isinstance(part, MarkdownParagraph):
                parts.append(part._content)
            elif isinstance(part, _TextList) and (inner := _read(part)) is not None:
                parts.append(inner)
            else:
                return None
        tree.append((bullet, parts))
    return tree


def _lines(tree: _Tree, width: int) -> Iterator[Content]:
    for bullet, parts in tree:
        lead, indent = Content.styled(bullet, ".bullet"), Content(" " * len(bullet))
        room = max(1, width - len(bullet))
        for part in parts or [Content("")]:
            for line in _lines(part, room) if isinstance(part, list) else (part.wrap(room) if part else [part]):
                yield lead + line
                lead = indent
