"""The screen that writes a conversation into a file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations import export
from pardec_chat.app.screens.exporting import ExportScreen
from pardec_chat.app.widgets.file_entry import FileEntry
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.helpers import screen_text, until

MakeApp = Callable[..., PardecChat]


class Opened:
    """The screen over the chat, and what it gave."""

    def __init__(self, pilot: Pilot[None], folder: Path, title: str = "Merging lists") -> None:
        self.pilot = pilot
        self.folder = folder
        self.given: list[Path | None] = []
        self.held = threading.Event()
        self.held.set()
        self.failure: UserError | None = None
        self.screen = ExportScreen(title, self.make, self.write, folder, lambda suffix: export.file_name(title, suffix))

    def make(self, kind: str) -> str:
        if self.failure is not None:
            raise self.failure
        return f"as {kind}"

    def write(self, path: Path, text: str, overwrite: bool) -> None:
        assert self.held.wait(10)
        export.write(path, text, overwrite=overwrite)

    @property
    def app(self) -> PardecChat:
        app = self.pilot.app
        assert isinstance(app, PardecChat)
        return app

    @property
    def words(self) -> str:
        return " ".join(screen_text(self.app).split())

    @property
    def path(self) -> str:
        return self.screen.query_one(FileEntry).value

    async def open(self) -> None:
        await until(self.pilot, lambda: self.app.chat.state == "no model")
        self.app.push_screen(self.screen, self.given.append)
        await self.shows("enter write it")

    async def shows(self, *texts: str) -> None:
        await until(self.pilot, lambda: all(text in self.words for text in texts))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def gives(self, path: Path | None) -> None:
        await until(self.pilot, lambda: bool(self.given))
        assert self.given == [path]
        assert self.app.screen is self.app.chat


@pytest.fixture
def app(make_app: MakeApp) -> PardecChat:
    return make_app(model=None, draft=None)


async def test_enter_writes_markdown_where_it_is_proposed(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        assert it.path == str(tmp_path / "Merging lists.md")
        await it.press("enter")
        await it.gives(tmp_path / "Merging lists.md")
        assert (tmp_path / "Merging lists.md").read_text() == "as markdown"


async def test_format_by_key_and_by_mouse(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press("down")
        assert it.path == str(tmp_path / "Merging lists.json")
        await it.press("up")
        assert it.path == str(tmp_path / "Merging lists.md")
        await pilot.click("Choices", offset=(4, 1))
        await pilot.pause()
        assert it.path == str(tmp_path / "Merging lists.json")
        assert it.screen.focused is it.screen.query_one(FileEntry)
        await it.press("enter")
        await it.gives(tmp_path / "Merging lists.json")
        assert (tmp_path / "Merging lists.json").read_text() == "as json"


async def test_a_path_of_ones_own_gets_the_other_suffix(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press("ctrl+u", *"mine.md", "down")
        assert it.path == "mine.json"
        await it.press("ctrl+u", *"mine.txt", "up")
        assert it.path == "mine.txt"
        await it.press("enter")
        await it.gives(tmp_path / "mine.txt")
        assert (tmp_path / "mine.txt").read_text() == "as markdown"


async def test_a_file_that_is_there_is_replaced_when_asked(app: PardecChat, tmp_path: Path) -> None:
    there = tmp_path / "Merging lists.md"
    there.write_text("mine")
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press("enter")
        await it.shows("Merging lists.md is there already. y replace it · esc another name")
        await it.press("enter")
        assert (there.read_text(), it.given) == ("mine", [])
        await it.press("y")
        await it.gives(there)
        assert there.read_text() == "as markdown"


async def test_no_to_the_question_leads_back_to_the_path(app: PardecChat, tmp_path: Path) -> None:
    there = tmp_path / "Merging lists.md"
    there.write_text("mine")
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press("enter")
        await it.shows("is there already")
        await it.press("escape", "y")
        assert it.path == str(there) + "y"
        assert "is there already" not in it.words
        await it.press("escape")
        await it.gives(None)
        assert there.read_text() == "mine"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("nowhere/x.md", "is not there. Name another one."),
        ("folder", "Error: folder is a folder. Name a file in it."),
        ("~nobody-of-this-name/x.md", "Error: ~nobody-of-this-name is nobody's home here. Give the whole path."),
        ("x" * 300, "could not be written"),
    ],
)
async def test_errors_say_what_to_do_next(app: PardecChat, tmp_path: Path, typed: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        it.screen.query_one(FileEntry).value = typed
        await it.press("end", "enter")
        await it.shows(words)
        assert it.given == []
        await it.press("ctrl+u", *"other.md")
        assert "Error" not in it.words
        await it.press("enter")
        await it.gives(tmp_path / "other.md")


async def test_a_conversation_that_cannot_be_made_a_text(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.failure = UserError("It is gone [/b].", "Choose another one.")
        await it.open()
        await it.press("enter")
        await it.shows("Error: It is gone [/b]. Choose another one.")
        it.failure = None
        await it.press("enter")
        await it.gives(tmp_path / "Merging lists.md")


async def test_enter_twice_writes_once_and_leaving_ends_nothing(app: PardecChat, tmp_path: Path) -> None:
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        it.held.clear()
        await it.open()
        await it.press("enter")
        await it.shows("Writing …")
        await it.press("enter", "down", "escape")
        await it.gives(None)
        it.held.set()
        await until(pilot, (tmp_path / "Merging lists.md").exists)
        assert [path.name for path in tmp_path.iterdir()] == ["Merging lists.md"]


async def test_tab_completes_and_lists(app: PardecChat, tmp_path: Path) -> None:
    for name in ("notes-a", "notes-b"):
        (tmp_path / name).mkdir()
    async with app.run_test() as pilot:
        it = Opened(pilot, tmp_path)
        await it.open()
        await it.press("ctrl+u", *"no", "tab")
        await it.shows("notes-a/ notes-b/")
        assert it.path == "notes-"
        await it.press("x", "tab")
        await it.shows("Nothing begins like that.")


async def test_U01_X05_odd_titles_and_folders(app: PardecChat, tmp_path: Path) -> None:
    folder = tmp_path / "[b]\x1b[2J  two"
    folder.mkdir()
    title = "[/INST] \x1b]52;c;aGk=\x07"
    async with app.run_test() as pilot:
        it = Opened(pilot, folder, title)
        await it.open()
        assert "Export “[/INST] ␛]52;c;aGk=␇”" in it.words
        assert "\x1b" not in it.path
        await it.press("enter")
        await it.gives(folder / export.file_name(title, ".md"))
