"""The file of conversations: how it is opened, brought up to date, and what can be wrong with it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.errors import UserError

#: "pard" in the header of the file, by which a database of another program is told.
APPLICATION = 0x70617264
#: Seconds that another process of this program may hold the file.
_PATIENCE = 5.0

#: A message's number is its conversation's number in front of its own, so that those of one conversation lie together in
#: the file, and both can be told from a row of the search index. The last number stands there for the title.
NODE_BITS = 20
LAST_NODE = (1 << NODE_BITS) - 1

_FIRST = (
    # AUTOINCREMENT: a number is never given twice.
    """CREATE TABLE conversation (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL DEFAULT '',
        title_by TEXT NOT NULL DEFAULT 'words',
        pinned INTEGER NOT NULL DEFAULT 0,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        leaf TEXT,
        deleted REAL,
        n_nodes INTEGER NOT NULL DEFAULT 0,
        indexed INTEGER NOT NULL DEFAULT 0,
        setup TEXT NOT NULL DEFAULT '{}',
        unsent TEXT NOT NULL DEFAULT ''
    )""",
    """CREATE TABLE node (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        conversation INTEGER NOT NULL REFERENCES conversation(number) ON DELETE CASCADE,
        parent TEXT,
        role TEXT NOT NULL,
        created REAL NOT NULL,
        state TEXT NOT NULL,
        indexed INTEGER NOT NULL DEFAULT 0,
        error TEXT NOT NULL DEFAULT '',
        text TEXT NOT NULL DEFAULT '',
        attachments TEXT,
        record TEXT,
        origins BLOB,
        steps TEXT
    )""",
    "CREATE INDEX node_conversation ON node(conversation)",
    # What the search does not know yet: small, as it is nearly always empty.
    "CREATE INDEX conversation_unindexed ON conversation(number) WHERE NOT indexed",
    "CREATE INDEX node_unindexed ON node(number) WHERE NOT indexed",
    f"PRAGMA application_id = {APPLICATION}",
)

#: What leads from each version to the next, the empty file being version 0: add to the end, change nothing before it.
STEPS: tuple[Sequence[str], ...] = (_FIRST,)


class StoreTooNew(UserError):
    """The file was written by a newer version of this program; it is left as it is."""


class StoreBroken(UserError):
    """The file is damaged, or holds something else; it is left as it is."""


class StoreFailed(UserError):
    """The file cannot be read or written at the moment: the disk is full, rights are missing, another program holds it."""


class ConversationGone(UserError):
    """There is no such conversation, or it was deleted."""


def open_file(path: Path, steps: Sequence[Sequence[str]] = STEPS) -> sqlite3.Connection:
    """The file at its newest version, made with its folder where there is none; for use on this thread alone.

    Raises StoreTooNew, StoreBroken or StoreFailed; the file is as it was then.
    """
    with told(path):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        with told(path):
            _prepare(db, path, steps)
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Raises what goes wrong inside with the file as StoreBroken or StoreFailed."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a mistake of ours
    except (sqlite3.Error, OSError) as error:
        raise _explained(path, error) from error


@contextmanager
def transaction(db: sqlite3.Connection, *, write: bool = True) -> Iterator[None]:
    """All that is done inside, or none of it; inside another one a part of that."""
    inside = db.in_transaction
    if inside:
        yield
        return
    # A transaction that reads first and writes then could find, in between, that another process has written.
    db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        db.execute("COMMIT")
    finally:
        if db.in_transaction:  # it failed; on a full disk SQLite may have rolled it back itself
            db.execute("ROLLBACK")


def _prepare(db: sqlite3.Connection, path: Path, steps: Sequence[Sequence[str]]) -> None:
    version = _version_of_ours(db, path)
    _refuse_newer(version, len(steps), path)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")  # one damaged text is no reason to show none
    if _one(db, "PRAGMA journal_mode") != "wal":
        _use_wal(db)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA cache_size = -16000")  # KB; a search goes through some megabytes at every letter
    while version < len(steps):
        with transaction(db):
            version = _one(db, "PRAGMA user_version")  # another process may have been faster
            _refuse_newer(version, len(steps), path)
            if version < len(steps):
                for statement in steps[version]:
                    db.execute(statement)
                version += 1
                db.execute(f"PRAGMA user_version = {version}")


def _use_wal(db: sqlite3.Connection) -> None:
    """Readers and a writer at the same time; where the file system cannot, SQLite stays with what it can."""
    try:
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        # Another process is doing the same at this moment, and for this SQLite does not wait.


def _version_of_ours(db: sqlite3.Connection, path: Path) -> int:
    """The version of the file; nothing in it changes by asking."""
    with transaction(db, write=False):
        application = _one(db, "PRAGMA application_id")
        if application != APPLICATION and _one(db, "SELECT count(*) FROM sqlite_master"):
            raise StoreBroken(
                f"{visible_line(str(path))} is a database of another program.",
                "Move it away, or set PARDEC_CHAT_DATA to another folder; it was not changed.",
            )
        version: int = _one(db, "PRAGMA user_version")
    return version


def _refuse_newer(version: int, known: int, path: Path) -> None:
    if version > known:
        raise StoreTooNew(
            f"{visible_line(str(path))} has version {version}; this program knows versions up to {known}.",
            "Update pardec-chat, or set PARDEC_CHAT_DATA to another folder; the file was not changed.",
        )


def _one(db: sqlite3.Connection, sql: str) -> Any:
    """The one value of a question that has one."""
    return db.execute(sql).fetchone()[0]


def _explained(path: Path, error: sqlite3.Error | OSError) -> UserError:
    name = visible_line(str(path))
    # The lower byte is the kind of error; what stands above it is a detail of it.
    kind = getattr(error, "sqlite_errorcode", -1) & 0xFF
    if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreBroken(
            f"{name} is damaged, or is no file of conversations.",
            "Move it away to begin with an empty one; `sqlite3 FILE .recover` may get out what is in it. It was not changed.",
        )
    if kind == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == errno.ENOSPC:
        return StoreFailed(
            "The disk is full: what was said last is not saved.",
            "Free some space; it is tried again with what comes next.",
        )
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreFailed(
            f"Another program holds {name}: what was said last is not saved.",
            "End that program; it is tried again with what comes next.",
        )
    return StoreFailed(
        f"{name} cannot be used: {visible_line(str(error))}.",
        "Check the rights of the file and its folder, or set PARDEC_CHAT_DATA to another folder.",
    )
