"""Refusals in the standard form: what was wrong, of which kind, and which parameter it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from pardec_chat.backends.errors import (
    BadSetting,
    ContextFull,
    MethodUnavailable,
    QueueFull,
    TemplateFailed,
    UserError,
)

#: Seconds after which a client that found the queue full should try again.
RETRY_AFTER = 2
_INVALID = "invalid_request_error"
_SUBJECT = re.compile(r"(?:--)?([a-z][a-z_]*) is ")


class ErrorDetail(BaseModel):
    """The inside of an error reply."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """What every refusal looks like."""

    error: ErrorDetail


class ApiError(Exception):
    """A refusal: HTTP status, message, and what the standard form says beside it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        kind: str = _INVALID,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.kind = kind
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The reply as JSON."""
        detail = ErrorDetail(message=self.message, type=self.kind, param=self.param, code=self.code)
        return ErrorReply(error=detail).model_dump_json().encode()


def unavailable(message: str, code: str, *, retry: bool = False) -> ApiError:
    """503: nothing wrong with the request."""
    headers = {"retry-after": str(RETRY_AFTER)} if retry else {}
    return ApiError(503, message, code=code, kind="server_error", headers=headers)


def of_user_error(error: UserError, *, prompt: str, grammar: str | None = None, loaded: bool = True) -> ApiError:
    """What the engine said, as a reply.

    prompt: parameter that holds the conversation; grammar: the one that gives the answer's form, where one does.
    loaded: whether there is a model, without which nothing that was asked is to blame.
    """
    text = str(error)
    if isinstance(error, QueueFull):
        return unavailable(text, "queue_full", retry=True)
    if isinstance(error, ContextFull):
        return ApiError(400, text, param=prompt, code="context_length_exceeded")
    if isinstance(error, TemplateFailed):
        return ApiError(400, text, param=prompt, code="template_refused")
    if isinstance(error, MethodUnavailable):
        return ApiError(400, text, param="method", code="method_unavailable")
    if isinstance(error, BadSetting):
        subject = _SUBJECT.match(error.what)
        param = "depth" if error.what.startswith("The method auto") else subject[1] if subject else grammar
        return ApiError(400, text, param=param, code="invalid_value")
    if not loaded:
        return unavailable("No model is loaded.", "model_not_loaded")
    return ApiError(500, text, code="engine_failed", kind="server_error")


def of_validation(error: ValidationError, body: object) -> ApiError:
    """The most telling of the faults that pydantic found in `body`, with the parameter's own path."""
    faults = [(_path(fault["loc"], body, fault["type"]), fault) for fault in error.errors(include_url=False)]
    path, fault = max(faults, key=lambda pair: len(pair[0]))
    kind = fault["type"]
    context: Mapping[str, Any] = fault.get("ctx", {})
    if "discriminator" in context:
        path.append(str(context["discriminator"]).strip("'"))
    elif not path and isinstance(body, Mapping):
        # What several parameters make wrong together is said of the first that the message names.
        path = [word for word in _sentence(fault["msg"]).split()[:1] if word in body]
    param = _shown(path)
    if kind == "extra_forbidden":
        return ApiError(400, f"Unknown parameter: {param}.", param=param, code="unknown_parameter")
    if kind in ("missing", "union_tag_not_found"):
        return ApiError(400, f"Missing parameter: {param}.", param=param, code="missing_required_parameter")
    if kind in ("literal_error", "union_tag_invalid"):
        allowed = context.get("expected") or context.get("expected_tags") or "null"
        return ApiError(
            400,
            f"{param or 'The value'} is not supported with this value; it may be {allowed}.",
            param=param,
            code="unsupported_value",
        )
    text = _sentence(fault["msg"])
    return ApiError(
        400, text if kind == "value_error" else f"{param or 'The request'}: {text}", param=param, code="invalid_value"
    )


def _path(loc: Sequence[int | str], body: object, kind: str) -> list[int | str]:
    """The keys and places of `loc` that are really in `body`; pydantic also names the alternatives that it tried."""
    path: list[int | str] = []
    here: Any = body
    for i, part in enumerate(loc):
        in_list = isinstance(here, list) and isinstance(part, int) and 0 <= part < len(here)
        if in_list or (isinstance(here, Mapping) and part in here):
            path.append(part)
            here = here[part]
        elif kind == "missing" and i == len(loc) - 1:
            path.append(part)
    return path


def _shown(path: Sequence[int | str]) -> str | None:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or None


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return text if text.endswith(".") else f"{text}."
