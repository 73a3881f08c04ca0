"""Chats through the official client: whole and streamed, every parameter, usage, timings."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from pardec_chat.backends.base import Method
from pardec_chat.tests.endpoint.scripted import FOREVER, Served, events, fails_when_told, read_on, serving

HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def served() -> Any:
    with serving() as one:
        yield one


def test_an_answer_in_one_piece(served: Served) -> None:
    reply = served.client().chat.completions.create(model="default", messages=HI)
    (choice,) = reply.choices
    assert (choice.message.content, choice.message.role, choice.finish_reason) == ("hello there", "assistant", "stop")
    assert reply.object == "chat.completion"
    assert reply.model == "scripted"
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len("user:hi;") + 1
    assert reply.usage.completion_tokens == len("hello there") + 1
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    timings = reply.model_extra["timings"] if reply.model_extra else {}
    assert timings["predicted_n"] == reply.usage.completion_tokens
    assert (timings["draft_n"], timings["draft_kind"], timings["method"]) == (0, "plain", "plain")


def test_an_answer_as_a_stream(served: Served) -> None:
    stream = served.client().chat.completions.create(model="scripted", messages=HI, stream=True)
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello there"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert all(chunk.usage is None for chunk in chunks)


async def test_the_async_client(served: Served) -> None:
    async with served.async_client() as client:
        reply = await client.chat.completions.create(model="default", messages=HI)
        assert reply.choices[0].message.content == "hello there"
        stream = await client.chat.completions.create(model="default", messages=HI, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "hello there"


@pytest.mark.parametrize("usage", [True, False, None])
def test_E02_usage_in_a_stream_comes_only_when_asked_for(served: Served, usage: bool | None) -> None:
    options: Any = {} if usage is None else {"stream_options": {"include_usage": usage}}
    found = events(served.chat(stream=True, **options).text)
    assert found[-1] == "[DONE]"
    with_usage = [event for event in found[:-1] if "usage" in event]
    if usage:
        assert with_usage == [found[-2]]
        assert found[-2]["choices"] == []
        assert found[-2]["usage"]["completion_tokens"] == len("hello there") + 1
    else:
        assert not with_usage
    assert all(event["choices"] for event in found[:-2])


def test_timings_are_in_the_last_chunk_and_in_all_when_asked_for(served: Served) -> None:
    found = [e for e in events(served.chat(stream=True).text) if e != "[DONE]"]
    assert ["timings" in event for event in found] == [False] * (len(found) - 1) + [True]
    every = [e for e in events(served.chat(stream=True, timings_per_token=True).text) if e != "[DONE]"]
    assert all("timings" in event for event in every[1:])
    counts = [event["timings"]["predicted_n"] for event in every[1:]]
    assert counts == sorted(counts)
    assert set(every[1]["timings"]) == set(every[-1]["timings"])


def test_every_parameter_reaches_the_engine(served: Served) -> None:
    reply = served.chat(
        temperature=0.5,
        top_p=0.9,
        top_k=7,
        min_p=0.01,
        seed=5,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        repeat_penalty=1.1,
        logit_bias={"65": 1.5},
        max_completion_tokens=9,
        stop=["x", "yz"],
        method="ngram",
        depth=4,
        ngram_min_match=2,
        user="me",
        n=1,
        store=False,
        service_tier="auto",
        modalities=["text"],
        logprobs=True,
        top_logprobs=2,
    )
    assert reply.status_code == 200, reply.text
    asked = served.submitted[-1]
    sampling = asked.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 7, 0.01)
    assert (sampling.frequency_penalty, sampling.presence_penalty, sampling.repeat_penalty) == (0.1, 0.2, 1.1)
    assert (sampling.seed, sampling.logit_bias, sampling.logprobs) == (5, {65: 1.5}, 2)
    assert (asked.max_tokens, list(asked.stop)) == (9, ["x", "yz"])
    assert (asked.method, asked.depth, asked.ngram_min_match, asked.overflow) == (Method.NGRAM, 4, 2, "refuse")
    assert reply.json()["timings"]["method"] == "ngram"
    assert reply.json()["choices"][0]["finish_reason"] == "length"


def test_conversations_reach_the_template_with_their_roles(served: Served) -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
        {"role": "user", "content": "a", "name": "bob"},
        {"role": "assistant", "content": "b", "refusal": None},
        {"role": "user", "content": "c"},
    ]
    assert served.post("/v1/chat/completions", {"messages": messages}).status_code == 200
    assert [(m.role, m.content) for m in served.submitted[-1].messages] == [
        ("system", "be brief"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert served.submitted[-1].messages[1].extra == {"name": "bob"}


def test_E07_the_reply_names_what_really_drafted() -> None:
    with serving("abcabcabcabcabcabc", draft="abcabcabcabcabcabc") as served:
        for method, kind, model in (("plain", "plain", None), ("draft", "draft", "scripted"), ("ngram", "ngram", None)):
            timings = served.chat(method=method).json()["timings"]
            assert (timings["method"], timings["draft_kind"], timings["draft_model"]) == (method, kind, model)
            assert (timings["draft_n"] > 0) == (kind != "plain")
            assert timings["draft_n_accepted"] <= timings["draft_n"]
            assert (timings["draft_rounds"] > 0) == (kind != "plain")
        auto = served.chat(method="auto").json()["timings"]
        assert auto["method"] == "auto"
        assert auto["draft_kind"] in {"plain", "draft", "ngram", "draft+ngram"}
        nothing = served.chat(method="ngram", max_tokens=2).json()["timings"]
        assert nothing["draft_kind"] == "plain"


def test_n_answers_have_seeds_of_their_own_and_come_by_index(served: Served) -> None:
    reply = served.client().chat.completions.create(model="default", messages=HI, n=3, seed=7)
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert [choice.message.content for choice in reply.choices] == ["hello there"] * 3
    assert [request.sampling.seed for request in served.submitted[-3:]] == [7, 8, 9]
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len("user:hi;") + 1
    assert reply.usage.completion_tokens == 3 * (len("hello there") + 1)
    found = events(served.chat(n=2, stream=True, stream_options={"include_usage": True}).text)[:-1]
    for index in (0, 1):
        mine = [event["choices"][0] for event in found[:-1] if event["choices"][0]["index"] == index]
        assert "".join(choice["delta"].get("content", "") for choice in mine) == "hello there"
        assert [choice["finish_reason"] for choice in mine if choice["finish_reason"]] == ["stop"]
    assert found[-1]["usage"]["completion_tokens"] == 2 * (len("hello there") + 1)


def test_the_cache_is_told_of_in_the_usage() -> None:
    with serving(n_ctx=4096, slots=1) as served:
        first = served.chat("x" * 200).json()["usage"]
        second = served.chat("x" * 200).json()["usage"]
    assert first["prompt_tokens_details"]["cached_tokens"] == 0
    assert second["prompt_tokens_details"]["cached_tokens"] == first["prompt_tokens"] - 1


def test_K05_chats_at_the_same_time_share_nothing() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with serving(lambda prompt: prompt.removeprefix("user:").removesuffix(";") * 5, slots=3) as served:

        def ask(word: str) -> str:
            return str(served.chat(word).json()["choices"][0]["message"]["content"])

        words = [f"marker{i} " for i in range(12)]
        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(ask, words)) == [word * 5 for word in words]


def test_K07_a_prompt_that_is_too_long_is_a_400_with_counts() -> None:
    with serving(n_ctx=128) as served:
        for path, body, param in (
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 130}]}, "messages"),
            (
                "/v1/chat/completions",
                {"messages": [{"role": "user", "content": "x" * 130}], "stream": True},
                "messages",
            ),
            ("/v1/completions", {"prompt": "x" * 130}, "prompt"),
            ("/v1/responses", {"input": "x" * 130}, "input"),
        ):
            reply = served.post(path, body)
            error = reply.json()["error"]
            assert (reply.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", param)
            assert "128" in error["message"]
            assert "13" in error["message"]
        assert served.chat("x" * 80).status_code == 200
        cut = served.chat("x" * 80, method="ngram", depth=8)
        assert cut.status_code == 200


def test_response_format_is_a_grammar_and_is_parsed(served: Served) -> None:
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    with serving('{"name": "Ada", "age": 36}') as one:
        parsed = one.client().chat.completions.parse(model="default", messages=HI, response_format=Person)
        assert parsed.choices[0].message.parsed == Person(name="Ada", age=36)
        grammar = one.submitted[-1].grammar
        assert grammar is not None
        assert grammar.kind == "json_schema"
        assert json.loads(grammar.source)["required"] == ["name", "age"]
        plain = one.chat(response_format={"type": "json_object"})
        assert json.loads(plain.json()["choices"][0]["message"]["content"]) == {"name": "Ada", "age": 36}
        assert one.chat(response_format={"type": "text"}).status_code == 200
        assert one.submitted[-1].grammar is None


def test_models_by_their_names() -> None:
    from pardec_chat.app.endpoint.context import ListedModel

    models = [ListedModel("other", "Other"), ListedModel("mine-q4", "Mine", loaded=True, size=5)]
    with serving(models=models) as served:
        client = served.client()
        assert [model.id for model in client.models.list()] == ["mine-q4", "other"]
        assert client.models.retrieve("mine-q4").id == "mine-q4"
        for name in ("mine-q4", "Mine", "scripted", "default"):
            assert client.chat.completions.create(model=name, messages=HI).model == "mine-q4"
        with pytest.raises(openai.NotFoundError, match="on this disk, but only the loaded one answers: mine-q4"):
            client.chat.completions.create(model="other", messages=HI)
        with pytest.raises(openai.NotFoundError, match="no model gpt-4 here") as caught:
            client.chat.completions.create(model="gpt-4", messages=HI)
        assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-4")


def test_without_a_model_the_server_says_so(served: Served) -> None:
    with serving() as one:
        assert one.get("/health").json()["status"] == "ok"
        one.loaded[0] = None
        assert one.get("/health").status_code == 503
        reply = one.chat()
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "model_not_loaded")


def test_an_error_after_the_first_byte_is_an_event_and_the_end() -> None:
    with serving(FOREVER, n_ctx=512) as served:
        with fails_when_told(served) as fail:
            lines = read_on("/v1/chat/completions", served, {"messages": HI, "stream": True}, fail)
        assert lines[-3] == "event: error"
        assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "engine_failed"
        assert "data: [DONE]" not in lines
        assert served.chat(max_tokens=3).status_code == 200
        with fails_when_told(served) as fail, pytest.raises(openai.APIError):
            for _ in served.client().chat.completions.create(model="default", messages=HI, stream=True):
                fail.set()


def test_embeddings_are_refused_with_a_reason(served: Served) -> None:
    reply = served.post("/v1/embeddings", {"input": "x", "model": "default"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (501, "not_implemented")
    assert "hidden states" in reply.json()["error"]["message"]
