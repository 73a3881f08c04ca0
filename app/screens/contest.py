"""Two ways of decoding on one prompt, without a widget: who runs, what is loaded for it, what came of it."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pardec_chat.app.messages import Mailbox
from pardec_chat.app.screens.answer import Answer
from pardec_chat.app.screens.session import Session
from pardec_chat.app.screens.verdict import Run, stopped, verdict
from pardec_chat.app.widgets import wording
from pardec_chat.backends.base import CANNOT_BRANCH, Method
from pardec_chat.backends.errors import UserError

# The request module brings numpy, which the first paint does not wait for: it is imported where it is used.
if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from pardec_chat.app.chat.request import Loaded, Message
    from pardec_chat.app.screens.session import TicketLike
    from pardec_chat.backends.decoding.params import SamplingParams

#: Two caches of the chat's size may not fit where one does.
N_CTX = 2048
MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way of decoding. depth: tokens to guess at a time; None where there is none to give."""

    method: Method
    depth: int | None = None

    @property
    def title(self) -> str:
        """As it stands over its lane."""
        return wording.method(self.method.value, self.depth or 0)

    @property
    def name(self) -> str:
        """As it stands in a sentence."""
        return f"{self.method.value} ({self.depth} deep)" if self.depth else self.method.value


class Runner:
    """One side of the race."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        #: None before the first race.
        self.answer: Answer | None = None
        self.mailbox: Mailbox | None = None
        self.ticket: TicketLike | None = None

    @property
    def running(self) -> bool:
        """Whether events are still to come."""
        return self.answer is not None and not self.answer.over

    def choose(self, contestant: Contestant) -> None:
        """Somebody else runs here; what the last one wrote is no longer of interest."""
        self.contestant = contestant
        self.answer = self.mailbox = self.ticket = None

    def stop(self) -> None:
        """End the answer; what came of it stays."""
        if self.running and self.ticket is not None and self.answer is not None:
            self.ticket.cancel()
            self.answer.stop()

    def result(self) -> Run:
        """What it wrote so far."""
        figures = self.answer.figures if self.answer is not None else None
        text = self.answer.text if self.answer is not None else ""
        tokens, rate = (figures.predicted_n, figures.tokens_per_second) if figures is not None else (0, None)
        return Run(self.contestant.name, text, tokens, rate)


class Contest:
    """Used on the UI thread alone; events of the engine reach `pump` as messages.

    chat: the conversation beside it; its engine and settings are used. `models` is a session of its own on that engine,
    since the race needs the models with a place for each contestant.
    """

    def __init__(self, chat: Session, pump: MessagePump) -> None:
        engine, loaded = chat.engine, chat.loaded
        assert engine is not None and loaded is not None and chat.choice is not None
        self._pump = pump
        self._chat_choice, self._setup = chat.choice, chat.setup
        self._told = loaded.notices
        options = replace(chat.options, n_ctx=min(N_CTX, loaded.n_ctx), slots=2)
        self.models = Session(options, lambda: engine, pump)
        self.models.engine = engine
        self.max_tokens = chat.setup.max_tokens or MAX_TOKENS
        self.runners = (Runner(Contestant(Method.PLAIN)), Runner(Contestant(Method.AUTO)))
        self._temperature = 0.0
        self._number = 0

    def load(self) -> None:
        """Load the chat's models with two places; ModelLoaded or LoadFailed will follow."""
        with suppress(UserError):  # the app is being left
            self.models.load(*self._chat_choice)

    def take_loaded(self, loaded: Loaded) -> tuple[str, ...]:
        """The models are ready; gives what the user was not told in the chat."""
        self.models.take_loaded(loaded)
        return tuple(notice for notice in loaded.notices if notice not in self._told)

    @property
    def ready(self) -> bool:
        """Whether a race can start."""
        return self.models.loaded is not None and not self.running

    @property
    def running(self) -> bool:
        """Whether one of them still writes."""
        return any(runner.running for runner in self.runners)

    @property
    def stopping(self) -> bool:
        """Whether the race was stopped, by the user or by a failure."""
        return any(runner.answer is not None and runner.answer.stopping for runner in self.runners)

    @property
    def state(self) -> str:
        """What is going on, in words."""
        if self.models.loading is not None:
            return self.models.load_state
        if self.running:
            return "stopping" if self.stopping else "racing"
        return "ready" if any(runner.answer is None for runner in self.runners) else "over"

    def why_not(self, method: Method) -> str:
        """Why `method` cannot run; empty when it can."""
        loaded = self.models.loaded
        if method == Method.LOOKAHEAD and loaded is not None and not loaded.branches:
            return CANNOT_BRANCH
        if method != Method.DRAFT or loaded is None or loaded.draft is not None:
            return ""
        without = self._chat_choice[1] is None
        return "it needs a draft model, F3 in the chat chooses one" if without else "the draft model was left out"

    def choose(self, side: int, contestant: Contestant) -> None:
        """Who runs on that side; figures of an earlier race would no longer belong together, so both go."""
        self.runners[side].choose(contestant)
        other = self.runners[1 - side]
        other.choose(other.contestant)

    def start(self, prompt: str) -> None:
        """Both are asked the same, with the same seed; TurnEvents will follow."""
        from pardec_chat.app.chat.request import Message

        system, sampling = self._setup.system, self._setup.sampling
        if sampling.seed is None:
            sampling = replace(sampling, seed=secrets.randbits(32))
        self._temperature = sampling.temperature
        messages = [Message("system", system)] if system else []
        messages.append(Message("user", prompt))
        for runner in self.runners:
            self._number += 1
            runner.answer, runner.mailbox, runner.ticket = Answer(), Mailbox(self._number, self._pump), None
        for runner in self.runners:
            self._submit(runner, messages, sampling)

    def _submit(self, runner: Runner, messages: list[Message], sampling: SamplingParams) -> None:
        from pardec_chat.app.chat.request import Request

        assert self.models.engine is not None and runner.mailbox is not None and runner.answer is not None
        request = Request(
            messages=messages,
            sampling=sampling,
            max_tokens=self.max_tokens,
            method=runner.contestant.method,
            depth=runner.contestant.depth,
            ngram_min_match=self.models.options.ngram_min_match,
            alone=True,
        )
        try:
            runner.ticket = self.models.engine.submit(request, runner.mailbox.put)
        except UserError as error:
            runner.answer.error = error
            self.stop()

    def stop(self) -> None:
        """End the race."""
        for runner in self.runners:
            runner.stop()

    def take(self, mailbox: Mailbox) -> tuple[str, ...]:
        """Count the events that wait there, if they are of this race; gives what the engine wants to be known."""
        events = mailbox.take()
        for runner in self.runners:
            if runner.mailbox is not mailbox or runner.answer is None:
                continue
            for event in events:
                runner.answer.take(event)
            if runner.answer.error is not None:
                self.stop()  # alone there is no race
            notices, runner.answer.notices = runner.answer.notices, []
            # The other one is told the same.
            return tuple(notices) if runner is self.runners[0] else ()
        return ()

    @property
    def outcome(self) -> str:
        """What the race has shown; empty while there is nothing to say."""
        answers = [runner.answer for runner in self.runners]
        if self.running or None in answers:
            return ""
        for answer in answers:
            if answer is not None and answer.error is not None:
                return f"No verdict: {answer.error}"
        left, right = (runner.result() for runner in self.runners)
        finished = [answer.finished for answer in answers if answer is not None and answer.finished is not None]
        if any(one.finish_reason == "cancelled" for one in finished):
            return stopped(left, right)
        return verdict(left, right, self._temperature)
