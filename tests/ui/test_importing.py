"""The screen that looks into a file of conversations, and takes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations import exchange, importing
from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.importing import Imported
from pardec_chat.app.screens.importing import ImportScreen
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.file_entry import FileEntry
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.helpers import screen_text, until

MakeApp = Callable[..., PardecChat]
ODD = "[/INST] [b +\x1b]52;c;aGk=\x07"
ODD_SEEN = "[/INST] [b +␛]52;c;aGk=␇"


def conversation(title: str, text: str = "How?", *, updated: float = 1_300_000_000) -> Conversation:
    """With one message."""
    made = Conversation(title=title, created=updated, updated=updated)
    made.add(Node("user", text, created=updated))
    return made


class Opened:
    """The screen over the chat, and what it gave."""

    def __init__(self, pilot: Pilot[None], folder: Path) -> None:
        self.pilot = pilot
        self.given: list[int | None] = []
        self.taken: list[Sequence[Conversation]] = []
        self.asked: list[Path] = []
        self.held = threading.Event()
        self.held.set()
        self.holds: Imported | None = None
        self.broken: UserError | None = None
        self.failure: UserError | None = None
        self.screen = ImportScreen(self.read, self.take, folder)

    def read(self, path: Path) -> Imported:
        assert threading.current_thread() is not threading.main_thread()
        self.asked.append(path)
        assert self.held.wait(10)
        if self.broken is not None:
            raise self.broken
        return importing.read(path) if self.holds is None else self.holds

    def take(self, conversations: Sequence[Conversation]) -> None:
        assert threading.current_thread() is threading.main_thread()
        if self.failure is not None:
            raise self.failure
        self.taken.append(conversations)

    @property
    def app(self) -> PardecChat:
        app = self.pilot.app
        assert isinstance(app, PardecChat)
        return app

    @property
    def words(self) -> str:
        return " ".join(screen_text(self.app).split())

    async def open(self) -> None:
        await until(self.pilot, lambda: self.app.chat.state == "no model")
        self.app.push_screen(self.screen, self.given.append)
        await self.shows("enter look at it")

    async def shows(self, *texts: str) -> None:
        await until(self.pilot, lambda: all(text in self.words for text in texts))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def gives(self, n: int | None) -> None:
        await until(self.pilot, lambda: bool(self.given))
        assert self.given == [n]
        assert self.app.screen is self.app.chat


@pytest.fixture
def app(make_app: MakeApp) -> PardecChat:
    return make_app(model=None, draft=None)


async def test_a_file_of_ours_is_looked_at_and_taken(app: PardecChat, tmp_path: Path) -> None:
    (tmp_path / "lists.json").write_text(json.dumps(exchange.dump(conversation("Merging lists", "How do I merge?"))))
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press(*"li", "tab")
        await until(pilot, lambda: it.screen.query_one(FileEntry).value == "lists.json")
        await it.press("enter")
        await it.shows("1 conversation from pardec-chat", "▸ Merging lists", "1 message", "“How do I merge?”")
        assert "enter import it · ↑↓ look · esc another path" in it.words
        assert it.taken == []
        await it.press("enter")
        await it.gives(1)
        assert [one.title for one in it.taken[0]] == ["Merging lists"]


async def test_what_is_left_behind_is_told(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        it = Opened(pilot, tmp_path)
        kept = [conversation(f"Number {n}") for n in range(3)]
        it.holds = Imported(kept, ["“Old chat”: no messages", "b.json breaks off: its end is missing"], "Open WebUI")
        await it.open()
        await it.press("x", "enter")
        await it.shows("3 conversations from Open WebUI · 2 things left behind", "To import", "Left behind")
        await it.press("end")
        await it.shows("▸ b.json breaks off", "enter import all 3")
        await it.press("enter")
        await it.gives(3)
        assert it.taken == [kept]


async def test_a_click_takes_nothing(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.holds = Imported([conversation("One"), conversation("Two")], [], "LM Studio")
        await it.open()
        await it.press("x", "enter")
        await it.shows("▸ One")
        await pilot.click(Choices, offset=(5, 2), times=3)
        await it.shows("▸ Two")
        assert (it.taken, it.given) == ([], [])


async def test_escape_leads_back_to_the_path(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.holds = Imported([conversation("One")], [], "LM Studio")
        await it.open()
        await it.press("x", "enter")
        await it.shows("▸ One")
        await it.press("escape")
        await it.shows("enter look at it")
        assert "LM Studio's conversations" in it.words
        assert "▸ One" not in it.words
        await it.press("enter")
        await it.shows("▸ One")
        await it.press("tab", "y")
        await it.shows("enter look at it")
        await it.press("escape")
        await it.gives(None)
        assert [path.name for path in it.asked] == ["x", "x"]


async def test_errors_say_what_to_do_next(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.broken = UserError("a.json [/b] breaks off.", "Export or copy it again.")
        await it.open()
        await it.press(*"a.json", "enter")
        await it.shows("Error: a.json [/b] breaks off. Export or copy it again.")
        assert it.screen.focused is it.screen.query_one(FileEntry)
        await it.press("x")
        assert "Error" not in it.words
        assert it.given == []


async def test_a_path_that_cannot_be(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press(*"~nobody-of-this-name/x", "enter")
        await it.shows("Error: ~nobody-of-this-name is nobody's home here.")
        assert it.asked == []
        await it.press("ctrl+u", *"nothing.json", "enter")
        await it.shows("Error: nothing.json")
        assert it.asked == [tmp_path / "nothing.json"]


async def test_conversations_that_are_not_kept_stay_on_the_screen(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.holds, it.failure = (
            Imported([conversation("One")], [], "LM Studio"),
            UserError("The disk is full.", "Make room."),
        )
        await it.open()
        await it.press("x", "enter")
        await it.shows("▸ One")
        await it.press("enter", "enter")
        await it.shows("Error: The disk is full. Make room.", "▸ One")
        assert it.words.count("Error") == 1
        it.failure = None
        await it.press("enter")
        await it.gives(1)


async def test_escape_ends_a_file_that_takes_long(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.holds = Imported([conversation("One")], [], "LM Studio")
        it.held.clear()
        await it.open()
        await it.press("x", "enter")
        await it.shows("Reading …", "esc stop")
        await it.press("enter", "escape")
        await it.shows("enter look at it")
        it.held.set()
        await it.press(*"yz", "enter")
        await it.shows("▸ One")
        assert [path.name for path in it.asked] == ["x", "xyz"]


async def test_tab_lists_what_there_is(app: PardecChat, tmp_path: Path) -> None:
    for name in ("chats-1.json", "chats-2.json"):
        (tmp_path / name).write_text("{}")
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press("c", "tab")
        await it.shows("chats-1.json chats-2.json")
        assert it.screen.query_one(FileEntry).value == "chats-"


async def test_thousands_are_drawn_when_they_are_seen(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        kept = [conversation(f"Number {n}") for n in range(5000)]
        it.holds = Imported(kept, [], "Open WebUI")
        await it.open()
        await it.press("x", "enter")
        await it.shows("5,000 conversations from Open WebUI", "enter import all 5,000")
        await it.press("end")
        await it.shows("▸ Number 4999")
        assert len(it.screen.query_one(Choices)._drawn) < 40


async def test_U01_X05_odd_titles_and_reasons(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        it = Opened(pilot, tmp_path)
        it.holds = Imported([conversation(ODD, ODD), conversation("")], [f"why {ODD}"], f"from {ODD}")
        await it.open()
        await it.press("x", "enter")
        await it.shows(
            f"2 conversations from from {ODD_SEEN}", f"▸ {ODD_SEEN}", f"“{ODD_SEEN}”", "untitled", f"why {ODD_SEEN}"
        )
        assert "\x1b" not in screen_text(app)
