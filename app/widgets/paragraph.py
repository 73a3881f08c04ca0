"""A paragraph of an answer that grows by words."""

from __future__ import annotations

from textual.content import Content
from textual.widgets._markdown import MarkdownParagraph


class Paragraph(MarkdownParagraph):
    """Costs a layout of the whole screen only when it gets a line more."""

    def set_content(self, content: Content) -> None:
        """Take over what the paragraph says now."""
        self._content = content
        width, height = self.content_size
        self.update(content, layout=width < 1 or content.get_height({}, width) != height)
