"""A client that leaves, at any moment, frees its place within one step or one chunk of the prompt."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from typing import Any

import pytest

from pardec_chat.tests.endpoint.scripted import FOREVER, Gate, Served, raw_post, serving


def ask(served: Served, text: str = "hi", **more: Any) -> socket.socket:
    """A request on a socket of its own, whose answer nobody has read yet."""
    raw = socket.create_connection(("127.0.0.1", served.address.port), 20)
    raw.sendall(raw_post(served, {"messages": [{"role": "user", "content": text}], **more}))
    return raw


def leave(raw: socket.socket, *, rudely: bool) -> None:
    """Close; rudely: with a reset."""
    if rudely:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


class Counting:
    """Lets the engine go on one pass at a time."""

    def __init__(self) -> None:
        self._go = threading.Semaphore(0)
        self._at = threading.Semaphore(0)
        self.free = False

    def __call__(self, _kind: str) -> None:
        if not self.free:
            self._at.release()
            assert self._go.acquire(timeout=20)

    def reach(self) -> None:
        assert self._at.acquire(timeout=20)

    def go(self) -> None:
        self._go.release()

    def release(self) -> None:
        self.free = True
        for _ in range(1000):
            self._go.release()


def journal_state(served: Served, state: str) -> None:
    """Wait until the latest request is in that state."""
    changed = threading.Event()
    served.server.journal.changed = changed.set
    while served.server.journal.entries()[-1].state != state:
        changed.wait(1)
        changed.clear()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("passes", [1, 3, 12])
def test_E01_the_work_stops_within_one_step_or_chunk(stream: bool, passes: int) -> None:
    with serving(FOREVER, slots=1) as served:
        steps = Counting()
        served.target.on_pass = steps
        # 512 characters are eight chunks of the prompt, so that the passes fall into prompt and answer.
        raw = ask(served, "x" * 512, stream=stream)
        for _ in range(passes - 1):
            steps.reach()
            steps.go()
        steps.reach()
        leave(raw, rudely=False)
        journal_state(served, "stopped")
        before = served.target.passes
        steps.release()
        assert served.chat(max_tokens=2).json()["choices"][0]["message"]["content"] == "ab"
        # The pass that was under way, then those of the next request: its prompt is one chunk.
        assert served.target.passes - before <= 2 + 2
        assert served.engine.n_waiting == 0


@pytest.mark.parametrize("stream", [True, False])
def test_E01_a_client_that_leaves_while_it_waits_is_never_answered(stream: bool) -> None:
    with serving(slots=1) as served:
        gate = Gate()
        served.target.on_pass = gate
        first = ask(served)
        assert gate.reached.wait(20)
        second = ask(served, "z" * 300, stream=stream)
        while len(served.server.journal.entries()) < 2 or not served.engine.n_waiting:
            threading.Event().wait(0.001)
        leave(second, rudely=True)
        journal_state(served, "stopped")
        gate.opened.set()
        assert first.recv(100).startswith(b"HTTP/1.1 200")
        first.close()
        assert served.chat().status_code == 200
        assert served.target.ids("prefill").count(ord("z")) <= 64, "no more than one chunk of its prompt"


def test_E01_two_hundred_dropped_connections_leave_no_place_taken() -> None:
    chance = random.Random(11)
    with serving(FOREVER, slots=2, n_ctx=2048, queue_limit=300) as served:
        reached = threading.Semaphore(0)
        served.target.on_pass = lambda _kind: reached.release()
        for i in range(200):
            raw = ask(
                served, "x" * chance.choice((1, 200, 700)), stream=chance.random() < 0.6, n=chance.choice((1, 1, 2))
            )
            for _ in range(chance.randrange(0, 12)):
                reached.acquire(timeout=0.05)
            if chance.random() < 0.3:
                raw.settimeout(0.02)
                with contextlib.suppress(TimeoutError):
                    raw.recv(chance.randrange(1, 4000))
            leave(raw, rudely=chance.random() < 0.5)
            if i % 50 == 49:
                assert served.chat(max_tokens=3).status_code == 200
        served.target.on_pass = None
        for _ in range(3):
            assert served.chat(max_tokens=3).json()["choices"][0]["message"]["content"] == "abc"
        assert served.engine.n_waiting == 0
        text = served.get("/metrics").text
        assert "pardec:num_requests_running 0" in text
        states = {entry.state for entry in served.server.journal.entries()}
        assert states <= {"done", "stopped"}, states


def test_E01_half_a_request_costs_nothing() -> None:
    with serving() as served:
        for cut in (1, 20, 150):
            raw = socket.create_connection(("127.0.0.1", served.address.port), 20)
            raw.sendall(raw_post(served, {"messages": []}, length=500)[:cut])
            leave(raw, rudely=cut == 20)
        assert served.chat().status_code == 200
        assert len(served.submitted) == 1


def test_a_waiting_stream_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    from pardec_chat.app.endpoint import answers

    monkeypatch.setattr(answers, "BEAT", 0.02)
    with serving(slots=1) as served:
        gate = Gate()
        served.target.on_pass = gate
        first = ask(served)
        assert gate.reached.wait(20)
        second = ask(served, stream=True)
        data = b""
        while data.count(b"\n: waiting\n\n") < 2:
            data += second.recv(4000)
        gate.opened.set()
        while b"[DONE]" not in data:
            data += second.recv(4000)
        assert b'"finish_reason":"stop"' in data
        for one in (first, second):
            one.close()
