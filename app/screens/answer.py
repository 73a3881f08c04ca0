"""One answer on its way: events go in, the state in words, the figures and the text come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pardec_chat.app.widgets.readout import Readout
from pardec_chat.app.widgets.speed import Speed

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Event, Figures, Finished
    from pardec_chat.backends.errors import UserError


@dataclass(slots=True)
class Answer:
    """What the events of one turn have added up to; times are the engine's, no clock is read here.

    state: words for the title line. notices: not shown yet. text: everything so far.
    used: tokens of the context that are taken while there are no figures.
    """

    state: str = "reading the prompt"
    text: str = ""
    figures: Figures | None = None
    finished: Finished | None = None
    error: UserError | None = None
    notices: list[str] = field(default_factory=list)
    speed: Speed = field(default_factory=Speed)
    stopping: bool = False
    used: int = 0

    @property
    def context_used(self) -> int:
        """Tokens of the context that are taken now."""
        return self.used if self.figures is None else self.figures.context_used

    @property
    def over(self) -> bool:
        """Whether no event follows."""
        return self.finished is not None or self.error is not None

    @property
    def waiting(self) -> bool:
        """Whether there is no text yet."""
        return not self.text

    def stop(self) -> None:
        """The user ended it; what is on its way still counts."""
        self.stopping = True
        self.state = "stopping"

    def take(self, event: Event) -> str:
        """Count one event; gives the text it adds."""
        from pardec_chat.app.chat import request

        text = ""
        match event:
            case request.Queued(ahead):
                self._say(f"waiting, {ahead:,} ahead")
            case request.Prefilling(done, total):
                self._say(f"reading the prompt {done:,} / {total:,}")
                self.used = done
            case request.Notice(notice):
                self.notices.append(notice)
            case request.Delta(text, _, figures):
                self._say("writing")
                self._count(figures)
            case request.Finished():
                text = event.tail
                self._count(event.figures)
                self.finished = event
            case request.Failed(error):
                self.error = error
        self.text += text
        return text

    def readout(self, method: str, depth: int, n_ctx: int) -> Readout:
        """The picture for the metrics; the arguments hold where no figures have come yet."""
        figures = self.figures
        if figures is None:
            return Readout(method, depth, used=self.used, n_ctx=n_ctx)
        total = self.finished.timings.get("total_ms") if self.finished else None
        return Readout(
            method=figures.method,
            depth=figures.depth,
            figures=figures,
            now=None if self.over else self.speed.now,
            curve=self.speed.curve,
            total_ms=total if isinstance(total, float | int) else None,
            n_ctx=n_ctx,
        )

    def _say(self, state: str) -> None:
        if not self.stopping:
            self.state = state

    def _count(self, figures: Figures) -> None:
        self.figures = figures
        self.speed.feed(figures.predicted_n, figures.predicted_ms)
