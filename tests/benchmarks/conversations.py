"""How long the list, the search and the opening of conversations take, with 5,000 of them.

    python -m pardec_chat.tests.benchmarks.conversations [--conversations N] [--keep FOLDER]

Half are in English, half in Japanese, with eight messages each; one more is long. Each query is typed letter by letter:
the slowest of its beginnings counts, each at the median of some tries. Times are in milliseconds: that of the clock, and
that of the processor, which other programs on the machine change less.
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from pardec_chat.app.conversations.columns import pack_origins, unpack_origins
from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.record import MOST_STEPS, AnswerRecord, Origin, StepRecord
from pardec_chat.app.conversations.store import Store
from pardec_chat.backends.base import Method

_BAR = 50.0
_TRIES = 5
_QUERIES = (
    "the quick function",
    "exception handling",
    "a class object",
    "q",
    "z",
    "return_value_17",
    "don't match",
    "の時間",
    "ぁ",
    "xylophone",
    "python の",
    "e f g h i",
)
_WORDS = " ".join(pydoc_data.topics.topics.values()).split()
_KANA = "".join(map(chr, range(0x3041, 0x3097)))
_KANJI = "".join(map(chr, range(0x4E00, 0x5400)))
_SIGNS = _KANA + "、。" + _KANJI + "時間の"


class Author:
    """Writes messages that are as long and as varied as real ones, the same ones each time."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._weights = [1 / (rank + 5) for rank in range(len(_SIGNS))]
        self._now = 1.7e9

    def conversation(self, n_messages: int, japanese: bool, n_characters: int | None = None) -> Conversation:
        """n_characters: of each message; None for short questions and long answers of any length."""
        self._now += 3600
        conversation = Conversation(title=self._text(30, japanese), created=self._now, updated=self._now)
        for number in range(n_messages):
            answers = bool(number % 2)
            n = n_characters or round(self._random.lognormvariate(6.8 if answers else 4.5, 0.9))
            text = self._text(n // 2 if japanese and not n_characters else n, japanese)
            node = Node("assistant" if answers else "user", text, parent=conversation.leaf, created=self._now + number)
            if answers:
                node.origins, node.steps, node.record = (
                    self.origins(len(text) // 4),
                    self._steps(len(text) // 12),
                    _RECORD,
                )
            conversation.add(node)
        return conversation

    def origins(self, n: int) -> tuple[Origin, ...]:
        """Of so many tokens."""
        methods = (Method.PLAIN, Method.DRAFT, Method.NGRAM)
        return tuple((self._random.randrange(9), self._random.choice(methods)) for _ in range(n))

    def _text(self, n: int, japanese: bool) -> str:
        if japanese:
            return "".join(self._random.choices(_SIGNS, self._weights, k=n))
        start = self._random.randrange(len(_WORDS) - n)
        words = _WORDS[start : start + max(1, n // 6)]
        for _ in range(len(words) // 20):  # names as code has them, which make up most of a vocabulary
            words.insert(
                self._random.randrange(len(words)), f"{self._random.choice(words)}_{self._random.randrange(10**6)}"
            )
        return " ".join(words)[:n]

    def _steps(self, n: int) -> tuple[StepRecord, ...]:
        step = StepRecord(1, (" the", " next", "ly"), 2, " word", Method.DRAFT, 3, 3.125, 31.25)
        return (step,) * min(n, MOST_STEPS)


_RECORD = AnswerRecord(
    model="Qwen2.5-Coder 1.5B",
    draft="Qwen2.5-Coder 0.5B",
    runtime="llamacpp",
    method=Method.AUTO,
    depth=3,
    using=Method.DRAFT,
    state="active",
    reason="checking 4 costs 1.1 steps and 84 % hold",
    temperature=0.0,
    predicted_n=200,
    predicted_ms=4000.0,
    steps=70,
    draft_n=150,
    draft_n_accepted=130,
    accepted_per_position=(0.93, 0.85, 0.74),
    prompt_n=40,
    cache_n=400,
    prompt_ms=300.0,
    ttft_ms=310.0,
    total_ms=4300.0,
    plain_per_second=31.4,
    context_used=640,
    context_size=8192,
    finish_reason="stop",
)


def _fill(store: Store, author: Author, n: int) -> None:
    for start in range(0, n, 50):
        with store.together():
            for number in range(start, min(start + 50, n)):
                _save(store, author.conversation(8, japanese=bool(number % 2)))
    with store.together():
        _save(store, author.conversation(500, japanese=False, n_characters=600))


def _save(store: Store, conversation: Conversation) -> None:
    store.put(conversation)
    for node in conversation.nodes.values():
        store.put_node(conversation.id, node)


@dataclass(frozen=True, order=True, slots=True)
class Took:
    """Milliseconds by the clock and of the processor, medians."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:7.1f}  ({self.cpu:.1f})"

    @staticmethod
    def by(work: Callable[[], object], tries: int = _TRIES) -> Took:
        walls, cpus = [], []
        for _ in range(tries):
            wall, cpu = perf_counter(), process_time()
            work()
            walls.append((perf_counter() - wall) * 1e3)
            cpus.append((process_time() - cpu) * 1e3)
        return Took(median(walls), median(cpus))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=5000)
    parser.add_argument("--keep", type=Path, help="folder for the file, which stays there and is used again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = (arguments.keep or Path(folder)) / "conversations.db"
        author = Author()
        if not path.exists():
            begun = perf_counter()
            store = Store(path)
            _fill(store, author, arguments.conversations)
            store.close()
            print(f"written in {perf_counter() - begun:.1f} s, ", end="")
        print(f"{path.stat().st_size / 1e6:.0f} MB\n")
        opening = Took.by(lambda: Store(path).close())
        print(f"{'opening and closing the file':<70} {opening}")
        store = Store(path)
        worst = _measure(store, author)
        store.close()
        print(f"\nslowest {worst.wall:.1f}, bar {_BAR:.0f}")


def _measure(store: Store, author: Author) -> Took:
    """Prints a row for each; the slowest of those that have the bar."""
    summaries = store.summaries()
    conversation = store.read(max(summaries, key=lambda one: one.n_messages).id)
    n_characters = sum(len(node.text) for node in conversation.nodes.values())
    rows = {
        f"list of {len(summaries):,}": Took.by(store.summaries),
        f"{len(conversation.nodes)} messages, {n_characters:,} characters": Took.by(
            lambda: store.read(conversation.id)
        ),
    }
    for query in _QUERIES:
        beginnings = [query[: end + 1] for end in range(len(query))]
        times = {one: Took.by(partial(store.search, one)) for one in beginnings}
        slowest = max(times, key=times.__getitem__)
        n = len(store.search(slowest, 10**6))
        rows[f"search {query!r}, slowest at {slowest!r} with {n:,} found"] = times[slowest]
    for name, took in rows.items():
        print(f"{name:<70} {took}")
    node = conversation.path()[-1]
    origins = author.origins(20_000)
    packed = pack_origins(origins)
    assert packed is not None
    others: dict[str, Callable[[], object]] = {
        "write a message": lambda: store.put_node(conversation.id, node),
        "write what there is of an answer": lambda: store.progress(node.id, node.text, node.origins),
        f"pack 20,000 origins to {len(packed):,} bytes": lambda: pack_origins(origins),
        "unpack them": lambda: unpack_origins(packed),
    }
    print()
    for name, work in others.items():
        print(f"{name:<70} {Took.by(work, 20)}")
    return max(rows.values())


if __name__ == "__main__":
    main()
