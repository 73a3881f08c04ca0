"""The figures of a conversation's answers, one after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from pardec_chat.app.lines import Line, plain, wrapped
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.steps import StepsScreen
from pardec_chat.app.widgets import answer_words, speed_plot, wording
from pardec_chat.app.widgets.answer_table import AnswerTable
from pardec_chat.app.widgets.cells import left
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.picture import Picture
from pardec_chat.app.widgets.strung import strung

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.conversations.conversation import Node

_TITLE = "Figures over time"
_EMPTY = "No answer of this conversation has figures yet. They are kept with each answer that is written here."
#: Lines of everything but the plot, the rows of the table and the totals: heading, columns, details, keys.
_REST = 2 + 1 + 8 + 1
_LEAST_PLOT, _MOST_PLOT, _LEAST_ROWS = 3, 10, 3
#: From this height on there is a line between the plot and the table.
_ROOMY = 30


class HistoryScreen(ModalScreen[None]):
    """title: of the conversation. nodes: the branch that is shown, from its first message on."""

    CSS_PATH = "history.tcss"
    AUTO_FOCUS = "Choices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back", show=False, tooltip="Back to the chat", id="figures-back")
    ]

    def __init__(self, title: str, nodes: Sequence[Node]) -> None:
        super().__init__()
        self._title = title
        self._answers = answer_words.answered(nodes)
        self._table = AnswerTable(self._answers)
        self._plot_height = _LEAST_PLOT

    def compose(self) -> ComposeResult:
        """Which conversation, the plot, the table, what it comes to, all figures of the marked answer, keys."""
        yield Picture(id="head")
        yield Picture(id="plot")
        yield Picture(id="columns")
        yield Choices(click_takes=False)
        yield Picture(id="totals")
        yield Picture(id="detail")
        yield Static(Content("↑↓ answer · enter its steps · esc back" if self._answers else "esc back"), id="foot")

    def on_mount(self) -> None:
        """Begin at the newest answer."""
        answers, table = self._answers, self._table
        self.query_one("#head", Picture).show(lambda width: [self._heading(width)])
        if not answers:
            self.add_class("-empty")
            self.query_one("#totals", Picture).show(lambda width: wrapped(_EMPTY, width, "quiet"))
            return
        self.query_one("#columns", Picture).show(lambda width: [table.heading(width)])
        self.query_one("#totals", Picture).show(
            lambda width: [((line, "quiet"),) for line in strung(answer_words.totals(answers), width)]
        )
        self.query_one(Choices).show([partial(table.row, i) for i in range(len(answers))], len(answers) - 1)

    def _heading(self, width: int) -> Line:
        legend = speed_plot.LEGEND if self._answers else ()
        room = width - len(_TITLE) - len(plain(legend))
        name = wording.fit(f"   {visible_line(self._title)}", room - 2)
        return (_TITLE, "title"), (left(name, room), "quiet"), *legend

    def on_resize(self) -> None:
        """The plot and the table share the height; where there is too little of it the plot goes."""
        width, height = self.size
        roomy = height >= _ROOMY
        totals = len(strung(answer_words.totals(self._answers), width - 2)) + 1  # and a line before them
        room = height - _REST - totals - roomy
        plot = min(_MOST_PLOT, max(_LEAST_PLOT, (height - _REST) // 3))
        plot_seen = room - plot - 1 >= _LEAST_ROWS
        self.set_class(not plot_seen, "-no-plot")
        self.set_class(roomy, "-roomy")
        rows = room - plot - 1 if plot_seen else room
        self.query_one(Choices).styles.height = max(1, min(rows, len(self._answers)))
        self._plot_height = plot
        self._draw()

    @on(Choices.Marked)
    def _draw(self) -> None:
        answers, height = self._answers, self._plot_height
        marked = self.query_one(Choices).marked
        if not answers or marked is None:
            return
        self.query_one("#plot", Picture).show(lambda width: speed_plot.lines(answers, marked, width, height))
        self.query_one("#detail", Picture).show(lambda width: answer_words.details(answers[marked], width))

    @on(Choices.Taken)
    def show_steps(self, message: Choices.Taken) -> None:
        """Its last steps, one by one."""
        answer = self._answers[message.index]
        self.app.push_screen(StepsScreen(f"Answer {answer.number:,}", lambda: answer.node.steps, live=False))

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)
