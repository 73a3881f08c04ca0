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
    ("backspace", "in an empty prompt: take the file that was attached last away"),
    ("shift+tab", "to the messages, whose keys then stand below; ↑ ↓ go from one to the next, enter comes back"),
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

    def __init__(self, *chapters: tuple[str, Sequence[BindingType]]) -> None:
        super().__init__()
        self._chapters = [(title, [b for b in bindings if isinstance(b, Binding)]) for title, bindings in chapters]

    def compose(self) -> ComposeResult:
        """Keys by where they work, figures, the promise."""
        with VerticalScroll(id="page"):
            for title, bindings in self._chapters:
                yield Static(Content(title), classes="title")
                yield from _table([self._row(binding) for binding in bindings])
            yield Static("Writing and reading", classes="title")
            yield from _table(_WRITING)
            yield Static("Figures", classes="title")
            yield from _table(_FIGURES)
            yield Static("The promise", classes="title")
            yield Static(Content(_PROMISE), classes="text")
        yield Static(Content("↑↓ scroll · esc back"), id="keys")

    def _row(self, binding: Binding) -> tuple[str, Content]:
        """The key as it is now, what it does, and what it is called in the settings file."""
        keymap = getattr(self.app, "keymap", None)
        bound = binding if keymap is None else keymap.bound(binding)
        what = Content(binding.tooltip or binding.description)
        return self.app.get_key_display(bound), what + Content.styled(
            f"  {binding.id}", "$quiet"
        ) if binding.id else what

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)


def _table(rows: Sequence[tuple[str, str | Content]]) -> ComposeResult:
    with Grid(classes="table"):
        for term, meaning in rows:
            yield Static(Content(term), classes="term")
            yield Static(Content(meaning) if isinstance(meaning, str) else meaning, classes="meaning")
