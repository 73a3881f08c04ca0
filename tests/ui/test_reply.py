"""What an answer shows while it comes and when it is there."""

from __future__ import annotations

import asyncio

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from pardec_chat.app.widgets.message import Message, UserMessage
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.column import BLOCKS, TABLE, Column, drawn, tokens

PLAIN = Method.PLAIN


async def test_from_waiting_to_the_figures() -> None:
    reply = Reply("Qwen [/b]")
    app = Column(reply)
    async with app.run_test(size=(40, 12)) as pilot:
        reply.wait_for("reading the prompt [1]")
        await pilot.pause()
        assert drawn(reply) == [" Qwen [/b]", "   reading the prompt [1]"]
        reply.write([("Hel", PLAIN), ("lo.", PLAIN)])
        await pilot.pause()
        assert drawn(reply) == [" Qwen [/b]", "   Hello.", ""]
        reply.wait_for("writing")
        reply.add_note(Note("The oldest [message] was left out."))
        reply.add_note(Note.of(UserError("It broke.", "Mend it.")))
        reply.finish(("54.6 tok/s", "1.7x plain", "3.4 a step", "draft"))
        await pilot.pause()
        assert drawn(reply) == [
            " Qwen [/b]",
            "   Hello.",
            "",
            "   The oldest [message] was left out.",
            "   Error: It broke.",
            "   Mend it.",
            "   54.6 tok/s · 1.7x plain",
            "   3.4 a step · draft",
        ]
        assert (reply.source, reply.text) == ("Hello.", "Hello.")


async def test_what_comes_before_it_is_mounted_is_shown() -> None:
    reply = Reply("Qwen", node_id="7")
    reply.write([("Hello.", PLAIN)])
    reply.finish(())
    app = Column(reply)
    async with app.run_test(size=(40, 12)):
        assert app.lines()[:2] == [" Qwen", "   Hello."]
        assert reply.node_id == "7"


async def test_X05_bytes_that_act_on_a_terminal_are_seen_instead() -> None:
    reply = Reply("Qwen\x1b[2J")
    app = Column(reply)
    async with app.run_test(size=(60, 12)) as pilot:
        for piece in ("one\r", "\ntwo\r", "x \x1b", "[2J \x9b1m `\x07`"):
            reply.write([(piece, PLAIN)])
        await pilot.pause()
        assert reply.source == "one\ntwo␍x ␛[2J �1m `␇`"
        assert drawn(reply)[:3] == [" Qwen␛[2J", "   one", "   two␍x ␛[2J �1m ␇"]
        assert reply.text == "one\r\ntwo\rx \x1b[2J \x9b1m `\x07`"


async def test_reasoning_is_folded() -> None:
    reply = Reply("Qwen")
    app = Column(reply)
    async with app.run_test(size=(40, 12)) as pilot:
        reply.write([("<thi", PLAIN), ("nk>", PLAIN), ("\nHm, ", PLAIN), ("so", PLAIN), ("", PLAIN), (" *be*", PLAIN)])
        await pilot.pause()
        assert drawn(reply) == [" Qwen", "   ▸ reasoning … 4 tokens", ""]
        reply.write([(" it.\n", PLAIN), ("</thi", PLAIN), ("nk>", PLAIN), ("\n\n", PLAIN), ("Yes.", PLAIN)])
        await pilot.pause()
        assert drawn(reply)[1:] == ["   ▸ reasoning, 6 tokens", "", "   Yes.", ""]
        assert reply.source == "Yes."
        reply.toggle_reasoning()
        await pilot.pause()
        assert drawn(reply)[1:] == ["   ▾ reasoning, 6 tokens", "   Hm, so be it.", "", "   Yes.", ""]
        await pilot.click(Reply, offset=(6, 1))
        await pilot.pause()
        assert drawn(reply)[1] == "▌  ▸ reasoning, 6 tokens"


async def test_reasoning_that_the_prompt_began() -> None:
    reply = Reply("Qwen")
    reply.begin_thinking()
    reply.write([("Hm.", PLAIN), ("</think>", PLAIN), ("Yes.", PLAIN)])
    reply.finish(())
    app = Column(reply)
    async with app.run_test(size=(40, 12)):
        assert drawn(reply)[1:4] == ["   ▸ reasoning, 1 token", "", "   Yes."]


async def test_reasoning_without_tokens_counts_words() -> None:
    reply = Reply("Qwen")
    reply.write([(f"<think>{'word ' * 100}</think>Yes.", PLAIN)])
    app = Column(reply)
    async with app.run_test(size=(40, 12)):
        assert drawn(reply)[1] == "   ▸ reasoning, 100 words"


async def test_code_blocks() -> None:
    reply = Reply("Qwen")
    reply.write(
        tokens(
            "```py\na = 1\n\nb\n```\n\n- x\n\n  ```\n  c\n  ```\n\n<think>```\nno\n```</think>\n> ```\n> d\n\n    e\n"
        )
    )
    assert reply.code_blocks[:2] == ["a = 1\n\nb", "c"]
    assert reply.code_blocks[-2:] == ["d", "e"]


async def test_M04_the_tint_says_what_it_means() -> None:
    reply = Reply("Qwen")
    app = Column(reply)
    async with app.run_test(size=(60, 40)) as pilot:
        reply.write([("Hel", Method.DRAFT), ("lo", Method.PLAIN), (" you", Method.NGRAM), (".", Method.DRAFT)])
        reply.finish(("1 tok/s",))
        await pilot.pause()
        before = drawn(reply)
        reply.tint = True
        await pilot.pause()
        assert drawn(reply) == [*before, "   50 % draft · 25 % ngram · 25 % model"]
        segments = [(s.text, s.style) for s in reply.render_line(1) if s.style]
        styles = dict(segments)
        assert styles["Hel"].underline and not styles["Hel"].underline2
        assert styles[" you"].underline2 and not styles[" you"].underline
        assert not styles["lo"].underline and not styles["lo"].underline2
        assert len({styles[text].bgcolor for text in ("Hel", "lo", " you")}) == 3
        assert styles["."].bgcolor == styles["Hel"].bgcolor
        reply.tint = False
        await pilot.pause()
        assert drawn(reply) == before


async def test_the_tint_of_an_answer_whose_tokens_nobody_knows() -> None:
    reply = Reply("Qwen")
    reply.write([("word " * 50, PLAIN)])
    reply.finish(())
    reply.tint = True
    app = Column(reply)
    async with app.run_test(size=(60, 40)):
        assert drawn(reply)[-1] == "   Where its tokens are from was not kept."


async def test_branches() -> None:
    asked: list[tuple[Message, int]] = []

    class App(Column):
        def on_message_branch_asked(self, event: Message.BranchAsked) -> None:
            asked.append((event.message, event.by))

    question = UserMessage("Which?", [("a[/b].txt", "1.2 kB")])
    app = App(question)
    async with app.run_test(size=(40, 12)) as pilot:
        assert app.lines()[:3] == [" You", "   Which?", "    a[/b].txt  1.2 kB"]
        question.branch = (2, 3)
        await pilot.pause()
        line = app.lines()[0]
        assert line.rstrip().endswith("‹ 2/3 ›")
        await pilot.click(UserMessage, offset=(line.index("‹"), 0))
        await pilot.click(UserMessage, offset=(line.index("›"), 0))
        await pilot.click(UserMessage, offset=(line.index("2"), 0))
        await pilot.pause()
        assert asked == [(question, -1), (question, 1)]
        question.branch = (1, 3)
        await pilot.pause()
        await pilot.click(UserMessage, offset=(line.index("‹"), 0))
        await pilot.pause()
        assert len(asked) == 2


async def test_focus_is_seen_without_a_colour() -> None:
    reply = Reply("Qwen")
    reply.write([("one\n\ntwo", PLAIN)])
    app = Column(reply)
    async with app.run_test(size=(40, 12)) as pilot:
        reply.focus()
        await pilot.pause()
        assert drawn(reply) == ["▌Qwen", "▌  one", "▌", "▌  two", ""]


async def test_text_is_selected_with_the_mouse_and_copied_as_it_was() -> None:
    reply = Reply("Qwen")
    reply.write([("One long paragraph that has to be wrapped.\n\n```\ncode  here\n```\n\n- item\n", PLAIN)])
    app = Column(reply)
    async with app.run_test(size=(30, 14)) as pilot:
        await pilot.mouse_down(Reply, offset=(3 + 4, 1))
        await pilot.hover(Reply, offset=(3 + 5, 2))
        await pilot.mouse_up(Reply, offset=(3 + 5, 2))
        await pilot.pause()
        assert app.lines()[1:3] == ["▌  One long paragraph that", "▌  has to be wrapped."]
        assert app.screen.get_selected_text() == "long paragraph that has to"
        # What is selected looks so.
        assert len({s.style.bgcolor for s in reply.render_line(1) if s.style}) == 2
        everything = reply.get_selection(Selection(None, None))
        assert everything is not None
        assert everything[0] == "Qwen\nOne long paragraph that has to be wrapped.\n\ncode  here\n\n• item\n"
        part = reply.get_selection(Selection(Offset(5, 4), Offset(9, 4)))
        assert part == ("code", "\n")


@pytest.mark.parametrize("width", range(20, 80, 9))
async def test_nothing_is_cut_at_any_width(width: int) -> None:
    reply = Reply("Qwen2.5 Coder 1.5B Instruct")
    reply.write(tokens(BLOCKS + TABLE + "日本語の長い文章です。" * 5))
    reply.finish(("54.6 tok/s", "84 % of 120 accepted"))
    app = Column(reply)
    async with app.run_test(size=(width, 30)):
        for y in range(reply.size.height):
            strip = reply.render_line(y)
            assert strip.cell_length == sum(segment.cell_length for segment in strip) == width - 1


async def test_U02_a_long_block_of_code_gets_its_colours_in_parts() -> None:
    reply = Reply("Qwen")
    code = "".join(f"/* comment {n}\n over lines */ int x{n};\n" for n in range(400))
    reply.write([(f"```c\n{code}```\n", PLAIN)])
    reply.finish(())
    app = Column(reply)
    async with app.run_test(size=(60, 30)) as pilot:
        for _ in range(500):
            await pilot.pause()
            if not reply._written.busy:
                break
            await asyncio.sleep(0.01)
        assert not reply._written.busy
        # The second line of each comment is one only to who has read the first.
        y = reply.size.height - 4
        styles = [s.style for s in reply.render_line(y) if "over lines" in s.text and s.style]
        assert styles and all(style.italic for style in styles)
