"""Tool calls: read from text however it is cut, streamed in the API's form, forced by a grammar."""

from __future__ import annotations

import json
import random
from typing import Any

import llguidance
import pytest

from pardec_chat.app.chat.request import Grammar
from pardec_chat.app.endpoint.schema import ChosenTool, Tool
from pardec_chat.app.endpoint.tool_grammar import grammar_for
from pardec_chat.app.endpoint.tools import CallStart, Said, ToolReader
from pardec_chat.tests.endpoint.scripted import Served, serving

HI: Any = [{"role": "user", "content": "hi"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/City"}},
            "required": ["city"],
            "additionalProperties": False,
            "$defs": {"City": {"type": "string"}},
        },
    },
}
CLOCK: Any = {"type": "function", "function": {"name": "clock"}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
TWO = f'Let me see.\n{CALL}\n<tool_call>\n{{"name": "clock", "arguments": {{}}}}\n</tool_call>'


def joined(pieces: list[Said]) -> list[Any]:
    """Neighbouring texts joined, calls as [index, name, arguments]."""
    found: list[Any] = []
    for piece in pieces:
        if isinstance(piece, str):
            if found and isinstance(found[-1], str):
                found[-1] += piece
            else:
                found.append(piece)
        elif isinstance(piece, CallStart):
            found.append([piece.index, piece.name, ""])
        else:
            found[-1][2] += piece.text
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CALL, [[0, "weather", '{"city": "Oslo"}']]),
        (f"{CALL}\n{CALL}", [[0, "weather", '{"city": "Oslo"}'], [1, "weather", '{"city": "Oslo"}']]),
        (f"Let me see.\n\n{CALL}", ["Let me see.", [0, "weather", '{"city": "Oslo"}']]),
        (f"{CALL} bye", [[0, "weather", '{"city": "Oslo"}'], "bye"]),
        ('{"name": "clock", "parameters": {"x": "a}\\"b"}}', [[0, "clock", '{"x": "a}\\"b"}']]),
        (
            '{"name":"clock","parameters":{}}; {"name":"weather","parameters":{"y":[1,{}]}}',
            [[0, "clock", "{}"], [1, "weather", '{"y":[1,{}]}']],
        ),
        (
            '[TOOL_CALLS][{"name":"clock","arguments":{"a":1}},{"name":"weather","arguments":{}}]',
            [[0, "clock", '{"a":1}'], [1, "weather", "{}"]],
        ),
        ('[{"name":"clock","arguments":{"a":1}}]', [[0, "clock", '{"a":1}']]),
        ('<|python_tag|>{"name":"clock","parameters":{}}', [[0, "clock", "{}"]]),
        ('see [TOOL_CALLS] [{"name":"clock","arguments":{}}]', ["see", [0, "clock", "{}"]]),
        ('<tool_call>{"arguments":{"q":2},"name":"clock"}</tool_call>', [[0, "clock", '{"q":2}']]),
        ('<tool_call>{"name":"clock","arguments":"{\\"a\\": 2}"}</tool_call>', [[0, "clock", '{"a": 2}']]),
        (
            '<tool_call>{"type":"function","function":{"name":"clock","arguments":{"k":1}}}</tool_call>',
            [[0, "clock", '{"k":1}']],
        ),
        ('<tool_call>{"name":"clock"}</tool_call>', [[0, "clock", "{}"]]),
        ('<tool_call>{"name":"unknown","arguments":{}}</tool_call>', [[0, "unknown", "{}"]]),
        ('<tool_call>{"name":"clock","arguments":{"a":"lo', [[0, "clock", '{"a":"lo']]),
        # What is no call is text, every character of it.
        ('{"name": "Bob", "age": 3}', ['{"name": "Bob", "age": 3}']),
        ("[1, 2, 3]", ["[1, 2, 3]"]),
        ('{"a": 1}', ['{"a": 1}']),
        ("a <b> <tool_ca x", ["a <b> <tool_ca x"]),
        ("<tool_call> what", ["<tool_call> what"]),
        ("<tool_call>{broken}</tool_call>", ["<tool_call>{broken}</tool_call>"]),
        ('{"name":"clock","par', ['{"name":"clock","par']),
        ("[TOOL_CALLS]", ["[TOOL_CALLS]"]),
        ("plain text  ", ["plain text  "]),
        ("  {", ["  {"]),
        ("", []),
    ],
)
def test_E04_calls_are_found_however_the_text_is_cut(text: str, expected: list[Any]) -> None:
    for seed in range(30):
        chance = random.Random(seed)
        reader, said, at = ToolReader({"weather", "clock"}), [], 0
        while at < len(text):
            n = 1 if seed == 0 else len(text) if seed == 1 else chance.randint(1, 9)
            said += reader.push(text[at : at + n])
            at += n
        assert joined(said + reader.finish()) == expected, seed


def test_E04_arguments_come_while_they_are_written() -> None:
    reader = ToolReader({"weather"})
    said = [reader.push(character) for character in CALL]
    assert sum(bool(pieces) for pieces in said) >= len('{"city": "Oslo"}')


def test_long_arguments_take_time_in_proportion() -> None:
    reader = ToolReader({"weather"})
    body = "x" * 200_000
    said = reader.push('<tool_call>{"name": "weather", "arguments": {"city": "')
    for at in range(0, len(body), 4):
        said += reader.push(body[at : at + 4])
    assert joined(said + reader.push('"}}</tool_call>')) == [[0, "weather", f'{{"city": "{body}"}}']]


def test_one_call_at_a_time_and_json_answers_are_told_apart() -> None:
    one = ToolReader({"weather", "clock"}, one=True)
    assert joined(one.push(TWO) + one.finish()) == ["Let me see.", [0, "weather", '{"city": "Oslo"}']]
    answer = ToolReader({"clock"}, marked_only=True)
    text = '{"name": "clock", "arguments": {}}'
    assert joined(answer.push(text) + answer.finish()) == [text]


@pytest.fixture(scope="module")
def served() -> Any:
    with serving(TWO) as one:
        yield one


def test_E04_two_calls_streamed_and_put_together_by_the_official_client(served: Served) -> None:
    with served.client().chat.completions.stream(model="default", messages=HI, tools=[WEATHER, CLOCK]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    message = final.choices[0].message
    assert (message.content, final.choices[0].finish_reason) == ("Let me see.", "tool_calls")
    assert message.tool_calls is not None
    assert [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls] == [
        ("weather", {"city": "Oslo"}),
        ("clock", {}),
    ]
    assert len({call.id for call in message.tool_calls}) == 2


def test_E04_deltas_have_what_clients_join_them_by(served: Served) -> None:
    chunks = list(
        served.client().chat.completions.create(model="default", messages=HI, tools=[WEATHER, CLOCK], stream=True)
    )
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    for index in (0, 1):
        mine = [delta for delta in deltas if delta.index == index]
        assert [bool(delta.id) for delta in mine] == [True] + [False] * (len(mine) - 1)
        assert [delta.type for delta in mine if delta.type] == ["function"]
        assert len([delta for delta in mine if delta.function and delta.function.name]) == 1
        json.loads("".join(delta.function.arguments or "" for delta in mine if delta.function))
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_calls_in_one_piece(served: Served) -> None:
    reply = served.client().chat.completions.create(model="default", messages=HI, tools=[WEATHER, CLOCK])
    calls = reply.choices[0].message.tool_calls
    assert calls is not None
    assert [call.type for call in calls] == ["function", "function"]
    one = served.chat(tools=[WEATHER, CLOCK], parallel_tool_calls=False).json()["choices"][0]
    assert len(one["message"]["tool_calls"]) == 1
    none = served.chat(tools=[WEATHER], tool_choice="none").json()["choices"][0]
    assert none["message"]["content"] == TWO
    assert not served.submitted[-1].tools
    cut = served.chat(tools=[WEATHER], max_tokens=60).json()["choices"][0]
    assert (cut["finish_reason"], len(cut["message"]["tool_calls"])) == ("length", 1)


def test_tools_results_and_calls_reach_the_template(served: Served) -> None:
    messages = [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ]
    assert served.post("/v1/chat/completions", {"messages": messages, "tools": [WEATHER]}).status_code == 200
    request = served.submitted[-1]
    assert request.tools == [WEATHER]
    _, call, result = request.messages
    assert call.extra["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    ]
    assert (result.role, result.content, result.extra) == ("tool", "rain", {"tool_call_id": "c1"})


TOKENS = llguidance.LLTokenizer("byte")


def takes(grammar: Grammar | None, text: str) -> bool:
    """Whether the grammar allows the text, from its beginning to its end."""
    assert grammar is not None
    matcher = llguidance.LLMatcher(TOKENS, llguidance.LLMatcher.grammar_from_lark(grammar.source))
    assert not matcher.is_error(), matcher.get_error()
    ids = TOKENS.tokenize_str(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def tools(**changes: Any) -> list[Tool]:
    return [Tool.model_validate({**one, "function": {**one["function"], **changes}}) for one in (WEATHER, CLOCK)]


BARE = '{"name": "clock", "parameters": {}}'
LISTED = '[{"name": "weather", "arguments": {"city": "x"}}]'
WRONG = CALL.replace('"Oslo"', "5")


def test_a_call_that_has_to_be_is_forced_in_all_forms() -> None:
    grammar = grammar_for(tools(), "required", None, one=False)
    for text, right in (
        (CALL, True),
        (f"{CALL}\n{CALL}", True),
        (BARE, True),
        (LISTED, True),
        ("hello", False),
        (WRONG, False),
    ):
        assert takes(grammar, text) == right, text
    assert not takes(grammar_for(tools(), "required", None, one=True), f"{CALL}\n{CALL}")
    named = ChosenTool.model_validate({"type": "function", "function": {"name": "weather"}})
    assert takes(grammar_for(tools(), named, None, one=False), CALL)
    assert not takes(grammar_for(tools(), named, None, one=False), BARE)


def test_strict_tools_leave_text_free_and_bind_arguments() -> None:
    assert grammar_for(tools(), "auto", None, one=False) is None
    grammar = grammar_for(tools(strict=True), "auto", None, one=False)
    for text, right in (
        ("hello { }", True),
        ("", True),
        (f"I see.\n{CALL}", True),
        (CALL, True),
        (WRONG, False),
        ("<tool_call>", False),
    ):
        assert takes(grammar, text) == right, text


def test_an_answer_in_json_or_a_call() -> None:
    grammar = grammar_for(tools(), "auto", Grammar("json_object"), one=True)
    for text, right in (('{"a": 1}', True), (CALL, True), ("hi", False)):
        assert takes(grammar, text) == right, text


def test_forced_calls_and_forms_end_to_end() -> None:
    with serving(CALL) as served:
        for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
            reply = served.chat(tools=[WEATHER, CLOCK], tool_choice=choice)
            assert reply.status_code == 200, reply.text
            (answer,) = reply.json()["choices"]
            assert answer["finish_reason"] == "tool_calls"
            assert json.loads(answer["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Oslo"}
            assert served.submitted[-1].grammar is not None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "nope"}}}, "tool_choice"),
        ({"tools": [WEATHER, WEATHER]}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"functions": [{"name": "x"}]}, "functions"),
        (
            {
                "tools": [{**CLOCK, "function": {"name": "x", "parameters": {"type": "nonsense"}}}],
                "tool_choice": "required",
            },
            "tools",
        ),
    ],
)
def test_E03_tools_that_cannot_be_are_refused_by_name(served: Served, body: Any, param: str) -> None:
    reply = served.chat(**body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param), reply.text
