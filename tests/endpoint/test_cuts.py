"""Where an answer is cut, and its log-probabilities: text, tokens and counts agree, streamed or whole."""

from __future__ import annotations

from typing import Any

import pytest

from pardec_chat.tests.endpoint.scripted import Served, events, serving

HI: Any = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def served() -> Any:
    with serving() as one:
        yield one


@pytest.mark.parametrize(
    ("stop", "text"), [("the", "hello "), (["zz", " t"], "hello"), ([], "hello there"), ("", "hello there")]
)
@pytest.mark.parametrize("stream", [True, False])
def test_S02_S04_a_stop_string_ends_stream_and_answer_alike(served: Served, stop: Any, text: str, stream: bool) -> None:
    options: Any = {"stream_options": {"include_usage": True}} if stream else {}
    reply = served.chat(stop=stop, stream=stream, logprobs=True, **options)
    ended = 1 if text == "hello there" else 0  # the end token is one of the answer
    if stream:
        found = [event for event in events(reply.text) if event != "[DONE]"]
        choices = [event["choices"][0] for event in found[:-1]]
        assert "".join(choice["delta"].get("content", "") for choice in choices) == text
        tokens = [token for choice in choices for token in (choice["logprobs"] or {"content": []})["content"]]
        assert found[-1]["usage"]["completion_tokens"] == len(tokens)
    else:
        assert reply.json()["choices"][0]["message"]["content"] == text
        tokens = reply.json()["choices"][0]["logprobs"]["content"]
        assert reply.json()["usage"]["completion_tokens"] == len(tokens)
    assert "".join(token["token"] for token in tokens) == text
    assert len(tokens) == len(text) + ended


@pytest.mark.parametrize("method", ["plain", "ngram", "draft", "auto"])
def test_S05_logprobs_are_there_with_every_method(method: str) -> None:
    text = "abcabcabcabcabc"
    with serving(text, draft="abcabcabxabcabc") as served:
        reply = served.client().chat.completions.create(
            model="default", messages=HI, logprobs=True, top_logprobs=2, extra_body={"method": method}
        )
    found = reply.choices[0].logprobs
    assert found is not None
    assert found.content is not None
    assert [token.token for token in found.content] == [*text, ""]
    assert all(token.bytes == list(token.token.encode()) for token in found.content)
    assert all(len(token.top_logprobs) == 2 and token.top_logprobs[0].token == token.token for token in found.content)
    assert all(-1e-6 < token.logprob <= 0 for token in found.content)


def test_S01_characters_of_several_tokens_come_whole(served: Served) -> None:
    text = "a👨‍👩‍👧b 한국 " + "é"
    for said, shown in ((text.encode(), text), (b"ok \xf0", "ok \ufffd"), (b"x\xc0\x80y", "x\ufffdy")):
        with serving(lambda _prompt, said=said: said) as one:  # type: ignore[misc]
            whole = one.chat(logprobs=True).json()["choices"][0]
            found = events(one.chat(stream=True, logprobs=True).text)[:-1]
        streamed = "".join(event["choices"][0]["delta"].get("content", "") for event in found)
        assert whole["message"]["content"] == streamed == shown
        assert bytes(b for token in whole["logprobs"]["content"] for b in token["bytes"]) == said
        tokens = [t for e in found for t in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
        assert tokens == whole["logprobs"]["content"]


@pytest.mark.parametrize("depth", [2, 5, 8])
def test_S04_a_stop_inside_an_accepted_block_cuts_text_logprobs_and_usage_alike(depth: int) -> None:
    text = "abcdefghijklmnop"
    with serving(text, draft=text) as served:
        options: Any = {"method": "draft", "depth": depth, "stop": "hij", "logprobs": True, "top_logprobs": 2}
        whole = served.chat(**options).json()
        found = events(served.chat(stream=True, stream_options={"include_usage": True}, **options).text)[:-1]
    choice = whole["choices"][0]
    assert choice["message"]["content"] == "abcdefg"
    assert [token["token"] for token in choice["logprobs"]["content"]] == list("abcdefg")
    assert whole["usage"]["completion_tokens"] == found[-1]["usage"]["completion_tokens"] == 7
    assert whole["timings"]["draft_n_accepted"] <= 7
    tokens = [t for e in found[:-1] for t in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
    assert tokens == choice["logprobs"]["content"]
