"""What keys and events do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from textual import events
from textual.app import SystemCommand

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat import earlier
from pardec_chat.app.chat.request import Failed, Prefilling, Queued
from pardec_chat.app.screens.comparison import ComparisonScreen
from pardec_chat.app.screens.history import HistoryScreen
from pardec_chat.app.widgets.header import Header
from pardec_chat.app.widgets.message import UserMessage
from pardec_chat.app.widgets.metrics import MetricsPanel
from pardec_chat.app.widgets.metrics_line import MetricsLine
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.app.widgets.transcript import Transcript
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import ModelUnreadable, PairImpossible, QueueFull, UserError
from pardec_chat.tests.ui.fake_engine import DRAFT, LARGE, SMALL, FakeEngine, delta, figures, finished, on_thread
from pardec_chat.tests.ui.helpers import ask, notifications, ready, screen_text, until

MakeApp = Callable[..., PardecChat]


def method(app: PardecChat) -> Method:
    return app.chat.session.method


def usable(app: PardecChat) -> bool:
    return not app.chat.prompt.disabled


async def test_a_turn(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(system="Be brief.", max_tokens=99, depth=5)
    async with app.run_test() as pilot:
        await ask(pilot, "Hello?")
        turn = engine.turns[0]
        assert [(m.role, m.content) for m in turn.request.messages] == [("system", "Be brief."), ("user", "Hello?")]
        assert (turn.request.method, turn.request.depth, turn.request.max_tokens) == (Method.DRAFT, 5, 99)
        turn.send(Queued(2))
        await until(pilot, lambda: app.chat.state == "waiting, 2 ahead")
        turn.send(Prefilling(512, 1024))
        await until(pilot, lambda: "reading the prompt 512 / 1,024" in screen_text(app))
        turn.send(delta("Hel"), delta("lo."))
        await until(pilot, lambda: app.query_one(Reply).source == "Hello.")
        assert app.chat.state == "writing"
        turn.send(finished("Hello. Bye", tail=" Bye"))
        await until(pilot, lambda: app.chat.state == "ready")
        assert app.query_one(Reply).source == "Hello. Bye"
        await ask(pilot, "And?")
        assert [(m.role, m.content) for m in engine.turns[1].request.messages][2:] == [
            ("assistant", "Hello. Bye"),
            ("user", "And?"),
        ]


async def test_stop(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "Count.")
        engine.turns[0].send(delta("one "))
        await pilot.press("escape")
        assert engine.turns[0].cancelled
        await until(pilot, lambda: app.chat.state == "stopping")
        engine.turns[0].send(delta("two"), finished("one two", reason="cancelled"))
        await until(pilot, lambda: app.chat.state == "ready")
        assert "stopped · " in screen_text(app)
        assert [node.text for node in app.chat.dialogue.conversation.path()] == ["Count.", "one two"]


async def test_escape_without_an_answer_does_nothing(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("escape")
        assert app.chat.state == "ready"
        assert app.focused is app.chat.prompt


async def test_again(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("ctrl+r")
        assert not engine.turns
        await ask(pilot, "Count.")
        engine.turns[0].send(finished("one"))
        await until(pilot, lambda: app.chat.state == "ready")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(engine.turns) == 2)
        assert [(m.role, m.content) for m in engine.turns[1].request.messages] == [("user", "Count.")]
        engine.turns[1].send(delta("two"), finished("two"))
        await until(pilot, lambda: app.chat.state == "ready")
        assert [reply.source for reply in app.query(Reply)] == ["two"]
        assert len(app.query(UserMessage)) == 1


async def test_again_while_it_writes(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "Count.")
        engine.turns[0].send(delta("one"))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(engine.turns) == 2)
        assert engine.turns[0].cancelled
        engine.turns[0].send(delta(" late"), finished("one late", reason="cancelled"))
        engine.turns[1].send(delta("two"))
        await until(pilot, lambda: app.query_one(Reply).source == "two")
        assert app.chat.dialogue.busy


async def test_what_came_so_far_is_copied_compared_and_counted(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await ask(pilot, "Count.")
        engine.turns[0].send(delta("one"), finished("one"))
        await until(pilot, lambda: app.chat.state == "ready")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(engine.turns) == 2)
        engine.turns[1].send(delta("one and"))
        await until(pilot, lambda: app.query_one(Reply).source == "one and")
        await pilot.press("shift+tab", "c")
        await until(pilot, lambda: app.clipboard == "one and")
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, ComparisonScreen))
        assert "▸ one∎ " in screen_text(app)
        assert "▸ one␣and " in screen_text(app)
        assert "nothing guessed · writing" in screen_text(app)
        await pilot.press("escape", "ctrl+g")
        await until(pilot, lambda: isinstance(app.screen, HistoryScreen))
        assert "1 answer · " in screen_text(app)


async def test_the_context_that_is_taken_is_that_of_the_branch(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        for n, used in enumerate((300, 700)):
            await ask(pilot, "Count.")
            engine.turns[n].send(delta("one"), finished("one", replace(figures(1), context_used=used)))
            await until(pilot, lambda: app.chat.state == "ready")
        dialogue = app.chat.dialogue
        assert dialogue.used == 700
        conversation = dialogue.conversation
        await pilot.press("ctrl+n")
        assert dialogue.used == 0
        await app.chat.talk.show(conversation)
        assert dialogue.used == 700
        conversation.leaf = conversation.path()[1].id
        assert dialogue.used == 300


async def test_again_after_a_failure(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        engine.refusal = QueueFull("32 requests wait already.", "Try again when one has finished.")
        await ready(pilot)
        app.chat.prompt.text = "Count."
        await pilot.press("enter")
        await until(pilot, lambda: "Try again when one has finished." in screen_text(app))
        engine.refusal = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(engine.turns) == 1)
        engine.turns[0].send(Failed(ModelUnreadable("It broke.", "Mend it.")))
        await until(pilot, lambda: "Mend it." in screen_text(app))
        await ask(pilot, "Something else.")
        # What failed is not told to the model.
        assert [m.content for m in engine.turns[1].request.messages] == ["Something else."]


async def test_new_conversation(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "Count.")
        engine.turns[0].send(delta("one"))
        await pilot.press("ctrl+n")
        assert engine.turns[0].cancelled
        engine.turns[0].send(delta(" late"), finished("one late", reason="cancelled"))
        await until(pilot, lambda: app.chat.state == "ready")
        assert not app.query(Reply)
        await ask(pilot, "Again.")
        assert [m.content for m in engine.turns[1].request.messages] == ["Again."]


async def test_no_second_question_while_it_writes(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "Count.")
        app.chat.prompt.text = "And?"
        await pilot.press("enter")
        await pilot.pause()
        assert len(engine.turns) == 1
        assert app.chat.prompt.text == "And?"


async def test_typing_while_it_loads(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.held = True
    app = make_app()
    async with app.run_test() as pilot:
        await until(pilot, lambda: bool(engine.loads))
        await pilot.press("h", "i", "enter")
        assert app.chat.prompt.text == "hi"
        engine.end_load()
        await ready(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: len(engine.turns) == 1)


async def test_progress_of_both_models(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.held = True
    app = make_app()
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.state == "loading")
        progress = engine.loads[0][1]
        assert progress is not None

        def tell(done: float, progress: Callable[[float], object] = progress) -> None:
            progress(done)

        for done, state in ((0.4, "loading … 40 %"), (1.0, "loading … 100 %"), (0.2, "loading the draft … 20 %")):
            on_thread(partial(tell, done))
            await until(pilot, lambda: state in screen_text(app))  # noqa: B023


async def test_prompt_lines(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        prompt = app.chat.prompt
        await pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d")
        assert prompt.text == "a\nb\nc\nd"
        assert prompt.size.height == 4
        prompt.post_message(events.Paste("x\r\ny\rz\n\x1b[2J"))
        await until(pilot, lambda: prompt.text == "a\nb\nc\ndx\ny\nz\n␛[2J")
        await pilot.press("enter")
        await until(pilot, lambda: bool(engine.turns))
        assert engine.turns[0].request.messages[-1].content == "a\nb\nc\ndx\ny\nz\n␛[2J"
        assert prompt.text == ""


async def test_fast_keys_keep_their_order(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for key, character in (("a", "a"), ("ctrl+j", "\n"), ("b", "b"), ("enter", "\r"), ("c", "c")):
            app.post_message(events.Key(key, character))
        await until(pilot, lambda: bool(engine.turns))
        assert engine.turns[0].request.messages[-1].content == "a\nb"
        assert app.chat.prompt.text == "c"


async def test_prompt_recalls(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        for number, text in enumerate(("first", "second\nline")):
            await ask(pilot, text)
            engine.turns[number].send(finished("ok"))
            await ready(pilot)
        prompt = app.chat.prompt
        await pilot.press("d", "r", "up")
        assert prompt.text == "second\nline"
        await pilot.press("up", "up")
        assert prompt.text == "first"
        await pilot.press("up", "down", "down", "down")
        assert prompt.text == "dr"


async def test_reader_is_left_alone(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ask(pilot, "Count.")
        turn = engine.turns[0]
        lines = "\n\n".join(f"line {i}" for i in range(40))
        turn.send(delta(lines))
        conversation = app.query_one(Transcript)
        await until(pilot, lambda: "line 39" in screen_text(app))
        assert not conversation.more_below
        await pilot.press("pageup")
        await until(pilot, lambda: conversation.more_below)
        where = conversation.scroll_y
        assert "more below" in screen_text(app)
        turn.send(delta("\n\nline 40\n\nline 41"))
        await until(pilot, lambda: app.query_one(Reply).source.endswith("41"))
        assert conversation.scroll_y == where
        await pilot.press("ctrl+end")
        await until(pilot, lambda: not conversation.more_below)
        turn.send(delta("\n\nline 42"))
        await until(pilot, lambda: "line 42" in screen_text(app))
        assert "more below" not in screen_text(app)


async def test_method_is_switched(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(depth=5)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        assert "draft, 5 deep" in screen_text(app)
        await pilot.press("f2", "down", "enter")
        await until(pilot, lambda: app.chat.session.method == Method.NGRAM)
        await until(pilot, lambda: "ngram, 15 deep" in screen_text(app))
        await ask(pilot, "Hello?")
        # The depth that was given was meant for the other method.
        assert (engine.turns[0].request.method, engine.turns[0].request.depth) == (Method.NGRAM, 15)


async def test_method_draft_wants_a_draft_model(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(draft=None, method=Method.PLAIN)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f2")
        await pilot.pause()
        assert "not now: it needs a draft model, F3 chooses one" in screen_text(app)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.chat.session.method == Method.NGRAM)


async def test_models_are_switched(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(model=SMALL, draft=None, method=Method.PLAIN, n_ctx=1024, threads=2)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f3", "down", "enter", "down", "down", "enter")
        await until(pilot, lambda: len(engine.loads) == 2)
        await ready(pilot)
        choice = engine.loads[1][0]
        assert (choice.model, choice.draft, choice.n_ctx, choice.threads) == (LARGE, DRAFT, 1024, 2)
        assert method(app) == Method.AUTO
        assert "The method is auto now." in screen_text(app)


async def test_without_the_draft_model_the_method_is_auto(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app(model=LARGE, draft=DRAFT, method=Method.DRAFT)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f3", "enter", "home", "enter")
        await until(pilot, lambda: len(engine.loads) == 2)
        await ready(pilot)
        assert method(app) == Method.AUTO
        assert "The method is auto now: there is no draft model." in screen_text(app)


async def test_earlier_answers_are_kept_with_the_users_word_and_forgotten_with_it(
    make_app: MakeApp, engine: FakeEngine
) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)

        def offered() -> dict[str, SystemCommand]:
            return {command.title: command for command in app.get_system_commands(app.chat)}

        assert not earlier.is_agreed()
        offered()["Copy from earlier answers"].callback()
        await until(pilot, lambda: "are kept from now on" in notifications(app))
        assert earlier.is_agreed()
        offered()["Forget earlier answers"].callback()
        await until(pilot, lambda: "are deleted" in notifications(app))
        assert not earlier.is_agreed()
        engine.no_earlier = UserError("The folder of earlier answers: no room.", "Check its rights.")
        offered()["Copy from earlier answers"].callback()
        await until(pilot, lambda: "no room" in notifications(app))


async def test_escape_leaves_the_models_as_they_are(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f3", "enter", "escape", "escape")
        await pilot.pause()
        assert app.screen is app.chat
        assert len(engine.loads) == 1


async def test_a_load_that_fails_gives_the_old_model_back(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.failures[LARGE] = [ModelUnreadable("It is cut off.", "Pull it again.")]
    app = make_app(model=SMALL, draft=None, method=Method.PLAIN)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f3", "down", "enter", "enter")
        await until(pilot, lambda: len(engine.loads) == 3)
        await ready(pilot)
        assert engine.loads[2][0].model == SMALL
        text = screen_text(app)
        assert "Error: Qwen2.5 Coder 1.5B Instruct was not loaded. It is cut off." in text
        assert "Pull it again." in text
        assert "Back to SmolLM2 135M Instruct." in text


async def test_a_pair_that_does_not_fit_changes_nothing(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.failures[LARGE] = [PairImpossible("They do not fit.", "Choose another.")]
    app = make_app(model=SMALL, draft=None, method=Method.PLAIN)
    async with app.run_test() as pilot:
        await ask(pilot, "Hello?")
        await pilot.press("f3", "down", "enter", "enter")
        await until(pilot, lambda: "They do not fit." in screen_text(app))
        assert len(engine.loads) == 2
        engine.turns[0].send(finished("Hello."))
        await ready(pilot)
        assert app.query_one(Header).names == ("SmolLM2 135M Instruct", None)


async def test_without_a_model_the_prompt_says_so(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.failures[LARGE] = [ModelUnreadable("It is cut off.", "Pull it again.")]
    app = make_app()
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.state == "no model")
        assert not usable(app)
        assert "No model is loaded: F3 chooses one, F7 gets more." in screen_text(app)
        await pilot.press("f3", "enter", "enter")
        await ready(pilot)
        assert usable(app)
        assert app.focused is app.chat.prompt


async def test_no_model_on_disk(make_app: MakeApp) -> None:
    app = make_app(model=None, draft=None, choices=tuple)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.state == "no model")
        await pilot.press("f3")
        await pilot.pause()
        assert "No model is on this disk." in screen_text(app)
        await pilot.press("escape")
        assert app.screen is app.chat


async def test_a_models_folder_that_cannot_be_read(make_app: MakeApp) -> None:
    def choices() -> tuple[()]:
        raise UserError("The folder [/x] cannot be read.", "Change its rights.")

    app = make_app(choices=choices)
    async with app.run_test(notifications=True) as pilot:
        await ready(pilot)
        await pilot.press("f3")
        await until(pilot, lambda: "The folder [/x]" in screen_text(app))
        assert "Change its rights." in screen_text(app)


async def test_loaded_notices_are_shown(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.notices = ("The draft model does not fit into memory and was left out: 2 GB are free.",)
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        assert "does not fit into memory" in screen_text(app)
        assert len(app.query(Note)) == 1


async def test_engine_that_cannot_be_made(make_app: MakeApp) -> None:
    app = make_app()

    def make() -> FakeEngine:
        raise ImportError("no [/numpy]")

    app.chat.session._make_engine = make
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.chat.state == "no engine")
        assert "ImportError: no [/numpy]" in screen_text(app)


@pytest.mark.parametrize(("width", "shown"), [(99, "line"), (100, "panel")])
async def test_figures_have_their_place(make_app: MakeApp, width: int, shown: str) -> None:
    app = make_app()
    async with app.run_test(size=(width, 24)) as pilot:
        await ready(pilot)
        seen = []
        for _ in range(4):
            panel, line = app.query_one(MetricsPanel).display, app.query_one(MetricsLine).display
            seen.append("panel" if panel else "line" if line else "none")
            assert not (panel and line)
            await pilot.press("f5")
            await pilot.pause()
        assert seen[0] == seen[3] == shown
        assert sorted(seen[:3]) == ["line", "none", "panel"]
        assert seen[seen.index("panel") + 1] == "line"


async def test_resize(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ask(pilot, "Hello?")
        engine.turns[0].send(delta("日本語 " * 60))
        await until(pilot, lambda: "日本語" in screen_text(app))
        for size in ((120, 36), (40, 10), (20, 6), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert app.query_one(MetricsLine).display


async def test_footer_names_every_key_that_is_needed_often(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        footer = screen_text(app).splitlines()[-1]
        for key in (
            "esc stop",
            "^R again",
            "^N new",
            "F2 method",
            "F3 model",
            "^L list",
            "F1 keys",
            "^Q quit",
            "^P menu",
        ):
            assert f" {key} " in f"{footer} "
        await pilot.click("FooterKey")
        await pilot.press("f1")
        await pilot.pause()
        page = "\n".join(str(w.render()) for w in app.screen.query("Static"))
        for word in ("^R", "^P", "ctrl+j", "tokens a step", "pardec-chat check", "two tokens tie"):
            assert word in page
        await pilot.press("f1")
        assert app.screen is app.chat


async def test_palette_offers_the_keys_and_themes(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        commands = {command.title: command for command in app.get_system_commands(app.chat)}
        assert {"Theme", "Quit", "A new conversation", "Model and draft model"} <= set(commands)
        commands["What guesses ahead"].callback()
        await until(pilot, lambda: app.screen is not app.chat)
        app.theme = "pardec-light"
        await pilot.pause()


async def test_unknown_paths_have_names(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.names = {Path("/x/other.gguf"): "Other Model"}
    app = make_app(model=Path("/x/other.gguf"), draft=None, method=Method.PLAIN)
    async with app.run_test() as pilot:
        await ready(pilot)
        assert app.query_one(Header).names == ("Other Model", None)


async def test_figures_of_the_answer_before_are_gone(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "One?")
        at = figures(50, 1000.0, context=777)
        engine.turns[0].send(delta("x", at), finished("x", at))
        await ready(pilot)
        assert "50.0 tok/s" in screen_text(app)
        await ask(pilot, "Two?")
        await until(pilot, lambda: "– tok/s" in screen_text(app))
        assert "777 / 4,096" in screen_text(app)
