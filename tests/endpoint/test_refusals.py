"""What is wrong with a request is said in the standard form, by the parameter's name."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import openai
import pytest

from pardec_chat.tests.endpoint.scripted import Served, serving

HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def served() -> Any:
    with serving() as one:
        yield one


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"foo": 1}, "foo", "unknown_parameter"),
        ({"n": 0}, "n", "invalid_value"),
        ({"n": 17}, "n", "invalid_value"),
        ({"n": "2"}, "n", "invalid_value"),
        ({"n": True}, "n", "invalid_value"),
        ({"store": 0.0}, "store", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_value"),
        ({"temperature": -1}, "temperature", "invalid_value"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"top_k": 1.5}, "top_k", "invalid_value"),
        ({"seed": -1}, "seed", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", "invalid_value"),
        ({"stop": ["a"] * 17}, "stop", "invalid_value"),
        ({"stop": [1]}, "stop[0]", "invalid_value"),
        ({"stop": 1}, "stop", "invalid_value"),
        ({"logit_bias": {"a": 1}}, "logit_bias.a", "invalid_value"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5", "invalid_value"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"logprobs": 1}, "logprobs", "invalid_value"),
        ({"stream": "yes"}, "stream", "invalid_value"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", "unknown_parameter"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "unsupported_value"),
        ({"response_format": {}}, "response_format.type", "missing_required_parameter"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}},
            "response_format",
            "invalid_value",
        ),
        ({"method": "eagle"}, "method", "unsupported_value"),
        ({"method": "draft"}, "method", "method_unavailable"),
        ({"method": "auto", "depth": 3}, "depth", "invalid_value"),
        ({"depth": 33}, "depth", "invalid_value"),
        ({"store": True}, "store", "unsupported_value"),
        ({"audio": {"voice": "x"}}, "audio", "unknown_parameter"),
        ({"modalities": ["text", "audio"]}, "modalities[1]", "unsupported_value"),
        ({"reasoning_effort": "high"}, "reasoning_effort", "unknown_parameter"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": None}, "messages", "missing_required_parameter"),
        ({"messages": [{"content": "x"}]}, "messages[0].role", "missing_required_parameter"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role", "unsupported_value"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_required_parameter"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_value"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "messages[0].content[0].type",
            "unsupported_value",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_E03_faults_are_named(served: Served, body: Any, param: str, code: str, stream: bool) -> None:
    whole = {"messages": HI, "stream": stream, **body}
    reply = served.post("/v1/chat/completions", whole)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, param, code), error
    assert error["type"] == "invalid_request_error"
    assert error["message"]


def test_E03_neutral_values_pass(served: Served) -> None:
    names = (
        "n temperature top_p top_k min_p seed stop logit_bias logprobs top_logprobs tools tool_choice response_format "
        "audio metadata prediction reasoning_effort functions stream_options user anything_at_all"
    )
    neutral = dict.fromkeys(names.split())
    reply = served.post("/v1/chat/completions", {"messages": HI, **neutral})
    assert reply.status_code == 200, reply.text
    same: Any = {"n": 1, "logit_bias": {}, "tools": [], "tool_choice": "auto", "modalities": ["text"], "functions": []}
    assert served.post("/v1/chat/completions", {"messages": HI, **same, "logprobs": False}).status_code == 200


def test_E03_options_of_streams_are_for_streams(served: Served) -> None:
    reply = served.chat(stream_options={"include_usage": True})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stream_options")


def test_the_official_client_sees_the_parameter(served: Served) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        served.client().chat.completions.create(model="default", messages=HI, extra_body={"foo": 1})
    assert (caught.value.param, caught.value.code) == ("foo", "unknown_parameter")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff\xfe", b'{"messages": NaN}', b'{"a": 1e999999}', b"[" * 100_000,
     b'{"messages": ' + b"9" * 5000 + b"}", b'{"messages": [{"role": "user", "content": "\\ud800"}]}'],
)  # fmt: skip
def test_bodies_that_are_none(served: Served, body: bytes) -> None:
    reply = served.post("/v1/chat/completions", None, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"]


def test_paths_and_methods(served: Served) -> None:
    for reply, status in (
        (served.get("/nothing"), 404),
        (served.get("/v1/chat/completions"), 405),
        (served.post("/v1/models", {}), 405),
        (served.post("/v1/nothing", {}), 404),
    ):
        assert reply.status_code == status
        assert reply.json()["error"]["type"] == "invalid_request_error"


def test_a_thousand_malformed_requests_are_refused_and_the_next_is_served(served: Served) -> None:
    chance = random.Random(5)
    good = json.dumps({"messages": HI, "max_tokens": 2, "temperature": 0.5, "stop": ["a"], "n": 1})
    wrong: list[Any] = [-1, "x", [], {}, [[]], {"a": {}}, 1e300, True, [None, 1], "\u0000"]
    fields = [
        "n",
        "stop",
        "tools",
        "logit_bias",
        "messages",
        "stream_options",
        "seed",
        "response_format",
        "zzz",
        "depth",
    ]
    with httpx.Client(base_url=served.address.url, trust_env=False, timeout=20) as client:
        done = 0
        while done < 1000:
            if chance.random() < 0.4:
                cut = chance.randrange(1, len(good) - 1)
                body = (
                    good[:cut] + chance.choice(["", "}", "\x00", "]]"])
                    if chance.random() < 0.5
                    else good[:cut] + "\\" + good[cut:]
                )
                try:
                    json.loads(body)
                    continue
                except ValueError:
                    pass
            else:
                field, value = chance.choice(fields), chance.choice(wrong)
                if (field, repr(value)) in {
                    ("stop", "'x'"),
                    ("stop", "[]"),
                    ("stop", "'\\x00'"),
                    ("tools", "[]"),
                    ("logit_bias", "{}"),
                }:
                    continue
                body = json.dumps({"messages": HI, field: value})
            reply = client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
            assert 400 <= reply.status_code < 500, (body, reply.text)
            assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
            done += 1
    assert served.chat().status_code == 200
    assert len(served.server.journal.entries()) == 500
