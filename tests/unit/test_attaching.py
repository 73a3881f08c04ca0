from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pardec_chat.app.conversations import attaching
from pardec_chat.app.conversations.attaching import CannotAttach, read, with_attachments
from pardec_chat.app.conversations.conversation import Attachment


@pytest.mark.parametrize(
    "content",
    [
        "größer\n日本語\n".encode(),
        "größer\n日本語\n".encode("utf-8-sig"),
        "größer\n日本語\n".encode("utf-16"),
        b"\xfe\xff" + "größer\n日本語\n".encode("utf-16-be"),
        "größer\r\n日本語\r".encode(),
    ],
)
def test_text_is_read_in_its_encoding(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.md"
    path.write_bytes(content)
    assert read(path) == Attachment("notes.md", "größer\n日本語\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is no text"),
        (b"a\0b", "is no text"),
        ("größer".encode("latin-1"), "is no text"),
        ("größer".encode("utf-16-le"), "is no text"),  # no byte order mark
        (b"\xff\xfea", "is no text"),  # half a character
        ("a".encode("utf-32"), "is no text"),
        (b"", "is empty"),
        (b" \n", "is empty"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(content)
    with pytest.raises(CannotAttach) as caught:
        read(path)
    assert caught.value.what == f"file.bin {reason}."
    assert caught.value.next_step


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attaching, "MOST_BYTES", 2_000_000)
    path = tmp_path / "a.txt"
    path.write_text("a" * 2_000_000)
    assert len(read(path).text) == 2_000_000
    path.write_text("a" * 2_000_001)
    with pytest.raises(CannotAttach, match=r"a\.txt is larger than 2 MB\."):
        read(path)


def test_paths_that_cannot_be_read_are_refused_with_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CannotAttach, match="is a folder"):
        read(tmp_path)
    with pytest.raises(CannotAttach, match=r"missing\.txt is not there"):
        read(tmp_path / "missing.txt")
    with pytest.raises(CannotAttach, match="cannot be read"):
        read(tmp_path / ("a" * 300))
    with pytest.raises(CannotAttach, match="cannot be read"):
        read(f"{tmp_path}/a\0b")
    with pytest.raises(CannotAttach, match="cannot be read"):
        read("~nobody_is_called_so/a.txt")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CannotAttach, match="is no file"):
        read(tmp_path / "pipe")
    path = tmp_path / "secret.txt"
    path.write_text("a")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CannotAttach, match=r"secret\.txt may not be read"):
        read(path)


def test_home_is_meant_by_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.py").write_text("x = 1\n")
    assert read("~/a.py") == Attachment("a.py", "x = 1\n")


def test_X05_names_hold_no_control_byte(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J\nb.txt"
    path.write_text("a")
    assert read(path).name == "a␛[2J b.txt"
    with pytest.raises(CannotAttach) as caught:
        read(tmp_path / "c\x1b[2J")
    assert "\x1b" not in str(caught.value)


def test_the_model_gets_text_and_files() -> None:
    files = [Attachment("sort.py", "x = 1\n"), Attachment("notes", "a"), Attachment("Dockerfile.weird suffix", "b")]
    assert with_attachments("Why?", files) == (
        "Why?\n\nsort.py:\n```python\nx = 1\n```\n\nnotes:\n```\na\n```\n\nDockerfile.weird suffix:\n```\nb\n```"
    )
    assert with_attachments("", files[1:2]) == "notes:\n```\na\n```"
    assert with_attachments("Why?", []) == "Why?"


@given(st.lists(st.sampled_from(["`", "``", "```", "````", "~~~", "\n", " ", "a"]), max_size=12).map("".join))
@settings(deadline=None)
def test_nothing_in_a_file_closes_its_block(text: str) -> None:
    content = with_attachments("", [Attachment("a.md", text)])
    name, opening, *lines, closing = content.split("\n")
    assert name == "a.md:"
    assert opening == closing + "markdown"
    assert re.fullmatch("`{3,}", closing)
    assert "\n".join(lines) == text.removesuffix("\n")
    assert all(closing not in line for line in lines)
