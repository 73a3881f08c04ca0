"""Server-sent events, and replies in one piece, over ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from pydantic import BaseModel
from starlette.types import Send

from pardec_chat.app.endpoint.errors import ApiError

DONE = b"data: [DONE]\n\n"
#: Seconds that a client may take to read what is in its way before it counts as gone.
_STALLED = 60.0


class ClientGone(Exception):
    """Nobody reads any more."""


def event(reply: BaseModel, name: str | None = None) -> bytes:
    """One event; fields that were not set are left out."""
    return framed(reply.model_dump_json(exclude_unset=True, by_alias=True).encode(), name)


def framed(data: bytes, name: str | None = None) -> bytes:
    """One event of JSON, which holds no line feed."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """What keeps a connection alive and is no event."""
    return f": {text}\n\n".encode()


class Writer:
    """Sends one reply. Raises ClientGone when the client reads nothing for a minute."""

    def __init__(self, send: Send) -> None:
        self._send_raw = send
        self.started = False

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A reply of JSON in one piece."""
        await self._start(
            status, {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        )
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def error(self, error: ApiError) -> None:
        """A refusal."""
        await self.whole(error.status, error.body(), error.headers)

    async def begin(self) -> None:
        """The head of a stream."""
        await self._start(
            200,
            {
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                "x-accel-buffering": "no",
            },
        )

    async def frames(self, frames: Iterable[bytes]) -> None:
        """A piece of a stream."""
        body = b"".join(frames)
        if body:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def end(self) -> None:
        """The end of a stream."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _send(self, message: dict[str, object]) -> None:
        try:
            async with asyncio.timeout(_STALLED):
                await self._send_raw(message)
        except TimeoutError:
            raise ClientGone("the client does not read") from None
