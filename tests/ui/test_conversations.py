"""Conversations in the app: kept, found again, branched, and nothing lost; with the real keeper on a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat.request import Failed, Queued
from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node
from pardec_chat.app.conversations.keeper import Keeper
from pardec_chat.app.conversations.store import Store
from pardec_chat.app.widgets.message import Message, UserMessage
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.fake_engine import FakeEngine, delta, figures, finished
from pardec_chat.tests.ui.helpers import ask, ready, screen_text, until

MakeApp = Callable[..., PardecChat]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.db"


@pytest.fixture
def make_kept(make_app: MakeApp, path: Path) -> MakeApp:
    """Apps that keep their conversations in one file."""

    def make(**changes: object) -> PardecChat:
        return make_app(keeper=lambda failed: Keeper(path, failed), **changes)

    return make


@pytest.fixture
def stored(path: Path) -> Iterator[Callable[[], list[Conversation]]]:
    """What is in the file, pinned and newest first."""

    def read() -> list[Conversation]:
        store = Store(path)
        try:
            return [store.read(summary.id) for summary in store.summaries()]
        finally:
            store.close()

    yield read


async def answer(pilot: Pilot[None], engine: FakeEngine, text: str, question: str | None = None) -> None:
    """Ask, and have it answered."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    if question is not None:
        await ask(pilot, question)
    engine.turns[-1].send(delta(text), finished(text, figures(len(text), 500.0)))
    await until(pilot, lambda: not app.chat.dialogue.busy)


def texts(app: PardecChat) -> list[str]:
    return [node.text for node in app.chat.dialogue.conversation.path()]


def shown(app: PardecChat) -> list[str]:
    return [
        message.source if isinstance(message, Reply) else message.text
        for message in app.query(Message)
        if isinstance(message, Reply | UserMessage)
    ]


async def listed(pilot: Pilot[None], titles: list[str]) -> None:
    app = pilot.app
    assert isinstance(app, PardecChat)
    await until(pilot, lambda: [one.title for one in app.chat.shelf.summaries] == titles)


async def test_an_answer_is_kept_with_its_figures_origins_and_steps(
    make_kept: MakeApp, engine: FakeEngine, stored: Callable[[], list[Conversation]]
) -> None:
    app = make_kept(sampling=SamplingParams(temperature=0.3))
    async with app.run_test() as pilot:
        await ask(pilot, "What is a tree?")
        at = figures(3, 120.0, steps=2, drafted=3, accepted=1, positions=(0.5,))
        engine.turns[0].send(delta("A ", at), delta("plant", at, Method.DRAFT), finished("A plant", at))
        await until(pilot, lambda: not app.chat.dialogue.busy)
        await listed(pilot, ["What is a tree?"])
    (conversation,) = stored()
    question, reply = conversation.path()
    assert (question.role, question.text, reply.text, reply.state) == ("user", "What is a tree?", "A plant", "whole")
    assert reply.origins == ((2, Method.PLAIN), (5, Method.DRAFT))
    record = reply.record
    assert record is not None
    assert (record.predicted_n, record.predicted_ms, record.steps, record.draft_n) == (3, 120.0, 2, 3)
    assert (record.method, record.temperature, record.finish_reason) == (Method.DRAFT, 0.3, "stop")
    assert (record.model, record.draft) == ("Qwen2.5 Coder 1.5B Instruct", "Qwen2.5 Coder 0.5B Instruct")
    assert [(step.number, step.own, step.n_tokens) for step in reply.steps] == [(2, "A ", 1), (2, "plant", 1)]
    assert (conversation.setup.method, conversation.setup.sampling.temperature) == (Method.DRAFT, 0.3)


async def test_a_conversation_is_opened_from_the_list_and_goes_on(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "One.", "First?")
        await pilot.press("ctrl+n")
        await answer(pilot, engine, "Two.", "Second?")
        await listed(pilot, ["Second?", "First?"])
        await pilot.press("ctrl+l", "down", "enter")
        await until(pilot, lambda: shown(app) == ["First?", "One."])
        await answer(pilot, engine, "Three.", "And?")
        assert [m.content for m in engine.turns[-1].request.messages] == ["First?", "One.", "And?"]
        await listed(pilot, ["First?", "Second?"])


async def test_what_was_said_is_there_after_a_restart(make_kept: MakeApp, engine: FakeEngine) -> None:
    first = make_kept()
    async with first.run_test() as pilot:
        await answer(pilot, engine, "One.", "First?")
    second = make_kept()
    async with second.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await listed(pilot, ["First?"])
        assert shown(second) == []
        await pilot.press("ctrl+l", "enter")
        await until(pilot, lambda: shown(second) == ["First?", "One."])
        assert "tok/s" in screen_text(second)


async def test_an_answer_that_was_cut_off_says_so_and_can_be_asked_for_again(
    make_kept: MakeApp, engine: FakeEngine, path: Path
) -> None:
    store = Store(path)
    conversation = Conversation(title="Cut")
    question = conversation.add(Node("user", "Count."))
    half = conversation.add(Node("assistant", "one, two", question.id, state="writing"))
    store.put(conversation)
    for node in (question, half):
        store.put_node(conversation.id, node)
    store.close()
    app = make_kept()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await listed(pilot, ["Cut"])
        await pilot.press("ctrl+l", "enter")
        await until(pilot, lambda: "Cut off" in screen_text(app))
        assert shown(app) == ["Count.", "one, two"]
        await pilot.press("ctrl+r")
        await answer(pilot, engine, "one, two, three")
        assert shown(app) == ["Count.", "one, two, three"]
        assert "2/2" in screen_text(app)


async def test_an_answer_goes_on_while_another_conversation_is_shown(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "Zero.", "Before?")
        await pilot.press("ctrl+n")
        await ask(pilot, "Long?")
        engine.turns[-1].send(delta("one "))
        await until(pilot, lambda: shown(app)[-1:] == ["one "])
        await listed(pilot, ["Long?", "Before?"])
        await pilot.press("ctrl+l", "down", "enter")
        await until(pilot, lambda: shown(app) == ["Before?", "Zero."])
        first = engine.turns[-1]
        assert not first.cancelled
        first.send(delta("two "))
        await ask(pilot, "Meanwhile?")
        engine.turns[-1].send(Queued(1))
        await until(pilot, lambda: app.chat.state == "waiting, 1 ahead")
        await pilot.press("escape")
        assert [turn.cancelled for turn in engine.turns[-2:]] == [False, True]
        engine.turns[-1].send(finished("", reason="cancelled"))
        await until(pilot, lambda: app.chat.state == "ready")
        await listed(pilot, ["Before?", "Long?"])
        await pilot.press("ctrl+l", "down", "enter")
        await until(pilot, lambda: shown(app) == ["Long?", "one two "])
        first.send(delta("three"), finished("one two three"))
        await until(pilot, lambda: shown(app) == ["Long?", "one two three"])


async def test_an_edited_message_is_a_branch_and_both_are_there(
    make_kept: MakeApp, engine: FakeEngine, stored: Callable[[], list[Conversation]]
) -> None:
    app = make_kept()
    async with app.run_test() as pilot:
        await answer(pilot, engine, "Green.", "Which colour?")
        app.chat.prompt.text = "half a thought"
        await pilot.press("tab", "up", "e")
        await until(pilot, lambda: app.chat.prompt.text == "Which colour?")
        app.chat.prompt.text = "Which size?"
        await pilot.press("enter")
        await answer(pilot, engine, "Large.")
        assert shown(app) == ["Which size?", "Large."]
        assert [m.content for m in engine.turns[-1].request.messages] == ["Which size?"]
        assert app.chat.prompt.text == "half a thought"
        app.query(UserMessage).first().focus()
        await pilot.press("left")
        await until(pilot, lambda: shown(app) == ["Which colour?", "Green."])
        await pilot.press("right")
        await until(pilot, lambda: shown(app) == ["Which size?", "Large."])
    (conversation,) = stored()
    assert sorted(node.text for node in conversation.nodes.values()) == [
        "Green.",
        "Large.",
        "Which colour?",
        "Which size?",
    ]
    assert [node.text for node in conversation.path()] == ["Which size?", "Large."]


async def test_escape_leaves_an_edited_message_as_it_was(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test() as pilot:
        await answer(pilot, engine, "Green.", "Which colour?")
        app.chat.prompt.text = "half a thought"
        await pilot.press("tab", "e")
        await until(pilot, lambda: app.chat.prompt.text == "Which colour?")
        await pilot.press("escape")
        assert app.chat.prompt.text == "half a thought"
        assert texts(app) == ["Which colour?", "Green."]


async def test_again_makes_another_answer_beside_the_first(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test() as pilot:
        await answer(pilot, engine, "Green.", "Which colour?")
        await pilot.press("ctrl+r")
        await answer(pilot, engine, "Blue.")
        assert shown(app) == ["Which colour?", "Blue."]
        reply = app.query(Reply).last()
        assert reply.branch == (2, 2)
        reply.focus()
        await pilot.press("left")
        await until(pilot, lambda: shown(app) == ["Which colour?", "Green."])
        await pilot.press("enter")
        assert app.focused is app.chat.prompt
        await ask(pilot, "Why?")
        assert [m.content for m in engine.turns[-1].request.messages] == ["Which colour?", "Green.", "Why?"]


async def test_what_was_stopped_for_another_answer_is_kept_as_stopped(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test() as pilot:
        await ask(pilot, "Count.")
        engine.turns[0].send(delta("one"))
        await until(pilot, lambda: shown(app) == ["Count.", "one"])
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(engine.turns) == 2)
        nodes = [node for node in app.chat.dialogue.conversation.nodes.values() if node.role == "assistant"]
        assert [(node.text, node.state) for node in nodes] == [("one", "stopped"), ("", "writing")]


async def test_deleting_what_is_shown_begins_anew_and_undo_brings_it_back(
    make_kept: MakeApp, engine: FakeEngine
) -> None:
    app = make_kept()
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "One.", "First?")
        await listed(pilot, ["First?"])
        await pilot.press("ctrl+l")
        app.chat.shelf.sidebar.rows.focus()
        await pilot.press("d")
        await listed(pilot, [])
        await until(pilot, lambda: shown(app) == [])
        await pilot.press("u")
        await listed(pilot, ["First?"])
        await pilot.press("enter")
        await until(pilot, lambda: shown(app) == ["First?", "One."])


async def test_a_new_title_and_a_pin_are_kept(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "One.", "First?")
        await pilot.press("ctrl+n")
        await answer(pilot, engine, "Two.", "Second?")
        await listed(pilot, ["Second?", "First?"])
        await pilot.press("ctrl+l")
        app.chat.shelf.sidebar.rows.focus()
        await pilot.press("down", "p")
        await listed(pilot, ["First?", "Second?"])
        await pilot.press("r", *"x[/]", "enter")
        await until(pilot, lambda: any("x[/]" in one.title for one in app.chat.shelf.summaries))
        assert app.chat.shelf.summaries[0].pinned


async def test_the_prompt_that_was_not_sent_is_there_again(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept()
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "One.", "First?")
        app.chat.prompt.text = "what I was about to say"
        await pilot.press("ctrl+n")
        assert app.chat.prompt.text == ""
        await listed(pilot, ["First?"])
        await pilot.press("ctrl+l", "enter")
        await until(pilot, lambda: app.chat.prompt.text == "what I was about to say")
    again = make_kept()
    async with again.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await listed(pilot, ["First?"])
        await pilot.press("ctrl+l", "enter")
        await until(pilot, lambda: again.chat.prompt.text == "what I was about to say")


async def test_each_conversation_has_settings_of_its_own(make_kept: MakeApp, engine: FakeEngine) -> None:
    app = make_kept(system="Be brief.")
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "One.", "First?")
        app.chat.use(
            replace(
                app.chat.session.setup,
                method=Method.NGRAM,
                system="Be long.",
                sampling=SamplingParams(temperature=1.2),
            )
        )
        await pilot.press("ctrl+n")
        await answer(pilot, engine, "Two.", "Second?")
        request = engine.turns[-1].request
        assert (request.method, request.messages[0].content) == (Method.DRAFT, "Be brief.")
        await listed(pilot, ["Second?", "First?"])
        await pilot.press("ctrl+l", "down", "enter")
        await until(pilot, lambda: shown(app) == ["First?", "One."])
        await ask(pilot, "More?")
        request = engine.turns[-1].request
        assert (request.method, request.messages[0].content, request.sampling.temperature) == (
            Method.NGRAM,
            "Be long.",
            1.2,
        )


async def test_attached_files_reach_the_model_and_stay_with_the_message(
    make_kept: MakeApp, engine: FakeEngine, stored: Callable[[], list[Conversation]]
) -> None:
    app = make_kept()
    async with app.run_test() as pilot:
        await ready(pilot)
        app.chat.dialogue.attachments.append(Attachment("notes.py", "x = 1\n", 4))
        app.chat.talk.show_state()
        await pilot.pause()
        assert "notes.py" in screen_text(app)
        await answer(pilot, engine, "A number.", "What is it?")
        content = engine.turns[-1].request.messages[0].content
        assert content.startswith("What is it?") and "notes.py" in content and "x = 1" in content
        assert not app.chat.dialogue.attachments
        assert "notes.py" in screen_text(app)
    (conversation,) = stored()
    assert conversation.path()[0].attachments == (Attachment("notes.py", "x = 1\n", 4),)


async def test_backspace_in_an_empty_prompt_takes_the_last_file_away(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        for name in ("a.txt", "b.txt"):
            app.chat.dialogue.attachments.append(Attachment(name, "text"))
        app.chat.talk.show_state()
        await pilot.press("x", "backspace")
        assert len(app.chat.dialogue.attachments) == 2
        await pilot.press("backspace")
        await until(pilot, lambda: [file.name for file in app.chat.dialogue.attachments] == ["a.txt"])


async def test_an_idle_model_makes_the_title(
    make_kept: MakeApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pardec_chat.app.screens.talk.IDLE_SECONDS", 0.001)
    app = make_kept(titles=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await answer(pilot, engine, "Pedal.", "How do I ride a bicycle?")
        await until(pilot, lambda: len(engine.turns) == 2)
        request = engine.turns[1].request
        assert [m.content for m in request.messages][:2] == ["How do I ride a bicycle?", "Pedal."]
        assert request.alone and request.method == Method.PLAIN and request.sampling.greedy
        assert not app.chat.dialogue.busy
        engine.turns[1].send(delta("Bicycle "), delta("advice"), finished("Bicycle advice"))
        await listed(pilot, ["Bicycle advice"])
        assert shown(app) == ["How do I ride a bicycle?", "Pedal."]


async def test_H05_a_title_gives_way_to_the_user(
    make_kept: MakeApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pardec_chat.app.screens.talk.IDLE_SECONDS", 0.001)
    app = make_kept(titles=True)
    async with app.run_test() as pilot:
        await answer(pilot, engine, "Pedal.", "How do I ride a bicycle?")
        await until(pilot, lambda: len(engine.turns) == 2)
        await ask(pilot, "And stop?")
        assert engine.turns[1].cancelled
        engine.turns[1].send(delta("Late"), finished("Late", reason="cancelled"))
        engine.turns[2].send(delta("Brake."), finished("Brake."))
        await until(pilot, lambda: len(engine.turns) == 4)
        assert app.chat.dialogue.conversation.title == "How do I ride a bicycle?"
        assert shown(app)[-1] == "Brake."


async def test_a_failed_answer_is_kept_as_failed_and_not_told_to_the_model(
    make_kept: MakeApp, engine: FakeEngine, stored: Callable[[], list[Conversation]]
) -> None:
    app = make_kept()
    async with app.run_test() as pilot:
        await ask(pilot, "One?")
        engine.turns[0].send(Failed(UserError("It broke.", "Mend it.")))
        await until(pilot, lambda: "Mend it." in screen_text(app))
        await ask(pilot, "Two?")
        assert [m.content for m in engine.turns[-1].request.messages] == ["Two?"]
    (conversation,) = stored()
    failed = next(node for node in conversation.nodes.values() if node.state == "failed")
    assert failed.error == "It broke. Mend it."


async def test_conversations_that_cannot_be_kept_are_told_once_and_the_chat_goes_on(
    make_app: MakeApp, engine: FakeEngine, tmp_path: Path
) -> None:
    path = tmp_path / "conversations.db"
    path.write_bytes(b"this is no database, and nobody may write over it" * 100)
    app = make_app(keeper=lambda failed: Keeper(path, failed))
    async with app.run_test() as pilot:
        await ready(pilot)
        await until(pilot, lambda: "not kept at present" in screen_text(app))
        await answer(pilot, engine, "One.", "First?")
        assert shown(app) == ["First?", "One."]
        assert screen_text(app).count("not kept at present") <= 1
    assert path.read_bytes().startswith(b"this is no database")


async def test_escape_gives_a_load_up(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.held = True
    app = make_app()
    async with app.run_test() as pilot:
        await until(pilot, lambda: len(engine.loads) == 1)
        progress = engine.loads[0][1]
        assert progress is not None and progress(0.4) is True
        await until(pilot, lambda: "40 %" in app.chat.state)
        await pilot.press("escape")
        assert app.chat.state == "giving up the load"
        assert progress(0.5) is False
