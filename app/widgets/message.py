"""Messages of a conversation: what all of them have, and those of the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content, Span
from textual.message import Message as Event
from textual.reactive import reactive

from pardec_chat.app.markdown.lines import CLICK, Line, Lines, wrapped
from pardec_chat.app.plain_text import visible, visible_line
from pardec_chat.app.widgets.drawn import Drawn, Placed
from pardec_chat.app.widgets.wording import fit

#: Cells before the author, and before what is said.
OUTSIDE, INSIDE = 1, 3


class Message(Drawn, can_focus=True):
    """Who, then what. The keys are for it where a bar stands at its left. node_id: of what it shows, for whoever made it.

    branch: its number among the messages in whose place it stands, from 1, and how many there are.
    """

    branch: reactive[tuple[int, int]] = reactive((1, 1))

    @dataclass
    class BranchAsked(Event):
        """The one before (-1) or behind (1) is to be shown in the place of `message`."""

        message: Message
        by: int

    def __init__(self, author: str, look: str, *, node_id: str = "") -> None:
        super().__init__()
        self.node_id = node_id
        self._head = _Head(visible_line(author), look)

    def parts(self) -> Iterable[Placed]:
        """See `Drawn`."""
        yield Placed(self._head, OUTSIDE)
        yield from self.body()

    def body(self) -> Iterable[Placed]:
        """What stands below the author."""
        raise NotImplementedError

    def watch_branch(self) -> None:
        """Show the number, and the way to the others."""
        self._head.branch = self.branch
        self._head.clear()
        self.changed()

    def action_branch(self, by: str) -> None:
        """A click on one of the two signs."""
        self.post_message(self.BranchAsked(self, int(by)))


class _Head(Lines):
    """The author, and at the right end which branch this is."""

    def __init__(self, author: str, look: str) -> None:
        super().__init__()
        self.branch = (1, 1)
        self._author = author
        self._look = look

    def make(self, width: int) -> Iterator[Line]:
        """See `Lines`."""
        n, many = self.branch
        if many < 2:
            yield Line(Content.styled(fit(self._author, width), self._look))
            return
        middle = f" {n}/{many} "
        author = fit(self._author, max(1, width - len(middle) - 4))
        before, behind = ("‹", "›") if many > 1 else ("", "")
        blanks = " " * max(2, width - cell_len(author) - len(middle) - 2)
        text = f"{author}{blanks}{before}{middle}{behind}"
        at = len(author) + len(blanks)
        end = len(text)
        spans = [Span(0, len(author), self._look), Span(at, end, "branch")]
        # The blank beside each sign is a part of what can be hit.
        spans += [Span(at, at + 2, f"{CLICK}branch -1")] if n > 1 else []
        spans += [Span(end - 2, end, f"{CLICK}branch 1")] if n < many else []
        yield Line(Content(text, spans))


class Said(Lines):
    """Text as it is, neither Markdown nor markup."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self.content = content

    def make(self, width: int) -> Iterable[Line]:
        """See `Lines`."""
        return wrapped(self.content, width)


class _Chips(Lines):
    """What goes with a message: names and sizes, as many on a line as fit."""

    def __init__(self, attachments: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._texts = [(visible_line(name), visible_line(size)) for name, size in attachments]

    def make(self, width: int) -> Iterator[Line]:
        """See `Lines`."""
        line = Content("")
        for name, size in self._texts:
            room = width - cell_len(size) - 4
            text = f" {fit(name, max(4, room))}  {size} " if size else f" {fit(name, width - 2)} "
            chip = Content.styled(fit(text, width), "chip")
            if line and line.cell_length + 1 + chip.cell_length > width:
                yield Line(line)
                line = Content("")
            line = line + " " + chip if line else chip
        yield Line(line)


class UserMessage(Message):
    """The text as it was written. attachments: names of files that go with it, and words for their sizes."""

    def __init__(self, text: str, attachments: Sequence[tuple[str, str]] = (), *, node_id: str = "") -> None:
        super().__init__("You", "own", node_id=node_id)
        self.text = text
        self._said = Said(Content(visible(text)))
        self._chips = _Chips(attachments) if attachments else None

    def body(self) -> Iterable[Placed]:
        """See `Message`."""
        yield Placed(self._said, INSIDE)
        if self._chips is not None:
            yield Placed(self._chips, INSIDE)
