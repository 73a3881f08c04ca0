"""The switch: room in the models, the port, and what holds when one of them cannot be had."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.request import ModelChoice
from pardec_chat.app.endpoint.address import PortTaken
from pardec_chat.app.endpoint.control import Control
from pardec_chat.app.endpoint.server import Defaults, Server
from pardec_chat.backends import memory
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import DoesNotFit, UserError
from pardec_chat.backends.machine import Machine
from pardec_chat.backends.memory import Shape
from pardec_chat.tests.fakes import FakeRuntime
from pardec_chat.tests.unit.test_engine import says

GB = 10**9


class Switch:
    """An engine with one model, and its endpoint. free: bytes that the machine says it has beside what is loaded."""

    def __init__(self) -> None:
        self.free = 20 * GB
        self.runtime = FakeRuntime({"a": lambda options: says(*["abc"] * 9, max_slots=options.slots)})
        self.runtime.shapes["a"] = Shape("a", GB, 10, 50_000, 31, context=8192, head=64)
        self.engine = Engine(lambda: self.runtime, machine=self._machine)
        self.loaded = self.engine.load(ModelChoice(Path("a"), n_ctx=4096)).result(20)
        self.rooms: list[int] = []
        self.method = Method.PLAIN
        self.control = Control(
            self.engine, lambda: Server(self.engine, lambda: self.loaded, tuple, self._defaults), self.rooms.append
        )

    def _defaults(self) -> Defaults:
        return Defaults(SamplingParams(temperature=0.0), self.method, None)

    def _machine(self) -> Machine:
        return Machine("test", "test", 2, (), self.free * 2, self.free + memory._HOST_RESERVE)

    def close(self) -> None:
        self.control.close()
        self.engine.close()


@pytest.fixture
def switches() -> Iterator[list[Switch]]:
    made: list[Switch] = []
    yield made
    for switch in made:
        switch.close()


def make(switches: list[Switch]) -> Switch:
    switches.append(Switch())
    return switches[-1]


def binds(port: int) -> None:
    """The port is free; what closed connections leave for a minute does not count."""
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


def is_served(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
        return bool(answer.status == 200)


def test_on_makes_room_for_four_answers_and_off_frees_the_port(switches: list[Switch]) -> None:
    switch = make(switches)
    assert (switch.control.running, switch.control.address, switch.control.entries()) == (False, None, ())
    address = switch.control.start(0).result(20)
    assert is_served(address.port)
    assert (switch.rooms, [options.slots for options in switch.runtime.loaded]) == ([4], [1, 4])
    assert switch.control.running
    assert switch.control.start(0).result(20) == address  # on already
    switch.control.stop().result(20)
    assert (switch.control.running, switch.control.address) == (False, None)
    binds(address.port)
    assert switch.control.start(address.port).result(20).port == address.port


@pytest.mark.parametrize(("free", "slots"), [(int(1.3 * GB), 2), (int(1.1 * GB), 1)])
def test_K03_where_memory_is_short_fewer_answers_have_to_do(switches: list[Switch], free: int, slots: int) -> None:
    # 1 GB of weights, which are on disk too, and 0.2 of cache for each conversation, of which one is given back.
    switch = make(switches)
    switch.free = free
    address = switch.control.start(0).result(20)
    assert is_served(address.port)
    assert switch.rooms == [slots]


def test_E07_a_request_follows_the_method_that_is_set_when_it_comes(switches: list[Switch]) -> None:
    switch = make(switches)
    address = switch.control.start(0).result(20)
    for method in (Method.NGRAM, Method.PLAIN):
        switch.method = method
        asked = urllib.request.Request(
            f"{address.url}/v1/completions",
            json.dumps({"model": "default", "prompt": "a", "max_tokens": 4}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert json.load(answer)["timings"]["method"] == method


def test_X02_a_key_that_is_set_is_asked_for(switches: list[Switch]) -> None:
    switch = make(switches)
    server = Server(switch.engine, lambda: switch.loaded, tuple, switch._defaults)
    switch.control = Control(switch.engine, lambda: server, key="a-key-of-mine")
    address = switch.control.start(0).result(20)
    url = f"{address.url}/v1/models"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url, timeout=10)
    shown = urllib.request.Request(url, headers={"Authorization": "Bearer a-key-of-mine"})
    with urllib.request.urlopen(shown, timeout=10) as answer:
        assert answer.status == 200
    assert "a-key-of-mine" not in repr(address)


def test_a_taken_port_is_told_before_anything_is_loaded(switches: list[Switch]) -> None:
    switch = make(switches)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(PortTaken) as caught:
            switch.control.start(other.getsockname()[1]).result(20)
    assert caught.value.offer > 0
    assert len(switch.runtime.loaded) == 1
    assert not switch.control.running


def test_without_room_for_anything_the_port_is_given_back(switches: list[Switch]) -> None:
    switch = make(switches)
    switch.runtime.shapes["a"] = Shape("a", 30 * GB, 10, 50_000, 31, context=8192, head=64)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises((DoesNotFit, UserError)):
        switch.control.start(port).result(20)
    assert not switch.control.running
    binds(port)
