"""One tool call written as a JSON object, read character by character while it is still being written."""

from __future__ import annotations

import json
from typing import Literal

_SPACE = " \t\r\n"
_ARGUMENTS = ("arguments", "parameters")


class CallObject:
    """Takes text after an opening brace (it included) until the object is whole or turns out to be none.

    name: of the function, once it is known. ready: whether the arguments have begun, or the object is whole.
    `new_arguments` gives what has come of the arguments since the last time.
    """

    def __init__(self) -> None:
        self._taken: list[str] = []
        self.state: Literal["open", "whole", "broken"] = "open"
        self.name: str | None = None
        self.ready = False
        self._members: dict[str, str] = {}
        self._expects: Literal["brace", "key", "first key", "colon", "value", "in value", "comma"] = "brace"
        self._key = ""
        self._start = 0
        self._depth = 0
        self._in_string = self._escaped = False
        self._streamed = 0

    @property
    def raw(self) -> str:
        """Everything that was taken."""
        return self._since(0)

    def _since(self, start: int, end: int | None = None) -> str:
        return "".join(self._taken[start:end])

    def push(self, text: str) -> str:
        """Take text; gives what lies behind the object's end, or nothing while it is open."""
        for i, character in enumerate(text):
            self._taken.append(character)
            self._step(character)
            if self.state != "open":
                return text[i + 1 :]
        return ""

    def new_arguments(self) -> str:
        """What has come of the arguments since the last time; only once `ready`, and as valid JSON where the model's is."""
        if self.state == "whole":
            new = self._whole_arguments()[self._streamed :]
        elif self._expects == "in value" and self._key in _ARGUMENTS and self._taken[self._start] == "{":
            new = self._since(self._start + self._streamed)
        else:
            return ""
        self._streamed += len(new)
        return new

    def _whole_arguments(self) -> str:
        value = next((self._members[key] for key in _ARGUMENTS if key in self._members), "")
        if value.startswith('"'):  # JSON in a string, as the API itself has it
            inner = json.loads(value, strict=False)
            return inner if _is_object(inner) else value
        return value if value.startswith("{") else "{}"

    def _step(self, character: str) -> None:
        if self._expects == "in value":
            self._in_value(character)
        elif self._in_string:  # of a key
            if self._ends_text(character):
                self._key, self._expects = _text(self._since(self._start)), "colon"
        elif character in _SPACE:
            return
        elif self._expects == "brace" and character == "{":
            self._expects = "first key"
        elif self._expects in ("key", "first key") and character == '"':
            self._start, self._in_string = len(self._taken) - 1, True
        elif self._expects == "colon" and character == ":":
            self._expects = "value"
        elif self._expects == "value" and character not in ",}]:":
            self._start, self._expects = len(self._taken) - 1, "in value"
            self._in_value(character)
        elif self._expects == "comma" and character == ",":
            self._expects = "key"
        elif self._expects in ("comma", "first key") and character == "}":
            self._finish()
        else:
            self.state = "broken"

    def _in_value(self, character: str) -> None:
        if self._in_string:
            if self._ends_text(character) and not self._depth:
                self._end_value(self._since(self._start))
            return
        if character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]" and self._depth:
            self._depth -= 1
            if not self._depth:
                self._end_value(self._since(self._start))
        elif character in ",}" and not self._depth:
            self._end_value(self._since(self._start, -1).rstrip())
            self._step(character)
        if self._key in _ARGUMENTS and self.name is not None and character == "{":
            self.ready = True

    def _ends_text(self, character: str) -> bool:
        """Whether the string that is being read ends with this character."""
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = False
            return True
        return False

    def _end_value(self, raw: str) -> None:
        self._members[self._key] = raw
        self._expects = "comma"
        try:
            value = json.loads(raw, strict=False)
        except (ValueError, RecursionError):
            # Arguments that are on their way already stay as the model wrote them.
            self.state = "open" if self.ready else "broken"
            return
        if self._key in ("name", "function") and isinstance(value, str):
            self.name = value

    def _finish(self) -> None:
        nested = self._members.get("function", "")
        if self.name is None and nested.startswith("{"):
            inner = CallObject()
            inner.push(nested)
            self.name, self._members = inner.name, {**self._members, **inner._members}
        self.state = "broken" if self.name is None else "whole"
        self.ready = self.state == "whole"


def _text(raw: str) -> str:
    try:
        return str(json.loads(raw, strict=False))
    except ValueError:
        return raw


def _is_object(text: object) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
