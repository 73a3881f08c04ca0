"""An endpoint without a network: the test ends what it begins, and plays the clients."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime

from pardec_chat.app.endpoint.address import Address, PortTaken
from pardec_chat.app.screens.endpoint import AddressLike
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.fake_engine import on_thread

HOST = "127.0.0.1"
KEY = "sk-0123456789abcdefghij"
_NOON = datetime(2025, 11, 29, 14, 3, 0).timestamp()


@dataclass(frozen=True, slots=True)
class FakeEntry:
    """See `EntryLike`."""

    number: int
    when: float
    client: str = "OpenAI/Python 1.52.0"
    what: str = "chat"
    state: str = "waiting"
    tokens: int = 0
    tokens_per_second: float | None = None
    acceptance: float | None = None
    method: str = ""
    error: str = ""


def taken(port: int, offer: int) -> PortTaken:
    """A port is another program's."""
    return PortTaken(f"Port {port} is taken.", "Give another one (--port).", offer)


class FakeEndpoint:
    """held: starts and stops wait until the test ends them. failures: what starts raise, taken once each."""

    def __init__(self, *, held: bool = False, key: str | None = None) -> None:
        self.held = held
        self.key = key
        self.failures: list[BaseException] = []
        self.refusal: UserError | None = None
        self.starts: list[int] = []
        self.stops = 0
        self.asked = 0
        self.address: Address | None = None
        self._entries: dict[int, FakeEntry] = {}
        self._going: tuple[Future[AddressLike], int] | Future[None] | None = None

    @property
    def running(self) -> bool:
        """See `EndpointLike.running`."""
        return self.address is not None

    def start(self, port: int) -> Future[AddressLike]:
        """See `EndpointLike.start`."""
        if self.refusal is not None:
            raise self.refusal
        self.starts.append(port)
        future: Future[AddressLike] = Future()
        self._going = future, port
        if not self.held:
            on_thread(self.end)
        return future

    def stop(self) -> Future[None]:
        """See `EndpointLike.stop`."""
        self.stops += 1
        future: Future[None] = Future()
        self._going = future
        if not self.held:
            on_thread(self.end)
        return future

    def end(self) -> None:
        """What was begun is over."""
        going, self._going = self._going, None
        assert going is not None
        if isinstance(going, Future):
            self.address = None
            going.set_result(None)
            return
        future, port = going
        if self.failures:
            future.set_exception(self.failures.pop(0))
            return
        address = Address(HOST, port, self.key)
        self.address = address
        future.set_result(address)

    def call_off(self) -> None:
        """What was begun will not be."""
        going, self._going = self._going, None
        assert isinstance(going, tuple)
        going[0].cancel()
        going[0].set_running_or_notify_cancel()

    def entries(self) -> tuple[FakeEntry, ...]:
        """See `EndpointLike.entries`."""
        self.asked += 1
        return tuple(self._entries.values())

    def close(self, seconds: float = 1.0) -> None:
        """See `EndpointLike.close`."""
        self.address = None

    def on(self, port: int = 8080) -> FakeEndpoint:
        """It was switched on before."""
        self.address = Address(HOST, port, self.key)
        return self

    def come(self, **what: object) -> int:
        """A request comes: its number."""
        number = len(self._entries) + 1
        self._entries[number] = FakeEntry(number, _NOON + 7 * number, **what)  # type: ignore[arg-type]
        return number

    def change(self, number: int, **what: object) -> None:
        """It goes on."""
        self._entries[number] = replace(self._entries[number], **what)  # type: ignore[arg-type]


def busy(endpoint: FakeEndpoint, finished: int = 12, *, live: bool = True) -> FakeEndpoint:
    """Requests of all states and of several clients. live: some of them go on."""
    clients = (
        ("OpenAI/Python 1.52.0", "chat"),
        ("curl/8.5.0", "completion"),
        ("continue.dev/0.9 vscode/1.95", "chat"),
        ("図書館の検索 2.1", "chat"),
        ("aider 0.63", "response"),
    )
    methods = (("auto", 0.84), ("plain", None), ("ngram", 0.61), ("draft", 0.77))
    for i in range(finished):
        client, what = clients[i % len(clients)]
        method, acceptance = methods[i % len(methods)]
        endpoint.come(
            client=client,
            what=what,
            state="stopped" if i == 6 else "done",
            tokens=37 + 413 * i,
            tokens_per_second=31.4 + 2.7 * i,
            acceptance=acceptance,
            method=method,
        )
    endpoint.come(
        client="curl/8.5.0",
        what="chat",
        state="failed",
        error="The prompt has 9,412 tokens, the context holds 4,096. Send a shorter one, or load the model with a larger "
        "context.",
    )
    if not live:
        return endpoint
    endpoint.come(
        client="continue.dev/0.9 vscode/1.95",
        what="chat",
        state="writing",
        tokens=412,
        tokens_per_second=54.6,
        acceptance=0.84,
        method="auto",
    )
    endpoint.come(state="reading", method="auto")
    endpoint.come(client="aider 0.63", what="response", method="auto")
    return endpoint
