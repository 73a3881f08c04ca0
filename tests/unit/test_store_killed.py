"""Processes that save an answer while it is written, and are killed as the system's own killer does it, at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pardec_chat.app.conversations.conversation import Node
from pardec_chat.app.conversations.store import Store

KILLS = 50
#: Lines of a child that are read before it is killed.
MOST_LINES = 60
#: Pieces of an answer: its id and a number each.
PIECES = 12

#: Forks one process a line of its input, so that the imports are paid for once: each chats until it is killed. It prints
#: what the disk has: messages that were sent, characters of the answer that is being written, answers that are finished.
NURSERY = f"""
import os, sys
from pathlib import Path
from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.keeper import Keeper
from pardec_chat.backends.base import Method

def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def chat(keeper):
    conversation = Conversation(title="killed")
    keeper.put(conversation)
    while True:
        question = Node("user", "", parent=conversation.leaf)
        question.text = f"question {{question.id}}"
        keeper.put_node(conversation.id, conversation.add(question)).result()
        tell("sent", conversation.id, question.id)
        answer = conversation.add(Node("assistant", "", parent=question.id, state="writing"))
        keeper.put_node(conversation.id, answer)
        keeper.put(conversation)
        for piece in range({PIECES}):
            answer.text += f"{{answer.id}} {{piece}} "
            answer.origins += ((len(answer.text), Method.DRAFT),)
            saved = keeper.progress(answer.id, answer.text, answer.origins)
            if piece % 3 == 0:
                saved.result()
                tell("written", conversation.id, answer.id, len(answer.text))
        answer.state = "whole"
        keeper.put_node(conversation.id, answer).result()
        tell("finished", conversation.id, answer.id)

for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        chat(Keeper(Path(sys.argv[1]), lambda error: tell("failed", error)))
    tell("child", child)
    os.waitpid(child, 0)
    tell("over")
"""


@dataclass
class Told:
    """What the children said that the disk has, by conversation and message."""

    sent: set[tuple[str, str]] = field(default_factory=set)
    finished: set[tuple[str, str]] = field(default_factory=set)
    written: dict[tuple[str, str], int] = field(default_factory=dict)

    def hear(self, line: str) -> None:
        word, *rest = line.split()
        match word, rest:
            case "sent", [conversation, node]:
                self.sent.add((conversation, node))
            case "written", [conversation, node, length]:
                self.written[conversation, node] = int(length)
            case "finished", [conversation, node]:
                self.finished.add((conversation, node))
            case _:
                raise AssertionError(line)


@dataclass
class Nursery:
    process: subprocess.Popen[str]
    told: Told = field(default_factory=Told)

    def chat_and_kill(self, after: int) -> None:
        """Starts a chat, and kills it once it has said so many lines; it goes on until that reaches it."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        child = n = 0
        for line in self._lines():
            if line.startswith("child"):
                child = int(line.split()[1])
            else:
                self.told.hear(line)
                n += 1
            if child and n >= after:
                break
        os.kill(child, signal.SIGKILL)
        for line in self._lines():
            if line == "over":
                return
            self.told.hear(line)

    def _lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        return (line.strip() for line in self.process.stdout)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


@pytest.fixture
def nursery(file: Path) -> Iterator[Nursery]:
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield Nursery(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 0


def whole(node: Node) -> str:
    """What a message says in the end."""
    if node.role == "user":
        return f"question {node.id}"
    return "".join(f"{node.id} {piece} " for piece in range(PIECES))


def test_fifty_kills_at_any_moment_lose_nothing_that_was_said_to_be_saved(nursery: Nursery, file: Path) -> None:
    source = random.Random(50)
    cut_off: set[str] = set()
    for _ in range(KILLS):
        nursery.chat_and_kill(source.randrange(MOST_LINES))
        with closing(Store(file)) as store:
            assert store._db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert store._db.execute("PRAGMA foreign_key_check").fetchall() == []
            store._db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
            conversations = {one.id: store.read(one.id) for one in store.summaries()}
        now: set[str] = set()
        for conversation in conversations.values():
            assert conversation.title == "killed"
            path = conversation.path()
            assert list(conversation.nodes.values()) == path
            for node in path:
                if node.state == "writing":
                    assert node is path[-1]
                    assert whole(node).startswith(node.text)
                    assert len(node.text) >= nursery.told.written.get((conversation.id, node.id), 0)
                    assert [n for n, _ in node.origins][-1:] == [len(node.text)][: len(node.origins)]
                    now.add(node.id)
                else:
                    assert node.text == whole(node)
        for conversation_id, node_id in nursery.told.sent | nursery.told.finished:
            assert conversations[conversation_id].nodes[node_id].state == "whole"
        assert cut_off <= now
        assert len(now - cut_off) <= 1
        cut_off = now
    assert len(nursery.told.finished) > KILLS
    assert len(cut_off) > KILLS // 3
    with closing(Store(file)) as store:
        while store.tidy():
            pass
        for conversation_id, node_id in sorted(nursery.told.finished)[::7]:
            assert [one.id for one in store.search(node_id)] == [conversation_id]
