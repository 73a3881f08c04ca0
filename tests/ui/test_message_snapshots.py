"""Pictures of messages; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.widgets.message import UserMessage
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.column import BLOCKS, SCRIPTS, TABLE, Column, tokens

WIDE, NARROW = (120, 40), (80, 24)
FIGURES = ("54.6 tok/s", "1.7x plain", "3.4 a step", "84 % of 120 accepted", "first token 0.42 s", "draft, 3 deep")


def _reply(text: str, **changes: Any) -> Reply:
    reply = Reply("Qwen2.5 Coder 1.5B")
    for name, value in changes.items():
        setattr(reply, name, value)
    reply.write(tokens(text))
    return reply


@pytest.mark.parametrize("size", [(80, 50), (120, 46)], ids=["80", "120"])
@pytest.mark.parametrize("theme", ["pardec-dark", "pardec-light"])
def test_blocks(snap_compare: Any, size: tuple[int, int], theme: str) -> None:
    reply = _reply(BLOCKS)
    reply.finish(FIGURES)
    question = UserMessage(
        "What is there?\n\n\tA tab, [brackets], *stars*.", [("notes.txt", "1.2 kB"), ("表.csv", "98 B")]
    )
    assert snap_compare(Column(question, reply, theme=theme), terminal_size=size)


@pytest.mark.parametrize("size", [NARROW, WIDE, (24, 40)], ids=["80x24", "120x40", "24"])
def test_tables(snap_compare: Any, size: tuple[int, int]) -> None:
    wide = (
        "|"
        + "|".join(f"column {n}" for n in range(12))
        + "|\n"
        + "|-" * 12
        + "|\n|"
        + "|".join(map(str, range(12)))
        + "|"
    )
    reply = _reply(f"{TABLE}\n{wide}\n")
    assert snap_compare(Column(reply), terminal_size=size)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "120x40"])
def test_scripts(snap_compare: Any, size: tuple[int, int]) -> None:
    assert snap_compare(Column(_reply(SCRIPTS)), terminal_size=size)


@pytest.mark.parametrize("theme", ["pardec-dark", "pardec-light"])
def test_tint(snap_compare: Any, theme: str) -> None:
    reply = _reply("", tint=True)
    run = (Method.DRAFT, Method.DRAFT, Method.PLAIN, Method.NGRAM, Method.PLAIN)
    reply.write(tokens(f"{BLOCKS[:160]}\n{TABLE}\n```py\nx = 1  # 日本語\n```\n- 👩‍👩‍👧‍👦 one\n", 5, run))
    reply.finish(FIGURES)
    assert snap_compare(Column(reply, theme=theme), terminal_size=(80, 30))


@pytest.mark.parametrize("is_open", [False, True], ids=["folded", "open"])
def test_reasoning(snap_compare: Any, is_open: bool) -> None:
    reply = _reply("<think>\nThe user wants *two* lists merged.\n\n- they are sorted\n</think>\n\nHere it is.")
    later = _reply("<think>\nHm, what about")
    for one in (reply, later):
        if is_open:
            one.toggle_reasoning()
    reply.finish(FIGURES)
    assert snap_compare(Column(reply, later), terminal_size=NARROW)


def test_branches_and_focus(snap_compare: Any) -> None:
    question, reply = UserMessage("Which one?"), _reply("This one.\n\nAnd a second paragraph.")
    question.branch, reply.branch = (1, 2), (2, 3)

    async def run(pilot: Pilot[None]) -> None:
        reply.focus()
        await pilot.pause()

    assert snap_compare(Column(question, reply), terminal_size=NARROW, run_before=run)


def test_waiting(snap_compare: Any) -> None:
    reply = Reply("Qwen2.5 Coder 1.5B")
    reply.wait_for("reading the prompt 512 / 1,024")
    assert snap_compare(Column(UserMessage("Hello?"), reply), terminal_size=NARROW)
