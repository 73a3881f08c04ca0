"""Tool calls in a model's text: what it says and what it calls, apart, while it is written.

Three forms are known: `<tool_call>{"name": …, "arguments": {…}}</tool_call>` anywhere (Hermes, Qwen); a bare object
`{"name": …, "parameters": {…}}` as the whole answer (Llama 3); a list `[TOOL_CALLS][{…}, …]` (Mistral), whose marker is
often a control token and not in the text.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from pardec_chat.app.endpoint.call_object import CallObject

_OPEN, _CLOSE, _LIST, _PYTHON = "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>"
_FORMS = {_OPEN: "marked", _LIST: "list", _PYTHON: "bare"}


@dataclass(frozen=True, slots=True)
class CallStart:
    """The model calls a function; its arguments follow."""

    index: int
    name: str
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next piece of the arguments of the call with this index; the pieces joined are JSON."""

    index: int
    text: str


Said = str | CallStart | CallArguments


class ToolReader:
    """Splits one answer.

    names: functions there are; a call without a marker has to be of one of them. one: only the first call is taken.
    marked_only: bare objects and lists are answers, since JSON was asked for.
    """

    def __init__(self, names: Collection[str], *, one: bool = False, marked_only: bool = False) -> None:
        self._names = frozenset(names)
        self._one = one
        self._marked_only = marked_only
        self._state: Literal["start", "text", "call", "between", "dropped"] = "start"
        self._form: Literal["marked", "bare", "list"] = "marked"
        self._held = ""
        # What led to the call that is being read, to be given back if it is none.
        self._lead = ""
        self._call: CallObject | None = None
        self._told = False
        self._n_calls = 0
        self._said: list[Said] = []

    def push(self, text: str) -> list[Said]:
        """What can be told after this text."""
        self._held += text
        while self._held and self._advance():
            pass
        return self._take()

    def finish(self) -> list[Said]:
        """What was still held back: the answer is over. Arguments that are not whole stay so."""
        if self._state == "call" and self._call is not None and not self._told:
            self._say(self._lead + self._call.raw)
        elif self._state in ("start", "text") or (self._state == "between" and self._held.strip(" \n\r\t,;]")):
            self._say(self._held)
        self._held = ""
        return self._take()

    def _take(self) -> list[Said]:
        said, self._said = self._said, []
        return said

    def _say(self, text: str) -> None:
        if text:
            self._said.append(text)

    def _advance(self) -> bool:
        """One move; whether there may be another one."""
        if self._state == "dropped":
            self._held = ""
            return False
        if self._state == "start":
            return self._at_start()
        if self._state == "text":
            return self._in_text()
        return self._in_call() if self._state == "call" else self._between()

    def _at_start(self) -> bool:
        begins = self._held.lstrip()
        if self._n_calls:  # space between calls says nothing
            self._held = begins
        if not begins:
            return False
        if any(marker.startswith(begins) and marker != begins for marker in _FORMS):
            return False  # it may still become one
        marker = next((marker for marker in _FORMS if begins.startswith(marker)), "")
        form = _FORMS.get(marker) or {"{": "bare", "[": "list"}.get(begins[0], "")
        if not form or (not marker and self._marked_only):
            self._state = "text"
            return True
        behind = begins[len(marker) :].lstrip()
        if form == "list":
            if behind.startswith("["):
                inside = behind[1:].lstrip()
                if inside.startswith("{"):
                    self._begin("list", self._held[: -len(inside)], inside)
                    return True
                behind = inside
        elif behind.startswith("{"):
            self._begin("marked" if form == "marked" else "bare", self._held[: -len(behind)], behind)
            return True
        if behind:
            self._state = "text"
            return form != "marked" or self._not_a_call(len(self._held) - len(behind))
        return False

    def _not_a_call(self, end: int) -> bool:
        """The marker up to `end` is text."""
        self._say(self._held[:end])
        self._held = self._held[end:]
        return True

    def _in_text(self) -> bool:
        at, marker = min(
            ((at, marker) for marker in (_OPEN, _LIST) if (at := self._held.find(marker)) >= 0), default=(-1, "")
        )
        if at < 0:
            keep = max(_overlap(self._held, _OPEN), _overlap(self._held, _LIST))
            shown = self._held[: len(self._held) - keep].rstrip()
            self._say(shown)
            self._held = self._held[len(shown) :]
            return False
        behind = self._held[at + len(marker) :].lstrip()
        if marker == _LIST and behind.startswith("["):
            behind = behind[1:].lstrip()
        if not behind:
            return False
        if not behind.startswith("{"):
            return self._not_a_call(at + len(marker))
        self._say(self._held[:at].rstrip())
        self._begin("marked" if marker == _OPEN else "list", self._held[at : -len(behind)], behind)
        return True

    def _begin(self, form: Literal["marked", "bare", "list"], lead: str, rest: str) -> None:
        self._state, self._form, self._lead, self._held = "call", form, lead, rest
        self._call, self._told = CallObject(), False

    def _in_call(self) -> bool:
        call = self._call
        assert call is not None
        self._held = call.push(self._held)
        if call.ready and call.name is not None and not self._told and call.state != "broken":
            if self._form != "marked" and call.name not in self._names:
                return self._give_back(call)
            self._told = True
            self._said.append(CallStart(self._n_calls, call.name))
        if self._told and (new := call.new_arguments()):
            self._said.append(CallArguments(self._n_calls, new))
        if call.state == "open":
            return False
        if not self._told:
            return self._give_back(call)
        self._n_calls += 1
        self._state = "dropped" if self._one else "between"
        return True

    def _give_back(self, call: CallObject) -> bool:
        """It was no call: its text is part of what the model says."""
        self._say(self._lead + call.raw)
        self._state = "text"
        return bool(self._held)

    def _between(self) -> bool:
        """Behind a call: perhaps another one of the same form, perhaps text."""
        rest = self._held.lstrip()
        if self._form == "marked":
            if len(rest) < len(_CLOSE) and _CLOSE.startswith(rest):
                return False
            self._held = rest.removeprefix(_CLOSE).lstrip()
            self._state = "start"
            return bool(self._held)
        rest = rest.lstrip(",; \n\r\t")
        if not rest:
            return False
        if rest.startswith("{"):
            self._begin(self._form, "", rest)
            return True
        self._held = rest.removeprefix("]").lstrip() if self._form == "list" else rest
        self._state = "text"
        return bool(self._held)


def _overlap(text: str, marker: str) -> int:
    """Length of the longest end of `text` that begins `marker`."""
    return next((n for n in range(min(len(text), len(marker) - 1), 0, -1) if text.endswith(marker[:n])), 0)
