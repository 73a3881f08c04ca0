"""K07: a conversation longer than the context."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pardec_chat.app.chat.overflow import fit
from pardec_chat.app.chat.request import Message
from pardec_chat.backends.errors import ContextFull


def _encode(messages: Sequence[Message]) -> list[int]:
    return [0] * sum(int(m.content) for m in messages)


def _talk(*sizes: int, system: int = 0) -> list[Message]:
    head = [Message("system", str(system))] if system else []
    return [*head, *(Message("user" if i % 2 == 0 else "assistant", str(n)) for i, n in enumerate(sizes))]


def test_K07_what_fits_stays_whole() -> None:
    assert fit(_talk(10, 10, 10), _encode, 30, 40, drop=True) == ([0] * 30, 0)


def test_K07_the_oldest_turns_go_as_wholes() -> None:
    ids, dropped = fit(_talk(10, 10, 10, 10, 10), _encode, 35, 40, drop=True)
    assert (len(ids), dropped) == (30, 2)


def test_K07_the_system_prompt_stays() -> None:
    ids, dropped = fit(_talk(10, 10, 10, system=20), _encode, 30, 40, drop=True)
    assert (len(ids), dropped) == (30, 2)


def test_K07_a_last_message_that_is_too_long_by_itself_is_refused_with_counts() -> None:
    with pytest.raises(ContextFull, match=r"50 tokens; the context holds 40, of which 10"):
        fit(_talk(10, 10, 50), _encode, 30, 40, drop=True)


def test_K07_nothing_is_dropped_where_that_was_not_allowed() -> None:
    with pytest.raises(ContextFull, match=r"130 tokens; the context holds 128"):
        fit(_talk(65, 65), _encode, 96, 128, drop=False)
