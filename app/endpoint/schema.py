"""Requests for chats and completions, as clients send them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from pardec_chat.app.endpoint.fields import (
    MAX_ANSWERS,
    Count,
    NoList,
    NoObject,
    Off,
    Sampling,
    Stop,
    StreamOptions,
    Strict,
)

Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


class TextPart(Strict):
    """A piece of a message."""

    type: Literal["text"]
    text: str


class RefusalPart(Strict):
    """What a model declined; it counts as text."""

    type: Literal["refusal"]
    refusal: str


Content = str | list[TextPart]


class CalledFunction(Strict):
    """A call as a model made it. arguments: JSON."""

    name: str
    arguments: str
    parsed_arguments: Any = None


class ToolCall(Strict):
    """A call in an assistant's message."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


class SystemMessage(Strict):
    """What the model is told about itself."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class UserMessage(Strict):
    """What the user says."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class AssistantMessage(Strict):
    """What the model said."""

    role: Literal["assistant"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    annotations: NoList | None = None
    parsed: Any = None


class ToolMessage(Strict):
    """What a called function gave."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str
    name: str | None = None


ChatMessage = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Function(Strict):
    """A function the model may call. parameters: a JSON schema. strict: arguments must follow it."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Strict):
    """One of the tools."""

    type: Literal["function"]
    function: Function


class ChosenFunction(Strict):
    """The name of one of the tools."""

    name: Name


class ChosenTool(Strict):
    """The tool that has to be called."""

    type: Literal["function"]
    function: ChosenFunction


class TextFormat(Strict):
    """Free text."""

    type: Literal["text"]


class JsonObjectFormat(Strict):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonSchema(Strict):
    """A schema and its name."""

    name: Name
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class JsonSchemaFormat(Strict):
    """JSON that follows a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class ChatRequest(Sampling):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    n: Annotated[int | None, Field(ge=1, le=MAX_ANSWERS)] = None
    stop: Stop | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    response_format: ResponseFormat | None = None
    tools: Annotated[list[Tool] | None, Field(max_length=128)] = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    #: Neutral values of what is not supported.
    store: Off | None = None
    metadata: NoObject | None = None
    modalities: Annotated[list[Literal["text"]] | None, Field(min_length=1)] = None
    verbosity: Literal["medium"] | None = None
    functions: NoList | None = None
    function_call: Literal["none"] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is for streams alone")
        both = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(both) > 1:
            raise ValueError("max_tokens and max_completion_tokens differ")
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) < len(names):
            raise ValueError("tools has two functions of one name")
        if self.tool_choice == "required" and not names:
            raise ValueError("tool_choice asks for a call, and there are no tools")
        if isinstance(self.tool_choice, ChosenTool) and self.tool_choice.function.name not in names:
            raise ValueError("tool_choice names a function that is not among the tools")
        return self


class CompletionRequest(Sampling):
    """POST /v1/completions."""

    prompt: str | Annotated[list[str], Field(min_length=1, max_length=MAX_ANSWERS)]
    max_tokens: Annotated[Count | None, Field(description="16 when left out")] = None
    n: Annotated[int | None, Field(ge=1, le=MAX_ANSWERS)] = None
    stop: Stop | None = None
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int | None, Field(ge=0, le=20)] = None
    #: Neutral values of what is not supported.
    best_of: Literal[1] | None = None
    echo: Off | None = None
    suffix: Literal[""] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> CompletionRequest:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is for streams alone")
        if isinstance(self.prompt, list) and len(self.prompt) * (self.n or 1) > MAX_ANSWERS:
            raise ValueError(f"n times the prompts is more than {MAX_ANSWERS} answers")
        return self


class InputText(Strict):
    """A piece of a message, asked or answered."""

    type: Literal["input_text", "output_text"]
    text: str
    annotations: NoList | None = None
    logprobs: NoList | None = None


class InputMessage(Strict):
    """One message of the conversation."""

    type: Literal["message"] = "message"
    role: Literal["user", "system", "developer", "assistant"]
    content: str | list[InputText]
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class SchemaFormat(Strict):
    """JSON that follows a schema, in the form of the responses API."""

    type: Literal["json_schema"]
    name: Name
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class TextSettings(Strict):
    """What the answer's text looks like."""

    format: Annotated[TextFormat | JsonObjectFormat | SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Literal["medium"] | None = None


class ResponseRequest(Sampling):
    """POST /v1/responses."""

    input: str | Annotated[list[InputMessage], Field(min_length=1, max_length=10_000)]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    text: TextSettings | None = None
    metadata: Annotated[dict[str, str] | None, Field(max_length=16)] = None
    stream_options: StreamOptions | None = None
    #: Neutral values of what is not supported.
    store: Off | None = None
    background: Off | None = None
    truncation: Literal["disabled"] | None = None
    parallel_tool_calls: bool | None = None
    tools: NoList | None = None
    tool_choice: Literal["none", "auto"] | None = None
    include: NoList | None = None
    top_logprobs: Literal[0] | None = None
