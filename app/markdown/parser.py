"""The Markdown parser: tags are text, line ends are kept, and every character is safe for a terminal."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import image, link

from pardec_chat.app.plain_text import visible

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

# Deeper than this the parser leaves text out, and the stack has its limit, too.
_MOST_NESTED = 60
#: Where in the source of its text a link or an image ends, in the meta of the token that closes it.
END = "end"


@cache
def parser() -> MarkdownIt:
    """The one parser of the UI thread; `env` of its methods is `{"references": …}`."""
    return make()


def make() -> MarkdownIt:
    """A parser of its own, for other threads."""
    # Tags are text: a model that writes <think> or <div> means to show it, and an HTML block would be left out.
    made = MarkdownIt("gfm-like", {"html": False, "maxNesting": _MOST_NESTED})
    # What was escaped stays apart from the text around it, so that each character's place in the source is known.
    made.core.ruler.disable("text_join")
    made.core.ruler.push("visible", _make_visible)
    made.inline.ruler.at("link", _with_end(link))
    made.inline.ruler.at("image", _with_end(image))
    # An address is shown as it was written.
    made.normalizeLinkText = str  # type: ignore[method-assign,assignment]
    return made


def _with_end(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    def noting(state: StateInline, silent: bool) -> bool:
        found = rule(state, silent)
        if found and not silent:
            state.tokens[-1].meta = {END: state.pos}
        return found

    return noting


def _make_visible(state: StateCore) -> None:
    for token in state.tokens:
        _clean(token)


def _clean(token: Token) -> None:
    # Character references (&#27;) become characters in the parser, behind `visible`.
    if token.type == "text_special":
        token.content = visible(token.content).replace("\n", " ").replace("\t", " ")
    for child in token.children or ():
        _clean(child)


def references(env: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The link definitions that a parse has found, by label."""
    found: dict[str, dict[str, Any]] = env.get("references", {})
    return found
