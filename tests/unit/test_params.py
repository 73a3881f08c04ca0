"""Settings of the sampler that a client may get wrong: the error names the setting."""

from __future__ import annotations

import math

import pytest

from pardec_chat.app.chat.request import Request
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import BadSetting


@pytest.mark.parametrize("logprobs", [None, 0, 1, 1000])
def test_so_many_logprobs_may_be_asked_for(logprobs: int | None) -> None:
    assert SamplingParams(logprobs=logprobs).logprobs == logprobs


@pytest.mark.parametrize("logprobs", [-1, 1001, 10_000])
def test_no_more_and_no_fewer(logprobs: int) -> None:
    with pytest.raises(BadSetting, match=r"^logprobs is .* outside 0 to 1000"):
        SamplingParams(logprobs=logprobs)


def test_a_bias_of_up_to_100_either_way_is_taken() -> None:
    bias = {0: 100.0, 7: -100.0, 151_935: 0.5, 10**9: 0.0}
    assert Request(sampling=SamplingParams(logit_bias=bias)).sampling.logit_bias == bias


@pytest.mark.parametrize("bias", [100.5, -101.0, math.inf, math.nan])
def test_a_bias_outside_is_refused(bias: float) -> None:
    with pytest.raises(BadSetting, match=r"^logit_bias of the id 7 is"):
        SamplingParams(logit_bias={0: 1.0, 7: bias})


def test_nobody_asks_for_minus_infinity() -> None:
    with pytest.raises(BadSetting, match=r"^logit_bias of the id 7 is -inf"):
        Request(sampling=SamplingParams(logit_bias={7: -math.inf}))


def test_ids_begin_with_0() -> None:
    with pytest.raises(BadSetting, match=r"^logit_bias names the id -1"):
        SamplingParams(logit_bias={-1: 1.0})
