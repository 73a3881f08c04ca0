"""Who may ask: Host, Origin, key, kinds and sizes of bodies, and that the key is shown nowhere."""

from __future__ import annotations

import logging
import re
import socket
from typing import Any

import httpx
import pytest

from pardec_chat.app.endpoint import reading
from pardec_chat.app.endpoint.address import Address, host_allowed
from pardec_chat.app.endpoint.journal import Journal
from pardec_chat.backends.errors import BadSetting
from pardec_chat.tests.endpoint.scripted import Served, serving

KEY = "sk-very-secret-1234"
BODY: Any = {"messages": [{"role": "user", "content": "hi"}]}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def served() -> Any:
    with serving() as one:
        yield one


@pytest.fixture(scope="module")
def locked() -> Any:
    with serving(key=KEY, allowed_origins=["https://app.example", "http://localhost:3000/"]) as one:
        yield one


def code(reply: httpx.Response) -> str:
    return str(reply.json()["error"]["code"])


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", "/openapi.json", "/nothing"])
def test_X01_a_foreign_host_is_refused_before_anything_else(served: Served, path: str) -> None:
    port = served.address.port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1:1",
        "localhost",
        "",
        "127.0.0.1.evil.example",
        "a b",
    ):
        reply = served.get(path, headers={"host": host})
        assert reply.status_code in (400, 403), host
        assert code(reply) in ("host_not_allowed", "invalid_http")
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"LOCALHOST:{port}", f"127.5.5.5:{port}"):
        assert served.get(path, headers={"host": host}).status_code != 403, host


def test_X01_two_hosts_or_none_are_refused(served: Served) -> None:
    port = served.address.port
    for head in (f"Host: localhost:{port}\r\nHost: evil.example", "X: y"):
        with socket.create_connection(("127.0.0.1", port), 20) as raw:
            raw.sendall(f"GET /health HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode())
            assert raw.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", "file://", ""])
def test_X01_a_foreign_origin_is_refused(served: Served, origin: str) -> None:
    before = len(served.submitted)
    reply = served.post(CHAT, BODY, headers={"origin": origin})
    assert (reply.status_code, code(reply)) == (403, "origin_not_allowed")
    assert "access-control-allow-origin" not in reply.headers
    preflight = httpx.options(
        f"{served.address.url}{CHAT}",
        headers={"origin": origin, "access-control-request-method": "POST"},
        trust_env=False,
    )
    assert preflight.status_code == 403
    assert len(served.submitted) == before


def test_X01_our_own_origin_passes(served: Served) -> None:
    assert served.post(CHAT, BODY, headers={"origin": served.address.url}).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp"]
)
def test_X01_a_body_has_to_be_declared_as_json(served: Served, kind: str) -> None:
    reply = served.post(CHAT, None, content=b'{"messages": []}', headers={"content-type": kind})
    assert (reply.status_code, code(reply)) == (415, "unsupported_media_type")
    for right in ("application/json", "Application/JSON; charset=utf-8"):
        assert (
            served.post(
                CHAT,
                None,
                content=httpx.Request("POST", "http://x", json=BODY).content,
                headers={"content-type": right},
            ).status_code
            == 200
        )


def test_X01_ipv6_loopback() -> None:
    try:
        with serving(host="::1") as served:
            assert served.address.url == f"http://[::1]:{served.address.port}"
            assert served.get("/health").status_code == 200
            assert served.get("/health", headers={"host": f"[::1]:{served.address.port}"}).status_code == 200
            assert served.get("/health", headers={"host": f"[::2]:{served.address.port}"}).status_code == 403
    except BadSetting:
        pytest.skip("no IPv6 here")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_X02_another_address_needs_a_key(host: str) -> None:
    with pytest.raises(BadSetting, match="there is no key"), serving(host=host):
        pass


def test_X02_all_interfaces_with_a_key() -> None:
    with serving(host="0.0.0.0", key=KEY) as served:
        url, port = f"http://127.0.0.1:{served.address.port}", served.address.port
        for host, right in (
            (f"127.0.0.1:{port}", True),
            (f"192.168.1.5:{port}", True),
            (f"{socket.gethostname()}:{port}", True),
            (f"evil.example:{port}", False),
        ):
            reply = httpx.get(f"{url}/health", headers={"host": host}, trust_env=False)
            assert (reply.status_code == 200) == right, host


def test_hosts_by_address() -> None:
    bound = Address("192.168.1.5", 80, KEY)
    assert host_allowed("192.168.1.5", bound)
    assert host_allowed("localhost.", bound)
    assert not host_allowed("192.168.1.6", bound)
    assert not host_allowed("192.168.1.5:8080", bound)
    assert not host_allowed("localhost:99999", bound)
    assert not host_allowed("[::1", bound)


@pytest.mark.parametrize(
    "shown",
    [None, "", "Bearer", "Bearer wrong", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Basic {KEY}", KEY, "Bearer \xe9"],
)
def test_X02_a_wrong_key_is_refused(locked: Served, shown: str | None) -> None:
    headers = {} if shown is None else {"authorization": shown.encode("latin-1")}
    for path in ("/v1/models", "/metrics", "/openapi.json", "/v1/models/x"):
        reply = locked.get(path, headers=headers)
        assert (reply.status_code, code(reply)) == (401, "invalid_api_key")
        assert reply.headers["www-authenticate"] == "Bearer"
    assert locked.post(CHAT, BODY, headers=headers).status_code == 401
    assert locked.get("/health", headers=headers).status_code == 200


def test_X02_the_right_key_passes(locked: Served) -> None:
    assert locked.client().chat.completions.create(model="default", messages=BODY["messages"]).choices
    assert locked.get("/v1/models", headers={"authorization": f"bearer {KEY}"}).status_code == 200


def test_X02_the_key_is_shown_nowhere(locked: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {"authorization": f"Bearer {KEY}", "user-agent": f"me {KEY}"}
    replies = [
        locked.post(CHAT, BODY, headers=headers),
        locked.post(f"{CHAT}?api_key={KEY}", {**BODY, "model": KEY}, headers=headers),
        locked.post(CHAT, {**BODY, KEY: 1}, headers=headers),
        locked.get("/metrics", headers=headers),
        locked.get(f"/{KEY}", headers=headers),
        locked.post(CHAT, BODY, headers={**headers, "host": "evil.example"}),
    ]
    assert [reply.status_code for reply in replies] == [200, 404, 400, 200, 404, 403]
    clients = ("httpx", "httpcore")  # theirs is this side of the socket
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith(clients)]
    shown = f"{locked.server.journal.entries()!r} {locked.address!r} {logged} {replies[3].text} {locked.server!r}"
    assert KEY not in shown
    assert "•••" in shown


@pytest.mark.parametrize("key", ["", "a b", "ключ", "x\n"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(BadSetting, match="key"), serving(key=key):
        pass


def test_X01_allowed_origins_work_for_preflight_answer_stream_and_refusal(locked: Served) -> None:
    origin = "https://app.example"
    preflight = httpx.options(
        f"{locked.address.url}{CHAT}",
        headers={
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type, x-stainless-lang",
            "access-control-request-private-network": "true",
        },
        trust_env=False,
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == origin
    assert "x-stainless-lang" in preflight.headers["access-control-allow-headers"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-private-network"] == "true"
    headers = {"authorization": f"Bearer {KEY}", "origin": origin}
    for reply in (
        locked.post(CHAT, BODY, headers=headers),
        locked.post(CHAT, {**BODY, "stream": True}, headers=headers),
        locked.post(CHAT, {**BODY, "foo": 1}, headers=headers),
        locked.post(CHAT, BODY, headers={"origin": origin}),
        locked.get("/nothing", headers=headers),
    ):
        assert reply.headers["access-control-allow-origin"] == origin
        assert reply.headers["vary"] == "Origin"
    assert locked.get("/health", headers={"origin": "http://localhost:3000"}).status_code == 200
    assert locked.get("/health", headers={"origin": "https://evil.example"}).status_code == 403


def test_origins_have_to_be_origins() -> None:
    with pytest.raises(BadSetting, match="no origin"), serving(allowed_origins=["example.com"]):
        pass
    with pytest.raises(BadSetting, match="no key"), serving(allowed_origins=["*"]):
        pass
    with serving(allowed_origins=["*"], key=KEY) as served:
        headers = {"authorization": f"Bearer {KEY}", "origin": "https://any.example"}
        assert served.get("/v1/models", headers=headers).headers["access-control-allow-origin"] == "https://any.example"


def test_bodies_and_headers_have_limits(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    json = {"content-type": "application/json"}
    long = b'{"a": "' + b"x" * reading.MAX_BODY + b'"}'
    reply = served.post(CHAT, None, content=long, headers=json)
    assert (reply.status_code, code(reply)) == (413, "request_too_large")
    reply = served.post(CHAT, None, content=iter([long[: 2**20]] * 9), headers=json)
    assert (reply.status_code, code(reply)) == (413, "request_too_large")
    reply = served.get("/health", headers={"x": "y" * 20_000})
    assert (reply.status_code, code(reply)) == (431, "headers_too_large")
    reply = served.get("/health?" + "y" * 20_000)
    assert reply.status_code == 431
    with socket.create_connection(("127.0.0.1", served.address.port), 20) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000)
        assert raw.recv(100).split()[1] == b"431"
    with socket.create_connection(("127.0.0.1", served.address.port), 20) as raw:
        raw.sendall(b"\x00\x01nonsense\r\n\r\n")
        data = b"".join(iter(lambda: raw.recv(1000), b""))
        assert data.split()[1] == b"400"
        assert b"invalid_http" in data
    assert served.chat().status_code == 200


def test_a_body_that_does_not_come_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_SECONDS", 0.05)
    with socket.create_connection(("127.0.0.1", served.address.port), 20) as raw:
        host = f"localhost:{served.address.port}"
        raw.sendall(
            f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{".encode()
        )
        assert raw.recv(100).split()[1] == b"408"


def test_the_journal_is_bounded_and_printable() -> None:
    journal = Journal()
    told = []
    journal.changed = lambda: told.append(1)
    for _ in range(600):
        number = journal.open("chat", "evil\x1b[2J\u202eagent" + "x" * 500)
    journal.update(number, state="writing", tokens=1)
    journal.update(number, state="writing", tokens=2)
    journal.update(1, state="done")
    entries = journal.entries()
    assert len(entries) == 500
    assert entries[0].number == 101
    assert entries[-1].tokens == 2
    assert len(entries[-1].client) <= 60
    assert re.fullmatch(r"[^\x00-\x1f\u202e]+", entries[-1].client)
    assert len(told) == 601
