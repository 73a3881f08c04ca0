"""An answer as its events tell it, without a widget."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pardec_chat.app.conversations.record import MOST_STEPS, AnswerRecord, Origin, StepRecord
from pardec_chat.app.widgets.readout import Readout
from pardec_chat.app.widgets.speed import Speed
from pardec_chat.backends.base import Method

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Delta, Event, Figures, Finished, Piece, Prefilling
    from pardec_chat.backends.errors import UserError


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer was asked of. model, draft: their names as they are shown."""

    model: str
    draft: str | None
    runtime: str
    method: Method
    temperature: float


@dataclass(slots=True)
class Answer:
    """What the events of one turn have added up to; times are the engine's, no clock is read here.

    state: words for the title line. notices: not shown yet. text: everything so far; origins: of its tokens.
    thinks: it begins inside its reasoning. used: tokens of the context that are taken while there are no figures.
    """

    state: str = "reading the prompt"
    text: str = ""
    figures: Figures | None = None
    finished: Finished | None = None
    error: UserError | None = None
    thinks: bool = False
    origins: list[Origin] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    speed: Speed = field(default_factory=Speed)
    stopping: bool = False
    used: int = 0
    _steps: deque[Delta] = field(default_factory=lambda: deque(maxlen=MOST_STEPS))
    _began: Prefilling | None = None

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

    def take(self, event: Event) -> Sequence[Piece]:
        """Count one event; gives the text it adds, token by token."""
        from pardec_chat.app.chat import request

        pieces: Sequence[Piece] = ()
        match event:
            case request.Queued(ahead):
                self._say(f"waiting, {ahead:,} ahead")
            case request.Prefilling():
                self._say(self._reading(event))
                self.used = event.done
            case request.Thinking():
                self.thinks = True
            case request.Notice(notice):
                self.notices.append(notice)
            case request.Delta():
                self._say("writing")
                self._count(event.figures)
                self._steps.append(event)
                pieces = event.pieces
            case request.Finished():
                pieces = event.pieces
                self._count(event.figures)
                self.finished = event
            case request.Failed(error):
                self.error = error
        self.text += "".join(text for text, _ in pieces)
        self.origins += [(len(text), origin) for text, origin in pieces]
        return pieces

    def readout(self, method: str, depth: int, n_ctx: int) -> Readout:
        """The picture for the metrics; the arguments hold where no figures have come yet."""
        figures = self.figures
        if figures is None:
            return Readout(method, depth, used=self.used, n_ctx=n_ctx)
        return Readout(
            method=figures.method,
            depth=figures.depth,
            figures=figures,
            now=None if self.over else self.speed.now,
            curve=self.speed.curve,
            total_ms=self.total_ms if self.finished is not None else None,
            n_ctx=n_ctx,
        )

    @property
    def total_ms(self) -> float:
        """From the request to the last token; 0 while it is not over."""
        total = self.finished.timings.get("total_ms") if self.finished is not None else None
        return float(total) if isinstance(total, float | int) else 0.0

    def record(self, asked: Asked) -> AnswerRecord:
        """What is kept of its figures; before the first of them, whom it was asked of."""
        record = AnswerRecord(
            model=asked.model,
            draft=asked.draft,
            runtime=asked.runtime,
            method=asked.method,
            temperature=asked.temperature,
        )
        figures = self.figures
        if figures is None:
            return record
        return replace(
            record,
            method=figures.method,
            depth=figures.depth,
            using=figures.using,
            state=figures.status.state,
            reason=figures.status.reason,
            predicted_n=figures.predicted_n,
            predicted_ms=figures.predicted_ms,
            steps=figures.steps,
            draft_n=figures.draft_n,
            draft_n_accepted=figures.draft_n_accepted,
            accepted_per_position=figures.accepted_per_position,
            prompt_n=figures.prompt_n,
            cache_n=figures.cache_n,
            prompt_ms=figures.prompt_ms,
            ttft_ms=figures.ttft_ms,
            total_ms=self.total_ms,
            plain_per_second=figures.plain_per_second,
            context_used=figures.context_used,
            context_size=figures.context_size,
            finish_reason=self.finished.finish_reason if self.finished is not None else "",
        )

    def steps(self) -> tuple[StepRecord, ...]:
        """The last steps, in texts; bytes that are no character of their own are spelled out."""
        return tuple(
            StepRecord(
                number=delta.figures.steps,
                proposed=tuple(_spelled(piece) for piece in delta.proposed),
                n_accepted=delta.step.n_accepted,
                own=_spelled(delta.own),
                source=delta.step.source,
                n_tokens=len(delta.step.tokens),
                draft_ms=delta.step.draft_ms,
                verify_ms=delta.step.verify_ms,
            )
            for delta in self._steps
        )

    def _reading(self, event: Prefilling) -> str:
        words = f"reading the prompt {event.done:,} / {event.total:,}"
        if self._began is None:
            self._began = event
        ms = event.ms - self._began.ms
        return f"{words} · {(event.done - self._began.done) / ms * 1e3:,.0f} tok/s" if ms > 0 else words

    def _say(self, state: str) -> None:
        if not self.stopping:
            self.state = state

    def _count(self, figures: Figures) -> None:
        self.figures = figures
        self.speed.feed(figures.predicted_n, figures.predicted_ms)


def _spelled(piece: bytes) -> str:
    return piece.decode("utf-8", "backslashreplace")
