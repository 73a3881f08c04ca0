"""A column of messages that scrolls; it knows what their parts look like."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style as RichStyle
from textual.containers import VerticalScroll
from textual.style import Style

from pardec_chat.app.markdown.lines import CLICK

_ORIGINS = ("origin-draft", "origin-ngram", "origin-lookahead", "origin-head")
#: The look of text that the mouse has selected, which is the screen's own.
SELECTED = "selected"
# Looks with their addresses are kept until there are too many of them.
_MOST = 2000


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
        self._base: Style | None = None
        self._looks: dict[tuple[str, ...], RichStyle] = {}

    def look(self, names: tuple[str, ...]) -> RichStyle:
        """How text looks that has all these names, a later one over an earlier one."""
        if self._base is not self.visual_style:
            self._base = self.visual_style
            self._looks.clear()
        if names not in self._looks:
            if len(self._looks) > _MOST:
                self._looks.clear()
            self._looks[names] = self._combine(names)
        return self._looks[names]

    def _combine(self, names: tuple[str, ...]) -> RichStyle:
        style, extra = self.visual_style, RichStyle()
        for name in names:
            if name.startswith(CLICK):
                action, _, argument = name.removeprefix(CLICK).partition(" ")
                extra += RichStyle.from_meta({"@click": (action, (argument,))})
                continue
            of_screen = name == SELECTED
            styles = (
                self.screen.get_component_styles("screen--selection")
                if of_screen
                # What a note says of its parts begins with a dot.
                else self.get_component_styles(name.removeprefix("."))
            )
            text = styles.text_style
            style += Style(
                styles.background if styles.has_rule("background") else None,
                styles.color if styles.has_rule("color") and not styles.auto_color else None,
                bold=text.bold,
                italic=text.italic,
                underline=text.underline,
                underline2=text.underline2,
                reverse=text.reverse,
                strike=text.strike,
            )
            # Textual's style does not know it.
            if text.overline:
                extra += RichStyle(overline=True)
        return style.rich_style + extra

    def notify_style_update(self) -> None:
        """Another theme."""
        self._looks.clear()
        super().notify_style_update()
