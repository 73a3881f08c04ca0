"""What requests of all kinds share: strict models, the sampler's settings, and the extensions of this program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from pardec_chat.backends.base import MAX_DEPTH

#: Answers that one request may ask for.
MAX_ANSWERS = 16
MAX_STOPS = 16
#: Characters of a stop string: each step compares the end of the text with all of them.
_MAX_STOP = 256

Id = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Bias = Annotated[float, Field(ge=-100, le=100)]
Penalty = Annotated[float, Field(ge=-100, le=100)]
StopText = Annotated[str, StringConstraints(max_length=_MAX_STOP)]
Stop = StopText | Annotated[list[StopText], Field(max_length=MAX_STOPS)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


def _a_bool(value: object) -> object:
    # 0 and 0.0 are equal to False.
    if not isinstance(value, bool):
        raise ValueError("Input should be false")
    return value


Off = Annotated[Literal[False], BeforeValidator(_a_bool)]
#: Neutral values of lists and objects that stand for something this server does not do.
NoList = Annotated[list[Any], Field(max_length=0)]
NoObject = Annotated[dict[str, Any], Field(max_length=0)]


def _unknown_may_be_null(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = {"type": "null"}


class Strict(BaseModel):
    """No conversions, no unknown fields; null is as good as leaving a field out, since clients send it for that."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra=_unknown_may_be_null, protected_namespaces=()
    )

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: object) -> object:
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data


class Sampling(Strict):
    """How tokens are chosen and guessed; what is left out is as the server was started."""

    model: Annotated[str, Field(examples=["default"])] = "default"
    temperature: Annotated[float | None, Field(ge=0, le=100)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1, le=2**31 - 1, description="0 or -1 is off")] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    seed: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repeat_penalty: Annotated[float | None, Field(ge=0.01, le=100, description="1 is off")] = None
    logit_bias: Annotated[dict[Id, Bias] | None, Field(max_length=1024)] = None
    method: Annotated[Literal["auto", "plain", "draft", "ngram"] | None, Field(description="what guesses tokens")] = (
        None
    )
    depth: Annotated[int | None, Field(ge=0, le=MAX_DEPTH, description="most tokens to guess in one step")] = None
    ngram_min_match: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    timings_per_token: Annotated[bool | None, Field(description="timings in every chunk of a stream")] = None
    #: Who asks, and what may be remembered for it: neither changes an answer.
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: Literal["auto", "default"] | None = None
    stream: bool | None = None


class StreamOptions(Strict):
    """What a stream tells besides."""

    include_usage: bool | None = None
    include_obfuscation: Off | None = None
