"""Processes that download and are killed as the system's own killer does it, at any moment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pardec_chat.app.catalogue import HubSource
from pardec_chat.app.downloads.hub import Hub
from pardec_chat.app.downloads.pull import Tools, pull
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import COMMIT, FILE, REPO, Answer, FakeHub, model_of, some_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = 24 << 20
KILLS = 20
BEYOND = 2 << 20
BUFFER = 64 << 10  # the system takes twice as much, on either side
CONTENT = some_bytes(SIZE)
MODEL = model_of(CONTENT, HubSource(REPO, FILE, COMMIT))

#: Forks one process a line of its input, so that the imports are paid for once: each pulls, prints what is on disk,
#: and is killed from outside, or ends by itself.
NURSERY = f"""
import os, socket, sys
from pathlib import Path
import httpx2, huggingface_hub
from pardec_chat.app.catalogue import HubSource, Model
from pardec_chat.app.downloads import hub, pull
model = Model("tiny", "Tiny", {SIZE}, {MODEL.sha256!r}, "MIT", "", (HubSource({REPO!r}, {FILE!r}, {COMMIT!r}),))
small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, {BUFFER})]
line = lambda: httpx2.HTTPTransport(socket_options=small)
huggingface_hub.set_client_factory(lambda: httpx2.Client(transport=line()))
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        def report(progress):
            if progress.stage == "downloading":
                os.write(1, b"%d\\n" % progress.done)
        pull.pull(model, Path(sys.argv[1]), report=report)
        os._exit(0)
    os.write(1, b"child %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"over\\n")
"""


@dataclass
class Nursery:
    process: subprocess.Popen[str]

    def pull_and_kill(self, at: int) -> None:
        """Starts a pull and kills it once it says that `at` bytes are on the disk."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        child, before = 0, 0
        for line in self._lines():
            if line.startswith("child"):
                child = int(line.split()[1])
            elif line == "over":
                raise AssertionError(f"the pull ended before it could be killed at {at}")
            else:
                before = int(line)
            if child and before >= at:
                break
        os.kill(child, signal.SIGKILL)
        for line in self._lines():
            if line == "over":
                return

    def _lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        return (line.strip() for line in self.process.stdout)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub.running(monkeypatch) as running:
        running.content = CONTENT
        yield running


@pytest.fixture
def nursery(hub: FakeHub, tmp_path: Path) -> Iterator[Nursery]:
    own = {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_CACHE": str(tmp_path / "no cache"),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "NO_PROXY": "127.0.0.1",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(tmp_path / "models")],
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield Nursery(process)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert process.wait(20) == 0


def test_L02_twenty_kills_at_any_byte_lose_at_most_a_mebibyte_each(
    hub: FakeHub, nursery: Nursery, tmp_path: Path
) -> None:
    """What is measured: for each request, the bytes that the server's system took over from it to send, which is never
    less than what the network carried, against the bytes that were on the client's disk once it was dead. The
    difference has to be sent again: what the client had read ahead of its disk, and what lay in the buffers of both
    systems. Those are kept small here: on a long and fast line they hold more, which no program gets back.

    The server sends as fast as its bytes are taken, so that a kill meets a client that has something to catch up with;
    but never more than a little beyond the next kill, so that none comes too late.
    """
    hub.send_buffer = BUFFER
    final = tmp_path / "models" / MODEL.file_name
    part = final.with_name(f"{final.name}.part")
    lost: list[int] = []
    for point in sorted(random.Random(20).sample(range(1, SIZE - 2 * BEYOND), KILLS)):
        before = part.stat().st_size if part.exists() else 0
        kill_at = max(point, before + 1)
        hub.answers = [Answer(stop_after=kill_at + BEYOND - before, then="stall")]
        nursery.pull_and_kill(kill_at)
        kept = part.stat().st_size
        assert part.read_bytes() == CONTENT[:kept]
        assert not final.exists()
        assert len(hub.sent) == len(lost) + 1
        assert hub.sent[-1].over.wait(20)
        assert hub.sent[-1].start == before  # nothing that was on the disk is fetched again
        lost.append(hub.sent[-1].start + hub.sent[-1].count - kept)
    kept = part.stat().st_size
    tools = Tools(hub=Hub(hub.endpoint, ""), free_bytes=lambda _: 1 << 40)
    assert pull(MODEL, final.parent, tools=tools).path.read_bytes() == CONTENT
    assert hub.sent[-1].start == kept
    assert max(lost) <= 1 << 20, lost
    assert hub.sent[-1].over.wait(20)
    assert sum(sent.count for sent in hub.sent) - SIZE == sum(lost)
    assert {path.name for path in final.parent.iterdir()} == {final.name}
