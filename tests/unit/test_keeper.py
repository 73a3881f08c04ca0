from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

import pytest

from pardec_chat.app.conversations import keeper as keeper_module
from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.keeper import KEPT_DELETED, Keeper
from pardec_chat.app.conversations.schema import ConversationGone, StoreBroken, StoreFailed, StoreTooNew
from pardec_chat.app.conversations.store import Store
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

SECONDS = 30.0  # no test waits so long, unless it fails


class Gate:
    """Stops the owner thread, so that more can be asked of it meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reached, self._open = threading.Event(), threading.Event()
        summaries = Store.summaries

        def stop(store: Store) -> Any:
            self._reached.set()
            assert self._open.wait(SECONDS)
            return summaries(store)

        self._monkeypatch = monkeypatch
        monkeypatch.setattr(Store, "summaries", stop)

    def shut(self, keeper: Keeper) -> Future[Any]:
        future = keeper.summaries()
        assert self._reached.wait(SECONDS)
        return future

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


@pytest.fixture
def failures() -> list[UserError]:
    return []


@pytest.fixture
def keeper(path: Path, failures: list[UserError]) -> Iterator[Keeper]:
    keeper = Keeper(path, failures.append)
    yield keeper
    assert keeper.close(SECONDS)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What goes to the store: the method, and the text or title."""
    calls: list[tuple[str, str]] = []

    def watched(name: str, word: Callable[..., str]) -> None:
        original = getattr(Store, name)

        def call(store: Store, *arguments: Any) -> Any:
            calls.append((name, word(*arguments)))
            return original(store, *arguments)

        monkeypatch.setattr(Store, name, call)

    watched("put", lambda conversation: conversation.title)
    watched("put_node", lambda conversation_id, node: node.text)
    watched("progress", lambda node_id, text, origins: text)
    watched("search", lambda query: query)
    return calls


def talk(keeper: Keeper, title: str = "title", text: str = "Hi") -> tuple[Conversation, Node]:
    conversation = Conversation(title=title)
    node = conversation.add(Node("user", text))
    keeper.put(conversation)
    keeper.put_node(conversation.id, node)
    return conversation, node


def titles(keeper: Keeper) -> list[str]:
    return [one.title for one in keeper.summaries().result(SECONDS)]


def test_what_was_given_before_is_in_what_is_asked_for(keeper: Keeper) -> None:
    conversation, node = talk(keeper)
    assert keeper.read(conversation.id).result(SECONDS) == conversation
    assert titles(keeper) == ["title"]
    assert [one.id for one in keeper.search("hi").result(SECONDS)] == [conversation.id]
    keeper.delete(conversation.id)
    assert titles(keeper) == []
    with pytest.raises(ConversationGone):
        keeper.read(conversation.id).result(SECONDS)
    keeper.restore(conversation.id)
    keeper.progress(node.id, "Hi there", [(8, Method.PLAIN)])
    assert keeper.read(conversation.id).result(SECONDS).path()[0].text == "Hi there"


def test_what_changes_after_it_was_given_is_written_as_it_was(keeper: Keeper, gate: Gate) -> None:
    gate.shut(keeper)
    conversation, node = talk(keeper)
    origins = [(2, Method.DRAFT)]
    keeper.progress(node.id, "Hi!", origins)
    conversation.title, conversation.pinned, node.text = "changed", True, "changed"
    origins.append((9, Method.PLAIN))
    gate.open()
    read = keeper.read(conversation.id).result(SECONDS)
    assert (read.title, read.pinned) == ("title", False)
    assert (read.path()[0].text, read.path()[0].origins) == ("Hi!", ((2, Method.DRAFT),))


def test_of_an_answer_that_grows_only_the_newest_text_is_written(
    keeper: Keeper, gate: Gate, written: list[tuple[str, str]]
) -> None:
    gate.shut(keeper)
    _, node = talk(keeper)
    futures = [keeper.progress(node.id, "x" * n, []) for n in range(1, 50)]
    other = keeper.progress("another", "y", [])
    gate.open()
    for future in (*futures, other):
        assert future.result(SECONDS) is None
    assert written == [("put", "title"), ("put_node", "Hi"), ("progress", "x" * 49), ("progress", "y")]


def test_the_finished_answer_takes_the_place_of_what_it_grew_from(
    keeper: Keeper, gate: Gate, written: list[tuple[str, str]]
) -> None:
    gate.shut(keeper)
    conversation, node = talk(keeper)
    progress = keeper.progress(node.id, "H", [])
    node.text = "Hello"
    keeper.put_node(conversation.id, node)
    conversation.title = "renamed"
    keeper.put(conversation)
    gate.open()
    assert progress.result(SECONDS) is None
    assert keeper.read(conversation.id).result(SECONDS) == conversation
    assert written == [("put", "renamed"), ("put_node", "Hello")]


def test_deleting_and_taking_it_back_leaves_what_came_last(keeper: Keeper, gate: Gate) -> None:
    a, _ = talk(keeper, "a")
    b, _ = talk(keeper, "b")
    gate.shut(keeper)
    for conversation, steps in (
        (a, (keeper.delete, keeper.restore)),
        (b, (keeper.delete, keeper.restore, keeper.delete)),
    ):
        for step in steps:
            step(conversation.id)
    gate.open()
    assert titles(keeper) == ["a"]


def test_an_older_search_that_has_not_begun_is_cancelled(
    keeper: Keeper, gate: Gate, written: list[tuple[str, str]]
) -> None:
    gate.shut(keeper)
    searches = [keeper.search("title"[:n]) for n in range(1, 6)]
    gate.open()
    assert searches[-1].result(SECONDS) == []
    assert [search.cancelled() for search in searches] == [True] * 4 + [False]
    assert written == [("search", "title")]


def test_what_nobody_waits_for_any_more_is_not_looked_up(
    keeper: Keeper, gate: Gate, written: list[tuple[str, str]]
) -> None:
    gate.shut(keeper)
    assert keeper.search("title").cancel()
    assert keeper.put(Conversation(title="written all the same")).cancel()
    gate.open()
    titles(keeper)
    assert written == [("put", "written all the same")]


def test_closing_writes_everything_and_is_harmless_twice(path: Path, failures: list[UserError], gate: Gate) -> None:
    keeper = Keeper(path, failures.append)
    gate.shut(keeper)
    conversation, _ = talk(keeper)
    for number in range(200):
        last = keeper.put_node(conversation.id, Node("user", f"{number}"))
    asked, searched = keeper.read(conversation.id), keeper.search("Hi")
    assert not keeper.close(0.0)  # it stands at the gate
    gate.open()
    assert keeper.close(SECONDS)
    assert keeper.close(SECONDS)
    assert last.result(0) is None
    for future in (asked, searched):
        with pytest.raises(CancelledError):
            future.result(0)
    for late in (keeper.put(conversation), keeper.summaries(), keeper.search("x"), keeper.delete(conversation.id)):
        with pytest.raises(StoreFailed, match="closed"):
            late.result(0)
    with closing(Store(path)) as store:
        assert len(store.read(conversation.id).nodes) == 201
    assert failures == []
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_it_can_be_closed_by_who_hears_of_a_failure_and_lives_on_when_that_fails(path: Path) -> None:
    path.write_bytes(b"no database" * 99)
    held: list[Keeper] = []
    ready, heard = threading.Event(), threading.Event()

    def failed(error: UserError) -> None:
        assert ready.wait(SECONDS)
        held[0].close()
        heard.set()
        raise RuntimeError("the screen is gone")

    keeper = Keeper(path, failed)
    held.append(keeper)
    answer = keeper.put(Conversation())
    ready.set()
    assert heard.wait(SECONDS)
    with pytest.raises(StoreBroken):
        answer.result(SECONDS)
    assert keeper.close(SECONDS)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[UserError]]:
    """What the disk says to a message that is written; nothing while it is empty."""
    errors: list[UserError] = []
    put_node = Store.put_node

    def write(store: Store, conversation_id: str, node: Node) -> None:
        if errors:
            raise errors[0]
        put_node(store, conversation_id, node)

    monkeypatch.setattr(Store, "put_node", write)
    yield errors
    errors.clear()


def test_what_could_not_be_written_is_told_once_and_written_with_the_next(
    keeper: Keeper, failures: list[UserError], disk: list[UserError]
) -> None:
    full = StoreFailed("The disk is full.", "Free some space.")
    disk.append(full)
    conversation = Conversation(title="title")
    keeper.put(conversation)
    nodes = [conversation.add(Node("user", str(number), parent=conversation.leaf)) for number in range(5)]
    for node in nodes:
        with pytest.raises(StoreFailed, match="full"):
            keeper.put_node(conversation.id, node).result(SECONDS)
    assert failures == [full]
    nodes[0].text = "changed"
    with pytest.raises(StoreFailed):
        keeper.put_node(conversation.id, nodes[0]).result(SECONDS)
    disk[:] = [StoreFailed("Another program holds it.")]
    with pytest.raises(StoreFailed):
        keeper.put_node(conversation.id, nodes[1]).result(SECONDS)
    assert [error.what for error in failures] == ["The disk is full.", "Another program holds it."]
    disk.clear()
    assert keeper.put(conversation).result(SECONDS) is None
    assert keeper.read(conversation.id).result(SECONDS).nodes == {node.id: node for node in nodes}
    disk.append(full)
    with pytest.raises(StoreFailed):
        keeper.put_node(conversation.id, nodes[0]).result(SECONDS)
    assert len(failures) == 3  # as it had worked in between


def test_what_could_not_be_written_is_tried_again_at_the_end(path: Path, disk: list[UserError]) -> None:
    told: list[UserError] = []
    keeper = Keeper(path, told.append)
    disk.append(StoreFailed("The disk is full."))
    conversation, _ = talk(keeper)
    assert keeper.summaries().result(SECONDS) == []
    disk.clear()
    assert keeper.close(SECONDS)
    with closing(Store(path)) as store:
        assert store.read(conversation.id) == conversation


def test_what_waits_for_the_disk_is_bounded(
    keeper: Keeper, disk: list[UserError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "_MOST_UNSAVED", 3)
    disk.append(StoreFailed("The disk is full."))
    conversation, _ = talk(keeper)
    nodes = [Node("user", str(number)) for number in range(8)]
    for node in nodes:
        keeper.put_node(conversation.id, node)
    keeper.summaries().result(SECONDS)
    disk.clear()
    keeper.put(conversation)
    assert [node.text for node in keeper.read(conversation.id).result(SECONDS).nodes.values()] == ["5", "6", "7"]


def test_a_mistake_of_ours_costs_what_it_is_about_and_nothing_else(
    keeper: Keeper, failures: list[UserError], gate: Gate
) -> None:
    gate.shut(keeper)
    conversation, node = talk(keeper)
    wrong = keeper.put_node(conversation.id, Node("user", 7))  # type: ignore[arg-type]
    after = keeper.put_node(conversation.id, Node("user", "after", parent=node.id))
    gate.open()
    with pytest.raises(AttributeError):
        wrong.result(SECONDS)
    assert after.result(SECONDS) is None
    assert [one.text for one in keeper.read(conversation.id).result(SECONDS).path()] == ["Hi", "after"]
    assert failures == []


def test_a_file_of_a_newer_version_is_told_once_and_nothing_is_written(path: Path, failures: list[UserError]) -> None:
    with closing(Store(path)):
        pass
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 9")
    before = path.read_bytes()
    with closing(Keeper(path, failures.append)) as keeper:
        for future in (keeper.summaries(), keeper.put(Conversation()), keeper.search("x"), keeper.read("x")):
            with pytest.raises(StoreTooNew, match="version 9"):
                future.result(SECONDS)
    assert [type(error) for error in failures] == [StoreTooNew]
    assert path.read_bytes() == before


def test_a_broken_file_is_told_once(path: Path, failures: list[UserError]) -> None:
    path.write_bytes(b"no database" * 99)
    with closing(Keeper(path, failures.append)) as keeper, pytest.raises(StoreBroken):
        keeper.summaries().result(SECONDS)
    assert [type(error) for error in failures] == [StoreBroken]
    assert path.read_bytes() == b"no database" * 99


def test_a_file_that_could_not_be_opened_is_opened_when_it_can_be(tmp_path: Path, failures: list[UserError]) -> None:
    path = tmp_path / "folder" / "conversations.db"
    path.parent.touch()
    with closing(Keeper(path, failures.append)) as keeper:
        conversation, _ = talk(keeper)
        with pytest.raises(StoreFailed):
            keeper.summaries().result(SECONDS)
        assert [type(error) for error in failures] == [StoreFailed]
        path.parent.unlink()
        assert titles(keeper) == []
        conversation.pinned = True
        keeper.put(conversation)
        assert keeper.read(conversation.id).result(SECONDS) == conversation
    assert len(failures) == 1


def test_what_was_deleted_a_day_ago_goes_for_good(
    path: Path, failures: list[UserError], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Keeper(path, failures.append)) as keeper:
        old, _ = talk(keeper, "old", "ukulele")
        new, _ = talk(keeper, "new", "banjo")
        talk(keeper, "kept", "lute")
        keeper.delete(old.id)
        keeper.delete(new.id)
    with closing(sqlite3.connect(path)) as db:
        for id_, age in ((old.id, KEPT_DELETED + 60), (new.id, KEPT_DELETED - 60)):
            db.execute("UPDATE conversation SET deleted = ? WHERE id = ?", (time() - age, id_))
        db.commit()
    tidied, tidy = threading.Event(), Store.tidy

    def watched(store: Store) -> bool:
        if not (more := tidy(store)):
            tidied.set()
        return more

    monkeypatch.setattr(Store, "tidy", watched)
    with closing(Keeper(path, failures.append)) as keeper:
        assert titles(keeper) == ["kept"]
        assert tidied.wait(SECONDS)  # while nobody asks for anything
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT title FROM conversation ORDER BY title").fetchall() == [("kept",), ("new",)]
    assert b"ukulele" not in path.read_bytes()
    assert b"banjo" in path.read_bytes()


def test_two_processes_share_a_file(path: Path, failures: list[UserError]) -> None:
    with closing(Keeper(path, failures.append)) as one, closing(Keeper(path, failures.append)) as other:
        pairs = [(talk(one, f"one {n}"), talk(other, f"other {n}")) for n in range(30)]
        one.summaries().result(SECONDS)
        assert len(titles(other)) == 60
        (conversation, node), _ = pairs[0]
        other.put_node(conversation.id, Node("assistant", "from the other", parent=node.id))
        other.summaries().result(SECONDS)
        assert [node.text for node in one.read(conversation.id).result(SECONDS).path()] == ["Hi", "from the other"]
    assert failures == []
