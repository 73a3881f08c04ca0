"""Conversations in a SQLite file: for one thread; several processes may have the file open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import Any

from pardec_chat.app.conversations import columns
from pardec_chat.app.conversations.conversation import Conversation, Node, Summary
from pardec_chat.app.conversations.record import Origin
from pardec_chat.app.conversations.schema import (
    LAST_NODE,
    NODE_BITS,
    ConversationGone,
    StoreFailed,
    open_file,
    told,
    transaction,
)
from pardec_chat.app.conversations.search import Index, Phrase, in_title, phrases, snippet
from pardec_chat.app.plain_text import visible_line

_LISTED = "deleted IS NULL AND n_nodes > 0"
_SUMMARY = f"SELECT number, id, title, updated, pinned, n_nodes FROM conversation WHERE {_LISTED}"  # noqa: S608
_NEWEST = f"SELECT number FROM conversation WHERE {_LISTED} ORDER BY updated DESC, number DESC"  # noqa: S608
#: What `tidy` does at once: messages put into the index, pages of it rewritten.
_SLICE, _PAGES = 50, 200
#: Characters of an attached file that are searched.
_MOST_SEARCHED = 100_000

_INSERT_CONVERSATION = (
    f"INSERT INTO conversation({', '.join(columns.CONVERSATION)}) VALUES ({', '.join('?' * len(columns.CONVERSATION))})"  # noqa: S608
    f" ON CONFLICT(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in columns.CONVERSATION[1:])}"
)
_INSERT_NODE = (
    f"INSERT INTO node(number, conversation, {', '.join(columns.NODE)}) VALUES (?, ?{', ?' * len(columns.NODE)})"  # noqa: S608
    f" ON CONFLICT(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in columns.NODE[1:])}"
)


class Store:
    """The file at `path`, made where there is none. Used on the thread that made it.

    Raises StoreTooNew and StoreBroken where the file is not for this program; it is left as it is then. This and every
    method raise StoreFailed where the disk or another program gets in the way; nothing is half written then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = open_file(path)
        #: Conversations, by number, whose words are being taken out of the index.
        self._going: list[int] = []
        try:
            with told(path):
                self._index = Index(self._db)
        except BaseException:
            self._db.close()
            raise

    # ---- reading ----

    def summaries(self) -> list[Summary]:
        """All conversations that have a message: pinned ones first, then the newest first."""
        with told(self._path):
            return [
                _summary(row) for row in self._db.execute(f"{_SUMMARY} ORDER BY pinned DESC, updated DESC, number DESC")
            ]

    def search(self, query: str, limit: int = 200) -> list[Summary]:
        """Conversations with all words of the query, the last of which may be unfinished, in title or messages.

        Those with all of them in the title come first, then the newest. Without words, all of them as in the list.
        """
        if not query.strip():
            return self.summaries()[:limit]
        wanted = phrases(query)
        with told(self._path), transaction(self._db, write=False):
            if not (wanted and self._index.usable):
                matches = in_title(query)
                rows = self._db.execute(f"{_SUMMARY} ORDER BY updated DESC, number DESC")
                return [_summary(row) for row in rows if matches(row[2])][:limit]
            hits = self._index.find(wanted)
            newest = self._db.execute(_NEWEST)
            found = [number for (number,) in newest if number in hits.numbers]
            found.sort(key=hits.in_title, reverse=True)
            return [self._found(number, hits.shown(number)) for number in found[:limit]]

    def read(self, id: str) -> Conversation:  # noqa: A002
        """A conversation with all its messages. Raises ConversationGone."""
        with told(self._path), transaction(self._db, write=False):
            row = self._db.execute(
                f"SELECT number, {', '.join(columns.CONVERSATION)} FROM conversation WHERE id = ? AND deleted IS NULL",  # noqa: S608
                (id,),
            ).fetchone()
            if row is None:
                raise ConversationGone("This conversation is not there any more.", "Choose another one.")
            number, *own = row
            nodes = self._db.execute(
                f"SELECT {', '.join(columns.NODE)} FROM node WHERE number BETWEEN ? AND ? ORDER BY number",  # noqa: S608
                _span(number),
            )
            return columns.conversation_of(own, [columns.node_of(node) for node in nodes])

    # ---- writing ----

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written inside is written at once, or none of it."""
        with told(self._path), transaction(self._db):
            yield

    def put(self, conversation: Conversation) -> None:
        """Write what a conversation has beside its messages."""
        title = columns.storable(conversation.title)
        with self.together():
            known = self._row("SELECT title FROM conversation WHERE id = ? AND indexed", conversation.id)
            self._db.execute(_INSERT_CONVERSATION, columns.conversation_row(conversation))
            if known != (title,):
                self._index_title(conversation.id, title)

    def put_node(self, conversation_id: str, node: Node) -> None:
        """Write a message, new or changed. Where a new one goes on from what is shown, it is shown from now on."""
        row = columns.node_row(node)
        created = row[columns.NODE.index("created")]
        with self.together():
            # Another process may have purged it.
            self._db.execute(
                "INSERT OR IGNORE INTO conversation(id, created, updated) VALUES (?, ?, ?)",
                (conversation_id, created, created),
            )
            conversation = self._number(conversation_id)
            known = self._row("SELECT number FROM node WHERE id = ?", node.id)
            number = known[0] if known else self._next_number(conversation)
            self._db.execute(_INSERT_NODE, (number, conversation, *row))
            if not known:
                self._db.execute(
                    "UPDATE conversation SET n_nodes = n_nodes + 1, updated = max(updated, ?),"
                    " leaf = CASE WHEN leaf IS ? THEN ? ELSE leaf END WHERE number = ?",
                    (created, node.parent, node.id, conversation),
                )
            # Text that grows would be taken out and put in at every word.
            indexed = node.state != "writing" and self._index_node(number)
            self._db.execute("UPDATE node SET indexed = ? WHERE number = ?", (indexed, number))

    def progress(self, node_id: str, text: str, origins: Sequence[Origin]) -> None:
        """Write what there is of an answer that is being written; nothing where there is no such message."""
        with self.together():
            self._db.execute(
                "UPDATE node SET text = ?, origins = ?, indexed = 0 WHERE id = ?",
                (columns.storable(text), columns.pack_origins(origins), node_id),
            )

    def rename(self, id: str, title: str) -> None:  # noqa: A002
        """Give a conversation a title of the user's."""
        with self.together():
            title = columns.storable(title)
            self._db.execute("UPDATE conversation SET title = ?, title_by = 'user' WHERE id = ?", (title, id))
            if self._row("SELECT 1 FROM conversation WHERE id = ?", id):
                self._index_title(id, title)

    def pin(self, id: str, pinned: bool) -> None:  # noqa: A002
        """Keep a conversation at the top of the list, or no longer."""
        with self.together():
            self._db.execute("UPDATE conversation SET pinned = ? WHERE id = ?", (int(pinned), id))

    def delete(self, id: str) -> None:  # noqa: A002
        """Hide a conversation from everything but `restore`."""
        with self.together():
            self._db.execute("UPDATE conversation SET deleted = ? WHERE id = ? AND deleted IS NULL", (time(), id))

    def restore(self, id: str) -> None:  # noqa: A002
        """Take a deletion back."""
        with self.together():
            self._db.execute("UPDATE conversation SET deleted = NULL WHERE id = ?", (id,))

    # ---- work for when there is nothing else to do ----

    def purge(self, before: float) -> bool:
        """A piece of removing, from the file itself, what was deleted before that time; False once all is done.

        Their words go first, then they themselves: wherever it is broken off, the next purge finds them.
        """
        if not self._index.usable:
            return False
        with self.together():
            if not self._going:
                rows = self._db.execute("SELECT number FROM conversation WHERE deleted < ?", (before,))
                self._going = [number for (number,) in rows]
                for number in self._going:
                    self._index.forget(number)
                return bool(self._going) and (self._index.merge(-_PAGES) or True)
            if self._index.merge(_PAGES):
                return True
            self._db.executemany(
                "DELETE FROM conversation WHERE number = ? AND deleted IS NOT NULL",
                [(number,) for number in self._going],
            )
            self._going = []
            return False

    def tidy(self) -> bool:
        """A piece of putting into the index what is not in it yet, as after a crash; False once all is done."""
        if not self._index.usable:
            return False
        with self.together():
            titles = self._db.execute(
                "SELECT id, title FROM conversation WHERE NOT indexed LIMIT ?", (_SLICE,)
            ).fetchall()
            for id_, title in titles:
                self._index_title(id_, title)
            nodes = self._db.execute("SELECT number FROM node WHERE NOT indexed LIMIT ?", (_SLICE,)).fetchall()
            for (number,) in nodes:
                self._index_node(number)
                self._db.execute("UPDATE node SET indexed = 1 WHERE number = ?", (number,))
        return bool(titles or nodes)

    def close(self) -> None:
        """Leave everything in the one file, if no other process uses it; harmless when done twice."""
        with suppress(sqlite3.Error):  # what is written is safe beside the file, too
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    # ---- below ----

    def _row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._db.execute(sql, values).fetchone()
        return row

    def _number(self, id_: str) -> int:
        """Of a conversation that is there."""
        number: int = self._db.execute("SELECT number FROM conversation WHERE id = ?", (id_,)).fetchone()[0]
        return number

    def _next_number(self, conversation: int) -> int:
        first, last = _span(conversation)
        (highest,) = self._db.execute(
            "SELECT max(number) FROM node WHERE number BETWEEN ? AND ?", (first, last)
        ).fetchone()
        if highest == last - 1:
            raise StoreFailed("This conversation has as many messages as one can have.", "Begin a new one.")
        return (highest or first) + 1

    def _index_title(self, id_: str, title: str) -> None:
        number = self._number(id_)
        indexed = self._index.put(number << NODE_BITS | LAST_NODE, [title])
        self._db.execute("UPDATE conversation SET indexed = ? WHERE number = ?", (indexed, number))

    def _index_node(self, number: int) -> bool:
        return self._index.put(number, self._texts(number))

    def _texts(self, number: int) -> Iterator[str]:
        """All that is searched of a message."""
        for text, attachments in self._db.execute("SELECT text, attachments FROM node WHERE number = ?", (number,)):
            yield text
            for one in columns.attachments_of(attachments):
                yield one.name
                yield one.text[:_MOST_SEARCHED]

    def _found(self, conversation: int, shown: tuple[Phrase, int] | None) -> Summary:
        row = self._db.execute(f"{_SUMMARY} AND number = ?", (conversation,)).fetchone()
        if shown is None:
            return _summary(row)
        phrase, node = shown
        return _summary(row, snippet(self._texts(conversation << NODE_BITS | node), phrase))


def _span(conversation: int) -> tuple[int, int]:
    first = conversation << NODE_BITS
    return first, first | LAST_NODE


def _summary(row: Sequence[Any], snippet: str = "") -> Summary:
    _, id_, title, updated, pinned, n_nodes = row
    # For thousands of them it matters that most titles are clean as they are.
    clean = title if title.isprintable() and "  " not in title else visible_line(title)
    return Summary(id_, clean, updated, bool(pinned), n_nodes, snippet)
