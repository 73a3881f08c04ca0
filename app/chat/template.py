"""Messages to the text that the model was trained on, by the chat template in its own metadata."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Sequence
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

    def render(self, messages: Sequence[Message]) -> Rendered:
        """The text up to where the answer starts."""
        attempts = (
            (messages, ()),
            (merged(messages), ("Messages of one role in a row were joined: the model's template wants it so.",)),
            (folded(messages), ("The system prompt was put into the first message: the model knows no system role.",)),
        )
        reason = ""
        for attempt, notices in attempts:
            answer = self._ask(self._source, attempt)
            if "text" in answer:
                return Rendered(str(answer["text"]), self._notices + notices)
            reason = reason or visible_line(str(answer["error"]))
            if not answer["raised"]:
                break
        else:
            raise TemplateFailed(f"The model's chat template refuses these messages: {reason}", "Change the messages.")
        if self._source != self._fallback:
            self._source = self._fallback
            self._notices = (f"The model's chat template does not work ({reason}); a common one is used.",)
            return self.render(messages)
        raise TemplateFailed(f"No chat template works: {reason}", "Use --raw to send the prompt as it is.")

    def _ask(self, source: str, messages: Sequence[Message]) -> dict[str, object]:
        return self._worker.render(source, messages, self._bos, self._eos)


def merged(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring messages of one role joined."""
    result: list[Message] = []
    for message in messages:
        if result and result[-1].role == message.role:
            result[-1] = Message(message.role, f"{result[-1].content}\n\n{message.content}")
        else:
            result.append(message)
    return result


def folded(messages: Sequence[Message]) -> list[Message]:
    """System messages moved into the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    first = next((i for i, m in enumerate(rest) if m.role == "user"), None)
    if system and first is not None:
        rest[first] = Message("user", f"{system}\n\n{rest[first].content}")
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

    def render(self, source: str, messages: Sequence[Message], bos: str, eos: str) -> dict[str, object]:
        """{text}, or {error, raised}: raised when the template itself refuses the messages."""
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        document = {
            "template": source,
            "messages": [{"role": m.role, "content": m.content} for m in messages],
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
