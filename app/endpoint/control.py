"""The endpoint as a switch: room for several answers, then a server; for whoever has an engine and no thread to spare."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from pardec_chat.app.endpoint.address import Address
from pardec_chat.backends.errors import DoesNotFit

if TYPE_CHECKING:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.endpoint.journal import JournalEntry
    from pardec_chat.app.endpoint.server import Server

_T = TypeVar("_T")
_HOST = "127.0.0.1"
#: Answers at the same time, best first; fewer where the memory is short.
_SLOTS = (4, 2, 1)


class Control:
    """One server at a time on one engine. make_server: called once, on a thread, since its imports take a while.

    room: told how many answers the models were given room for. key: what clients have to show; None asks for none.
    """

    def __init__(
        self,
        engine: Engine,
        make_server: Callable[[], Server],
        room: Callable[[int], None] = lambda _slots: None,
        *,
        key: str | None = None,
    ) -> None:
        self._engine = engine
        self._make_server = make_server
        self._room = room
        self._key = key
        self._server: Server | None = None
        self._address: Address | None = None
        self._switching = threading.Lock()

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._server is not None and self._server.running

    @property
    def address(self) -> Address | None:
        """Where it listens; None while it does not."""
        return self._address if self.running else None

    def start(self, port: int) -> Future[Address]:
        """Make room in the models behind the answers that are being written, then listen on loopback.

        The future raises PortTaken, which offers another port, or another UserError.
        """
        return self._on_thread(lambda: self._start(Address(_HOST, port, self._key)))

    def stop(self) -> Future[None]:
        """End what is asked of it, and listen no more. The models keep their room until they are loaded anew."""
        return self._on_thread(self._stop)

    def entries(self) -> tuple[JournalEntry, ...]:
        """The requests that are on their way, and the latest that are over."""
        return () if self._server is None else self._server.journal.entries()

    def close(self, seconds: float = 1.0) -> None:
        """Stop at once; harmless when it does not run."""
        if self._server is not None:
            self._server.stop(seconds)

    def _start(self, address: Address) -> Address:
        with self._switching:
            if self._address is not None and self.running:
                return self._address
            if self._server is None:
                self._server = self._make_server()
            # The port first: it is quickly told that it is taken, and the models take seconds.
            self._address = self._server.start(address)
            try:
                self._make_room()
            except BaseException:
                self._server.stop()
                raise
            return self._address

    def _make_room(self) -> None:
        for slots in _SLOTS:
            try:
                self._engine.make_room(slots).result()
            except DoesNotFit:
                if slots == _SLOTS[-1]:
                    raise
            else:
                self._room(slots)
                return

    def _stop(self) -> None:
        with self._switching:
            if self._server is not None:
                self._server.stop()

    @staticmethod
    def _on_thread(work: Callable[[], _T]) -> Future[_T]:
        future: Future[_T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  # whoever waits gets it
                future.set_exception(error)

        threading.Thread(target=run, name="endpoint-switch", daemon=True).start()
        return future
