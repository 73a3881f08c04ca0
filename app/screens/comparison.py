"""Two answers to the same message beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.lines import wrapped
from pardec_chat.app.widgets import comparison_words
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.app.widgets.two_texts import TwoTexts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.conversations.conversation import Node


class ComparisonScreen(ModalScreen[None]):
    """nodes: all answers to the message, oldest first. left, right: ids of the two to begin with."""

    CSS_PATH = "comparison.tcss"
    AUTO_FOCUS = "TwoTexts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False, tooltip="Back to the chat", id="comparison-back"),
        Binding(
            "left,[",
            "turn(0,-1)",
            "First",
            show=False,
            tooltip="First one: the answer before",
            id="comparison-first-back",
        ),
        Binding(
            "right,]", "turn(0,1)", "First", show=False, tooltip="First one: the next answer", id="comparison-first"
        ),
        Binding(
            "shift+left,{",
            "turn(1,-1)",
            "Second",
            show=False,
            tooltip="Second one: the answer before",
            id="comparison-second-back",
        ),
        Binding(
            "shift+right,}",
            "turn(1,1)",
            "Second",
            show=False,
            tooltip="Second one: the next answer",
            id="comparison-second",
        ),
        Binding(
            "d", "difference", "Difference", show=False, tooltip="To the first difference", id="comparison-difference"
        ),
    ]

    def __init__(self, nodes: Sequence[Node], left: str, right: str) -> None:
        super().__init__()
        self._answers = list(nodes)
        ids = [node.id for node in self._answers]
        self._chosen = [ids.index(left), ids.index(right)]

    def compose(self) -> ComposeResult:
        """Whether they are the same, both, keys."""
        yield Picture(id="verdict")
        yield TwoTexts()
        yield Static(id="foot")

    def on_mount(self) -> None:
        """The two that were asked for."""
        self._draw()

    def _draw(self) -> None:
        left, right = (self._answers[i] for i in self._chosen)
        words = comparison_words.verdict(left, right)
        self.query_one("#verdict", Picture).show(
            lambda width: [((comparison_words.TITLE, "title"),), *wrapped(words, width, "value")]
        )
        sides = [comparison_words.side(self._answers, *pair) for pair in ((left, right), (right, left))]
        self.query_one(TwoTexts).show(*sides)
        keys = ["↑↓ scroll", "esc back"]
        if left.text != right.text:
            keys.insert(0, "d difference")
        if len(self._answers) > 2:
            keys[:0] = ["←→ first answer", "shift+←→ second answer"]
        self.query_one("#foot", Static).update(Content(" · ".join(keys)))

    def action_turn(self, side: int, by: int) -> None:
        """Another answer on that side, which is not the one on the other side."""
        n = len(self._answers)
        if n < 3:
            return
        i = (self._chosen[side] + by) % n
        if i == self._chosen[1 - side]:
            i = (i + by) % n
        self._chosen[side] = i
        self._draw()

    @on(TwoTexts.HeadClicked)
    def turn(self, message: TwoTexts.HeadClicked) -> None:
        """The mouse's way to the next one."""
        self.action_turn(message.side, 1)

    def action_difference(self) -> None:
        """Back to where they begin to differ."""
        self.query_one(TwoTexts).go_to_mark()

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)
