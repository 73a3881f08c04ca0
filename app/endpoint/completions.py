"""POST /v1/completions: a text that is continued as it is."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pardec_chat.app.chat.request import Figures
from pardec_chat.app.endpoint import logprobs as forms
from pardec_chat.app.endpoint import settings
from pardec_chat.app.endpoint.answers import Ask, Part
from pardec_chat.app.endpoint.context import Context
from pardec_chat.app.endpoint.counting import usage
from pardec_chat.app.endpoint.errors import ApiError
from pardec_chat.app.endpoint.logprobs import TokenPiece
from pardec_chat.app.endpoint.replies import CompletionChoice, CompletionReply
from pardec_chat.app.endpoint.schema import CompletionRequest
from pardec_chat.app.endpoint.sse import DONE, event, framed
from pardec_chat.app.endpoint.timings import summed

#: Tokens of an answer where nothing is said, as this API has it.
_DEFAULT_TOKENS = 16


class CompletionForm:
    """The answers to one request, in whole or in chunks: those to the first prompt first."""

    def __init__(self, context: Context, asked: CompletionRequest, model: str) -> None:
        self._asked = asked
        self._model = model
        self._id = f"cmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._n = asked.n or 1
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        self.ask = Ask(
            [
                request
                for prompt in prompts
                for request in settings.requests(
                    asked,
                    context.defaults,
                    self._n,
                    logprobs=asked.logprobs,
                    prompt_param="prompt",
                    prompt=prompt,
                    max_tokens=asked.max_tokens or _DEFAULT_TOKENS,
                    stop=settings.stops(asked.stop),
                )
            ],
            prompt="prompt",
            with_pieces=asked.logprobs is not None,
        )
        self._answers = [_Answer() for _ in self.ask.requests]

    def opening(self) -> Iterator[bytes]:
        """Nothing: the first chunk has text."""
        yield from ()

    def part(self, index: int, part: Part) -> Iterator[bytes]:
        """One chunk; the last has the reason of the end, and the figures."""
        answer = self._answers[index]
        answer.text.append(part.text)
        answer.pieces.extend(part.pieces)
        reason = None
        if part.finished is not None:
            answer.timings, answer.figures = part.timings, part.finished.figures
            reason = answer.reason = "length" if part.finished.finish_reason == "length" else "stop"
        if not part.text and not part.pieces and reason is None:
            return
        chunk = self._head()
        chunk.choices = [self._choice(index, part.text, part.pieces, reason)]
        if part.timings and (reason is not None or self._asked.timings_per_token):
            chunk.timings = part.timings
        yield event(chunk)

    def closing(self) -> Iterator[bytes]:
        """The totals, where they were asked for, and the mark of the end."""
        options = self._asked.stream_options
        if options is not None and options.include_usage:
            chunk = self._head()
            chunk.usage = usage(self._figures(), self._n)
            chunk.timings = summed([answer.timings for answer in self._answers])
            yield event(chunk)
        yield DONE

    def failing(self, error: ApiError) -> Iterator[bytes]:
        """The refusal in the standard form; no mark of the end, since it is none."""
        yield framed(error.body(), "error")

    def whole(self) -> CompletionReply:
        """All choices."""
        reply = self._head()
        for index, answer in enumerate(self._answers):
            choice = self._choice(index, "".join(answer.text), answer.pieces, answer.reason)
            if len(self._answers) > 1:
                choice.timings = answer.timings
            reply.choices.append(choice)
        reply.usage = usage(self._figures(), self._n)
        reply.timings = summed([answer.timings for answer in self._answers])
        return reply

    def _head(self) -> CompletionReply:
        return CompletionReply(
            id=self._id,
            object="text_completion",
            created=self._created,
            model=self._model,
            system_fingerprint="pardec-chat",
            choices=[],
        )

    def _choice(
        self, index: int, text: str, pieces: Sequence[TokenPiece], reason: Literal["stop", "length"] | None
    ) -> CompletionChoice:
        found = forms.legacy(pieces) if self._asked.logprobs is not None and pieces else None
        return CompletionChoice(index=index, text=text, logprobs=found, finish_reason=reason)

    def _figures(self) -> list[Figures]:
        return [answer.figures for answer in self._answers if answer.figures is not None]


class _Answer:
    """One answer so far."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.pieces: list[TokenPiece] = []
        self.timings: dict[str, Any] = {}
        self.figures: Figures | None = None
        self.reason: Literal["stop", "length"] = "stop"
