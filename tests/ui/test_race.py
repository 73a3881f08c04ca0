"""The race: what it asks for, what it shows, and that the chat comes back as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat.request import Failed, Notice, Prefilling
from pardec_chat.app.screens.race import RaceScreen
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.prompt import Prompt
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import ContextFull, OutOfMemory, QueueFull
from pardec_chat.tests.ui.fake_engine import DRAFT, LARGE, FakeEngine, delta, figures, finished
from pardec_chat.tests.ui.helpers import ask, ready, screen_text, until

MakeApp = Callable[..., PardecChat]
GREEDY = SamplingParams(temperature=0.0)


def told(app: PardecChat) -> list[str]:
    """What was said in passing."""
    return [notification.message for notification in app._notifications]


async def to_race(pilot: Pilot[None]) -> RaceScreen:
    """Load, open the race, load again."""
    await ready(pilot)
    await pilot.press("f6")
    await until(pilot, lambda: isinstance(pilot.app.screen, RaceScreen))
    race = pilot.app.screen
    assert isinstance(race, RaceScreen)
    await until(pilot, lambda: race.contest.ready)
    return race


async def start(pilot: Pilot[None], engine: FakeEngine, prompt: str = "Count.") -> RaceScreen:
    """Open the race and start it."""
    race = await to_race(pilot)
    race.prompt.text = prompt
    await pilot.press("enter")
    await until(pilot, lambda: race.contest.running)
    return race


async def back(pilot: Pilot[None]) -> None:
    """The chat is on the screen, its models are loaded."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await until(pilot, lambda: app.screen is app.chat)
    await ready(pilot)


async def test_both_are_asked_the_same(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(system="Be brief.", threads=2, ngram_min_match=3)
    async with app.run_test() as pilot:
        race = await to_race(pilot)
        choice = engine.loads[-1][0]
        assert (choice.model, choice.draft, choice.n_ctx, choice.slots, choice.threads) == (LARGE, DRAFT, 2048, 2, 2)
        await pilot.press(*"Hi [b]", "enter")
        await until(pilot, lambda: race.contest.running)
        left, right = (turn.request for turn in engine.turns)
        assert [(m.role, m.content) for m in left.messages] == [("system", "Be brief."), ("user", "Hi [b]")]
        assert (left.method, right.method) == (Method.PLAIN, Method.AUTO)
        assert replace(left, method=Method.AUTO) == right
        assert left.alone
        assert left.max_tokens == 256
        assert left.sampling.seed is not None
        assert left.ngram_min_match == 3
        # The prompt stays for the next race, which draws a seed of its own.
        assert race.prompt.text == "Hi [b]"
        for turn in engine.turns:
            turn.send(finished("Hi"))
        await until(pilot, lambda: race.contest.state == "over")
        await pilot.press("enter")
        await until(pilot, lambda: len(engine.turns) == 4)
        again = engine.turns[2].request.sampling.seed
        assert again == engine.turns[3].request.sampling.seed != left.sampling.seed


async def test_what_the_user_has_set_holds(make_app: MakeApp, engine: FakeEngine) -> None:
    sampling = SamplingParams(temperature=0.3, seed=5)
    app = make_app(sampling=sampling, max_tokens=40, n_ctx=1024)
    async with app.run_test() as pilot:
        await start(pilot, engine)
        assert engine.loads[-1][0].n_ctx == 1024
        assert all(turn.request.sampling == sampling for turn in engine.turns)
        assert all(turn.request.max_tokens == 40 for turn in engine.turns)


async def test_the_last_message_is_the_prompt(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "First?")
        engine.turns[0].send(delta("Yes."), finished("Yes."))
        await ready(pilot)
        race = await to_race(pilot)
        assert race.prompt.text == "First?"
        assert not isinstance(app.focused, Prompt)
        await pilot.press("enter")
        await until(pilot, lambda: len(engine.turns) == 3)
        assert [m.content for m in engine.turns[1].request.messages] == ["First?"]
        for turn in engine.turns[1:]:
            turn.send(finished("No."))
        await until(pilot, lambda: race.contest.state == "over")
        await pilot.press("escape")
        await back(pilot)
        # The conversation is as it was, and goes on.
        assert [(choice.slots, choice.n_ctx) for choice, _, _ in engine.loads] == [(1, None), (2, 2048), (1, None)]
        assert [reply.source for reply in app.chat.query(Reply)] == ["Yes."]
        await ask(pilot, "Second?")
        assert [m.content for m in engine.turns[3].request.messages] == ["First?", "Yes.", "Second?"]


async def test_a_race(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(sampling=GREEDY)
    async with app.run_test() as pilot:
        race = await start(pilot, engine)
        left, right = engine.turns
        left.send(Prefilling(100, 512))
        await until(pilot, lambda: "reading the prompt 100 / 512" in screen_text(app))
        left.send(delta("one\x1b[2J [b]two\r\n", figures(2, 91.0, method=Method.PLAIN, depth=0)))
        await until(pilot, lambda: "one␛[2J [b]two" in screen_text(app))
        text = screen_text(app)
        assert "22.0 tok/s" in text
        assert "now plain" in text
        assert "2 of 256" in text
        at = replace(figures(58, 1859.0, steps=20, drafted=60, accepted=38, method=Method.AUTO), using=Method.DRAFT)
        right.send(delta("one", at))
        await until(pilot, lambda: "31.2 tok/s" in screen_text(app))
        for words in ("2.9 a step", "63 % of 60 accepted", "now draft, 3 deep", "first token 0.42 s", "1.86 s"):
            assert words in screen_text(app)
        assert race.contest.state == "racing"
        left.send(finished("same", figures(58, 2636.0, method=Method.PLAIN, depth=0)))
        await until(pilot, lambda: "done after 2.64 s" in screen_text(app))
        assert race.contest.running
        right.send(finished("same", at, "length"))
        await until(pilot, lambda: race.contest.state == "over")
        assert "limit after 1.86 s" in screen_text(app)
        assert "auto is 1.42x as fast as plain: 31.2 against 22.0 tok/s." in screen_text(app)
        assert race.contest.outcome.endswith(
            "The texts differ from character 4 on: two tokens that nearly tie may do that."
        )


async def test_stop_then_leave(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        race = await start(pilot, engine)
        assert " esc stop " in screen_text(app)
        engine.turns[0].send(delta("one", figures(41, 1863.6, method=Method.PLAIN, depth=0)))
        await pilot.press("escape")
        assert [turn.cancelled for turn in engine.turns] == [True, True]
        assert race.contest.state == "stopping"
        engine.turns[0].send(finished("one", figures(41, 1863.6, method=Method.PLAIN, depth=0), "cancelled"))
        engine.turns[1].send(finished("", figures(0, 0.0, method=Method.AUTO, depth=0), "cancelled"))
        await until(pilot, lambda: race.contest.state == "over")
        assert "Stopped: plain wrote 41 tokens at 22.0 tok/s, auto 0 at –." in screen_text(app)
        assert "fast as" not in screen_text(app)
        await pilot.press("escape")
        await back(pilot)


async def test_a_stop_need_not_be_waited_for(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await start(pilot, engine)
        await pilot.press("escape", "escape")
        await back(pilot)
        engine.turns[0].send(delta("late"), finished("late", reason="cancelled"))
        await pilot.pause()
        assert app.chat.state == "ready"


async def test_contestants_are_chosen(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        race = await to_race(pilot)
        # The prompt takes the digits while it has the keys.
        assert " 1 left " not in screen_text(app)
        await pilot.press("tab")
        assert " 1 left 2 right " in screen_text(app)
        await pilot.press("1")
        await until(pilot, lambda: "Who runs on the left" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "How far draft guesses" in screen_text(app))
        assert "• 3 tokens at a time" in screen_text(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "1  draft, 4 deep" in screen_text(app))
        # Escape in the second list leads back to the first, and from there to where one was.
        await pilot.press("2", "end", "up", "enter")
        await until(pilot, lambda: "How far ngram guesses" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "Who runs on the right" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is race)
        assert "2  auto" in screen_text(app)
        await pilot.click(".racer", offset=(4, 0))
        await until(pilot, lambda: "Who runs on the left" in screen_text(app))
        await pilot.press("end", "up", "enter", "enter")
        await until(pilot, lambda: "1  ngram, 15 deep" in screen_text(app))
        race.prompt.text = "Count."
        await pilot.press("enter")
        await until(pilot, lambda: len(engine.turns) == 2)
        assert [(t.request.method, t.request.depth) for t in engine.turns] == [(Method.NGRAM, 15), (Method.AUTO, None)]
        # Nobody is replaced on the way.
        await pilot.press("1")
        await pilot.click(".racer")
        await pilot.pause()
        assert app.screen is race


async def test_draft_needs_a_draft_model(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(draft=None, method=Method.PLAIN)
    async with app.run_test() as pilot:
        await to_race(pilot)
        await pilot.press("tab", "1")
        await until(pilot, lambda: "not now: it needs a draft model, F3 in the chat chooses one" in screen_text(app))


async def test_one_that_fails_ends_the_race(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        race = await start(pilot, engine)
        error = ContextFull("The prompt has 9,120 tokens; the context holds 2,048.", "Shorten it.")
        engine.turns[0].send(Failed(error))
        await until(pilot, lambda: engine.turns[1].cancelled)
        engine.turns[1].send(finished("", figures(0, 0.0), "cancelled"))
        await until(pilot, lambda: race.contest.state == "over")
        said = "No verdict: The prompt has 9,120 tokens; the context holds 2,048. Shorten it."
        assert race.contest.outcome == said
        assert "Shorten it." in screen_text(app)
        engine.refusal = QueueFull("32 requests wait already.", "Try again when one has finished.")
        await pilot.press("enter")
        await until(pilot, lambda: "32 requests wait already." in screen_text(app))
        assert not race.contest.running


async def test_a_load_that_fails_leads_back(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        engine.failures[LARGE] = [OutOfMemory("2 GB are free, 3 GB are needed.", "Choose a smaller model.")]
        await pilot.press("f6")
        await until(pilot, lambda: len(engine.loads) == 3)
        await back(pilot)
        text = screen_text(app)
        assert "Error: There is no race: 2 GB are free, 3 GB are needed." in text
        assert "Choose a smaller model." in text
        assert engine.loads[2][0].slots == 1
        await ask(pilot, "Hello?")


async def test_a_load_that_fails_behind_a_list(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        engine.held = True
        engine.failures[LARGE] = [OutOfMemory("2 GB are free, 3 GB are needed.", "Choose a smaller model.")]
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, RaceScreen))
        await pilot.press("tab", "1")
        await until(pilot, lambda: "Who runs on the left" in screen_text(app))
        engine.held = False
        engine.end_load()
        await pilot.pause()
        assert "Who runs on the left" in screen_text(app)
        await pilot.press("escape")
        await back(pilot)
        assert "There is no race" in screen_text(app)


async def test_leaving_while_it_loads(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        engine.held = True
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, RaceScreen))
        progress = engine.loads[1][1]
        assert progress is not None
        progress(0.4)
        await until(pilot, lambda: "loading … 40 %" in screen_text(app))
        await pilot.press("h", "i", "enter")
        await until(pilot, lambda: "Not yet: loading … 40 %." in told(app))
        assert not engine.turns
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        engine.end_load(1)
        await pilot.pause()
        assert app.chat.state == "loading"
        engine.end_load(2)
        await ready(pilot)


async def test_not_while_it_writes_or_loads(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.held = True
    app = make_app()
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(engine.loads))
        await pilot.press("f6")
        await until(pilot, lambda: "Not yet: loading." in told(app))
        engine.end_load()
        await ask(pilot, "Hello?")
        await pilot.press("f6")
        await until(pilot, lambda: "An answer is being written: esc stops it." in told(app))
        assert app.screen is app.chat


async def test_notices_are_told_once(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.notices = ("The pair fits with small differences: [b].",)
    app = make_app()
    async with app.run_test() as pilot:
        race = await start(pilot, engine)
        assert not told(app)
        for turn in engine.turns:
            turn.send(Notice("The system [message] was left out."), finished("ok"))
        await until(pilot, lambda: race.contest.state == "over")
        assert told(app) == ["The system [message] was left out."]
        await pilot.press("escape")
        await back(pilot)
        assert len(app.chat.query(Note)) == 1


async def test_without_a_prompt(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        race = await to_race(pilot)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "There is no prompt yet: write one first." in told(app))
        assert app.focused is race.prompt


async def test_help_and_palette_know_it(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        commands = {command.title: command for command in app.get_system_commands(app.chat)}
        commands["Two methods side by side"].callback()
        await until(pilot, lambda: isinstance(app.screen, RaceScreen))
        await pilot.press("f1")
        await until(pilot, lambda: "Who runs on the left" in screen_text(app))
        await pilot.press("escape", "escape")
        await back(pilot)
        await pilot.press("f1")
        await until(pilot, lambda: "Two methods side by side" in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (20, 8)])
async def test_small_terminals_and_wide_characters(
    make_app: MakeApp, engine: FakeEngine, size: tuple[int, int]
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await start(pilot, engine, "図書館の開館時間を教えてください。" * 4)
        for turn in engine.turns:
            turn.send(delta("日本語\tabc\n" * 60 + "終わり", figures(60, 900.0)))
        await until(pilot, lambda: screen_text(app).count("終わり") == 2 or size[1] < 24)
        assert app.screen.size == size
