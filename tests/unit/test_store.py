from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pardec_chat.app.conversations import columns, schema, search
from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node
from pardec_chat.app.conversations.record import AnswerRecord, StepRecord
from pardec_chat.app.conversations.schema import ConversationGone, StoreBroken, StoreFailed, StoreTooNew
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.conversations.store import Store
from pardec_chat.app.locations import conversations as conversations_file  # before a fixture replaces it
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams

RECORD = AnswerRecord(
    model="Qwen",
    draft=None,
    runtime="llamacpp",
    method=Method.AUTO,
    depth=3,
    using=Method.NGRAM,
    state="active",
    reason="it pays",
    temperature=0.8,
    predicted_n=20,
    predicted_ms=400.0,
    steps=7,
    draft_n=15,
    draft_n_accepted=13,
    accepted_per_position=(0.9, 0.8),
    prompt_n=40,
    cache_n=0,
    prompt_ms=300.0,
    ttft_ms=310.0,
    total_ms=710.0,
    plain_per_second=None,
    context_used=60,
    context_size=8192,
    finish_reason="stop",
)
STEP = StepRecord(4, (" the", "\x1b[2J"), 1, " end", Method.DRAFT, 2, 3.125, 31.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.close()


def saved(store: Store, conversation: Conversation) -> Conversation:
    """Writes all of it."""
    store.put(conversation)
    for node in conversation.nodes.values():
        store.put_node(conversation.id, node)
    return conversation


def talk(title: str, *texts: str, updated: float | None = None, pinned: bool = False) -> Conversation:
    """A conversation of questions and answers in turn."""
    conversation = Conversation(title=title, pinned=pinned)
    for number, text in enumerate(texts):
        conversation.add(Node("assistant" if number % 2 else "user", text, parent=conversation.leaf))
    if updated is not None:
        conversation.updated = updated
        for node in conversation.nodes.values():
            node.created = updated
    return conversation


def titles(store: Store) -> list[str]:
    return [summary.title for summary in store.summaries()]


def all_bytes(path: Path) -> bytes:
    return b"".join(one.read_bytes() for one in path.parent.iterdir())


# ---- what is written is read ----


def test_all_of_a_conversation_comes_back_with_its_branches(store: Store) -> None:
    written = Conversation(
        title="日本語 “title”",
        title_by="user",
        pinned=True,
        setup=Setup(Path("/models/a.gguf"), None, Method.DRAFT, 3, SamplingParams(temperature=0.2), 100, "Be brief."),
        unsent="half a thou",
    )
    first = written.add(
        Node("user", "Hi", attachments=(Attachment("a.py", "x = 1\n", 5), Attachment("b\x1b.txt", "β")))
    )
    answer = written.add(Node("assistant", "Hello\0 there", parent=first.id, record=RECORD, steps=(STEP, STEP)))
    answer.origins = ((2, Method.PLAIN), (0, Method.DRAFT), (9, Method.NGRAM), (70_000, Method.PLAIN))
    written.add(Node("assistant", "", parent=first.id, state="failed", error="The disk [full]"))
    written.add(Node("user", "Hi again", state="whole"))
    written.show(answer.id)
    saved(store, written)
    read = store.read(written.id)
    assert read == written
    assert [node.text for node in read.path()] == ["Hi", "Hello\0 there"]
    assert read.nodes[answer.id].steps == (STEP, STEP)
    assert read.nodes[answer.id].origins == answer.origins
    saved(store, read)
    assert store.read(written.id) == written


def test_read_messages_can_be_changed_and_copied_as_others(store: Store) -> None:
    conversation = saved(store, talk("", "Hi", "Hello"))
    node = store.read(conversation.id).path()[1]
    assert replace(node, text="Hm") == replace(conversation.path()[1], text="Hm")
    assert node != replace(node, origins=((1, Method.PLAIN),))
    node.origins, node.steps = ((5, Method.DRAFT),), (STEP,)
    store.put_node(conversation.id, node)
    again = store.read(conversation.id).path()[1]
    assert (again.origins, again.steps) == (((5, Method.DRAFT),), (STEP,))


def test_the_list_has_pinned_ones_first_then_the_newest(store: Store) -> None:
    for title, updated, pinned in (("old", 10, False), ("new", 30, False), ("kept", 5, True), ("kept newer", 20, True)):
        saved(store, talk(title, "Hi", updated=updated, pinned=pinned))
    assert titles(store) == ["kept newer", "kept", "new", "old"]
    assert [(one.updated, one.pinned, one.n_messages, one.snippet) for one in store.summaries()][:2] == [
        (20, True, 1, ""),
        (5, True, 1, ""),
    ]


def test_the_list_leaves_out_what_has_no_message(store: Store) -> None:
    store.put(Conversation(title="nothing said", unsent="half a thou"))
    assert store.summaries() == [] == store.search("nothing")


def test_a_new_message_makes_its_conversation_the_newest_and_is_shown(store: Store) -> None:
    conversation = saved(store, talk("one", "Hi", updated=10))
    saved(store, talk("two", "Hi", updated=20))
    answer = Node("assistant", "Hello", parent=conversation.leaf, created=30)
    store.put_node(conversation.id, answer)  # and the program is killed before the conversation itself is written
    assert titles(store) == ["one", "two"]
    assert [node.text for node in store.read(conversation.id).path()] == ["Hi", "Hello"]
    other = Node("assistant", "Hey", parent=conversation.leaf, created=5)
    store.put_node(conversation.id, other)
    read = store.read(conversation.id)
    assert read.leaf == answer.id
    assert [node.text for node in read.siblings(other.id)] == ["Hello", "Hey"]
    assert (read.updated, store.summaries()[0].n_messages) == (30, 3)


def test_a_message_comes_back_even_where_its_conversation_was_never_written(store: Store) -> None:
    node = Node("user", "Hi", created=float("nan"))
    store.put_node("0123", node)
    read = store.read("0123")
    assert ([one.text for one in read.path()], read.created) == (["Hi"], 0.0)


def test_the_newest_message_is_shown_where_the_one_that_was_to_be_is_missing(store: Store) -> None:
    conversation = talk("", "Hi", "Hello")
    store.put(conversation)
    store.put_node(conversation.id, conversation.path()[0])  # killed before the answer came
    assert [node.text for node in store.read(conversation.id).path()] == ["Hi"]


def test_an_answer_that_is_being_written_grows_on_disk_and_stays_so(path: Path, store: Store) -> None:
    conversation = saved(store, talk("", "Hi"))
    answer = conversation.add(Node("assistant", "", parent=conversation.leaf, state="writing"))
    store.put_node(conversation.id, answer)
    for text in ("Hel", "Hello"):
        store.progress(answer.id, text, [(len(text), Method.DRAFT)])
    store.progress("of nobody", "x", [])
    with closing(Store(path)) as another:
        read = another.read(conversation.id).nodes[answer.id]
        assert (read.text, read.state, read.origins) == ("Hello", "writing", ((5, Method.DRAFT),))
    assert [one.n_messages for one in store.summaries()] == [2]
    store.put_node(conversation.id, replace(answer, text="Hello!", state="stopped"))
    assert store.read(conversation.id).nodes[answer.id].state == "stopped"


def test_twenty_thousand_origins_take_little_room() -> None:
    origins = tuple(
        (number * 7 % 9, (Method.PLAIN, Method.DRAFT, Method.NGRAM)[number * 13 % 3]) for number in range(20_000)
    )
    packed = columns.pack_origins(origins)
    assert packed is not None
    assert len(packed) < 100_000
    assert columns.unpack_origins(packed) == origins
    assert columns.pack_origins(()) is None
    assert columns.unpack_origins(columns.pack_origins([(-3, Method.PLAIN), (2**40, Method.PLAIN)])) == (
        (0, Method.PLAIN),
        (2**32 - 1, Method.PLAIN),
    )


def test_halves_of_surrogate_pairs_never_keep_a_message_from_being_saved(store: Store) -> None:
    conversation = talk("a \ud800 title", "pair \ud83d\ude00, half \udcff.")
    conversation.unsent = "\ud800"
    conversation.path()[0].attachments = (Attachment("\udc80.txt", "\udc80"),)
    conversation.path()[0].error = "\ud800"
    saved(store, conversation)
    store.progress(conversation.path()[0].id, "pair \ud83d\ude00, half \udcff!", [])
    read = store.read(conversation.id)
    assert (read.title, read.unsent) == ("a � title", "�")
    assert read.path()[0].text == "pair 😀, half �!"
    assert read.path()[0].attachments == (Attachment("�.txt", "�"),)


def test_X05_control_bytes_stay_in_the_file_and_come_to_no_list(store: Store) -> None:
    evil = "\x1b]52;c;eA==\x07 wipe \x1b[2J \x9b31m \u202e flipped\r\nnext"
    conversation = saved(store, talk(evil, evil))
    read = store.read(conversation.id)
    assert (read.title, read.path()[0].text) == (evil, evil)
    for summary in (*store.summaries(), *store.search("wipe")):
        assert summary.title == "␛]52;c;eA==␇ wipe ␛[2J �31m � flipped next"
        assert all(character.isprintable() for character in summary.title + summary.snippet)
    assert "wipe ␛[2J" in store.search("wipe")[0].snippet


def test_U06_a_conversation_whose_models_are_gone_is_read(store: Store, tmp_path: Path) -> None:
    conversation = talk("", "Hi")
    conversation.setup = Setup(tmp_path / "gone.gguf", tmp_path / "gone too.gguf")
    saved(store, conversation)
    assert store.read(conversation.id).setup.model == tmp_path / "gone.gguf"


# ---- deleting ----


def test_what_is_deleted_is_nowhere_until_it_is_restored(store: Store) -> None:
    conversation = saved(store, talk("secret", "Hi"))
    store.delete(conversation.id)
    store.delete(conversation.id)
    assert store.summaries() == [] == store.search("secret") == store.search("hi") == store.search("*")
    with pytest.raises(ConversationGone, match="not there"):
        store.read(conversation.id)
    store.put(conversation)  # what was on its way changes nothing about it
    store.put_node(conversation.id, Node("assistant", "Hello", parent=conversation.leaf))
    assert store.summaries() == []
    store.restore(conversation.id)
    assert titles(store) == ["secret"]
    assert [one.title for one in store.search("hello")] == ["secret"]


def test_purging_leaves_no_byte_of_what_was_deleted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    others = [saved(store, talk(f"other {number}", "apple " * 40, "pear " * 400)) for number in range(40)]
    texts = ("xylophon " * 30, "ukulele " * 3000)
    times = iter((100.0, 200.0))
    monkeypatch.setattr("pardec_chat.app.conversations.store.time", lambda: next(times))
    old, young = saved(store, talk("balalaika", *texts)), saved(store, talk("theremin", "Hi"))
    store.delete(old.id)
    store.delete(young.id)
    pieces = 1
    while store.purge(150.0):
        pieces += 1
        assert pieces < 1000
    store.close()
    left = all_bytes(path)
    assert not [word for word in (b"xylophon", b"ukulele", b"balalaika") if word in left]
    assert b"theremin" in left
    with closing(Store(path)) as store:
        store.restore(young.id)
        store.restore(old.id)
        assert len(store.summaries()) == len(others) + 1
        assert len(store.search("pear")) == len(others)
        assert not store.purge(1e12)


def test_a_purge_that_is_broken_off_is_done_by_the_next(path: Path) -> None:
    store = Store(path)
    saved(store, talk("kept", "apple"))
    gone = saved(store, talk("gone", "ukulele " * 3000))
    store.delete(gone.id)
    assert store.purge(1e12)
    store.close()
    with closing(Store(path)) as store:
        while store.purge(1e12):
            pass
        assert not store.tidy()
    assert b"ukulele" not in all_bytes(path)


# ---- the file itself ----


def test_the_file_is_the_users_alone(path: Path, store: Store) -> None:
    saved(store, talk("", "Hi"))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()} == {0o600}


def test_the_file_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARDEC_CHAT_DATA", str(tmp_path))
    assert conversations_file() == tmp_path / "conversations.db"
    monkeypatch.delenv("PARDEC_CHAT_DATA")
    assert conversations_file().parent.name == "pardec-chat"


def test_closing_leaves_one_file_and_is_harmless_twice(path: Path) -> None:
    store = Store(path)
    saved(store, talk("", "Hi"))
    store.close()
    store.close()
    assert [one.name for one in path.parent.iterdir()] == ["conversations.db"]


def test_two_processes_see_what_the_other_writes(path: Path, store: Store) -> None:
    with closing(Store(path)) as another:
        conversation = saved(store, talk("one", "Hi"))
        assert titles(another) == ["one"]
        saved(another, talk("two", "Hi"))
        another.put(replace(conversation, title="renamed"))
        assert sorted(titles(store)) == ["renamed", "two"]
        assert [one.title for one in store.search("renamed")] == ["renamed"]


def test_what_is_written_together_is_written_whole_or_not_at_all(store: Store) -> None:
    with pytest.raises(KeyError), store.together():
        saved(store, talk("one", "Hi"))
        raise KeyError
    assert store.summaries() == []
    with store.together():
        saved(store, talk("two", "Hi"))
    assert titles(store) == ["two"]


def test_a_file_of_a_newer_version_is_left_as_it_is(path: Path) -> None:
    with closing(Store(path)) as store:
        saved(store, talk("", "Hi"))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 7")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew) as raised:
        Store(path)
    assert "version 7" in raised.value.what
    assert "up to 1" in raised.value.what
    assert str(path) in raised.value.what
    assert "Update" in raised.value.next_step
    assert path.read_bytes() == before


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE cookies(name)")


def cut_off(path: Path) -> None:
    with closing(Store(path)) as store:
        saved(store, talk("", *["Hi " * 500] * 40))
    path.write_bytes(path.read_bytes()[:9000])


def with_a_hole(path: Path) -> None:
    with closing(Store(path)) as store:
        saved(store, talk("", *["Hi " * 500] * 40))
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xa5" * 3996
    path.write_bytes(content)


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"# Notes\n" * 999), foreign, cut_off, with_a_hole])
def test_a_file_that_is_damaged_or_of_another_program_is_left_as_it_is(
    path: Path, spoil: Callable[[Path], object]
) -> None:
    path.parent.mkdir()
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StoreBroken) as raised, closing(Store(path)) as store:
        store.summaries()
    assert str(path) in raised.value.what
    assert "Move it away" in raised.value.next_step
    assert path.read_bytes() == before


def test_an_empty_file_becomes_ours(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with closing(Store(path)) as store:
        saved(store, talk("one", "Hi"))
    with closing(Store(path)) as store:
        assert titles(store) == ["one"]


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "conversations.db", tmp_path):
        with pytest.raises(StoreFailed) as raised:
            Store(path)
        assert str(path) in raised.value.what
        assert "PARDEC_CHAT_DATA" in raised.value.next_step


def test_a_full_disk_loses_nothing_that_is_written(store: Store) -> None:
    saved(store, talk("one", "Hi"))
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    large = talk("two", "much " * 20_000)
    store.put(large)
    with pytest.raises(StoreFailed, match="The disk is full"):
        store.put_node(large.id, large.path()[0])
    assert titles(store) == ["one"]
    store._db.execute("PRAGMA max_page_count = 100000")
    store.put_node(large.id, large.path()[0])
    assert store.read(large.id) == large
    assert [one.title for one in store.search("much")] == ["two"]


def test_a_file_that_cannot_be_written_is_still_read(store: Store) -> None:
    conversation = saved(store, talk("one", "Hi"))
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreFailed, match="cannot be used: attempt to write a readonly database"):
        store.put(conversation)
    assert titles(store) == ["one"]
    assert store.read(conversation.id) == conversation


def test_a_file_that_another_program_holds_is_said(path: Path, store: Store) -> None:
    store._db.execute("PRAGMA busy_timeout = 0")
    with closing(sqlite3.connect(path)) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="Another program holds"):
            store.put(Conversation())
        assert store.summaries() == []


# ---- what others made of the file ----


def test_a_damaged_row_costs_what_is_damaged_in_it(store: Store) -> None:
    conversation = talk("one", "Hi", "Hello")
    answer = conversation.path()[1]
    answer.record, answer.origins, answer.steps = RECORD, ((5, Method.PLAIN),), (STEP,)
    saved(store, conversation)
    execute = store._db.execute
    execute("UPDATE conversation SET setup = '{\"top', title_by = 'nobody', created = 'today'")
    execute("UPDATE node SET record = '[1]', origins = x'00ff', steps = '[[1, 2]]', state = 'odd', attachments = '[7]'")
    execute("UPDATE node SET text = CAST(x'48ff69' AS TEXT) WHERE role = 'assistant'")
    read = store.read(conversation.id)
    assert (read.setup, read.title_by, read.created) == (Setup(), "user", 0.0)
    node = read.path()[1]
    assert (node.text, node.state, node.record, node.origins, node.steps) == ("H�i", "whole", None, (), ())
    for record, origins, steps in (("{", "text", "{}"), ('{"model": 1}', b"", "[" * 100_000), ("null", 7, "null")):
        execute("UPDATE node SET record = ?, origins = ?, steps = ?", (record, origins, steps))
        node = store.read(conversation.id).path()[1]
        assert (node.record, node.origins, node.steps) == (None, (), ())


def test_messages_that_hang_together_wrongly_are_all_read(store: Store) -> None:
    conversation = saved(store, talk("", "a", "b", "c", "d"))
    a, b, c, d = conversation.path()
    for parent, id_ in ((d.id, a.id), (a.id, b.id), ("gone", c.id), (c.id, d.id)):
        store._db.execute("UPDATE node SET parent = ? WHERE id = ?", (parent, id_))
    read = store.read(conversation.id)
    assert sorted(node.text for node in read.nodes.values()) == ["a", "b", "c", "d"]
    assert [node.text for node in read.path()] == ["c", "d"]
    store._db.execute("UPDATE node SET parent = ? WHERE id = ?", (d.id, c.id))
    read = store.read(conversation.id)
    assert [node.text for node in read.path()][-1] == "d"
    seen: set[str | None] = {None}
    for node in read.nodes.values():
        assert node.parent in seen
        seen.add(node.id)
    assert len(seen) == 5


def test_a_parent_that_was_written_after_its_child_comes_before_it(store: Store) -> None:
    conversation = talk("", "a", "b", "c")
    store.put(conversation)
    for node in reversed(conversation.path()):
        store.put_node(conversation.id, node)
    assert [node.text for node in store.read(conversation.id).path()] == ["a", "b", "c"]
    assert [node.text for node in store.read(conversation.id).nodes.values()] == ["a", "b", "c"]


def test_what_no_index_could_take_is_indexed_later(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setattr(search, "_PROBE", "CREATE VIRTUAL TABLE temp.probe USING fts99(text)")
        store = Store(path)
        saved(store, talk("Äpfel [and] pears", "banana"))
        gone = saved(store, talk("gone", "cherry"))
        assert [one.title for one in store.search("apfel")] == ["Äpfel [and] pears"]
        assert [one.title for one in store.search("[")] == ["Äpfel [and] pears"]
        assert store.search("banana") == []
        store.delete(gone.id)
        assert not store.purge(1e12)
        assert not store.tidy()
        store.close()
    with closing(Store(path)) as store:
        assert store.search("banana") == []
        while store.tidy():
            pass
        assert [one.snippet for one in store.search("banana")] == ["banana"]
        assert [one.title for one in store.search("pears")] == ["Äpfel [and] pears"]


# ---- versions ----

#: The file as version 1 made it. It is never to be changed: files like it are on users' disks.
VERSION_1 = """
CREATE TABLE conversation (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL DEFAULT '',
    title_by TEXT NOT NULL DEFAULT 'words', pinned INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, updated REAL NOT NULL,
    leaf TEXT, deleted REAL, n_nodes INTEGER NOT NULL DEFAULT 0, indexed INTEGER NOT NULL DEFAULT 0,
    setup TEXT NOT NULL DEFAULT '{}', unsent TEXT NOT NULL DEFAULT '');
CREATE TABLE node (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversation(number) ON DELETE CASCADE, parent TEXT, role TEXT NOT NULL,
    created REAL NOT NULL, state TEXT NOT NULL, indexed INTEGER NOT NULL DEFAULT 0, error TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL DEFAULT '', attachments TEXT, record TEXT, origins BLOB, steps TEXT);
CREATE INDEX node_conversation ON node(conversation);
CREATE INDEX conversation_unindexed ON conversation(number) WHERE NOT indexed;
CREATE INDEX node_unindexed ON node(number) WHERE NOT indexed;
INSERT INTO conversation VALUES(1, 'c1', 'Merging lists', 'model', 1, 1000.5, 1002.5, 'n2', NULL, 2, 0,
    '{"method": "draft", "model": "/m/a.gguf", "depth": 3, "temperature": 0.5}', 'and then');
INSERT INTO node VALUES(1048577, 'n1', 1, NULL, 'user', 1001.5, 'whole', 0, '', 'Merge them.',
    '[["a.py", "x = 1", 5]]', NULL, NULL, NULL);
INSERT INTO node VALUES(1048578, 'n2', 1, 'n1', 'assistant', 1002.5, 'length', 0, '', 'def merge', NULL, NULL,
    x'78014b294a4c2b5128c849cccce3626060646660608061005ee8045a',
    '[[1, ["def", " me"], 2, "rge", "draft", 3, 1.5, 30.25]]');
PRAGMA application_id = 1885434468;
PRAGMA user_version = 1;
"""


def test_a_file_of_version_1_is_read(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_1)
    with closing(Store(path)) as store:
        read = store.read("c1")
        assert (read.title, read.title_by, read.pinned, read.unsent) == ("Merging lists", "model", True, "and then")
        assert read.setup == Setup(Path("/m/a.gguf"), None, Method.DRAFT, 3, SamplingParams(temperature=0.5))
        question, answer = read.path()
        assert question.attachments == (Attachment("a.py", "x = 1", 5),)
        assert (answer.text, answer.state) == ("def merge", "length")
        assert answer.steps == (StepRecord(1, ("def", " me"), 2, "rge", Method.DRAFT, 3, 1.5, 30.25),)
        assert answer.origins == ((3, Method.DRAFT), (3, Method.DRAFT), (3, Method.PLAIN))
        while store.tidy():
            pass
        assert [one.title for one in store.search("def mer")] == ["Merging lists"]


def test_steps_lead_from_any_version_to_the_newest_and_change_all_or_nothing(path: Path) -> None:
    with closing(Store(path)) as store:
        saved(store, talk("one", "Hi"))
    steps = [
        *schema.STEPS,
        ["ALTER TABLE conversation ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"],
        ["CREATE TABLE t(x)"],
    ]
    broken = [*steps[:2], ["CREATE TABLE half(x)", "INSERT INTO nowhere VALUES (1)"]]
    with pytest.raises(StoreFailed, match="no such table: nowhere"):
        schema.open_file(path, broken)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)
    with closing(schema.open_file(path, steps)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
        assert db.execute("SELECT title, colour FROM conversation").fetchall() == [("one", "red")]
    with closing(schema.open_file(path, steps)) as db:  # nothing is left to do
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)
    with pytest.raises(StoreTooNew, match="version 3"):
        Store(path)
    with closing(schema.open_file(path.with_name("new.db"), steps)) as db:
        assert db.execute("SELECT name FROM pragma_table_info('conversation') WHERE name = 'colour'").fetchall()


def test_a_title_of_the_users_is_found_and_a_pin_keeps_it_on_top(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    for title in ("older", "newer"):
        conversation = Conversation(title=title, updated=1.0 if title == "older" else 2.0)
        node = conversation.add(Node("user", "words", created=conversation.updated))
        conversation.updated = node.created
        store.put(conversation)
        store.put_node(conversation.id, node)
    newer, older = store.summaries()
    assert (newer.title, older.title) == ("newer", "older")
    store.rename(older.id, "Tides \ud800[/]")
    store.pin(older.id, True)
    first, _ = store.summaries()
    assert (first.id, first.title, first.pinned) == (older.id, "Tides \ufffd[/]", True)
    assert [found.id for found in store.search("tid")] == [older.id]
    assert store.search("older") == []
    assert store.read(older.id).title_by == "user"
    store.pin(older.id, False)
    assert store.summaries()[0].id == newer.id
    store.rename("gone", "nothing happens")
    store.close()
