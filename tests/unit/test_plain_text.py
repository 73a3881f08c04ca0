"""X05: no control byte of foreign text reaches the terminal."""

from __future__ import annotations

import json

import pytest

from pardec_chat.app.plain_text import dump_json, visible, visible_line

_CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]


@pytest.mark.parametrize(
    "text", ["\x1b]52;c;aGk=\x07", "\x1b[2J", "\x9b31m", "\x1b]0;title", "a\rb", "\x00", "\u202egnp.exe", "\x7f"]
)
def test_X05_control_sequences_become_visible_marks(text: str) -> None:
    shown = visible(text)
    assert not any(ord(c) in _CONTROLS or 0x202A <= ord(c) <= 0x202E for c in shown)
    assert len(shown) == len(text)


def test_X05_a_sequence_split_over_two_deltas_is_harmless_too() -> None:
    assert visible("\x1b") + visible("[2J") == "␛[2J"
    assert visible("\xc2\x9b".encode("latin-1").decode()) == "\ufffd"


def test_text_that_means_something_stays() -> None:
    text = "日本語\n\tcode 😀 שלום\n"
    assert visible(text) == text
    assert visible("a\r\nb") == "a\nb"
    assert visible_line("a\n  b\tc") == "a b c"


def test_X05_json_is_readable_and_holds_no_control_byte() -> None:
    document = {"text": "日本 \x1b[2J \x9b \x7f"}
    dumped = dump_json(document)
    assert "日本" in dumped
    assert not any(ord(c) in _CONTROLS for c in dumped if c != "\n")
    assert json.loads(dumped) == document


def test_X05_halves_of_a_surrogate_pair_can_be_sent_to_a_terminal() -> None:
    assert visible("a\ud800b\udfffc").encode() == "a\ufffdb\ufffdc".encode()
