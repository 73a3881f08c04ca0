"""S01: characters split over tokens, at every cut."""

from __future__ import annotations

import pytest

from pardec_chat.app.chat.detokenizer import Detokenizer, decode

_TEXTS = ["a😀b", "👩‍👩‍👧", "한글", "日本語 text", "é", "plain"]


def _stream(pieces: list[bytes]) -> list[str]:
    detokenizer = Detokenizer(lambda token: pieces[token])
    return [*(detokenizer.push(token) for token in range(len(pieces))), detokenizer.finish()]


@pytest.mark.parametrize("text", _TEXTS)
def test_S01_joined_deltas_equal_the_text_at_every_cut(text: str) -> None:
    data = text.encode()
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            deltas = _stream([data[:first], data[first:second], data[second:]])
            assert "".join(deltas) == text
            assert "\ufffd" not in "".join(deltas)


def test_S01_incomplete_bytes_are_held_back() -> None:
    grin = "😀".encode()
    assert _stream([b"x" + grin[:2], grin[2:3], grin[3:]]) == ["x", "", "😀", ""]


@pytest.mark.parametrize("pieces", [[b"a\xc0\x80b"], [b"a\xc0", b"\x80b"], [b"a", b"\xc0", b"\x80", b"b"]])
def test_S01_a_run_of_invalid_bytes_is_one_mark_and_the_text_goes_on(pieces: list[bytes]) -> None:
    assert "".join(_stream(pieces)) == "a\ufffdb" == decode(b"".join(pieces))


def test_S01_a_lone_first_byte_at_the_end_is_flushed_as_one_mark() -> None:
    assert _stream([b"end\xf0"]) == ["end", "\ufffd"]
    assert "".join(_stream([b"end\xf0", b"\x9f"])) == "end\ufffd" == decode(b"end\xf0\x9f")


def test_control_tokens_add_nothing() -> None:
    assert _stream([b"a", b"", b"b"]) == ["a", "", "b", ""]
