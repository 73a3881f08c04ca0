"""A conversation that is longer than the screen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual.pilot import Pilot
from textual.widget import Widget

from pardec_chat.app.widgets.message import Message, UserMessage
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.app.widgets.transcript import Transcript
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.column import Column


async def _settled(pilot: Pilot[None]) -> None:
    for _ in range(6):
        await pilot.pause()


def _makers(n: int, made: list[int]) -> list[Callable[[], Widget]]:
    def make(number: int) -> Widget:
        made.append(number)
        if number % 2:
            reply = Reply("Qwen", node_id=str(number))
            reply.write([(f"answer {number}\n\n" + "words " * 30, Method.PLAIN)])
            reply.finish(("1 tok/s",))
            return reply
        return UserMessage(f"question {number}", node_id=str(number))

    return [partial(make, number) for number in range(n)]


def _more(app: Column) -> bool:
    return app.transcript.more_below


def _text(app: Column) -> str:
    return "\n".join(app.lines())


async def test_only_the_end_is_made_at_first() -> None:
    made: list[int] = []
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        await app.transcript.show(_makers(500, made))
        await _settled(pilot)
        assert "answer 499" in _text(app)
        assert len(made) < 40
        assert not app.transcript.more_below
        assert app.transcript.scroll_y == app.transcript.max_scroll_y


async def test_earlier_messages_come_when_the_reader_comes_near() -> None:
    made: list[int] = []
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        await transcript.show(_makers(100, made))
        await _settled(pilot)
        seen: set[str] = set()
        for _ in range(60):
            before = app.lines()
            seen |= {line.strip() for line in before}
            transcript.read("page_up")
            await _settled(pilot)
            if before == app.lines():
                break
        assert sorted(made) == list(range(100))
        assert {f"question {n}" for n in range(0, 100, 2)} <= seen
        assert transcript.scroll_y == 0
        assert "earlier" not in _text(app)


async def test_what_is_seen_stays_where_it_is_while_earlier_ones_come() -> None:
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        await transcript.show(_makers(100, []))
        await _settled(pilot)
        transcript.scroll_to(y=25, animate=False)
        await pilot.pause()
        n = len(transcript._earlier)
        lines = app.lines()
        transcript._making = True
        await transcript._make_earlier()
        await _settled(pilot)
        assert len(transcript._earlier) < n
        assert app.lines() == lines


async def test_home_is_the_first_message() -> None:
    made: list[int] = []
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        await transcript.show(_makers(90, made))
        transcript.read("home")
        for _ in range(300):
            await pilot.pause()
            if not transcript._earlier and transcript.scroll_y == 0:
                break
        assert app.lines()[:2] == [" You", "   question 0"]
        assert sorted(made) == list(range(90))
        assert transcript.more_below
        transcript.read("end")
        await _settled(pilot)
        assert "answer 89" in _text(app)
        assert not transcript.more_below


async def test_it_says_how_many_are_earlier() -> None:
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        await transcript.show(_makers(500, []))
        transcript._making = True  # none is made meanwhile
        transcript.scroll_to(y=0, animate=False)
        await _settled(pilot)
        assert app.lines()[0] == f" ↑ {len(transcript._earlier)} earlier messages"


async def test_the_reader_is_left_alone_and_followed_again() -> None:
    reply = Reply("Qwen")
    app = Column(UserMessage("Count."), reply)
    async with app.run_test(size=(60, 12)) as pilot:
        transcript = app.transcript
        reply.write([("".join(f"line {n}\n\n" for n in range(40)), Method.PLAIN)])
        await _settled(pilot)
        assert "line 39" in _text(app)
        transcript.read("page_up")
        await _settled(pilot)
        lines = app.lines()
        assert _more(app)
        for n in range(40, 60):
            reply.write([(f"line {n}\n\n", Method.PLAIN)])
            await pilot.pause()
        assert app.lines() == lines
        transcript.read("end")
        await _settled(pilot)
        assert not _more(app)
        reply.write([("line 60\n\n", Method.PLAIN)])
        await _settled(pilot)
        assert "line 60" in _text(app)


async def test_what_gets_higher_above_does_not_move_what_is_read() -> None:
    first, second = Reply("Qwen"), Reply("Qwen")
    first.write([("<think>one\n\ntwo\n\nthree</think>Yes.", Method.PLAIN)])
    second.write([("".join(f"line {n}\n\n" for n in range(40)), Method.PLAIN)])
    app = Column(first, second)
    async with app.run_test(size=(60, 12)) as pilot:
        app.transcript.scroll_to(y=15, animate=False)
        await _settled(pilot)
        lines = app.lines()
        first.toggle_reasoning()
        await _settled(pilot)
        assert app.lines() == lines
        assert app.transcript.scroll_y == 15 + 5


async def test_other_widths_keep_the_message_that_is_read() -> None:
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        await transcript.show(_makers(40, []))
        await _settled(pilot)
        message = next(one for one in transcript.query(Message) if one.node_id == "35")
        transcript.scroll_to(y=message.virtual_region.y, animate=False)
        await _settled(pilot)
        assert app.lines()[1] == "   answer 35"
        await pilot.resize_terminal(34, 20)
        await _settled(pilot)
        assert app.lines()[1] == "   answer 35"


async def test_messages_are_added_and_taken_away() -> None:
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript = app.transcript
        question, reply, note = UserMessage("One?"), Reply("Qwen"), Note("Something happened.")
        for widget in (question, reply, note):
            await transcript.add(widget)
        await _settled(pilot)
        assert app.lines()[0] == " You"
        assert "Something happened." in _text(app)
        await transcript.remove_from(reply)
        await _settled(pilot)
        assert _text(app).strip() == "You\n   One?"
        await transcript.clear()
        await _settled(pilot)
        assert not _text(app).strip()
        await transcript.add(UserMessage("Two?"))
        await _settled(pilot)
        assert app.lines()[:2] == [" You", "   Two?"]


async def test_another_conversation_takes_the_place_of_one() -> None:
    made: list[int] = []
    app = Column()
    async with app.run_test(size=(60, 20)) as pilot:
        transcript: Transcript = app.transcript
        await transcript.show(_makers(300, made))
        await _settled(pilot)
        transcript.scroll_to(y=0, animate=False)
        await transcript.show(_makers(3, []))
        await _settled(pilot)
        assert [one.node_id for one in transcript.query(Message)] == ["0", "1", "2"]
        assert app.lines()[:2] == [" You", "   question 0"]
        assert not transcript.more_below
