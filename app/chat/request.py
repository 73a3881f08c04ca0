"""What goes into the engine and what comes out: requests, and events on their way to whoever asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pardec_chat.backends.base import LEAVES, MAX_DEPTH, KernelChoice, Kernels, Method, NumberType, TokenLogprobs
from pardec_chat.backends.decoding.params import SamplingParams, bias_outside
from pardec_chat.backends.decoding.stats import Rates
from pardec_chat.backends.errors import BadSetting, UserError

# The loop brings numpy, which the first paint does not wait for.
if TYPE_CHECKING:
    from pardec_chat.backends.decoding.loop import Step
    from pardec_chat.backends.memory import CacheType, Plan

#: Tokens to draft when nobody says otherwise: what published pairs do best with, and the longest copies worth checking.
_DEFAULT_DEPTH = {Method.PLAIN: 0, Method.DRAFT: 3, Method.NGRAM: 15, Method.LOOKAHEAD: 4}


def default_depth(method: Method) -> int | None:
    """Tokens to draft in one step when nobody says otherwise; None leaves it to the controller."""
    return _DEFAULT_DEPTH.get(method)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; role is system, user, assistant or tool.

    extra: what else the chat template gets of it, such as tool_calls, tool_call_id or name.
    """

    role: str
    content: str
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grammar:
    """What an answer must look like, token by token. source: the schema (JSON), pattern or grammar; empty for json_object."""

    kind: Literal["json_object", "json_schema", "regex", "lark"]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """One answer asked for.

    messages: the conversation so far; or prompt: a text that is continued as it is, without a template.
    answer_ids: ids with which the answer is known to begin; what is asked for comes after them.
    max_tokens: None leaves it to the context's edge. stop: texts that end the answer and are not part of it.
    depth: most tokens to draft in one step; None takes the method's default. With the method auto there is none to give.
    draft_tree: tokens of a draft of the method `draft` that may branch; 0 guesses chains.
    grammar: what the answer must look like, `answer_ids` included.
    tools: descriptions (JSON schema) that the chat template shows the model.
    overflow: whether the oldest turns may be left out when the context is full.
    alone: the answer gets forward passes of its own, so that another one beside it does not change its speed.
    """

    messages: Sequence[Message] = ()
    prompt: str | None = None
    answer_ids: Sequence[int] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    method: Method = Method.PLAIN
    depth: int | None = None
    ngram_min_match: int | None = None
    draft_tree: int = 0
    grammar: Grammar | None = None
    tools: Sequence[Mapping[str, object]] = ()
    overflow: Literal["drop", "refuse"] = "drop"
    alone: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise BadSetting(f"max_tokens is {self.max_tokens}.", "Give 1 or more.")
        if self.depth is not None and not 0 <= self.depth <= MAX_DEPTH:
            raise BadSetting(f"depth is {self.depth}, which is outside 0 to {MAX_DEPTH}.", "Give a value inside.")
        if self.depth is not None and self.method == Method.AUTO:
            raise BadSetting(
                "The method auto finds the depth itself.", "Leave the depth out, or choose another method."
            )
        if self.ngram_min_match is not None and self.ngram_min_match < 1:
            raise BadSetting(f"The shortest match is {self.ngram_min_match} tokens.", "Give 1 or more.")
        if not 0 <= self.draft_tree <= LEAVES:
            raise BadSetting(
                f"A draft tree of {self.draft_tree} tokens is outside 0 to {LEAVES}.", "Give a number inside."
            )
        for token, bias in self.sampling.logit_bias.items():
            if bias == -math.inf:
                raise bias_outside(token, bias)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What to load.

    n_ctx: tokens a conversation can hold. threads: None takes one for each physical core. slots: answers at the same time.
    cache_type: how exactly the cache keeps what it holds. unchecked: load it even if it does not seem to fit.
    kernels: whose multiply on the CPU. dtype: numbers of weights and cache, where the runtime has a choice.
    runtime: None is the engine's own one.
    """

    model: Path
    draft: Path | None = None
    n_ctx: int | None = None
    threads: int | None = None
    slots: int = 1
    cache_type: CacheType = "f16"
    unchecked: bool = False
    kernels: KernelChoice = "auto"
    dtype: NumberType = "auto"
    runtime: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is loaded now. notices: what the user should know, such as a draft that was left out.

    plan: what was expected to be taken, and where; placed: bytes on each device, as the runtime tells.
    peak: most bytes in use at once while it was loaded, 0 where the runtime does not tell.
    rewinds: whether what was read can be taken back, so that a question beside the conversation costs no reading it again.
    branches: whether guesses may branch, without which there is no looking ahead.
    kernels: whose the target runs on, and why not this package's own.
    """

    model: str
    draft: str | None
    runtime: str
    n_ctx: int
    notices: tuple[str, ...]
    plan: Plan | None = None
    placed: Mapping[str, int] = field(default_factory=dict)
    peak: int = 0
    rewinds: bool = True
    branches: bool = True
    kernels: Kernels = field(default_factory=Kernels)


@dataclass(frozen=True, slots=True)
class Status:
    """What speculation is doing: active, idle (on, but nothing to guess so far) or off, and why."""

    state: Literal["active", "idle", "off"]
    reason: str


@dataclass(frozen=True, slots=True)
class Figures(Rates):
    """A copy of the counters of an answer at one moment; see `Stats` for their meaning, `Rates` for what follows from them.

    using, depth: what guesses now and how far, `plain` and 0 for nothing: with the method auto they change as it decodes.
    plain_per_second: tokens a second of plain decoding here, as fast as it would have been at each moment of this answer,
        from measured passes; None before the first.
    context_used, context_size: tokens the conversation takes, and may take.
    """

    method: Method
    depth: int
    status: Status
    using: Method
    plain_per_second: float | None
    predicted_n: int
    predicted_ms: float
    steps: int
    draft_n: int
    draft_n_accepted: int
    accepted_per_position: tuple[float, ...]
    prompt_n: int
    cache_n: int
    prompt_ms: float
    ttft_ms: float
    context_used: int
    context_size: int

    @property
    def speedup(self) -> float | None:
        """Measured speed over that of plain decoding on this machine; None while either is not known."""
        rate, plain = self.tokens_per_second, self.plain_per_second
        return rate / plain if rate is not None and plain else None


@dataclass(frozen=True, slots=True)
class Queued:
    """The request waits; `ahead` others come first."""

    ahead: int


@dataclass(frozen=True, slots=True)
class Prefilling:
    """The prompt is being evaluated: `done` of `total` tokens are in the cache, `ms` after it began."""

    done: int
    total: int
    ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Thinking:
    """The template has opened the answer's reasoning already: only the mark that closes it will come."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know; the answer goes on."""

    text: str


#: Text that a token completed (empty in the middle of a character), and what guessed the token; `plain` is the target's own.
Piece = tuple[str, Method]


@dataclass(frozen=True, slots=True)
class Delta:
    """One step: text that may be shown now (empty while a character or a possible stop string is held back).

    pieces: the same text, token by token. proposed: the bytes of what was guessed; own: of the token that the target wrote
    itself behind what it accepted, empty where there is none.
    """

    text: str
    step: Step
    figures: Figures
    pieces: Sequence[Piece] = ()
    proposed: Sequence[bytes] = ()
    own: bytes = b""


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is whole. text, token_ids, logprobs, counts and the cache end at one and the same place.

    finish_reason: stop, length, or cancelled. tail: the text that was still held back and belongs to the answer, in `pieces`
        token by token.
    timings: see `Stats.timings`.
    """

    text: str
    tail: str
    token_ids: Sequence[int]
    logprobs: Sequence[TokenLogprobs]
    finish_reason: Literal["stop", "length", "cancelled"]
    figures: Figures
    timings: dict[str, object]
    pieces: Sequence[Piece] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer, or no more of it."""

    error: UserError


Event = Queued | Prefilling | Thinking | Notice | Delta | Finished | Failed
#: Called on the engine's thread; must return at once.
Sink = Callable[[Event], None]
