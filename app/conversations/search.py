"""Search as you type over titles and messages, in any language.

SQLite's full text index finds words. Text goes into it folded: without case and accents, and with a space around each
character of a script that has none between its words, so that any part of such a text is a phrase.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pardec_chat.app.conversations.schema import LAST_NODE, NODE_BITS
from pardec_chat.app.plain_text import visible_line

#: Characters of a query, and words, that are looked at.
_MOST_CHARACTERS, _MOST_WORDS = 200, 12
#: Characters of a snippet, and how many of them may stand before what was found.
_SNIPPET, _BEFORE = 60, 20
#: Characters of a message in which the place of what was found is looked for the hard way.
_MOST_FOLDED = 100_000

_PROBE = "CREATE VIRTUAL TABLE temp.probe USING fts5(text)"

_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x109F),  # Tibetan, Myanmar
    (0x1100, 0x11FF),  # hangul in parts
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x1AAF),  # Tai
    (0x2E80, 0x2FDF),  # radicals
    (0x3000, 0x31FF),  # kana, bopomofo, hangul in parts
    (0x3400, 0x9FFF),  # ideographs
    (0xA000, 0xA4CF),  # Yi
    (0xA980, 0xA9DF),  # Javanese
    (0xAC00, 0xD7FF),  # hangul
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)
#: Marks above and below letters that are often left out in writing. Others are vowels, and stay.
_ACCENTS = (
    (0x0300, 0x036F),
    (0x0483, 0x0487),
    (0x0591, 0x05C7),
    (0x0610, 0x061A),
    (0x064B, 0x065F),
    (0x0670, 0x0670),
    (0x06D6, 0x06ED),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE00, 0xFE0F),
    (0xFE20, 0xFE2F),
    (0xE0100, 0xE01EF),
)
#: Letters that are one with their accent in Unicode.
_LETTERS = str.maketrans("łøđħı", "lodhi")


class _Folded(dict[int, str]):
    """What each character becomes, worked out when it first occurs."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        bare = "".join(one for one in folded if not _within(one, _ACCENTS)).translate(_LETTERS)
        self[code] = "".join(map(_spaced, unicodedata.normalize("NFC", bare)))
        return self[code]


def _within(character: str, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(first <= ord(character) <= last for first, last in ranges)


def _spaced(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf":  # joiners and soft hyphens stand within words
        return ""
    if character.isascii():
        return character if character.isprintable() else " "
    if category[0] in "CZP" or category == "Sk":
        return " "
    return f" {character} " if category[0] == "S" or _within(character, _UNSPACED) else character


_FOLDED = _Folded()
# As the tokenizer `ascii` of the index has it: beyond ASCII everything belongs to a word.
_TOKEN = re.compile(r"[0-9a-z\x80-\U0010ffff]+")


def folded(text: str) -> str:
    """Text as the index gets it and as queries are read."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).translate(_FOLDED)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A word of a query: tokens that follow each other. prefix: the last one may go on."""

    tokens: tuple[str, ...]
    prefix: bool

    @property
    def match(self) -> str:
        """As an expression of FTS5. Tokens hold nothing that it takes for syntax."""
        return f'"{" ".join(self.tokens)}"' + "*" * self.prefix

    @property
    def pattern(self) -> str:
        """As an expression that finds it in folded text, and in other text that happens to be written so."""
        begin = r"(?<![^\W_])" if _is_spaced(self.tokens[0][0]) else ""
        end = "" if self.prefix or not _is_spaced(self.tokens[-1][-1]) else r"(?![^\W_])"
        return begin + r"[\W_]*".join(map(re.escape, self.tokens)) + end


def phrases(query: str) -> list[Phrase]:
    """What a query asks for, all of it to be found; empty where it has no letter or digit."""
    words = [tuple(_TOKEN.findall(folded(word))) for word in query[:_MOST_CHARACTERS].split()]
    words = [word for word in words if word][:_MOST_WORDS]
    last = len(words) - 1
    return [Phrase(word, at == last and _is_spaced(word[-1][-1])) for at, word in enumerate(words)]


def _is_spaced(character: str) -> bool:
    return unicodedata.category(character)[0] != "S" and not _within(character, _UNSPACED)


def in_title(query: str) -> Callable[[str], bool]:
    """Whether a title has what a query asks for, without an index; signs are looked for as they are."""
    if wanted := phrases(query):
        patterns = [re.compile(phrase.pattern) for phrase in wanted]
        return lambda title: all(pattern.search(folded(title)) for pattern in patterns)
    sign = query.strip()
    return lambda title: sign in title


class Index:
    """The words of all titles and messages. There may be none: a SQLite without FTS5 is rare, but allowed.

    A row for each message, under its number, and one for each title, under the last number of its conversation.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        """Makes the table where there is none. Raises sqlite3.Error."""
        self._db = db
        #: Whether this SQLite has what it takes.
        self.usable = False
        with suppress(sqlite3.OperationalError):  # "no such module"; a table that is there would tell on its first use
            db.execute(_PROBE)
            db.execute("DROP TABLE temp.probe")
            self.usable = True
        known = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'words'").fetchone()[0]
        if self.usable and not known:
            # prefix: one letter begins too many words to go through them all as fast as one types.
            db.execute(
                "CREATE VIRTUAL TABLE IF NOT EXISTS words"
                " USING fts5(text, tokenize = 'ascii', prefix = '1 2', columnsize = 0)"
            )

    def put(self, number: int, texts: Iterable[str]) -> bool:
        """What stands under a number now; False where there is no index to put it into."""
        if self.usable:
            self._db.execute("DELETE FROM words WHERE rowid = ?", (number,))
            self._db.execute("INSERT INTO words(rowid, text) VALUES (?, ?)", (number, folded("\n".join(texts))))
        return self.usable

    def forget(self, conversation: int) -> None:
        """Take out a conversation, by its number. The words themselves are gone when `merge` has done its work."""
        first = conversation << NODE_BITS
        self._db.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", (first, first | LAST_NODE))

    def merge(self, pages: int) -> bool:
        """About so many pages of the work of rewriting the index without what was taken out; False once it is done.

        A negative number begins it.
        """
        before = self._db.total_changes
        self._db.execute("INSERT INTO words(words, rank) VALUES ('merge', ?)", (pages,))
        return self._db.total_changes - before >= 2  # by the manual of FTS5

    def find(self, wanted: Sequence[Phrase]) -> Hits:
        """Conversations that have all of the phrases somewhere."""
        found = []
        for phrase in wanted:
            rows = self._db.execute(
                f"SELECT rowid >> {NODE_BITS}, min(rowid), max(rowid) FROM words WHERE words MATCH ?"  # noqa: S608
                f" GROUP BY rowid >> {NODE_BITS}",
                (phrase.match,),
            )
            found.append((phrase, {n: (first & LAST_NODE, last & LAST_NODE) for n, first, last in rows}))
        return Hits(found)


class Hits:
    """Where conversations, by their numbers, have what was searched for.

    found: each phrase with the first and the last message that has it, the title being the last of all.
    """

    def __init__(self, found: Sequence[tuple[Phrase, dict[int, tuple[int, int]]]]) -> None:
        self._found = sorted(found, key=lambda one: len(one[1]))
        rarest, *others = [places for _, places in self._found]
        #: Those that have all of the phrases.
        self.numbers = {n for n in rarest if all(n in places for places in others)} if others else rarest.keys()

    def in_title(self, number: int) -> bool:
        """Whether the title has all of the phrases."""
        return all(places[number][1] == LAST_NODE for _, places in self._found)

    def shown(self, number: int) -> tuple[Phrase, int] | None:
        """The rarest phrase that is in a message, and the first message that has it; None where only the title has any."""
        firsts = ((phrase, places[number][0]) for phrase, places in self._found)
        return next(((phrase, first) for phrase, first in firsts if first != LAST_NODE), None)


def snippet(texts: Iterable[str], phrase: Phrase) -> str:
    """About 60 characters around the first place of the phrase, on one line.

    The first text's beginning where that place cannot be told, as for letters of half width that are two to make one.
    """
    pattern = re.compile(phrase.pattern, re.IGNORECASE)
    beginning = ""
    for text in texts:
        beginning = beginning or text
        if found := pattern.search(text):
            return _around(text, *found.span())
        if text.isascii():
            continue
        # Composed, so that one character of it is one of the index's; nobody sees the difference.
        composed = unicodedata.normalize("NFC", text[:_MOST_FOLDED])
        pieces = [_FOLDED[ord(character)] for character in composed]
        if found := pattern.search("".join(pieces)):
            return _around(composed, _place(pieces, found.start()), _place(pieces, found.end() - 1) + 1)
    return _around(beginning, 0, 0)


def _place(pieces: Sequence[str], at: int) -> int:
    """The number of the piece in which character `at` of all of them is."""
    for number, piece in enumerate(pieces):
        at -= len(piece)
        if at < 0:
            return number
    return len(pieces)


def _around(text: str, start: int, end: int) -> str:
    before = visible_line(text[max(0, start - 4 * _BEFORE) : start])
    if len(before) > _BEFORE or start > 4 * _BEFORE:
        before = before[-_BEFORE:]
        # A word that is cut goes, unless that is all there is.
        before = "…" + (before.partition(" ")[2] or before)
    gap = " " if before and text[start - 1].isspace() else ""
    line = visible_line(before + gap + text[start : max(end, start + 2 * _SNIPPET)])
    if len(line) <= _SNIPPET and max(end, start + 2 * _SNIPPET) >= len(text):
        return line
    line = line[:_SNIPPET]
    head, _, tail = line.rpartition(" ")
    return (head if head and len(tail) <= _BEFORE else line) + "…"
