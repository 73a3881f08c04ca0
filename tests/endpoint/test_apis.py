"""Completions and responses, through the official client."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from pardec_chat.tests.endpoint.scripted import FOREVER, Served, fails_when_told, read_on, serving


@pytest.fixture(scope="module")
def served() -> Any:
    with serving() as one:
        yield one


def test_a_text_is_continued_as_it_is(served: Served) -> None:
    client = served.client()
    reply = client.completions.create(model="default", prompt="hello?", max_tokens=50)
    assert (reply.choices[0].text, reply.choices[0].finish_reason) == ("hello there", "stop")
    assert served.submitted[-1].prompt == "hello?"
    assert client.completions.create(model="default", prompt="hello?").choices[0].text == "hello there"
    assert served.submitted[-1].max_tokens == 16
    chunks = list(client.completions.create(model="default", prompt="hello?", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hello there"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_several_prompts_and_answers(served: Served) -> None:
    reply = served.client().completions.create(model="default", prompt=["a?", "bc?"], n=2, seed=3)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]
    assert [request.prompt for request in served.submitted[-4:]] == ["a?", "a?", "bc?", "bc?"]
    assert [request.sampling.seed for request in served.submitted[-4:]] == [3, 4, 3, 4]
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == 2 + 3
    assert reply.usage.completion_tokens == 4 * 12


def test_logprobs_in_the_older_form(served: Served) -> None:
    reply = served.client().completions.create(model="default", prompt="a?", logprobs=2, stop="th")
    found = reply.choices[0].logprobs
    assert found is not None
    assert found.tokens == list("hello ")
    assert found.text_offset == list(range(6))
    assert found.token_logprobs is not None
    assert len(found.token_logprobs) == 6
    assert all(len(top) >= 2 for top in found.top_logprobs or [])
    streamed = list(
        served.client().completions.create(model="default", prompt="a?", logprobs=2, stop="th", stream=True)
    )
    tokens = [t for chunk in streamed if chunk.choices[0].logprobs for t in chunk.choices[0].logprobs.tokens or []]
    assert tokens == list("hello ")


def test_E02_usage_of_streamed_completions(served: Served) -> None:
    for options, there in (({}, False), ({"stream_options": {"include_usage": True}}, True)):
        text = served.post("/v1/completions", {"prompt": "a?", "stream": True, **options}).text
        events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
        assert ["usage" in event for event in events] == [False] * (len(events) - 1) + [there]
        assert text.endswith("data: [DONE]\n\n")


def test_a_response(served: Served) -> None:
    reply = served.client().responses.create(
        model="default", input="hi", instructions="be brief", metadata={"a": "b"}, max_output_tokens=50, temperature=0.3
    )
    assert (reply.output_text, reply.status) == ("hello there", "completed")
    assert (reply.instructions, reply.metadata, reply.temperature) == ("be brief", {"a": "b"}, 0.3)
    assert reply.usage is not None
    assert reply.usage.output_tokens == 12
    assert [(m.role, m.content) for m in served.submitted[-1].messages] == [("system", "be brief"), ("user", "hi")]


def test_a_conversation_in_response_form(served: Served) -> None:
    client = served.client()
    first = client.responses.create(model="default", input="hi")
    items: Any = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    items += [item.model_dump() for item in first.output]
    items += [{"role": "user", "content": "more"}]
    assert client.responses.create(model="default", input=items).output_text == "hello there"
    assert [m.content for m in served.submitted[-1].messages] == ["hi", "hello there", "more"]


def test_the_events_of_a_response(served: Served) -> None:
    events = list(served.client().responses.create(model="default", input="hi", stream=True))
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "hello there"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "hello there"
    assert last.response.usage is not None


def test_a_response_that_was_cut_says_so(served: Served) -> None:
    reply = served.client().responses.create(model="default", input="hi", max_output_tokens=3)
    assert (reply.status, reply.output_text) == ("incomplete", "hel")
    assert reply.incomplete_details is not None
    assert reply.incomplete_details.reason == "max_output_tokens"
    events = list(served.client().responses.create(model="default", input="hi", max_output_tokens=3, stream=True))
    assert events[-1].type == "response.incomplete"


def test_the_stream_helper_of_the_official_client(served: Served) -> None:
    with served.client().responses.stream(model="default", input="hi") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "hello there"


def test_a_response_with_a_form(served: Served) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    text: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    with serving('{"a": 1}') as one:
        reply = one.client().responses.create(model="default", input="hi", text=text)
        assert json.loads(reply.output_text) == {"a": 1}
        assert one.submitted[-1].grammar is not None
        assert reply.text is not None


def test_a_response_that_fails_on_its_way_says_so() -> None:
    with serving(FOREVER, n_ctx=512) as served, fails_when_told(served) as fail:
        lines = read_on("/v1/responses", served, {"input": "hi", "stream": True}, fail)
        kinds = [line[7:] for line in lines if line.startswith("event: ")]
        assert kinds[-2:] == ["error", "response.failed"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["x"]}, "include"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": None}, "input"),
        ({"reasoning": {"effort": "low"}}, "reasoning"),
    ],
)
def test_E03_what_responses_cannot_do_is_refused_by_name(served: Served, body: Any, param: str) -> None:
    reply = served.post("/v1/responses", {"input": "hi", **body})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text


def test_E03_neutral_values_pass(served: Served) -> None:
    neutral = {
        "store": False,
        "tools": [],
        "tool_choice": "auto",
        "truncation": "disabled",
        "previous_response_id": None,
    }
    assert served.post("/v1/responses", {"input": "hi", **neutral, "reasoning": None}).status_code == 200
    legacy = {"best_of": 1, "echo": False, "suffix": None, "logprobs": None, "stop": None, "n": 1}
    assert served.post("/v1/completions", {"prompt": "a?", **legacy}).status_code == 200
    for name, value in (("best_of", 2), ("echo", True), ("suffix", "x"), ("prompt", [1, 2]), ("logprobs", 50)):
        reply = served.post("/v1/completions", {"prompt": "a?", name: value})
        assert reply.status_code == 400
        assert str(reply.json()["error"]["param"]).startswith(name)
    with pytest.raises(openai.BadRequestError):
        served.client().completions.create(model="default", prompt=["a"] * 20)
