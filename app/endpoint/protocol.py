"""uvicorn's HTTP with bounds of our own: how many connections, how long one may say nothing, how a broken one is refused."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from pardec_chat.app.endpoint.errors import ApiError

#: Bytes that may come before a request's line and headers are whole; more than the guard lets pass, so that it can answer.
MAX_INCOMPLETE = 64 * 1024
#: Connections held; for one more the oldest idle one goes. Some systems give a program no more than 256 files.
_MAX_CONNECTIONS = 230
#: Seconds in which the line and headers of a request have to come.
_PATIENCE = 20.0
_numbers = itertools.count()


class Protocol(H11Protocol):
    """One connection."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room for itself where there is none."""
        super().connection_made(transport)
        self._order = next(_numbers)
        self._expect()
        if len(self.connections) > _MAX_CONNECTIONS:
            idle = [one for one in self.connections if isinstance(one, Protocol) and not one.busy and one is not self]
            min(idle, key=lambda one: one._order, default=self).drop()

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def drop(self) -> None:
        """End the connection, whatever is still to be sent."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """A request has to become whole in time, however slowly it comes."""
        if self._deadline is None and not self.busy:
            self._expect()
        super().data_received(data)
        if self.busy:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for any more."""
        self._relax()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """The refusal of what is no HTTP, in the standard form."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # a reply is on its way already
            self.transport.close()
            return
        error = ApiError(400, "This is no valid HTTP request.", code="invalid_http")
        if len(self.conn.trailing_data[0]) > MAX_INCOMPLETE:
            error = ApiError(431, "The headers are too long.", code="headers_too_large")
        body = error.body()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        events: tuple[Any, ...] = (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for one in events:
            self.transport.write(self.conn.send(one) or b"")
        self.transport.close()

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(_PATIENCE, self._too_slow)

    def _relax(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None:
            deadline.cancel()

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.busy:
            self.transport.close()
