"""The endpoint as a whole: started at an address, served by a thread of its own, stopped in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import uvicorn

from pardec_chat.app.chat.request import Loaded
from pardec_chat.app.endpoint.address import Address, PortTaken, bind
from pardec_chat.app.endpoint.context import Context, Defaults, EngineLike, ListedModel
from pardec_chat.app.endpoint.guard import Guard, origins
from pardec_chat.app.endpoint.journal import Journal
from pardec_chat.app.endpoint.protocol import MAX_INCOMPLETE, Protocol
from pardec_chat.app.endpoint.routes import application
from pardec_chat.backends.errors import UserError

__all__ = ["Address", "Defaults", "EngineLike", "Journal", "ListedModel", "PortTaken", "Server"]

logger = logging.getLogger(__name__)
#: Seconds that a connection may stay open between two requests.
_KEEP_ALIVE = 30


class Server:
    """Answers clients with an engine that others use, too.

    loaded: what is loaded now. models: what is on disk, asked on a thread of the endpoint. defaults: what holds where a
    request says nothing, asked with each one. allowed_origins: of web pages that may ask; none by default.
    """

    def __init__(
        self,
        engine: EngineLike,
        loaded: Callable[[], Loaded | None],
        models: Callable[[], Sequence[ListedModel]],
        defaults: Callable[[], Defaults],
        *,
        allowed_origins: Sequence[str] = (),
        journal: Journal | None = None,
    ) -> None:
        self.journal = Journal() if journal is None else journal
        self._engine = engine
        self._loaded = loaded
        self._models = models
        self._defaults = defaults
        self._allowed_origins = tuple(allowed_origins)
        self._lock = threading.Lock()
        self._live: _Live | None = None

    @property
    def running(self) -> bool:
        """Whether clients are served."""
        live = self._live
        return live is not None and live.thread.is_alive()

    def start(self, address: Address) -> Address:
        """Listen, and serve from a thread of its own; gives the address with the real port.

        Raises PortTaken, or BadSetting for another address than this machine's own without a key.
        """
        with self._lock:
            if self.running:
                raise UserError("The server is running already.", "Stop it first.")
            allowed = origins(self._allowed_origins, address.key)
            listener = bind(address)
            real = replace(address, port=listener.getsockname()[1])
            self.journal.secret = real.key
            context = Context(self._engine, self._loaded, self._models, self._defaults, self.journal)
            live = _Live(listener, Guard(application(context), real, allowed, self.journal), context)
            self._live = live
            live.thread.start()
            live.ready.wait()
            if live.fault is not None:
                self._live = None
                raise UserError(f"The server did not start: {live.fault}.", "The log says why (pardec-chat doctor).")
            return real

    def stop(self, seconds: float = 2.0) -> None:
        """End live requests and the thread; the port is free then. Harmless when done twice.

        seconds: that replies on their way may take to be taken.
        """
        with self._lock:
            live, self._live = self._live, None
            if live is not None:
                live.stop(seconds)


class _Live(uvicorn.Server):
    """One run of the server."""

    def __init__(self, listener: socket.socket, app: Guard, context: Context) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=Protocol,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=MAX_INCOMPLETE,
            )
        )
        self.ready = threading.Event()
        self.fault: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="endpoint", daemon=True)
        self._listener = listener
        self._context = context
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self, seconds: float) -> None:
        """From any thread but its own."""
        loop = self._loop
        if loop is not None and self.thread.is_alive():
            try:
                loop.call_soon_threadsafe(self._end)
            except RuntimeError:  # it has just ended by itself
                logger.debug("the endpoint's loop was closed already")
            self.thread.join(seconds)
            self.force_exit = True
            self.thread.join()

    def _end(self) -> None:
        self._context.stop()
        self.should_exit = True

    def _run(self) -> None:
        try:
            asyncio.run(self._serve_all())
        except BaseException as fault:  # whoever started it is told, once it has been ready at all
            logger.exception("the endpoint ended")
            self.fault = fault
        finally:
            self._listener.close()
            self.ready.set()

    async def _serve_all(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.serve(sockets=[self._listener])
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.drop()
        await asyncio.sleep(0)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell that clients can come."""
        await super().startup(sockets)
        self.ready.set()
