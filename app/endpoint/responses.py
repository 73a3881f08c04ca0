"""POST /v1/responses: text in, text out."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

from pardec_chat.app.chat.request import Finished, Grammar, Message
from pardec_chat.app.endpoint import settings
from pardec_chat.app.endpoint.answers import Ask, Part
from pardec_chat.app.endpoint.context import Context
from pardec_chat.app.endpoint.counting import prompt_tokens
from pardec_chat.app.endpoint.errors import ApiError
from pardec_chat.app.endpoint.response_replies import (
    IncompleteDetails,
    InputDetails,
    OutputDetails,
    OutputMessage,
    OutputText,
    ResponseEvent,
    ResponseFault,
    ResponseReply,
    ResponseUsage,
)
from pardec_chat.app.endpoint.schema import InputMessage, JsonObjectFormat, ResponseRequest, SchemaFormat
from pardec_chat.app.endpoint.sse import event


def _messages(asked: ResponseRequest) -> list[Message]:
    messages = [] if asked.instructions is None else [Message("system", asked.instructions)]
    items = [InputMessage(role="user", content=asked.input)] if isinstance(asked.input, str) else asked.input
    for item in items:
        text = item.content if isinstance(item.content, str) else "".join(part.text for part in item.content)
        messages.append(Message("system" if item.role == "developer" else item.role, text))
    return messages


def _grammar(asked: ResponseRequest) -> Grammar | None:
    wanted = None if asked.text is None else asked.text.format
    if isinstance(wanted, JsonObjectFormat):
        return Grammar("json_object")
    return Grammar("json_schema", json.dumps(wanted.schema_)) if isinstance(wanted, SchemaFormat) else None


class ResponseForm:
    """The answer, in whole or as events."""

    def __init__(self, context: Context, asked: ResponseRequest, model: str) -> None:
        self._asked = asked
        self._model = model
        self._created = int(time.time())
        self._id, self._item = f"resp_{secrets.token_hex(12)}", f"msg_{secrets.token_hex(12)}"
        grammar = _grammar(asked)
        self.ask = Ask(
            settings.requests(
                asked,
                context.defaults,
                1,
                prompt_param="input",
                messages=_messages(asked),
                max_tokens=asked.max_output_tokens,
                grammar=grammar,
            ),
            prompt="input",
            grammar=None if grammar is None else "text.format",
        )
        self._sequence = 0
        self._text: list[str] = []
        self._finished: Finished | None = None
        self._timings: dict[str, Any] = {}

    def opening(self) -> Iterator[bytes]:
        """The answer as it begins: empty."""
        yield self._event("response.created", response=self._reply("in_progress"))
        yield self._event("response.in_progress", response=self._reply("in_progress"))
        yield self._event("response.output_item.added", output_index=0, item=self._message("in_progress", []))
        yield self._event("response.content_part.added", **self._place(), part=_text(""))

    def part(self, index: int, part: Part) -> Iterator[bytes]:
        """One delta."""
        self._text.append(part.text)
        if part.finished is not None:
            self._finished, self._timings = part.finished, part.timings
        if part.text:
            timings = {"timings": part.timings} if self._asked.timings_per_token and part.timings else {}
            yield self._event("response.output_text.delta", **self._place(), delta=part.text, logprobs=[], **timings)

    def closing(self) -> Iterator[bytes]:
        """What was said, once more and whole, from the inside out."""
        text = "".join(self._text)
        reply = self.whole()
        yield self._event("response.output_text.done", **self._place(), text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place(), part=_text(text))
        yield self._event("response.output_item.done", output_index=0, item=reply.output[0])
        yield self._event(f"response.{reply.status}", response=reply)

    def failing(self, error: ApiError) -> Iterator[bytes]:
        """The refusal, by itself and as the state of the answer."""
        code = error.code or error.kind
        yield self._event("error", code=code, message=error.message, param=error.param)
        reply = self._reply("failed")
        reply.error = ResponseFault(code=code, message=error.message)
        yield self._event("response.failed", response=reply)

    def whole(self) -> ResponseReply:
        """The answer."""
        finished = self._finished
        assert finished is not None
        cut = finished.finish_reason == "length"
        reply = self._reply("incomplete" if cut else "completed")
        reply.incomplete_details = IncompleteDetails(reason="max_output_tokens") if cut else None
        reply.output = [self._message("incomplete" if cut else "completed", [_text("".join(self._text))])]
        prompt, answer = prompt_tokens(finished.figures), finished.figures.predicted_n
        reply.usage = ResponseUsage(
            input_tokens=prompt,
            input_tokens_details=InputDetails(cached_tokens=finished.figures.cache_n),
            output_tokens=answer,
            output_tokens_details=OutputDetails(reasoning_tokens=0),
            total_tokens=prompt + answer,
        )
        reply.timings = self._timings
        return reply

    def _event(self, name: str, **what: Any) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return event(ResponseEvent(type=name, sequence_number=number, **what), name)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _message(self, status: Any, content: list[OutputText]) -> OutputMessage:
        return OutputMessage(id=self._item, type="message", role="assistant", status=status, content=content)

    def _reply(self, status: Any) -> ResponseReply:
        asked, params = self._asked, self.ask.requests[0].sampling
        wanted = None if asked.text is None else asked.text.format
        return ResponseReply(
            id=self._id,
            object="response",
            created_at=self._created,
            status=status,
            background=False,
            error=None,
            incomplete_details=None,
            instructions=asked.instructions,
            max_output_tokens=asked.max_output_tokens,
            metadata=asked.metadata or {},
            model=self._model,
            output=[],
            parallel_tool_calls=asked.parallel_tool_calls is not False,
            previous_response_id=None,
            store=False,
            temperature=params.temperature,
            text={
                "format": {"type": "text"} if wanted is None else wanted.model_dump(by_alias=True, exclude_unset=True)
            },
            tool_choice=asked.tool_choice or "auto",
            tools=[],
            top_p=params.top_p,
            truncation="disabled",
            usage=None,
            user=asked.user,
        )


def _text(text: str) -> OutputText:
    return OutputText(type="output_text", text=text, annotations=[], logprobs=[])
