"""An answer in the conversation: its reasoning, its Markdown, notes and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter

from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip

from pardec_chat.app.markdown.written import Written
from pardec_chat.app.tidy import tidy
from pardec_chat.app.widgets.drawn import Placed, Space
from pardec_chat.app.widgets.message import INSIDE, Message, Said
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.reply_lines import Figures, Fold, Legend
from pardec_chat.backends.base import Method

#: Seconds without an answer after which it is quiet enough for `tidy`.
QUIET = 2.0
_SPACE = Space()
#: Seconds of one share of the work that waits, and from one to the next.
_SHARE, _PAUSE = 0.008, 0.02


class Reply(Message):
    """Author, what is being waited for, the text, and the figures once it is whole.

    Without an author it is nothing but the text. tint: each character stands on the ground of what its token came from.
    """

    tint: reactive[bool] = reactive(False)

    def __init__(self, author: str, *, node_id: str = "") -> None:
        super().__init__(author, "author", node_id=node_id)
        self._has_head = bool(author)
        self._begin()

    def _begin(self) -> None:
        self._raw: list[str] = []
        self._written = Written()
        self._wait = Said(Content(""))
        self._notes: list[Placed] = []
        self._figures: Figures | None = None
        self._is_open = False
        # A share of the work that waits is on its way.
        self._working = False

    def clear(self) -> None:
        """Begin anew, without any text."""
        self._begin()
        self._written.tint(self.tint)
        self.changed()

    # ---- what comes ----

    def wait_for(self, words: str) -> None:
        """Say in words what happens before the first text."""
        if words != self._wait.content.plain:
            self._wait = Said(Content(words))
            if not self._written.passages:
                self.changed()

    def begin_thinking(self) -> None:
        """The answer starts inside its reasoning: only the mark that ends it will come. Asked for before the first text."""
        self._written.begin_thinking()

    def write(self, pieces: Sequence[tuple[str, Method]]) -> None:
        """Add text, token by token, with what guessed each of them."""
        if pieces:
            self._raw += (text for text, _ in pieces)
            self._written.write(pieces)
            self.changed()

    def finish(self, figures: Sequence[str]) -> None:
        """No text comes any more."""
        self._written.finish()
        self._figures = Figures(figures)
        self.changed()
        if self.is_mounted:
            self.set_timer(QUIET, self._tidy)

    def add_note(self, note: Note | Content, *, error: bool = False) -> None:
        """A line of the program's own above the figures."""
        if isinstance(note, Note):
            error, content = note.has_class("-error"), note.content
            note = content if isinstance(content, Content) else Content(str(content))
        self._notes.append(Placed(Said(note), INSIDE, "error" if error else "quiet"))
        self.changed()

    # ---- what there is ----

    @property
    def source(self) -> str:
        """The Markdown so far, as it is shown, without the reasoning."""
        return "".join(document.source for document in self._written.texts())

    @property
    def text(self) -> str:
        """All that was written, as it came."""
        return "".join(self._raw)

    @property
    def code_blocks(self) -> list[str]:
        """The code in it, block by block, without the reasoning's."""
        return [code for document in self._written.texts() for code in document.codes()]

    @property
    def has_reasoning(self) -> bool:
        """Whether there is any to open."""
        return any(passage.kind != "text" for passage in self._written.passages)

    def toggle_reasoning(self) -> None:
        """Open or fold the reasoning, if there is any."""
        self._is_open = not self._is_open
        self.changed()

    def action_reasoning(self, _: str) -> None:
        """A click on its line."""
        self.toggle_reasoning()

    def watch_tint(self) -> None:
        """Show where the tokens are from, or no more."""
        self._written.tint(self.tint)
        self.changed()

    # ---- drawing ----

    def parts(self) -> Iterable[Placed]:
        """See `Drawn`."""
        return super().parts() if self._has_head else self.body()

    def body(self) -> Iterator[Placed]:
        """See `Message`."""
        passages, over = self._written.passages, self._figures is not None
        indent = INSIDE if self._has_head else 0
        counted = self._written.knows_tokens
        if not passages and not over:
            yield Placed(self._wait, indent, "wait")
        for n, passage in enumerate(passages):
            if n:
                yield Placed(_SPACE, indent)
            if passage.kind == "text":
                yield Placed(passage.document, indent)
                continue
            ended = over or n + 1 < len(passages)
            yield Placed(Fold(passage, is_open=self._is_open, over=ended, counted=counted), indent)
            if self._is_open:
                yield Placed(passage.document, indent, "quiet")
        if passages and self._has_head:
            yield Placed(_SPACE, indent if over or self._notes else 0)
        yield from self._notes
        if self._figures is not None and self._has_head:
            yield Placed(self._figures, indent, "quiet")
            if self.tint and passages:
                yield Placed(Legend(self._written.counts, known=counted), indent, "quiet")

    def render_line(self, y: int) -> Strip:
        """See `Drawn`."""
        strip = super().render_line(y)
        self._work_on()
        return strip

    @property
    def is_written(self) -> bool:
        """Whether there is text, and more of it will come."""
        return bool(self._written.passages) and self._figures is None

    def _tidy(self) -> None:
        if not any(reply.is_written for reply in self.screen.query(Reply)):
            tidy()

    def _work_on(self) -> None:
        if self._written.busy and not self._working:
            self._working = True
            self.set_timer(_PAUSE, self._work)

    def _work(self) -> None:
        self._working = False
        if self._written.work(perf_counter() + _SHARE):
            self.refresh()
        self._work_on()
