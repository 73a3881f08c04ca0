"""Starting, stopping, the port, the queue, the journal and the counters."""

from __future__ import annotations

import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from pardec_chat.app.endpoint.server import Address, PortTaken
from pardec_chat.backends.errors import BadSetting, UserError
from pardec_chat.tests.endpoint.scripted import FOREVER, Gate, raw_post, serving

BODY: Any = {"messages": [{"role": "user", "content": "hi"}]}


def test_the_port_is_free_after_a_stop_and_can_be_taken_again() -> None:
    with serving() as served:
        server, port = served.server, served.address.port
        was_running = server.running
        assert was_running
        assert served.chat().status_code == 200
        server.stop()
        server.stop()
        assert not server.running
        with pytest.raises(httpx.ConnectError):
            served.get("/health")
        again = server.start(Address("127.0.0.1", port))
        assert again.port == port
        assert served.chat().status_code == 200
        with pytest.raises(UserError, match="running already"):
            server.start(Address("127.0.0.1", 0))


def test_a_taken_port_is_told_with_one_that_is_free() -> None:
    with socket.socket() as other, serving() as served:
        other.bind(("127.0.0.1", 0))
        other.listen()
        served.server.stop()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken) as caught:
            served.server.start(Address("127.0.0.1", port))
        assert caught.value.offer > port
        assert str(caught.value.offer) in caught.value.next_step
        assert not served.server.running
        assert served.server.start(Address("127.0.0.1", caught.value.offer)).port == caught.value.offer


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("no.such.host.invalid", 0), ("127.0.0.1", -1)])
def test_addresses_that_cannot_be(host: str, port: int) -> None:
    with serving() as served:
        served.server.stop()
        with pytest.raises(BadSetting):
            served.server.start(Address(host, port, "key"))


def test_a_stop_ends_what_is_being_written() -> None:
    with serving(FOREVER, slots=1) as served:
        begun, stopped = threading.Event(), threading.Event()
        served.target.on_pass = lambda _kind: (served.target.passes > 20 and stopped.wait(20), None)[1]

        def ask() -> list[str]:
            with httpx.stream(
                "POST",
                f"{served.address.url}/v1/chat/completions",
                json={**BODY, "stream": True},
                timeout=20,
                trust_env=False,
            ) as reply:
                lines = []
                for line in reply.iter_lines():
                    lines.append(line)
                    begun.set()
                return lines

        with ThreadPoolExecutor(2) as pool:
            stream = pool.submit(ask)
            assert begun.wait(20)
            waiting = pool.submit(served.chat)
            while not served.engine.n_waiting:
                threading.Event().wait(0.001)
            served.server.stop()
            stopped.set()
            lines = stream.result(20)
            assert (
                json.loads(next(line for line in reversed(lines) if line.startswith("data: "))[6:])["error"]["code"]
                == "server_stopped"
            )
            assert waiting.result(20).status_code == 503
        served.server.start(served.address)
        assert served.chat(max_tokens=2).status_code == 200
        states = [entry.state for entry in served.server.journal.entries()]
        assert states == ["failed", "failed", "done"]


def test_H05_past_the_bound_of_the_queue_comes_503_with_a_time() -> None:
    with serving(slots=1, queue_limit=3) as served:
        gate = Gate()
        served.target.on_pass = gate
        with ThreadPoolExecutor(10) as pool:
            first = pool.submit(served.chat)
            assert gate.reached.wait(20)
            rest = [pool.submit(served.chat) for _ in range(3)]
            while served.engine.n_waiting < 3:
                threading.Event().wait(0.001)
            refused = served.chat()
            several = served.chat(n=2)
            gate.opened.set()
            assert [one.result(20).status_code for one in [first, *rest]] == [200] * 4
    for reply in (refused, several):
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "queue_full")
        assert int(reply.headers["retry-after"]) > 0


def test_two_hundred_idle_connections_do_not_stop_the_chat() -> None:
    with serving() as served:
        idle = []
        try:
            for i in range(200):
                one = socket.create_connection(("127.0.0.1", served.address.port), 20)
                if i % 2:
                    one.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x")
                idle.append(one)
            for _ in range(5):
                assert served.chat().status_code == 200
            for _ in range(100):  # beyond what is held the oldest go
                idle += [socket.create_connection(("127.0.0.1", served.address.port), 20)]
            assert served.chat().status_code == 200
        finally:
            for one in idle:
                one.close()


def test_a_client_that_does_not_read_holds_up_nobody() -> None:
    with serving(FOREVER, slots=2, n_ctx=16_384) as served, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", served.address.port))
        slow.sendall(raw_post(served, {**BODY, "stream": True, "timings_per_token": True}))
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            assert served.chat(max_tokens=50).status_code == 200


def test_the_journal_and_the_counters_tell_what_was_done() -> None:
    with serving("abcabcabcabc", draft="abcabcabcabc") as served:
        told = threading.Event()
        served.server.journal.changed = told.set
        served.chat(method="draft")
        served.chat(foo=1)
        served.post("/v1/completions", {"prompt": "a?", "max_tokens": 2}, headers={"user-agent": "curl/8"})
        served.get("/health", headers={"host": "evil.example"})
        chat, wrong, completion, refused = served.server.journal.entries()
        metrics = served.get("/metrics")
    assert told.is_set()
    assert (chat.what, chat.state, chat.method, chat.tokens) == ("chat", "done", "draft", 13)
    assert chat.client.startswith("python-httpx")
    assert chat.acceptance is not None
    assert 0 < chat.acceptance <= 1
    assert chat.tokens_per_second is not None
    assert (wrong.state, wrong.error, wrong.method) == ("failed", "Unknown parameter: foo.", "")
    assert (completion.what, completion.client, completion.tokens) == ("completion", "curl/8", 2)
    assert (refused.what, refused.state) == ("refused", "failed")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in metrics.text.splitlines() if line[0] != "#"
    }
    assert values["pardec:generation_tokens_total"] == 13 + 2
    assert values["pardec:prompt_tokens_total"] == len("user:hi;") + 1 + 2
    assert values["pardec:num_requests_running"] == values["pardec:num_requests_waiting"] == 0
    assert values['pardec:request_success_total{finished_reason="stop"}'] == 1
    assert values['pardec:request_success_total{finished_reason="length"}'] == 1
    drafted = values["pardec:spec_decode_num_draft_tokens_total"]
    accepted = values["pardec:spec_decode_num_accepted_tokens_total"]
    assert drafted >= accepted > 0
    assert values["pardec:spec_decode_num_drafts_total"] > 0
    by_place = [n for name, n in values.items() if "per_pos" in name]
    assert sum(by_place) == accepted
    assert by_place == sorted(by_place, reverse=True)
    assert values["pardec:time_to_first_token_seconds_count"] == 2
    for line in metrics.text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) pardec:\w+ .+|pardec:\w+(\{\w+=\"[^\"]+\"\})? [0-9.e+-]+", line), line


def test_a_model_switch_ends_an_answer_with_an_error() -> None:
    from pathlib import Path

    from pardec_chat.app.chat.request import ModelChoice

    with serving(FOREVER) as served:
        gate = Gate()
        served.target.on_pass = gate
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(served.chat)
            assert gate.reached.wait(20)
            loading = served.engine.load(ModelChoice(Path("a"), n_ctx=512))
            gate.opened.set()
            loading.result(20)
            reply = asked.result(20)
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "answer_cancelled")
