"""Replies to chats and completions, whole and in chunks. Only fields that were set are sent."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class CachedTokens(BaseModel):
    """Tokens of the prompt that were in the cache already."""

    cached_tokens: int


class Usage(BaseModel):
    """Tokens of a request and all its answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class TopLogprob(BaseModel):
    """A token that could have stood there. logprob: natural; bytes: what it adds to the text."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """A token of the answer, and the most probable ones in its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """One entry for each token."""

    content: list[TokenLogprob]


class FunctionDelta(BaseModel):
    """A called function, or the next piece of its arguments."""

    name: str = ""
    arguments: str = ""


class ToolCallDelta(BaseModel):
    """A call or a piece of one; index joins the pieces."""

    index: int = 0
    id: str = ""
    type: Literal["function"] = "function"
    function: FunctionDelta


class ChatDelta(BaseModel):
    """What is new in a chunk."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: list[ToolCallDelta] = []


class ChatReplyMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[ToolCallDelta] = []


FinishReason = Literal["stop", "length", "tool_calls"]


class ChatChoice(BaseModel):
    """One of n answers."""

    index: int
    message: ChatReplyMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason
    timings: dict[str, Any] = {}


class ChatReply(BaseModel):
    """POST /v1/chat/completions without stream."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    timings: dict[str, Any]
    notices: list[str] = []


class ChatChunkChoice(BaseModel):
    """What is new in one of n answers."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class ChatChunk(BaseModel):
    """One event of a streamed chat."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    timings: dict[str, Any] = {}


class CompletionLogprobs(BaseModel):
    """The older form: four lists of one entry for each token. text_offset: characters from the text's start."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One answer, or what is new in it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    timings: dict[str, Any] = {}


class CompletionReply(BaseModel):
    """POST /v1/completions, whole or one event."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
    timings: dict[str, Any] = {}


class ModelCard(BaseModel):
    """A model. size: bytes on disk. loaded: whether it answers now."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    name: str
    loaded: bool
    size: int | None


class ModelList(BaseModel):
    """GET /v1/models."""

    object: Literal["list"]
    data: list[ModelCard]


class Health(BaseModel):
    """GET /health."""

    status: Literal["ok", "no model"]
    model: str | None
    draft: str | None
    waiting: int
