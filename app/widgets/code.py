"""Code in an answer, in few colours."""

from __future__ import annotations

from pygments.token import Token  # type: ignore[import-untyped]
from textual.content import Content
from textual.highlight import HighlightTheme, highlight
from textual.widgets import Label
from textual.widgets.markdown import MarkdownFence


class _Theme(HighlightTheme):
    """Keywords in the accent colour, literals in a second one, names of definitions bold; the rest is text."""

    STYLES = {  # noqa: RUF012  # the name and the kind are Textual's
        Token.Comment: "$quiet italic",
        Token.Keyword: "$primary",
        Token.Operator.Word: "$primary",
        Token.Literal: "$warning",
        Token.Literal.String.Doc: "$quiet italic",
        Token.Name.Function: "bold",
        Token.Name.Class: "bold",
        Token.Name.Tag: "$primary",
        Token.Name.Attribute: "$warning",
        Token.Generic.Heading: "bold",
        Token.Generic.Subheading: "bold",
        Token.Generic.Deleted: "$error",
        Token.Generic.Inserted: "$success",
    }


class Fence(MarkdownFence):
    """A fenced block that is highlighted with the app's own colours, whichever theme they come from."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:  # noqa: ARG003  # Textual's
        """The code with its colours; without a language it has none, since guessing one takes a second."""
        return highlight(code, language=language or "text", theme=_Theme)

    def set_content(self, content: Content) -> None:
        """Take over the code as it is now; a layout of the whole screen only when it gets a line more, or wider."""
        self._content = content
        for label in self.query_children("#code-content").results(Label):
            width, height = label.content_size
            lines = content.split("\n", allow_blank=True)
            same = len(lines) == height and max(line.cell_length for line in lines) <= width
            label.update(content, layout=not same)
