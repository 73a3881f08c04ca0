"""POST /v1/chat/completions: requests to the engine's, answers to the API's."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator

from pardec_chat.app.chat.request import Figures, Grammar, Message
from pardec_chat.app.endpoint import logprobs as forms
from pardec_chat.app.endpoint import settings
from pardec_chat.app.endpoint.answers import Ask, Part
from pardec_chat.app.endpoint.context import Context
from pardec_chat.app.endpoint.counting import usage
from pardec_chat.app.endpoint.errors import ApiError
from pardec_chat.app.endpoint.logprobs import TokenPiece
from pardec_chat.app.endpoint.replies import (
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatDelta,
    ChatLogprobs,
    ChatReply,
    ChatReplyMessage,
    FinishReason,
    FunctionDelta,
    ToolCallDelta,
)
from pardec_chat.app.endpoint.schema import (
    AssistantMessage,
    ChatMessage,
    ChatRequest,
    ChosenTool,
    JsonObjectFormat,
    JsonSchemaFormat,
    RefusalPart,
    TextPart,
    ToolMessage,
)
from pardec_chat.app.endpoint.sse import DONE, event, framed
from pardec_chat.app.endpoint.timings import summed
from pardec_chat.app.endpoint.tool_grammar import grammar_for
from pardec_chat.app.endpoint.tools import CallStart, Said, ToolReader

FINGERPRINT = "pardec-chat"


def messages_of(messages: Iterable[ChatMessage]) -> list[Message]:
    """The conversation as the engine takes it."""
    return [_message(message) for message in messages]


def _message(message: ChatMessage) -> Message:
    extra: dict[str, object] = {}
    role: str = "system" if message.role == "developer" else message.role
    if message.name is not None:
        extra["name"] = message.name
    if isinstance(message, AssistantMessage):
        if message.tool_calls:
            extra["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": _arguments(call.function.arguments)},
                }
                for call in message.tool_calls
            ]
        return Message(role, message.refusal or "" if message.content is None else _text(message.content), extra)
    if isinstance(message, ToolMessage):
        extra["tool_call_id"] = message.tool_call_id
    return Message(role, _text(message.content), extra)


def _arguments(text: str) -> object:
    """Chat templates write them as JSON themselves; what is none stays as it is."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return arguments if isinstance(arguments, dict) else text


def _text(content: str | Iterable[TextPart | RefusalPart]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text if isinstance(part, TextPart) else part.refusal for part in content)


def format_grammar(asked: ChatRequest) -> Grammar | None:
    """What response_format asks for."""
    wanted = asked.response_format
    if isinstance(wanted, JsonObjectFormat):
        return Grammar("json_object")
    if isinstance(wanted, JsonSchemaFormat):
        schema = wanted.json_schema.schema_
        return Grammar("json_object") if schema is None else Grammar("json_schema", json.dumps(schema))
    return None


class ChatForm:
    """The answers to one request, in whole or in chunks."""

    def __init__(self, context: Context, asked: ChatRequest, model: str) -> None:
        self._asked = asked
        self._model = model
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())
        self._n = asked.n or 1
        tools = list(asked.tools or ()) if asked.tool_choice != "none" else []
        form = format_grammar(asked)
        one = asked.parallel_tool_calls is False
        grammar = grammar_for(tools, asked.tool_choice, form, one=one) if tools else form
        by_choice = asked.tool_choice == "required" or isinstance(asked.tool_choice, ChosenTool)
        limit = asked.max_completion_tokens if asked.max_tokens is None else asked.max_tokens
        self.ask = Ask(
            settings.requests(
                asked,
                context.defaults,
                self._n,
                prompt_param="messages",
                logprobs=(asked.top_logprobs or 0) if asked.logprobs else None,
                messages=messages_of(asked.messages),
                max_tokens=limit,
                stop=settings.stops(asked.stop),
                grammar=grammar,
                tools=[tool.model_dump(exclude_unset=True) for tool in tools],
            ),
            prompt="messages",
            grammar=None if grammar is None else "tools" if tools and form is None else "response_format",
            with_pieces=bool(asked.logprobs),
        )
        names = [tool.function.name for tool in tools]
        self._answers = [
            _Answer(ToolReader(names, one=one, marked_only=form is not None and not by_choice) if tools else None)
            for _ in range(self._n)
        ]

    def opening(self) -> Iterator[bytes]:
        """The role, for each answer."""
        for index in range(self._n):
            yield self._chunk(index, ChatDelta(role="assistant", content=""))

    def part(self, index: int, part: Part) -> Iterator[bytes]:
        """The deltas of a part; the last has the reason of the end, and the figures."""
        answer = self._answers[index]
        pieces: list[TokenPiece] = list(part.pieces)
        for delta in answer.deltas(part):
            yield self._chunk(index, delta, pieces, part)
            pieces = []
        answer.pieces.extend(part.pieces)
        answer.notices.extend(part.notices)
        if part.finished is None:
            if pieces:
                yield self._chunk(index, ChatDelta(), pieces, part)
            return
        answer.timings, answer.figures = part.timings, part.finished.figures
        yield self._chunk(index, ChatDelta(), pieces, part, answer.reason)

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

    def whole(self) -> ChatReply:
        """All choices."""
        timings = [answer.timings for answer in self._answers]
        reply = ChatReply(
            id=self._id,
            object="chat.completion",
            created=self._created,
            model=self._model,
            system_fingerprint=FINGERPRINT,
            choices=[self._choice(index, answer) for index, answer in enumerate(self._answers)],
            usage=usage(self._figures(), self._n),
            timings=summed(timings),
        )
        notices = list(dict.fromkeys(notice for answer in self._answers for notice in answer.notices))
        if notices:
            reply.notices = notices
        return reply

    def _choice(self, index: int, answer: _Answer) -> ChatChoice:
        text = "".join(answer.text)
        message = ChatReplyMessage(role="assistant", content=None if answer.calls and not text else text, refusal=None)
        if answer.calls:
            message.tool_calls = [
                ToolCallDelta(id=call.id, type="function", function=FunctionDelta(name=call.name, arguments=arguments))
                for call, arguments in answer.calls
            ]
        choice = ChatChoice(
            index=index,
            message=message,
            logprobs=forms.chat(answer.pieces) if self._asked.logprobs else None,
            finish_reason=answer.reason,
        )
        if self._n > 1:
            choice.timings = answer.timings
        return choice

    def _figures(self) -> list[Figures]:
        return [answer.figures for answer in self._answers if answer.figures is not None]

    def _head(self) -> ChatChunk:
        return ChatChunk(
            id=self._id,
            object="chat.completion.chunk",
            created=self._created,
            model=self._model,
            system_fingerprint=FINGERPRINT,
            choices=[],
        )

    def _chunk(
        self,
        index: int,
        delta: ChatDelta,
        pieces: list[TokenPiece] | None = None,
        part: Part | None = None,
        reason: FinishReason | None = None,
    ) -> bytes:
        found: ChatLogprobs | None = forms.chat(pieces) if self._asked.logprobs and pieces else None
        chunk = self._head()
        chunk.choices = [ChatChunkChoice(index=index, delta=delta, logprobs=found, finish_reason=reason)]
        if part is not None and part.timings and (reason is not None or self._asked.timings_per_token):
            chunk.timings = part.timings
        return event(chunk)


class _Answer:
    """One of n answers: its text and calls so far."""

    def __init__(self, reader: ToolReader | None) -> None:
        self._reader = reader
        self.text: list[str] = []
        self.calls: list[tuple[CallStart, str]] = []
        self.pieces: list[TokenPiece] = []
        self.notices: list[str] = []
        self.timings: dict[str, object] = {}
        self.figures: Figures | None = None
        self.reason: FinishReason = "stop"

    def deltas(self, part: Part) -> Iterator[ChatDelta]:
        """What the part adds."""
        said: list[Said] = [part.text] if self._reader is None and part.text else []
        if self._reader is not None:
            said = self._reader.push(part.text)
            if part.finished is not None:
                said += self._reader.finish()
        if part.finished is not None:
            self.reason = "length" if part.finished.finish_reason == "length" else "stop"
        for one in said:
            yield self._delta(one)
        if self.calls and self.reason == "stop":
            self.reason = "tool_calls"

    def _delta(self, one: Said) -> ChatDelta:
        if isinstance(one, str):
            self.text.append(one)
            return ChatDelta(content=one)
        if isinstance(one, CallStart):
            self.calls.append((one, ""))
            function = FunctionDelta(name=one.name, arguments="")
            return ChatDelta(tool_calls=[ToolCallDelta(index=one.index, id=one.id, type="function", function=function)])
        start, before = self.calls[one.index]
        self.calls[one.index] = (start, before + one.text)
        return ChatDelta(tool_calls=[ToolCallDelta(index=one.index, function=FunctionDelta(arguments=one.text))])
