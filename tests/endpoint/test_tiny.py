"""A real model behind the endpoint: four answers in one forward pass are those of each alone."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.request import ModelChoice
from pardec_chat.app.endpoint.server import Address, Defaults, Server
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.tests.conftest import Tiny

pytest.importorskip("llama_cpp")

PROMPTS = ("the cat", "a thing that", "the the the the", "abcdefg hijk")


@pytest.fixture
def client(tiny: Tiny) -> Iterator[openai.OpenAI]:
    """On a tiny random float32 model with a draft of another seed, four answers at a time."""
    engine = Engine()
    loaded = engine.load(ModelChoice(tiny("llama"), tiny("llama", 1), n_ctx=256, threads=1, slots=4)).result(60)
    server = Server(
        engine, lambda: loaded, tuple, lambda: Defaults(SamplingParams(temperature=0.0), Method.PLAIN, None)
    )
    address = server.start(Address("127.0.0.1", 0))
    yield openai.OpenAI(base_url=f"{address.url}/v1", api_key="none", max_retries=0)
    server.stop()
    engine.close()


@pytest.mark.parametrize("method", ["plain", "draft", "ngram"])
def test_K05_greedy_answers_alone_and_four_at_once_are_identical(client: openai.OpenAI, method: str) -> None:
    def ask(prompt: str) -> str:
        reply = client.completions.create(
            model="default", prompt=prompt, max_tokens=40, extra_body={"method": method, "return_token_ids": None}
        )
        assert reply.usage is not None
        assert reply.usage.completion_tokens > 0
        return reply.choices[0].text

    alone = [ask(prompt) for prompt in PROMPTS]
    with ThreadPoolExecutor(len(PROMPTS)) as threads:
        for _ in range(3):
            assert list(threads.map(ask, PROMPTS)) == alone
    assert len(set(alone)) > 1, "texts that could not cross over prove nothing"


def test_S05_logprobs_are_those_of_plain_decoding_with_every_method(client: openai.OpenAI) -> None:
    def ask(method: str) -> list[tuple[str, float]]:
        reply = client.completions.create(
            model="default", prompt="the cat", max_tokens=24, logprobs=2, extra_body={"method": method}
        )
        found = reply.choices[0].logprobs
        assert found is not None
        assert found.tokens is not None
        assert found.token_logprobs is not None
        return [(token, value or 0.0) for token, value in zip(found.tokens, found.token_logprobs, strict=True)]

    plain = ask("plain")
    assert len(plain) == 24
    for method in ("draft", "ngram"):
        other = ask(method)
        assert [token for token, _ in other] == [token for token, _ in plain]
        assert [value for _, value in other] == pytest.approx(
            [value for _, value in plain], abs=1e-3
        )  # the cache keeps 16 bits
