"""All keys, the definition of every figure, and what the program promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

_WRITING = (
    ("enter", "send"),
    ("ctrl+j", "new line; shift+enter too, where the terminal tells it from enter"),
    ("↑", "on the first line: the prompt before"),
    ("↓", "on the last line: the prompt behind it"),
    ("page up / down", "read back and on"),
    ("ctrl+home / end", "to the top, to the end"),
    ("ctrl+c", "copy what the mouse marked"),
)

_FIGURES = (
    ("tok/s", "tokens written a second of decoding, over the last second; reading the prompt is not in it"),
    ("avg", "the same over the whole answer"),
    ("plain here", "this answer's speed against plain decoding, and that speed, from steps measured on this machine"),
    ("tokens a step", "tokens kept, over forward passes of the large model; plain decoding has 1.0"),
    ("accepted", "guessed tokens that the large model kept, over all that were guessed"),
    ("1st, 2nd, …", "guesses kept at that place, over all forward passes"),
    ("active, idle, off", "guessing, on but with nothing to guess so far, not guessing; and why"),
    ("first token", "from sending to the first token, waiting included"),
    ("prompt", "tokens of the prompt that were read, and the time for them"),
    ("from the cache", "tokens of the prompt that were there already from the turn before"),
    ("whole answer", "from sending to the last token"),
    ("context", "tokens this conversation takes, and may take"),
    ("single step", "a pass of the large model for one token; what checking and guessing costs is counted in it"),
    ("right", "guesses that were right, of those checked at that place or behind such a match; ± one standard error"),
    ("speed-up", "speed over that of plain decoding, as it follows from costs and right guesses"),
)

_PROMISE = (
    "Guessing makes answers faster, not different. They have the same distribution as those of the large model alone; at "
    "temperature 0 it is the same text, except where two tokens tie within the arithmetic's tolerance. "
    "`pardec-chat check` proves it on your machine."
)


class HelpScreen(ModalScreen[None]):
    """Made of the bindings themselves, so that no key is missing."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,q,enter", "leave", "Back", show=False)]

    def __init__(self, bindings: Sequence[BindingType]) -> None:
        super().__init__()
        self._keys = [(b, b.tooltip or b.description) for b in bindings if isinstance(b, Binding)]

    def compose(self) -> ComposeResult:
        """Three chapters."""
        keys = [(self.app.get_key_display(binding), what) for binding, what in self._keys]
        with VerticalScroll(id="page"):
            yield Static("Keys", classes="title")
            yield from _table(keys)
            yield Static("Writing and reading", classes="title")
            yield from _table(_WRITING)
            yield Static("Figures", classes="title")
            yield from _table(_FIGURES)
            yield Static("The promise", classes="title")
            yield Static(Content(_PROMISE), classes="text")
        yield Static(Content("↑↓ scroll · esc back"), id="keys")

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)


def _table(rows: Sequence[tuple[str, str]]) -> ComposeResult:
    with Grid(classes="table"):
        for term, meaning in rows:
            yield Static(Content(term), classes="term")
            yield Static(Content(meaning), classes="meaning")
