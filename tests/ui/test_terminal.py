"""A real terminal: native output stays off it (U03), and it is given back within two seconds, whatever runs (U04)."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat.request import Prefilling
from pardec_chat.app.terminal import guarded_terminal
from pardec_chat.tests.ui.fake_engine import FakeEngine, delta
from pardec_chat.tests.ui.helpers import ask, ready, until

MakeApp = Callable[..., PardecChat]
LEFT_ALTERNATE_SCREEN = b"\x1b[?1049l"


class Terminal:
    """A child on a pseudo-terminal of 100 columns and 30 lines."""

    def __init__(self, log: Path, phase: str) -> None:
        self.output = b""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pardec_chat.tests.ui.child", str(log), phase],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none", "COLORTERM": "truecolor"},
            start_new_session=True,
        )

    def read_until(self, what: bytes, seconds: float = 30.0) -> None:
        """Collect output until `what` is in it."""
        end = time.monotonic() + seconds
        while what not in self.output:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{what!r} never came; the end of what did: {self.output[-2000:]!r}"
            self.output += os.read(self.master, 65536)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def wait(self, seconds: float) -> int:
        """The exit code; fails when it takes longer."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            if select.select([self.master], [], [], 0.01)[0]:
                self.output += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0.05)[0]:
            self.output += os.read(self.master, 65536)
        return self.process.returncode


@contextmanager
def terminal(log: Path, phase: str) -> Iterator[Terminal]:
    child = Terminal(log, phase)
    try:
        yield child
    finally:
        if child.process.poll() is None:
            child.process.kill()
            child.process.wait()
        os.close(child.master)
        os.close(child.slave)


def test_U03_native_output_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "app.log"
    with terminal(log, "none") as child:
        child.read_until(b"ready")
        child.type(b"hello\r")
        child.read_until(b"writing")
        child.read_until(b"tok/s")
        child.type(b"\x11")
        assert child.wait(10.0) == 0
        assert b"NATIVE" not in child.output
        assert b"python prints" not in child.output
        assert termios.tcgetattr(child.slave) == child.before
    written = log.read_bytes()
    assert written.count(b"NATIVE-OUT") > 5
    assert written.count(b"NATIVE-ERR") > 5
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("phase", "keys", "state"),
    [
        ("load", b"", b"loading"),
        ("prefill", b"hello\r", b"reading the prompt"),
        ("generate", b"hello\r", b"reading the prompt"),
        ("none", b"hello\r", b"writing"),
    ],
)
def test_U04_quit_while_the_engine_hangs(tmp_path: Path, phase: str, keys: bytes, state: bytes) -> None:
    with terminal(tmp_path / "app.log", phase) as child:
        if keys:
            child.read_until(b"ready")
            child.type(keys)
        child.read_until(state)
        start = time.monotonic()
        child.type(b"\x11")
        assert child.wait(10.0) == 0
        assert time.monotonic() - start < 2.0
        assert LEFT_ALTERNATE_SCREEN in child.output
        assert termios.tcgetattr(child.slave) == child.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_give_the_terminal_back(tmp_path: Path, number: signal.Signals) -> None:
    with terminal(tmp_path / "app.log", "none") as child:
        child.read_until(b"ready")
        child.process.send_signal(number)
        child.wait(10.0)
        assert LEFT_ALTERNATE_SCREEN in child.output
        assert termios.tcgetattr(child.slave) == child.before


def test_faults_are_told_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    with terminal(log, "engine") as child:
        child.read_until(b"no engine")
        child.type(b"\x11")
        assert child.wait(10.0) == 0
        assert b"ImportError" in child.output
        assert b"Traceback" not in child.output
    assert "Traceback" in log.read_text()
    log.unlink()
    with terminal(log, "app") as child:
        assert child.wait(20.0) == 1
        assert b"Traceback" not in child.output
        assert f"pardec-chat ended by a fault of its own. {log} says where." in child.output.decode()
        assert LEFT_ALTERNATE_SCREEN in child.output
        assert termios.tcgetattr(child.slave) == child.before
    assert "a fault in the app" in log.read_text()


@pytest.mark.parametrize("phase", ["start", "load", "read", "write", "picker"])
async def test_U04_quit_closes_the_engine(make_app: MakeApp, engine: FakeEngine, phase: str) -> None:
    engine.held = phase == "load"
    app = make_app()
    async with app.run_test() as pilot:
        if phase == "load":
            await until(pilot, lambda: bool(engine.loads))
        elif phase in {"read", "write"}:
            await ask(pilot, "Hello?")
            engine.turns[0].send(Prefilling(1, 9) if phase == "read" else delta("one"))
        elif phase == "picker":
            await ready(pilot)
            await pilot.press("f3")
        await pilot.press("ctrl+q")
        await pilot.pause()
    assert app.return_code == 0
    assert app.close_engine()
    assert not engine.closed or engine.closed[0] == 0
    assert engine.closed or phase == "start"
    assert all(turn.cancelled for turn in engine.turns)
    for turn in engine.turns:
        # The engine's thread may still have something to say; nobody is there to hear it.
        turn.send(delta("late"))


def test_without_a_terminal_nothing_is_touched(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pardec_chat.app.terminal import guarded_terminal\n"
        f"with guarded_terminal(Path({str(tmp_path / 'log')!r})): print('inside')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "inside\n"


def test_after_an_exception_python_writes_to_the_terminal_and_descriptors_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = pty.openpty()
    saved = [os.dup(1), os.dup(2)]
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    count = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    try:
        os.dup2(slave, 1)
        os.dup2(slave, 2)
        with pytest.raises(KeyboardInterrupt), guarded_terminal(tmp_path / "log"):
            os.write(1, b"to the log")
            assert sys.__stderr__ is not None
            sys.__stderr__.write("to the terminal")
            raise KeyboardInterrupt
        os.write(2, b", a late native thread too")
        for stream, text in ((sys.__stdout__, " and"), (sys.__stderr__, " back")):
            assert stream is not None
            assert stream in (sys.stdout, sys.stderr)
            stream.write(text)
            stream.close()
    finally:
        for fd, copy in enumerate(saved, start=1):
            os.dup2(copy, fd)
            os.close(copy)
    shown = b""
    while select.select([master], [], [], 0.2)[0]:
        shown += os.read(master, 100)
    assert shown == b"to the terminal and back"
    assert (tmp_path / "log").read_bytes() == b"to the log, a late native thread too"
    os.close(master)
    os.close(slave)
    # The two pairs that the test opened itself.
    assert len(os.listdir("/proc/self/fd")) <= count - 4  # noqa: PTH208


def test_first_paint_waits_for_nothing_heavy() -> None:
    code = (
        "import sys; import pardec_chat.app.app; from pardec_chat.app.screens.session import ChatOptions\n"
        "pardec_chat.app.app.PardecChat(ChatOptions())\n"
        "heavy = {'numpy', 'llama_cpp', 'jinja2', 'huggingface_hub', 'requests'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
