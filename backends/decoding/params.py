"""What a request asks of the sampler chain; no numpy here, so that settings can be checked before the first paint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pardec_chat.backends.errors import BadSetting

#: Most that a bias may add or take, and most of the most probable tokens that are reported.
MOST_BIAS, MOST_LOGPROBS = 100.0, 1000


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What a request asks of the sampler chain; the defaults leave the model's distribution as it is.

    temperature: 0 takes the most probable token, on a path of its own.
    top_k: 0 is off. top_p: 1 is off. min_p: 0 is off.
    repeat_penalty: over prompt and answer, 1 is off. frequency_penalty, presence_penalty: over the answer, 0 is off.
    logit_bias: id → what is added to its logit, up to MOST_BIAS either way; minus infinity, for callers of this program
        alone, rules the id out.
    seed: of the random numbers; None takes a fresh one.
    logprobs: how many of the most probable tokens to report for each position, up to MOST_LOGPROBS; None reports nothing.

    Raises BadSetting, naming the setting.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("temperature", 0.0, 100.0),
            ("top_k", 0, 2**31),
            ("top_p", 0.0, 1.0),
            ("min_p", 0.0, 1.0),
            ("repeat_penalty", 0.01, 100.0),
            ("frequency_penalty", -100.0, 100.0),
            ("presence_penalty", -100.0, 100.0),
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise BadSetting(f"{name} is {value}, which is outside {low} to {high}.", "Give a value inside.")
        if self.top_p == 0.0:
            raise BadSetting("top_p is 0, which leaves no token.", "Use temperature 0 for the most probable token.")
        if self.seed is not None and self.seed < 0:
            raise BadSetting(f"seed is {self.seed}.", "Give a whole number from 0 on.")
        if self.logprobs is not None and not 0 <= self.logprobs <= MOST_LOGPROBS:
            raise BadSetting(
                f"logprobs is {self.logprobs}, which is outside 0 to {MOST_LOGPROBS}.", "Give a value inside, or none."
            )
        for token, bias in self.logit_bias.items():
            if token < 0:
                raise BadSetting(f"logit_bias names the id {token}.", "Give ids from 0 on.")
            if not (abs(bias) <= MOST_BIAS or bias == -math.inf):
                raise bias_outside(token, bias)

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is taken without drawing."""
        return self.temperature == 0.0


def bias_outside(token: int, bias: float) -> BadSetting:
    """What to say about a bias that nobody may ask for."""
    return BadSetting(
        f"logit_bias of the id {token} is {bias:g}, which is outside {-MOST_BIAS:g} to {MOST_BIAS:g}.",
        "Give a value inside.",
    )
