"""The end of the log that belongs to an error."""

from __future__ import annotations

import os
from pathlib import Path

from pardec_chat.app import log_end

TRACEBACK = [
    "2026-01-02 10:00:01,000 ERROR pardec_chat.app.chat.engine: the turn failed",
    "Traceback (most recent call last):",
    '  File "engine.py", line 10, in step',
    "ValueError: the cache is full",
]
LATER = ["2026-01-02 10:00:02,000 INFO pardec_chat.app: loaded", "a line of a native library"]


def log(path: Path, *lines: str) -> Path:
    """A log of these lines."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_the_record_that_names_the_error(tmp_path: Path) -> None:
    path = log(tmp_path / "log", "older", *TRACEBACK, *LATER)
    assert log_end.read(path, "the cache is full\nand more") == log_end.LogEnd(tuple(TRACEBACK), found=True)


def test_the_last_of_two(tmp_path: Path) -> None:
    again = [TRACEBACK[0].replace("01,000", "09,000"), *TRACEBACK[1:]]
    path = log(tmp_path / "log", *TRACEBACK, *again, *LATER)
    assert log_end.read(path, "the cache is full").lines == tuple(again)


def test_of_a_long_record_its_end(tmp_path: Path) -> None:
    path = log(tmp_path / "log", *TRACEBACK[:-1], *[f"  frame {i}" for i in range(100)], TRACEBACK[-1], *LATER)
    read = log_end.read(path, "the cache is full")
    assert len(read.lines) == 40
    assert read.lines[-1] == TRACEBACK[-1] and read.lines[0] == "  frame 61"


def test_else_the_end(tmp_path: Path) -> None:
    path = log(tmp_path / "log", *[f"line {i}" for i in range(100)])
    for words in ("unknown", "", " \n"):
        assert log_end.read(path, words) == log_end.LogEnd(tuple(f"line {i}" for i in range(60, 100)))


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\xe3\x81\x82" * 200_000 + "\n".join(["", *TRACEBACK]).encode())
    assert log_end.read(path, "the cache is full").lines == tuple(TRACEBACK)


def test_it_never_fails(tmp_path: Path) -> None:
    assert log_end.read(tmp_path / "none", "x").problem == "No such file or directory"
    assert log_end.read(tmp_path, "x").problem == "no regular file"
    assert log_end.read(Path("a\0b"), "x").problem
    os.mkfifo(tmp_path / "pipe")
    assert log_end.read(tmp_path / "pipe", "x").problem == "no regular file"
    empty = tmp_path / "empty"
    empty.touch()
    assert log_end.read(empty, "x") == log_end.LogEnd()
    broken = tmp_path / "broken"
    broken.write_bytes(b"\xff\xfe\x00 not text\n")
    assert log_end.read(broken, "x").lines == ("\ufffd\ufffd\0 not text",)
