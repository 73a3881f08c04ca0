"""What every request passes before it is routed: limits, Host, Origin, the key, the kind of its body."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pardec_chat.app.endpoint.address import Address, host_allowed
from pardec_chat.app.endpoint.errors import ApiError
from pardec_chat.app.endpoint.handling import client_of
from pardec_chat.app.endpoint.journal import Journal
from pardec_chat.app.endpoint.reading import MAX_BODY, too_large
from pardec_chat.app.endpoint.sse import Writer
from pardec_chat.backends.errors import BadSetting

#: Bytes of a request's line and headers.
MAX_HEADERS = 16 * 1024
#: Paths that tell nothing and need no key.
_OPEN = frozenset({"/health"})
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+")


def origins(allowed: Sequence[str], key: str | None) -> frozenset[str]:
    """What pages may ask. Raises BadSetting for what is no origin, and for all of them without a key."""
    found = frozenset(origin.strip().rstrip("/").lower() for origin in allowed)
    for origin in found:
        if origin == "*" and key is None:
            raise BadSetting("Every origin is allowed, and there is no key: any web page could ask.", "Give a key.")
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise BadSetting(f"{origin} is no origin.", "Give one like http://localhost:3000.")
    return found


class Guard:
    """ASGI middleware. allowed: see `origins`. What it refuses goes into the journal."""

    def __init__(self, app: ASGIApp, address: Address, allowed: frozenset[str], journal: Journal) -> None:
        self._app = app
        self._address = address
        self._allowed = allowed
        self._journal = journal
        self._key = None if address.key is None else address.key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return
        headers = _Headers(scope)
        origin = headers.one("origin")
        granted: list[tuple[bytes, bytes]] = []

        async def send_on(message: Message) -> None:
            if granted and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *granted]}
            await send(message)

        try:
            self._check_size(scope)
            self._check_host(headers)
            if origin is not None:
                self._check_origin(origin, headers)
                granted = [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")]
            if scope["method"] == "OPTIONS" and headers.one("access-control-request-method") is not None:
                await _preflight(headers, send_on)
                return
            if self._key is not None and scope["path"] not in _OPEN:
                self._check_key(headers, self._key)
            if scope["method"] == "POST":
                _check_body(headers)
        except ApiError as error:
            number = self._journal.open("refused", client_of(scope))
            self._journal.update(number, state="failed", error=error.message)
            await Writer(send_on).error(error)
            return
        await self._app(scope, receive, send_on)

    def _check_size(self, scope: Scope) -> None:
        size = len(scope["raw_path"]) + len(scope["query_string"])
        if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADERS:
            raise ApiError(
                431,
                f"The headers have more than {MAX_HEADERS:,} bytes.",
                code="headers_too_large",
                headers={"connection": "close"},
            )

    def _check_host(self, headers: _Headers) -> None:
        host = headers.one("host")
        if host is None or not host_allowed(host, self._address):
            raise ApiError(
                403, f"The Host header does not name this server. Ask for {self._address.url}.", code="host_not_allowed"
            )

    def _check_origin(self, origin: str, headers: _Headers) -> None:
        same = origin.lower() == f"http://{(headers.one('host') or '').lower()}"
        if not same and origin.lower() not in self._allowed and "*" not in self._allowed:
            raise ApiError(
                403, "Web pages of this origin may not ask (serve --allow-origin lets them).", code="origin_not_allowed"
            )

    @staticmethod
    def _check_key(headers: _Headers, key: bytes) -> None:
        scheme, _, shown = (headers.one("authorization") or "").partition(" ")
        # Compared in constant time: how long it takes says nothing about how much of the key was right.
        right = hmac.compare_digest(shown.strip().encode("latin-1"), key)
        if scheme.lower() != "bearer" or not right:
            what = "The key is wrong." if shown else "A key is needed: Authorization: Bearer KEY."
            raise ApiError(
                401, what, code="invalid_api_key", kind="authentication_error", headers={"www-authenticate": "Bearer"}
            )


class _Headers:
    """By name; one that comes twice with two values is as good as none."""

    def __init__(self, scope: Scope) -> None:
        self._values: dict[str, set[str]] = {}
        for name, value in scope["headers"]:
            self._values.setdefault(name.decode("latin-1"), set()).add(value.decode("latin-1"))

    def one(self, name: str) -> str | None:
        values = self._values.get(name, set())
        return next(iter(values)) if len(values) == 1 else "" if values else None


def _check_body(headers: _Headers) -> None:
    """A page can post text without asking first, but not JSON."""
    kind = (headers.one("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(
            415,
            "The body has to be JSON (Content-Type: application/json).",
            code="unsupported_media_type",
            headers={"connection": "close"},
        )
    length = headers.one("content-length")
    if length is not None and int(length) > 4 * MAX_BODY:
        raise too_large()


async def _preflight(headers: _Headers, send: Send) -> None:
    names = headers.one("access-control-request-headers") or "authorization, content-type"
    answer = {
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": names,
        "access-control-max-age": "600",
    }
    if headers.one("access-control-request-private-network") == "true":
        answer["access-control-allow-private-network"] = "true"
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.items()]
    await send({"type": "http.response.start", "status": 204, "headers": raw})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
