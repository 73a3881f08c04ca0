"""The answers to one request: submitted together, followed together, and ended together when nobody wants them any more."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from pardec_chat.app.chat.engine import Ticket
from pardec_chat.app.chat.request import Failed, Figures, Finished, Request
from pardec_chat.app.endpoint.context import Context
from pardec_chat.app.endpoint.errors import of_user_error, unavailable
from pardec_chat.app.endpoint.logprobs import Releaser, TokenPiece
from pardec_chat.app.endpoint.sse import ClientGone
from pardec_chat.app.endpoint.stream import Bell, Feed, Taken
from pardec_chat.app.endpoint.timings import Tally
from pardec_chat.backends.base import TokenLogprobs
from pardec_chat.backends.errors import UserError

#: Seconds without anything to send after which a stream says that it is alive.
BEAT = 3.0


@dataclass(frozen=True, slots=True)
class Part:
    """What is new in one answer. pieces: tokens, where log-probabilities were asked for. timings: so far, or at the end."""

    text: str
    pieces: Sequence[TokenPiece] = ()
    timings: dict[str, Any] = field(default_factory=dict)
    notices: Sequence[str] = ()
    finished: Finished | None = None


@dataclass(frozen=True, slots=True)
class Beat:
    """Nothing to send yet, and why. due: whether it is time for a sign of life; else the engine has taken the prompt."""

    why: str
    due: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """What to ask the engine for. prompt, grammar: parameters to blame for a conversation or form that is refused."""

    requests: Sequence[Request]
    prompt: str
    grammar: str | None = None
    with_pieces: bool = False


@dataclass(slots=True)
class _One:
    feed: Feed
    ticket: Ticket
    method: str
    releaser: Releaser = field(default_factory=Releaser)
    shown: int = 0
    begun: bool = False
    over: bool = False
    figures: Figures | None = None
    waiting: str = "waiting"


class Answers:
    """A context: leaving it cancels what has not ended. entry: its number in the journal."""

    def __init__(self, context: Context, ask: Ask, entry: int) -> None:
        self._context = context
        self._ask = ask
        self._entry = entry
        self._bell = Bell()
        self._begin = perf_counter()
        self._all: list[_One] = []

    async def __aenter__(self) -> Answers:
        """Raises ApiError where the queue is full."""
        loaded = self._context.loaded()
        draft = None if loaded is None else loaded.draft
        self._context.live.add(self._bell.ring)
        try:
            for request in self._ask.requests:
                feed = Feed(self._bell, Tally(draft))
                ticket = self._context.engine.submit(request, feed)
                self._all.append(_One(feed, ticket, request.method.value))
        except UserError as error:
            self._close("error")
            raise self._refused(error) from None
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        left = kind is None or issubclass(kind, ClientGone) or not issubclass(kind, Exception)
        self._close("abort" if left else "error")

    def _close(self, reason: str) -> None:
        self._context.live.discard(self._bell.ring)
        for one in self._all:
            if not one.over:
                one.ticket.cancel()
                self._end(one, reason)

    async def follow(self) -> AsyncIterator[tuple[int, Part] | Beat]:
        """What comes, by the answer's index, until all have ended; beats in between. Raises ApiError."""
        told, begun = time.monotonic(), False
        while not all(one.over for one in self._all):
            await self._bell.wait(max(0.0, told + BEAT - time.monotonic()))
            if self._context.stopping:
                raise unavailable("The server is being stopped.", "server_stopped")
            for index, one in enumerate(self._all):
                part = None if one.over else await self._part(one, one.feed.take())
                if part is not None:
                    told = time.monotonic()
                    yield index, part
            due = time.monotonic() - told >= BEAT
            if due or (not begun and any(one.begun for one in self._all)):
                begun = begun or any(one.begun for one in self._all)
                told = time.monotonic() if due else told
                yield Beat(", ".join(dict.fromkeys(one.waiting for one in self._all if not one.over)), due)

    async def _part(self, one: _One, taken: Taken) -> Part | None:
        self._note(one, taken)
        end = taken.end
        if isinstance(end, Failed):
            raise self._refused(end.error)
        text = "".join(taken.text) + ("" if end is None else end.tail)
        one.shown += len(text)
        pieces = await self._pieces(one, taken, end)
        if end is None:
            if not text and not taken.tokens and not taken.notices:
                return None
            figures = taken.figures
            timings = {} if figures is None else one.feed.tally.live(figures)
            return Part(text, pieces, timings, taken.notices)
        one.figures = end.figures
        if end.finish_reason == "cancelled":
            raise unavailable("The answer was ended from outside: the model is being changed.", "answer_cancelled")
        self._end(one, end.finish_reason)
        return Part(text, pieces, one.feed.tally.final(end), taken.notices, end)

    async def _pieces(self, one: _One, taken: Taken, end: Finished | None) -> list[TokenPiece]:
        if not self._ask.with_pieces:
            return []
        ids = [*taken.tokens, *(token for entry in taken.logprobs for token, _ in entry.top)]
        try:
            known = await self._context.pieces(ids) if ids else {}
        except UserError as error:
            raise self._refused(error) from None
        logprobs: Sequence[TokenLogprobs] = taken.logprobs
        pieces = one.releaser.push(taken.tokens, logprobs, known, one.shown)
        return pieces if end is None else [*pieces, *one.releaser.finish(len(end.token_ids))]

    def _note(self, one: _One, taken: Taken) -> None:
        """Keep journal and metrics up to date."""
        if taken.ahead is not None:
            one.waiting = f"waiting, {taken.ahead} ahead"
        if taken.reading is not None:
            one.waiting = f"reading the prompt, {taken.reading[0]} of {taken.reading[1]} tokens"
            if not one.begun:
                self._start(one, "reading")
        if taken.figures is not None:
            one.figures = taken.figures
            one.waiting = "writing"
            if not one.begun:
                self._start(one, "writing")
            known = [other.figures for other in self._all if other.figures is not None]
            drafted = sum(figures.draft_n for figures in known)
            self._context.journal.update(
                self._entry,
                state="writing",
                tokens=sum(figures.predicted_n for figures in known),
                tokens_per_second=taken.figures.tokens_per_second,
                acceptance=sum(figures.draft_n_accepted for figures in known) / drafted if drafted else None,
            )

    def _start(self, one: _One, state: str) -> None:
        one.begun = True
        self._context.metrics.running += 1
        self._context.journal.update(self._entry, state=state)

    def _end(self, one: _One, reason: str) -> None:
        one.over = True
        metrics = self._context.metrics
        metrics.running -= one.begun
        metrics.drafted(one.feed.tally.rounds)
        metrics.ended(reason, one.figures, perf_counter() - self._begin)
        if one.figures is not None and reason in ("stop", "length"):
            tokens = sum(other.figures.predicted_n for other in self._all if other.figures is not None)
            self._context.journal.update(self._entry, tokens=tokens)

    def _refused(self, error: UserError) -> Exception:
        return of_user_error(
            error, prompt=self._ask.prompt, grammar=self._ask.grammar, loaded=self._context.loaded() is not None
        )
