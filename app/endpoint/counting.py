"""What the answers to one request cost."""

from __future__ import annotations

from collections.abc import Sequence

from pardec_chat.app.chat.request import Figures
from pardec_chat.app.endpoint.replies import CachedTokens, Usage


def prompt_tokens(figures: Figures) -> int:
    """Ids of the prompt; the last one is evaluated with the first step and counts with neither kind there."""
    return figures.prompt_n + figures.cache_n + 1


def usage(figures: Sequence[Figures], n: int) -> Usage:
    """Of all answers; each prompt counts once, though `n` answers were given to it."""
    prompts = figures[::n]
    prompt = sum(prompt_tokens(one) for one in prompts)
    answer = sum(one.predicted_n for one in figures)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=answer,
        total_tokens=prompt + answer,
        prompt_tokens_details=CachedTokens(cached_tokens=sum(one.cache_n for one in prompts)),
    )
