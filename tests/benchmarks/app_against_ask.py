"""What drawing costs: decoding in the app, on a real terminal, against `ask` with the same prompt.

    python -m pardec_chat.tests.benchmarks.app_against_ask MODEL.gguf [--draft FILE] [--method plain] [--tokens 200] [--rounds 5]

Each round starts both, one after the other, in turns; decoding speed as the engine counts it (predicted_per_second). The
answer of the app is read from its database, so that it is that of the real program with everything on.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import monotonic

from pardec_chat.app.conversations.conversation import Node
from pardec_chat.app.conversations.store import Store

_PROMPTS = (
    "Write a Python class for a priority queue with tests, and explain each method in a sentence.",
    "Explain how tides work, with a list of the causes and a table of their sizes.",
    "Tell a long story about a lighthouse keeper who learns to bake.",
)
_PROGRAM = Path(sys.executable).parent / "pardec-chat"
_SECONDS = 600.0
#: Seconds until the app is at rest: nobody has typed a prompt before.
_SETTLED = 3.0
#: Seconds without a picture after which the answer may be whole: looking for it takes time from the app.
_SILENCE = 1.0


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--method", default="plain")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    options = ["--model", str(arguments.model), "--method", arguments.method, "--temperature", "0"]
    options += ["--draft", str(arguments.draft)] if arguments.draft else []
    ratios = []
    for turn in range(arguments.rounds):
        prompt = _PROMPTS[turn % len(_PROMPTS)]
        runs = {"ask": _ask, "app": _app}
        names = ["ask", "app"] if turn % 2 == 0 else ["app", "ask"]
        rates = {name: runs[name](prompt, options, arguments.tokens) for name in names}
        ratios.append(rates["app"][0] / rates["ask"][0])
        print(
            f"round {turn + 1}: ask {rates['ask'][0]:.2f} tok/s, app {rates['app'][0]:.2f} tok/s ({ratios[-1]:.3f}x), "
            f"{rates['app'][1]:,} tokens, same text: {rates['app'][2] == rates['ask'][2]}"
        )
    print(f"app over ask: median {median(ratios):.3f}x, least {min(ratios):.3f}x")
    return 0


def _ask(prompt: str, options: Sequence[str], tokens: int) -> tuple[float, int, str]:
    command = [str(_PROGRAM), "ask", prompt, *options, "--max-tokens", str(tokens), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    return answer["timings"]["predicted_per_second"], answer["timings"]["predicted_n"], answer["text"]


def _app(prompt: str, options: Sequence[str], tokens: int) -> tuple[float, int, str]:
    with tempfile.TemporaryDirectory() as folder:
        settings = f"[chat]\ntitles = false\nmax_tokens = {tokens}\n"
        (Path(folder) / "settings.toml").write_text(settings, encoding="utf-8")
        environment = {
            **os.environ,
            "PARDEC_CHAT_DATA": folder,
            "PARDEC_CHAT_CONFIG": folder,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        process = subprocess.Popen(
            [str(_PROGRAM), *options], stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        try:
            _read(master, b"ready")
            _drain(master, _SETTLED)
            os.write(master, prompt.encode() + b"\r")
            node = _answer(master, Path(folder) / "conversations.db")
            os.write(master, b"\x11")
            process.wait(10)
        finally:
            process.kill()
            process.wait()
            os.close(master)
            os.close(slave)
    assert node.record is not None and node.record.tokens_per_second is not None
    return node.record.tokens_per_second, node.record.predicted_n, node.text


def _read(master: int, what: bytes) -> None:
    output, end = b"", monotonic() + _SECONDS
    while what not in output:
        if not select.select([master], [], [], max(0.0, end - monotonic()))[0]:
            raise SystemExit(f"{what!r} never came: {output[-500:]!r}")
        output += os.read(master, 65536)


def _drain(master: int, seconds: float) -> None:
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        if select.select([master], [], [], left)[0]:
            os.read(master, 65536)


def _answer(master: int, database: Path) -> Node:
    """The answer, once it is whole; what is drawn meanwhile is read, as a terminal does."""
    end, heard = monotonic() + _SECONDS, monotonic()
    while monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            os.read(master, 65536)
            heard = monotonic()
        if monotonic() - heard < _SILENCE or not database.exists():
            continue
        heard = monotonic()
        store = Store(database)
        try:
            for summary in store.summaries():
                answers = [node for node in store.read(summary.id).path() if node.role == "assistant"]
                if answers and answers[-1].state != "writing":
                    return answers[-1]
        finally:
            store.close()
    raise SystemExit("the answer never came")


if __name__ == "__main__":
    sys.exit(main())
