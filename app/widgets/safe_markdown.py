"""Markdown of a model: foreign text, so nothing in it may act on the terminal or vanish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from textual.widgets import Markdown

from pardec_chat.app.plain_text import visible, visible_line
from pardec_chat.app.widgets.code import Fence
from pardec_chat.app.widgets.lists import BulletList, OrderedList
from pardec_chat.app.widgets.paragraph import Paragraph
from pardec_chat.app.widgets.table import Table

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


class SafeMarkdown(Markdown):
    """Renders what `visible` has gone over; links open only where they lead to the web, and say where that is."""

    BLOCKS = {  # noqa: RUF012  # the name and the kind are Textual's
        **Markdown.BLOCKS,
        "paragraph_open": Paragraph,
        "fence": Fence,
        "code_block": Fence,
        "bullet_list_open": BulletList,
        "ordered_list_open": OrderedList,
        "table_open": Table,
    }

    def __init__(self, markdown: str | None = None) -> None:
        super().__init__(markdown, parser_factory=_parser, open_links=False)

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Open web addresses; only say what others are."""
        event.stop()
        address = visible_line(event.href)
        if address.startswith(("https://", "http://")):
            self.app.open_url(address)
            self.notify(address, title="Opened in the browser", markup=False)
        else:
            self.notify(address, title="Not a web address, not opened", markup=False)


def _parser() -> MarkdownIt:
    # Tags are text: a model that writes <think> or <div> means to show it, and an HTML block would be left out.
    parser = MarkdownIt("gfm-like", {"html": False})
    parser.core.ruler.push("visible", _make_visible)
    return parser


def _make_visible(state: StateCore) -> None:
    for token in state.tokens:
        _clean(token)


def _clean(token: Token) -> None:
    # Character references (&#27;) become characters in the parser, behind `visible`.
    token.content = visible(token.content)
    if token.type == "softbreak":
        # Models end lines where they mean it, as in verse and addresses.
        token.type = "hardbreak"
    for child in token.children or ():
        _clean(child)
