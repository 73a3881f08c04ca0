"""A file on its way: `<final>.part`, always a prefix of the whole, until it is verified and renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pardec_chat.app.downloads import files
from pardec_chat.app.downloads.waiting import check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pardec_chat.app.downloads.waiting import Cancel

_BLOCK = 1 << 20

Stage = Literal["asking", "downloading", "verifying"]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a download stands: `done` of `total` bytes, and what is happening to them.

    `source` is "hub", "wheels" or "cache"; `note` is set when something happened that the user should be told once.
    """

    stage: Stage
    done: int
    total: int
    source: str = ""
    note: str = ""


#: Called from the thread that called `pull`, several times a second while bytes flow.
Report = Callable[[Progress], None]


def part_path(final: Path) -> Path:
    """Where the bytes lie before they are a model."""
    return final.with_name(f"{final.name}.part")


def notes_path(final: Path) -> Path:
    """Where the wheels source keeps how many whole parts have been written."""
    return final.with_name(f"{final.name}.part.json")


def sha256_of(path: Path, cancel: Cancel, report: Callable[[int], None]) -> str:
    """Hash (hex) over a whole file; `report` gets the bytes read so far. Raises waiting.Stopped, or OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as source:
        while block := source.read(_BLOCK):
            check(cancel)
            digest.update(block)
            done += len(block)
            report(done)
    return digest.hexdigest()


class Partial:
    """The bytes that have come so far. One owner at a time: `pull` holds the model's lock."""

    def __init__(self, final: Path) -> None:
        self.final = final
        self.path = part_path(final)
        self._notes = notes_path(final)

    @property
    def size(self) -> int:
        """Bytes that have come so far."""
        return files.size_of(self.path)

    def truncate(self, size: int) -> None:
        """Cuts off what lies behind `size`; a shorter file is left as it is."""
        if self.size > size:
            os.truncate(self.path, size)

    def discard(self) -> None:
        """Throws away all that has come, and what is known about it."""
        self.path.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)

    @contextlib.contextmanager
    def appending(self) -> Iterator[Callable[[bytes], None]]:
        """A function that writes at the file's end. Unbuffered: what was written is there whatever kills us next."""
        with self.path.open("ab", buffering=0) as out:

            def append(block: bytes) -> None:
                left = memoryview(block)
                while left:  # a disk that fills up takes a part of the block first
                    left = left[out.write(left) :]

            yield append

    def note(self, of: str, parts: int, end: int) -> None:
        """Records that the first `parts` parts of the source `of` are whole and end at byte `end`."""
        with self.path.open("ab") as written:
            os.fsync(written.fileno())  # the record must not be on disk before what it vouches for
        files.write_atomically(self._notes, json.dumps({"of": of, "parts": parts, "end": end}).encode())

    def noted(self, of: str) -> tuple[int, int]:
        """(parts, end) as recorded for the source `of`; (0, 0) when nothing usable is."""
        try:
            record = json.loads(self._notes.read_bytes())
            parts, end = int(record["parts"]), int(record["end"])
            usable = record["of"] == of and parts >= 0 and 0 <= end <= self.size
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        return (parts, end) if usable else (0, 0)

    def publish(self) -> None:
        """Gives the verified file its final name, in one step that also survives a power cut."""
        with self.path.open("rb") as written:
            os.fsync(written.fileno())
        self.path.replace(self.final)
        files.sync_folder(self.final.parent)
        self._notes.unlink(missing_ok=True)
