"""Replies of the responses API, and the events of its streams."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(BaseModel):
    """The text of the answer."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[Any]


class OutputMessage(BaseModel):
    """The answer."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    status: Literal["in_progress", "completed", "incomplete"]
    content: list[OutputText]


class InputDetails(BaseModel):
    """Of the tokens of the input."""

    cached_tokens: int


class OutputDetails(BaseModel):
    """Of the tokens of the answer."""

    reasoning_tokens: int


class ResponseUsage(BaseModel):
    """Tokens of a request and its answer."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class IncompleteDetails(BaseModel):
    """Why an answer is not whole."""

    reason: Literal["max_output_tokens"]


class ResponseFault(BaseModel):
    """Why there is no more of an answer."""

    code: str
    message: str


class ResponseReply(BaseModel):
    """POST /v1/responses."""

    model_config = ConfigDict(protected_namespaces=())

    id: str
    object: Literal["response"]
    created_at: int
    status: Status
    background: Literal[False]
    error: ResponseFault | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputMessage]
    parallel_tool_calls: bool
    previous_response_id: None
    store: Literal[False]
    temperature: float
    text: dict[str, Any]
    tool_choice: Literal["none", "auto"]
    tools: list[Any]
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
    user: str | None
    timings: dict[str, Any] = {}


class ResponseEvent(BaseModel):
    """One event of a stream; which fields it has depends on its type."""

    type: str
    sequence_number: int
    response: ResponseReply | None = None
    output_index: int = 0
    content_index: int = 0
    item_id: str = ""
    item: OutputMessage | None = None
    part: OutputText | None = None
    delta: str = ""
    text: str = ""
    logprobs: list[Any] = Field(default_factory=list)
    timings: dict[str, Any] = {}
    code: str | None = None
    message: str = ""
    param: str | None = None
