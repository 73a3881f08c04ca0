"""Grammars that make an answer a call, where a request says that it has to be one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from pardec_chat.app.chat.request import Grammar
from pardec_chat.app.endpoint.schema import ChosenTool, Tool

#: Text that is no bare call and has no marked one in it; and text up to the first marked call.
_FREE = (r"FREE: /(?s:[^{\[].*)/ & ~/(?s:.*<tool_call>.*)/", r"lead[lazy]: /((?s:[^{\[].*))?<tool_call>/")
_MORE = r' ("\n" hermes)*'
_LED = r'led: lead "\n" call "\n</tool_call>"'


def grammar_for(
    tools: Sequence[Tool],
    choice: Literal["none", "auto", "required"] | ChosenTool | None,
    form: Grammar | None,
    *,
    one: bool,
) -> Grammar | None:
    """What the answer has to look like; None where it is free.

    The forms that `ToolReader` knows are all allowed, so that each model writes the one it was trained on. form: what text
    has to look like where no call is made. one: at most one call.
    """
    if isinstance(choice, ChosenTool):
        chosen = [tool for tool in tools if tool.function.name == choice.function.name]
        return _calls(chosen, one=True)
    if choice == "required":
        return _calls(tools, one=one)
    if form is not None:
        schema = json.loads(form.source) if form.source else {"type": "object"}
        return _lark("start: answer | marked", [f"answer: %json {_json(schema)}"], tools, one=one)
    if any(tool.function.strict for tool in tools):
        return _lark("start: FREE? | led | bare | list", [*_FREE, _LED + ("" if one else _MORE)], tools, one=one)
    return None


def _calls(tools: Sequence[Tool], *, one: bool) -> Grammar:
    return _lark("start: marked | bare | list", [], tools, one=one)


def _lark(start: str, rules: Sequence[str], tools: Sequence[Tool], *, one: bool) -> Grammar:
    numbers = range(len(tools))
    lines = [
        start,
        *rules,
        "marked: hermes" + ("" if one else _MORE),
        r'hermes: "<tool_call>\n" call "\n</tool_call>"',
        "call: " + " | ".join(f"call_{i}" for i in numbers),
    ]
    if "bare" in start:
        lines += [
            "bare: " + " | ".join(f"bare_{i}" for i in numbers),
            'list: "[" call' + ("" if one else ' (", " call)*') + ' "]"',
        ]
    for i, tool in enumerate(tools):
        name = tool.function.name
        lines.append(rf'call_{i}: "{{\"name\": \"{name}\", \"arguments\": " args_{i} "}}"')
        if "bare" in start:
            lines.append(rf'bare_{i}: "{{\"name\": \"{name}\", \"parameters\": " args_{i} "}}"')
        lines.append(f"args_{i}: %json {_json(_parameters(tool))}")
    return Grammar("lark", "\n".join(lines))


def _parameters(tool: Tool) -> dict[str, object]:
    return {"type": "object", **(tool.function.parameters or {"properties": {}})}


def _json(schema: object) -> str:
    return json.dumps(schema)
