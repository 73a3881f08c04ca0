"""A model that says what a test wants, byte by byte, and an endpoint in front of it on a real socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import openai

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.request import Loaded, ModelChoice, Request, Sink
from pardec_chat.app.endpoint.context import Defaults, ListedModel
from pardec_chat.app.endpoint.server import Address, Server
from pardec_chat.backends.base import LoadOptions, Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.tests.fakes import FakeRuntime, ScriptedTarget
from pardec_chat.tests.rows import sure

#: Ids: a byte each, then what opens a reply, and the end of a turn.
REPLY, END = 256, 257
PIECES = [*(bytes([b]) for b in range(256)), b"", b""]
TEXTS = [*(f"<0x{b:02x}>" for b in range(256)), "<|reply|>", "<|end|>"]
TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %};{% endfor %}"
    "<|reply|>"
)
GREEDY = SamplingParams(temperature=0.0)
#: What a model is scripted with: the prompt as the template makes it, to the answer.
Script = Callable[[str], str | bytes]
FOREVER = "abcdefgh" * 4000


def target(script: Script, options: LoadOptions, **changes: Any) -> ScriptedTarget:
    """A model that answers by `script`; a raw prompt is its own beginning of the answer."""

    @lru_cache(maxsize=64)
    def answer(prompt: tuple[int, ...]) -> list[int]:
        said = script(bytes(token for token in prompt if token < 256).decode("utf-8", "replace"))
        return [*(said.encode() if isinstance(said, str) else said), END]

    def rows(prefix: tuple[int, ...]) -> Sequence[float]:
        if REPLY in prefix:
            at = len(prefix) - 1 - prefix[::-1].index(REPLY)
            ids, behind = answer(prefix[:at]), len(prefix) - 1 - at
        else:  # a raw prompt ends with its last question mark
            at = max((i for i, token in enumerate(prefix) if token == ord("?")), default=-1)
            ids, behind = answer(prefix[: at + 1]), len(prefix) - 1 - at
        return sure(len(PIECES), ids[min(behind, len(ids) - 1)])

    settings: dict[str, Any] = {"n_ctx": options.n_ctx or 4096, "max_slots": options.slots, "chunk": 64, **changes}
    return ScriptedTarget(rows, PIECES, {END}, chat_template=TEMPLATE, texts=TEXTS, **settings)


@dataclass
class Served:
    """An endpoint that runs. runtime: gives the scripted models; submitted: what reached the engine, in order."""

    engine: Engine
    server: Server
    address: Address
    runtime: FakeRuntime
    loaded: list[Loaded | None]
    submitted: list[Request] = field(default_factory=list)

    @property
    def target(self) -> ScriptedTarget:
        return self.runtime.targets[0]

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.address.url}/v1", api_key=self.address.key or "none", max_retries=0, timeout=20, **options
        )

    def async_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=f"{self.address.url}/v1", api_key=self.address.key or "none", max_retries=0, timeout=20
        )

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return httpx.post(f"{self.address.url}{path}", timeout=20, trust_env=False, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(f"{self.address.url}{path}", timeout=20, trust_env=False, **options)

    def chat(self, text: str = "hi", **more: Any) -> httpx.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **more})


class Spy:
    """The engine, with a note of what is asked of it."""

    def __init__(self, engine: Engine, requests: list[Request]) -> None:
        self._engine = engine
        self._requests = requests

    def submit(self, request: Request, sink: Sink) -> Any:
        self._requests.append(request)
        return self._engine.submit(request, sink)

    def pieces(self, ids: Sequence[int]) -> Any:
        return self._engine.pieces(ids)

    @property
    def n_waiting(self) -> int:
        return self._engine.n_waiting


@contextmanager
def serving(
    script: Script | str = "hello there",
    *,
    draft: str | None = None,
    slots: int = 2,
    key: str | None = None,
    host: str = "127.0.0.1",
    method: Method = Method.PLAIN,
    allowed_origins: Sequence[str] = (),
    queue_limit: int = 32,
    n_ctx: int = 4096,
    models: Sequence[ListedModel] = (),
    **changes: Any,
) -> Iterator[Served]:
    """An endpoint in front of a scripted model; draft: what its draft model would say."""
    said = script if callable(script) else lambda _prompt: script
    made: dict[str, Any] = {"a": lambda options: target(said, options, **changes)}
    if draft is not None:
        made["d"] = lambda options: target(lambda _prompt: draft, options)
    runtime = FakeRuntime(made)
    engine = Engine(lambda: runtime, queue_limit=queue_limit)
    submitted: list[Request] = []
    choice = ModelChoice(Path("a"), Path("d") if draft is not None else None, n_ctx=n_ctx, slots=slots)
    loaded: list[Loaded | None] = [engine.load(choice).result(20)]
    server = Server(
        Spy(engine, submitted),
        lambda: loaded[0],
        lambda: models,
        lambda: Defaults(GREEDY, method, None),
        allowed_origins=allowed_origins,
    )
    address = server.start(Address(host, 0, key))
    try:
        yield Served(engine, server, address, runtime, loaded, submitted)
    finally:
        server.stop()
        engine.close()


def raw_post(served: Served, body: Any, length: int | None = None) -> bytes:
    """A request for a chat as it goes over the wire. length: that it says the body has, if not its own."""
    data = json.dumps(body).encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        f"Host: localhost:{served.address.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(data) if length is None else length}",
    )
    return "\r\n".join((*lines, "", "")).encode() + data


class Gate:
    """Holds the engine's thread before a forward pass until it is opened. Install as `target.on_pass`."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, kind: str) -> None:
        self.reached.set()
        assert self.opened.wait(20)


@contextmanager
def fails_when_told(served: Served) -> Iterator[threading.Event]:
    """The model waits after some tokens, and its next pass fails once the event is set."""
    told = threading.Event()
    target, begin = served.target, served.target.passes

    def on_pass(_kind: str) -> None:
        if target.passes > begin + 20:
            assert told.wait(20)
            target.failures.append(ZeroDivisionError("oops"))

    target.on_pass = on_pass
    try:
        yield told
    finally:
        target.on_pass = None
        target.failures.clear()


def read_on(path: str, served: Served, body: Any, begun: threading.Event) -> list[str]:
    """All lines of a stream; the event is set with the first."""
    lines = []
    with httpx.stream("POST", f"{served.address.url}{path}", json=body, timeout=20, trust_env=False) as reply:
        for line in reply.iter_lines():
            lines.append(line)
            begun.set()
    return lines


def events(text: str) -> list[Any]:
    """The events of a stream; the mark of the end as it is."""
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]
