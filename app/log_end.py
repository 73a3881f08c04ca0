"""The end of the log, for whoever asks what happened; neither a widget nor a terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

#: Lines that are shown, and bytes at the end of the file that they are looked for in.
MOST_LINES, _MOST_BYTES = 40, 256 * 1024

#: How a record begins: date and time, as `logging` writes them.
_BEGINS = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """lines: the last ones of what belongs together. found: whether they tell of what was asked for.

    problem: why the log could not be read; empty where it could.
    """

    lines: tuple[str, ...] = ()
    found: bool = False
    problem: str = ""


def read(path: Path, words: str, most: int = MOST_LINES) -> LogEnd:
    """The last record of the log with `words` in it, traceback included; without one, or without words, the log's end.

    Of a record that is longer, its last `most` lines: a traceback ends with what happened. Raises nothing.
    """
    try:
        if path.exists() and not path.is_file():
            return LogEnd(problem="no regular file")  # a pipe would be waited for
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MOST_BYTES))
            text = file.read(_MOST_BYTES).decode("utf-8", errors="replace")
    except (OSError, ValueError) as error:
        return LogEnd(problem=getattr(error, "strerror", None) or str(error) or type(error).__name__)
    lines = text.removesuffix("\n").split("\n") if text else []
    begins = [i for i, line in enumerate(lines) if _BEGINS.match(line)]
    first_words = next((line.strip() for line in words.splitlines() if line.strip()), "")
    for begin, end in reversed(list(pairwise([*begins, len(lines)]))):
        record = lines[begin:end]
        if first_words and any(first_words in line for line in record):
            return LogEnd(tuple(record[-most:]), found=True)
    return LogEnd(tuple(lines[-most:]))
