"""What the screen costs while an answer comes fast, and what a long conversation costs to open.

    python -m pardec_chat.tests.benchmarks.drawing [--tokens 20000] [--rate 500] [--burst 8] [--rounds 1]

The real app on a pseudo-terminal, with an engine that only sends text: prose, lists, a long fence, a table of 40 columns
and a fence that never ends. Keys are typed meanwhile; what counts is how long each takes to be seen. Memory is that of
the process. A machine that does other things, too, gives longer times.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil

ROWS, COLUMNS = 40, 120
# Letters that no text here has: each is typed once and looked for in what the app writes.
_KEYS = [chr(code) for code in range(0x0400, 0x0460)] + [chr(code) for code in range(0x048A, 0x0500)]
_PROSE = (
    "The quick brown fox *jumps* over the lazy `dog` and then **sleeps** for a long while below the tree, as it is "
    "used to do on such days; see [here](https://example.org) for more of that.\n\n"
)


def text_of(n_tokens: int, size: int = 4) -> str:
    """An answer of that many tokens of `size` characters."""
    total = n_tokens * size
    parts = [_PROSE * (total // 6 // len(_PROSE))]
    parts += [f"{i + 1}. item {i} with `code` and *words*\n" for i in range(total // 8 // 36)]
    parts.append("\n```python\n")
    parts += [f"def f{i}(x): return x + {i}\n" for i in range(total // 3 // 26)]
    parts.append("```\n\n|" + "|".join(f" h{i} " for i in range(40)) + "|\n|" + "---|" * 40 + "\n")
    parts += ["|" + "|".join(f" {i * j % 97} " for j in range(40)) + "|\n" for i in range(total // 5 // 190)]
    parts.append("\n```c\n")
    text = "".join(parts)
    lines = (f"int x{i} = {i}; /* a comment */\n" for i in range(total))
    while len(text) < total:
        text += next(lines)
    return text[:total]


# ---- the app, in a process of its own ----


def _child(kind: str, report: Path, arguments: argparse.Namespace) -> None:
    from pardec_chat.app.app import ChatOptions, PardecChat
    from pardec_chat.app.terminal import guarded_terminal
    from pardec_chat.tests.ui.fake_engine import LARGE, FakeEngine, FakeTurn, delta, figures, finished

    class Streaming(FakeEngine):
        """Sends the answer at a rate, in bursts."""

        def submit(self, request: Any, sink: Any) -> FakeTurn:
            """See `Engine.submit`."""
            threading.Thread(target=stream, args=(sink,), daemon=True).start()
            return FakeTurn(request, sink)

    app = PardecChat(ChatOptions(LARGE), Streaming)
    text = text_of(arguments.tokens)

    def stream(sink: Any) -> None:
        pieces = [text[i : i + 4] for i in range(0, len(text), 4)]
        start, late = time.perf_counter(), 0.0
        ui = threading.main_thread().native_id
        before = _thread_seconds(ui)
        for n in range(0, len(pieces), arguments.burst):
            due = start + n / arguments.rate
            time.sleep(max(0.0, due - time.perf_counter()))
            late = max(late, time.perf_counter() - due)
            for piece in pieces[n : n + arguments.burst]:
                sink(delta(piece, figures(n, n * 2.0)))
        took = time.perf_counter() - start
        used = _thread_seconds(ui) - before
        sink(finished(text, figures(len(pieces), took * 1e3)))
        time.sleep(1.0)
        # What the reply says and what it drew.
        app.call_from_thread(end, took, used, late)

    def end(took: float, used: float, late: float) -> None:
        from pardec_chat.app.widgets.reply import Reply

        reply = app.chat.query_one(Reply)
        last = "".join(segment.text for segment in reply.render_line(reply.size.height - 3))
        right = reply.source == text and text.rsplit("\n", 1)[-1] in last
        found = {"took": took, "ui": used / took, "late": late, "right": right, "lines": reply.size.height}
        report.write_text(json.dumps(found))
        app.exit()

    async def open_long() -> None:
        from pardec_chat.app.widgets.message import UserMessage
        from pardec_chat.app.widgets.reply import Reply
        from pardec_chat.app.widgets.transcript import Transcript
        from pardec_chat.backends.base import Method

        paragraphs = text_of(2_000).split("\n\n")[0] + "\n\n"
        answer = (paragraphs + "- one\n- two\n\n```python\nx = [1, 2]\n```\n\n" + _PROSE * 5)[:1000]

        def reply() -> Reply:
            made = Reply("Qwen")
            made.write([(answer, Method.PLAIN)])
            made.finish(("54.6 tok/s",))
            return made

        makers = [
            (lambda n=n: UserMessage(f"Question {n}. " + "words " * 31)) if n % 2 == 0 else reply for n in range(500)
        ]
        process, transcript = psutil.Process(), app.chat.query_one(Transcript)
        gc.collect()
        memory, start = process.memory_info().rss, time.perf_counter()
        await transcript.show(makers)
        painted = threading.Event()
        app.call_after_refresh(painted.set)
        while not painted.is_set():
            await _a_moment()
        found = {"opened": time.perf_counter() - start, "memory": process.memory_info().rss - memory}
        start = time.perf_counter()
        transcript.read("home")
        while transcript._earlier or transcript.scroll_y > 0:
            await _a_moment()
        found |= {"home": time.perf_counter() - start, "memory_all": process.memory_info().rss - memory}
        report.write_text(json.dumps(found))
        app.exit()

    if kind == "open":
        threading.Timer(2.0, lambda: app.call_from_thread(lambda: app.run_worker(open_long()))).start()
    with guarded_terminal(report.with_suffix(".log")):
        app.run()
        os._exit(0)


async def _a_moment() -> None:
    import asyncio

    await asyncio.sleep(0.001)


def _thread_seconds(native_id: int | None) -> float:
    """Processor time of one thread."""
    return next(t.user_time + t.system_time for t in psutil.Process().threads() if t.id == native_id)


# ---- who looks at it ----


class _Terminal:
    """The app on a pseudo-terminal."""

    def __init__(self, kind: str, report: Path, arguments: argparse.Namespace) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        numbers = [f"--{name}={getattr(arguments, name)}" for name in ("tokens", "rate", "burst")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, "--child", kind, "--report", str(report), *numbers],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(slave)
        self._seen = b""

    def read(self, seconds: float, what: bytes = b"") -> bool:
        """Read for a time, or until `what` comes; says whether it came."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                self._seen = self._seen[-64:] + os.read(self.master, 1 << 16)
            except OSError:
                break
            if what and what in self._seen:
                return True
        return False

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self.master, keys.encode())

    def end(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


class _Sleeper(threading.Thread):
    """Sleeps for short times and notes by how much they were too long: what the machine itself adds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.late: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Until it is over."""
        while not self.over.is_set():
            start = time.perf_counter()
            time.sleep(0.005)
            self.late.append(time.perf_counter() - start - 0.005)


def _stream(arguments: argparse.Namespace, report: Path) -> dict[str, Any]:
    terminal = _Terminal("stream", report, arguments)
    try:
        assert terminal.read(60.0, b"ready"), "the app did not start"
        terminal.read(0.5)
        process = psutil.Process(terminal.process.pid)
        terminal.type("go\r")
        terminal.read(1.0)
        used, start = sum(process.cpu_times()[:2]), time.perf_counter()
        sleeper = _Sleeper()
        sleeper.start()
        echoes = list(_echoes(terminal, arguments.tokens / arguments.rate - 2.0))
        sleeper.over.set()
        share = (sum(process.cpu_times()[:2]) - used) / (time.perf_counter() - start)
        for _ in range(120):
            terminal.read(0.5)
            if report.exists() or terminal.process.poll() is not None:
                break
        found: dict[str, Any] = json.loads(report.read_text())
        return found | {"echoes": echoes, "cpu": share, "noise": sleeper.late}
    finally:
        terminal.end()


def _echoes(terminal: _Terminal, seconds: float) -> Iterator[float]:
    """Seconds from each key to its letter on the screen."""
    end = time.perf_counter() + seconds
    n = 0
    while time.perf_counter() < end:
        key = _KEYS[n % len(_KEYS)]
        if n and n % 40 == 0:
            terminal.type("\x15")
            terminal.read(0.1)
        start = time.perf_counter()
        terminal.type(key)
        assert terminal.read(10.0, key.encode()), "a key was lost"
        yield time.perf_counter() - start
        # At all moments between two pictures.
        terminal.read(0.15 + n % 7 * 0.013)
        n += 1


def _open(arguments: argparse.Namespace, report: Path) -> dict[str, Any]:
    terminal = _Terminal("open", report, arguments)
    try:
        for _ in range(120):
            terminal.read(0.5)
            if report.exists() or terminal.process.poll() is not None:
                break
        found: dict[str, Any] = json.loads(report.read_text())
        return found
    finally:
        terminal.end()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--burst", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(arguments.child, arguments.report, arguments)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        streamed = [_stream(arguments, Path(folder, f"stream{n}.json")) for n in range(arguments.rounds)]
        opened = [_open(arguments, Path(folder, f"open{n}.json")) for n in range(max(3, arguments.rounds))]
    echoes = sorted(echo * 1e3 for one in streamed for echo in one["echoes"])
    rows = [
        ("keys typed", f"{len(echoes)}", "", True),
        ("key to screen, median", f"{median(echoes):.1f} ms", "30 ms", median(echoes) < 30),
        ("key to screen, 95 %", f"{echoes[int(len(echoes) * 0.95)]:.1f} ms", "", True),
        ("key to screen, worst", f"{echoes[-1]:.1f} ms", "100 ms", echoes[-1] < 100),
        (
            "   a sleep of this machine",
            f"{max(max(one['noise']) for one in streamed) * 1e3:.1f} ms late at most",
            "",
            True,
        ),
        ("process, of one core", f"{(cpu := median(one['cpu'] for one in streamed)) * 100:.0f} %", "60 %", cpu < 0.6),
        ("UI thread, of one core", f"{median(one['ui'] for one in streamed) * 100:.0f} %", "", True),
        ("tokens come late by", f"{max(one['late'] for one in streamed) * 1e3:.0f} ms at most", "", True),
        ("text at the end", f"{streamed[0]['lines']:,} lines", "right", all(one["right"] for one in streamed)),
        (
            "500 messages, first paint",
            f"{(first := median(one['opened'] for one in opened)) * 1e3:.0f} ms",
            "500 ms",
            first < 0.5,
        ),
        ("   worst", f"{max(one['opened'] for one in opened) * 1e3:.0f} ms", "", True),
        (
            "500 messages, memory",
            f"{(grown := max(one['memory'] for one in opened)) / 1e6:.0f} MB",
            "80 MB",
            grown < 80e6,
        ),
        ("   all of them made", f"{max(one['memory_all'] for one in opened) / 1e6:.0f} MB", "", True),
        ("   way to the first one", f"{median(one['home'] for one in opened):.2f} s", "", True),
    ]
    for name, value, bar, held in rows:
        print(
            f"{name:28}{value:>20}   {('below ' if bar != 'right' else '') + bar if bar else '':14}{'' if held else 'NOT HELD'}"
        )
    return 0 if all(held for *_, held in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
