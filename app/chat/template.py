"""Messages to the text that the model was trained on, by the chat template in its own metadata."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pardec_chat.app.chat.request import Message
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.base import Vocabulary
from pardec_chat.backends.errors import TemplateFailed

_SECONDS = 5.0
_CHARACTERS = 8_000_000

#: For models without a template of their own, or with one that cannot be read: by whether the vocabulary has the markers.
_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
_PLAIN = "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}Assistant:"

#: What a model is told of its tools when its template has no place for them: the Hermes convention, which many know.
_TOOLS = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
_NO_TOOLS = "The model's chat template knows no tools; they are described in the system prompt."
_NO_CALLS = "The model's chat template refuses tool calls and results; they are put as text."


@dataclass(frozen=True, slots=True)
class Rendered:
    """The prompt's text, and what the user should know about how it came about."""

    text: str
    notices: tuple[str, ...] = ()


class Template:
    """Renders with the model's template; folds what that refuses; falls back where it cannot be read at all.

    Raises TemplateFailed with the template's own reason when nothing helps.
    """

    def __init__(self, source: str | None, vocabulary: Vocabulary, worker: TemplateWorker) -> None:
        self._worker = worker
        self._bos = vocabulary.bos
        self._eos = vocabulary.eos
        markers = vocabulary.encode("<|im_start|>", add_special=False, parse_special=True)
        self._fallback = _CHATML if len(markers) == 1 else _PLAIN
        self._source = source or self._fallback
        self._notices: tuple[str, ...] = () if source else ("This model has no chat template; a common one is used.",)

    def render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()) -> Rendered:
        """The text up to where the answer starts. tools: descriptions of what the model may call."""
        bare, taken = self._rendered(messages)
        if not tools:
            return bare
        text = self._ask(self._source, taken, tools).get("text")
        if text is not None and text != bare.text:
            return Rendered(str(text), bare.notices)
        told, _ = self._rendered(with_tools(messages, tools))
        return Rendered(told.text, (*told.notices, _NO_TOOLS))

    def _rendered(self, messages: Sequence[Message]) -> tuple[Rendered, Sequence[Message]]:
        """Without tools; and the messages as the template took them."""
        reason = ""
        for attempt, notices in _attempts(messages):
            answer = self._ask(self._source, attempt)
            if "text" in answer:
                return Rendered(str(answer["text"]), self._notices + notices), attempt
            reason = reason or visible_line(str(answer["error"]))
            # What a client put into a message can break a template that is sound.
            if not answer["raised"] and not any(message.extra for message in attempt):
                break
        else:
            raise TemplateFailed(f"The model's chat template refuses these messages: {reason}", "Change the messages.")
        if self._source != self._fallback:
            self._source = self._fallback
            self._notices = (f"The model's chat template does not work ({reason}); a common one is used.",)
            return self._rendered(messages)
        raise TemplateFailed(f"No chat template works: {reason}", "Use --raw to send the prompt as it is.")

    def _ask(
        self, source: str, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()
    ) -> dict[str, object]:
        return self._worker.render(source, messages, self._bos, self._eos, tools)


def _attempts(messages: Sequence[Message]) -> list[tuple[Sequence[Message], tuple[str, ...]]]:
    """The messages as they are, then changed to what more and more templates take, and what the user is told of it."""
    attempts: list[tuple[Sequence[Message], tuple[str, ...]]] = [
        (messages, ()),
        (merged(messages), ("Messages of one role in a row were joined: the model's template wants it so.",)),
        (folded(messages), ("The system prompt was put into the first message: the model knows no system role.",)),
    ]
    if any(message.extra or message.role == "tool" for message in messages):
        attempts.append((folded(spelled(messages)), (_NO_CALLS,)))
    return attempts


def with_tools(messages: Sequence[Message], tools: Sequence[Mapping[str, object]]) -> list[Message]:
    """`tools` described in the system message, calls and results put as text."""
    told = _TOOLS.format("\n".join(_json(dict(tool)) for tool in tools))
    rest = spelled(messages)
    if rest and rest[0].role == "system":
        return [Message("system", f"{rest[0].content}\n\n{told}"), *rest[1:]]
    return [Message("system", told), *rest]


def spelled(messages: Sequence[Message]) -> list[Message]:
    """Tool calls and their results as text in the Hermes convention; results in a row become one message of the user."""
    result: list[Message] = []
    in_results = False
    for message in messages:
        if message.role == "tool":
            text = f"<tool_response>\n{message.content}\n</tool_response>"
            if in_results:
                text = f"{result.pop().content}\n{text}"
            result.append(Message("user", text))
        else:
            calls = message.extra.get("tool_calls")
            parts = [message.content] if message.content else []
            parts += [_spelled_call(call) for call in calls] if isinstance(calls, list | tuple) else []
            result.append(Message(message.role, "\n".join(parts)))
        in_results = message.role == "tool"
    return result


def _spelled_call(call: object) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else {}
    function = function if isinstance(function, Mapping) else {}
    name, arguments = function.get("name", ""), function.get("arguments", {})
    # Clients send the arguments as JSON within JSON.
    inner = arguments if isinstance(arguments, str) else _json(arguments)
    return f'<tool_call>\n{{"name": {_json(name)}, "arguments": {inner}}}\n</tool_call>'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def merged(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring messages of one role joined, apart from those that hold more than text and from tools' results."""
    result: list[Message] = []
    for message in messages:
        before = result[-1] if result else None
        joins = before is not None and before.role == message.role != "tool" and not (before.extra or message.extra)
        if before is not None and joins:
            result[-1] = Message(message.role, f"{before.content}\n\n{message.content}")
        else:
            result.append(message)
    return result


def folded(messages: Sequence[Message]) -> list[Message]:
    """System messages moved into the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    first = next((i for i, m in enumerate(rest) if m.role == "user"), None)
    if system and first is not None:
        rest[first] = Message("user", f"{system}\n\n{rest[first].content}", rest[first].extra)
    return merged(rest)


class TemplateWorker:
    """Owns the rendering process: started when first needed, killed when it takes too long, started anew then."""

    def __init__(self, seconds: float = _SECONDS, characters: int = _CHARACTERS) -> None:
        self._seconds = seconds
        self._characters = characters
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start ahead of the first use, so that the first prompt does not wait for it."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pardec_chat.app.chat.template_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )

    def render(
        self,
        source: str,
        messages: Sequence[Message],
        bos: str,
        eos: str,
        tools: Sequence[Mapping[str, object]] = (),
    ) -> dict[str, object]:
        """{text}, or {error, raised}: raised when the template itself refuses the messages."""
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        document = {
            "template": source,
            "messages": [{**m.extra, "role": m.role, "content": m.content} for m in messages],
            "tools": [dict(tool) for tool in tools],
            "bos_token": bos,
            "eos_token": eos,
            "limit": self._characters,
        }
        try:
            process.stdin.write(json.dumps(document).encode() + b"\n")
            process.stdin.flush()
            line = self._read_line(process)
        except OSError:
            line = b""
        if not line:
            self.close()
            return {"error": f"it takes longer than {self._seconds:g} s or too much memory", "raised": False}
        answer: dict[str, object] = json.loads(line)
        return answer

    def _read_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], self._seconds)
        return process.stdout.readline() if ready else b""

    def close(self) -> None:
        """End the process; harmless when done twice."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
