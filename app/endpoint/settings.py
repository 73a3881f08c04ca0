"""From a request's settings to what the engine is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pardec_chat.app.chat.request import Request
from pardec_chat.app.endpoint.context import Defaults
from pardec_chat.app.endpoint.errors import of_user_error
from pardec_chat.app.endpoint.fields import Sampling
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import UserError

_SAME = ("temperature", "top_p", "min_p", "seed", "frequency_penalty", "presence_penalty", "repeat_penalty")


def sampling(asked: Sampling, defaults: SamplingParams, logprobs: int | None) -> SamplingParams:
    """The server's settings with what the request says in their place. logprobs: how many to report for each token."""
    changes: dict[str, Any] = {name: value for name in _SAME if (value := getattr(asked, name)) is not None}
    if asked.top_k is not None:
        changes["top_k"] = max(0, asked.top_k)
    if asked.logit_bias:
        changes["logit_bias"] = {int(token): bias for token, bias in asked.logit_bias.items()}
    return replace(defaults, logprobs=logprobs, **changes)


def stops(asked: str | list[str] | None) -> list[str]:
    """Texts that end the answer; empty ones end nothing."""
    return [text for text in ([asked] if isinstance(asked, str) else asked or ()) if text]


def requests(
    asked: Sampling, defaults: Defaults, n: int, *, prompt_param: str, logprobs: int | None = None, **what: Any
) -> list[Request]:
    """n requests that differ in their seeds alone. what: the other fields of `Request`. Raises ApiError."""
    method = defaults.method if asked.method is None else Method(asked.method)
    depth = asked.depth
    if depth is None and method == defaults.method:
        depth = defaults.depth
    try:
        params = sampling(asked, defaults.sampling, logprobs)
        first = Request(
            sampling=params,
            method=method,
            depth=depth,
            ngram_min_match=asked.ngram_min_match,
            overflow="refuse",
            **what,
        )
    except UserError as error:
        raise of_user_error(error, prompt=prompt_param) from None
    if n == 1 or params.seed is None:
        return [first] * n
    return [replace(first, sampling=replace(params, seed=params.seed + i)) for i in range(n)]
