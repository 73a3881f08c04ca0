"""A column of messages that scrolls; it knows what their parts look like."""

from __future__ import annotations

from typing import ClassVar

from textual.containers import VerticalScroll

from pardec_chat.app.widgets.looks import Looks

_ORIGINS = ("origin-draft", "origin-ngram", "origin-lookahead", "origin-head")


class Page(VerticalScroll):
    """Holds the looks once for all messages in it: working them out for each would take longer than drawing it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *("author", "own", "focus", "branch", "wait", "quiet", "word", "next", "error", "chip"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "rule", "bar", "bullet", "task", "head"),
        *("em", "strong", "strike", "link", "link-tinted", "code", "code-inline"),
        *("code-comment", "code-keyword", "code-literal", "code-name", "code-deleted", "code-inserted"),
        *_ORIGINS,
    }
    # Each origin has an underline of its own, so that no colour is needed to tell them apart; nothing else has one then.
    DEFAULT_CSS = """
    Page {
        scrollbar-gutter: stable;
        & > .author { color: $primary; text-style: bold; }
        & > .own { color: $quiet; text-style: bold; }
        & > .focus { color: $primary; }
        & > .branch { color: $quiet; }
        & > .wait { color: $quiet; }
        & > .quiet { color: $quiet; }
        & > .word { color: $error; text-style: bold; }
        & > .next { color: $quiet; }
        & > .error { color: $foreground; }
        & > .chip { color: $quiet; background: $surface; }
        & > .h1 { text-style: bold; }
        & > .h2 { text-style: bold; }
        & > .h3 { text-style: bold; }
        & > .h4 { text-style: bold; }
        & > .h5 { text-style: bold; }
        & > .h6 { text-style: bold; }
        & > .rule { color: $track; }
        & > .bar { color: $track; }
        & > .bullet { color: $quiet; }
        & > .task { color: $primary; }
        & > .head { text-style: bold; }
        & > .em { text-style: italic; }
        & > .strong { text-style: bold; }
        & > .strike { text-style: strike; }
        & > .link { color: $primary; text-style: underline; }
        & > .link-tinted { color: $primary; }
        & > .code { background: $surface; }
        & > .code-inline { background: $surface; color: $primary; }
        & > .code-comment { color: $quiet; text-style: italic; }
        & > .code-keyword { color: $primary; }
        & > .code-literal { color: $warning; }
        & > .code-name { text-style: bold; }
        & > .code-deleted { color: $error; }
        & > .code-inserted { color: $success; }
        & > .origin-draft { background: $origin-draft; text-style: underline; }
        & > .origin-ngram { background: $origin-ngram; text-style: uu; }
        & > .origin-lookahead { background: $origin-lookahead; text-style: overline; }
        & > .origin-head { background: $origin-head; text-style: overline underline; }
    }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002  # Textual's own name
        super().__init__(id=id, classes=classes)
        self.look = Looks(self)

    def notify_style_update(self) -> None:
        """Another theme."""
        self.look.clear()
        super().notify_style_update()
