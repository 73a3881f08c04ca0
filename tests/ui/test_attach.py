"""Attaching a file: found by its path, read on a thread, measured against the room in the context."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from pardec_chat.app.conversations.conversation import Attachment
from pardec_chat.app.screens.attach import AttachScreen
from pardec_chat.app.widgets.file_entry import FileEntry, find, path_of
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.empty_app import EmptyApp
from pardec_chat.tests.ui.helpers import screen_text, until

FOLDER = Path("/home/me/project")
TEXT = "def merge(a, b):\n    return sorted(a + b)\n" * 120
ODD = "[/b] [red]x[/red]\x1b]52;c;aGk=\x07\x1b[2J\x9b1m\u202e"
ODD_SEEN = "[/b] [red]x[/red]␛]52;c;aGk=␇␛[2J\ufffd1m\ufffd"


class Reader:
    """Stands for the disk and the tokenizer; what is held waits for the test."""

    def __init__(self, text: str = TEXT, n_tokens: int | None = 1204) -> None:
        self.text = text
        self.n_tokens = n_tokens
        self.paths: list[Path] = []
        self.error: Exception | None = None
        self.read_goes_on = threading.Event()
        self.read_goes_on.set()
        self.holds_count = False
        self.futures: list[Future[int]] = []
        self.name = ""

    def read(self, path: Path) -> Attachment:
        self.paths.append(path)
        assert threading.current_thread() is not threading.main_thread()
        assert self.read_goes_on.wait(10)
        if self.error is not None:
            raise self.error
        return Attachment(self.name or path.name, self.text)

    def count(self, text: str) -> Future[int]:
        assert text == self.text
        if self.n_tokens is None:
            raise UserError("There is no model yet.", "F3 chooses one.")
        future: Future[int] = Future()
        self.futures.append(future)
        if not self.holds_count:
            self.tell(future)
        return future

    def tell(self, future: Future[int]) -> None:
        """As the engine does, from its own thread."""
        n = self.n_tokens
        assert n is not None
        thread = threading.Thread(target=future.set_result, args=(n,))
        thread.start()
        thread.join()


class Opened:
    """The screen, and what it gave."""

    def __init__(self, pilot: Pilot[None], screen: AttachScreen) -> None:
        app = pilot.app
        assert isinstance(app, EmptyApp)
        self.pilot, self.app, self.screen = pilot, app, screen
        self.given: list[Attachment | None] = []

    @property
    def entry(self) -> FileEntry:
        return self.screen.query_one(FileEntry)

    @property
    def words(self) -> str:
        return " ".join(screen_text(self.app).split())

    async def shows(self, *texts: str) -> None:
        await until(self.pilot, lambda: all(text in self.words for text in texts))

    async def press(self, *keys: str, shows: str = "") -> None:
        await self.pilot.press(*keys)
        await self.shows(shows)

    async def type(self, path: str, shows: str = "") -> None:
        """Write a path and press enter."""
        self.entry.value = path
        await self.pilot.pause()
        await self.press("enter", shows=shows)

    async def gives(self, result: Attachment | None) -> None:
        await until(self.pilot, lambda: bool(self.given))
        assert self.given == [result]
        assert self.app.screen is self.app.empty


async def opened(pilot: Pilot[None], reader: Reader, room: int = 7300, folder: Path = FOLDER) -> Opened:
    app = pilot.app
    assert isinstance(app, EmptyApp)
    it = Opened(pilot, AttachScreen(reader.read, reader.count, room, folder))
    app.push_screen(it.screen, it.given.append)
    await it.shows("Attach a text file")
    return it


@pytest.fixture
def app() -> EmptyApp:
    return EmptyApp()


@pytest.fixture
def reader() -> Reader:
    return Reader()


# ---- from path to attachment ----


async def test_a_file_is_looked_at_then_attached(app: EmptyApp, reader: Reader) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        assert "enter look at it" in it.words
        await it.type("merge.py", shows="1,204 tokens of 7,300 that are free")
        await it.shows("merge.py", "5,040 bytes · 240 lines", "enter attach")
        assert reader.paths == [FOLDER / "merge.py"]
        await pilot.press("enter")
        await it.gives(Attachment("merge.py", TEXT, 1204))


async def test_what_fills_the_room_to_the_last_token_fits(app: EmptyApp, reader: Reader) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader, room=1204)
        await it.type("/a.py", shows="1,204 tokens of 1,204 that are free")
        await pilot.press("enter")
        await it.gives(Attachment("a.py", TEXT, 1204))


async def test_what_does_not_fit_is_refused(app: EmptyApp, reader: Reader) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader, room=1203)
        await it.type("a.py", shows="It does not fit: 1,204 tokens, 1,203 are free, 1 too many.")
        assert "enter attach" not in it.words
        await it.press("enter", "enter", shows="It does not fit")
        reader.n_tokens = 3
        await it.type("b.py", shows="3 tokens of 1,203 that are free")
        await pilot.press("enter")
        await it.gives(Attachment("b.py", TEXT, 3))


async def test_without_a_model_it_is_attached_uncounted(app: EmptyApp, reader: Reader) -> None:
    reader.n_tokens = None
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader, room=0)
        await it.type("a.py", shows="How many tokens it has is not known: There is no model yet.")
        await pilot.press("enter")
        await it.gives(Attachment("a.py", TEXT, None))


async def test_a_count_that_fails_later_says_so(app: EmptyApp, reader: Reader) -> None:
    reader.holds_count = True
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        await it.type("a.py", shows="Counting its tokens …")
        await it.press("enter", shows="Counting its tokens …")  # whether it fits is not known yet
        reader.futures[0].set_exception(RuntimeError("[/b] broken"))
        await it.shows("is not known: they could not be counted.", "enter attach")
        await pilot.press("enter")
        await it.gives(Attachment("a.py", TEXT, None))


async def test_a_count_that_was_called_off_says_so(app: EmptyApp, reader: Reader) -> None:
    reader.holds_count = True
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        await it.type("a.py", shows="Counting its tokens …")
        reader.futures[0].cancel()
        await it.shows("is not known: they could not be counted.")


async def test_another_path_is_another_file(app: EmptyApp, reader: Reader) -> None:
    reader.holds_count = True
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        await it.type("a.py", shows="Counting its tokens …")
        await it.press("backspace", shows="enter look at it")
        assert "Counting" not in it.words and reader.futures[0].cancelled()
        # What was still being read comes too late.
        reader.read_goes_on.clear()
        await it.type("b.py", shows="Reading …")
        await it.press("x", shows="enter look at it")
        reader.name = "late.py"
        reader.read_goes_on.set()
        await it.type("c.py", shows="Counting its tokens …")
        await until(pilot, lambda: len(reader.paths) == 3)
        reader.tell(reader.futures[-1])
        await it.shows("1,204 tokens")


async def test_it_can_be_left_at_any_time(app: EmptyApp, reader: Reader) -> None:
    reader.read_goes_on.clear()
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        await it.type("a.py", shows="Reading …")
        await pilot.press("escape")
        await it.gives(None)
        reader.read_goes_on.set()
        await pilot.pause()


async def test_leaving_calls_the_count_off(app: EmptyApp, reader: Reader) -> None:
    reader.holds_count = True
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        await it.type("a.py", shows="Counting its tokens …")
        await pilot.press("escape")
        await it.gives(None)
        await until(pilot, reader.futures[0].cancelled)


async def test_U01_errors_say_why_and_the_path_stays(app: EmptyApp, reader: Reader) -> None:
    reader.error = UserError("/x/[b]a.bin is not text.", "Choose a text file.")
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader)
        await it.type("/x/[b]a.bin", shows="Error: /x/[b]a.bin is not text. Choose a text file.")
        assert it.entry.value == "/x/[b]a.bin" and it.entry.has_focus
        await it.press("backspace", shows="enter look at it")
        assert "Error" not in it.words
        await it.type("~nobody-here/a", shows="Error: ~nobody-here is nobody's home here. Give the whole path.")


async def test_U01_X05_names_are_text(app: EmptyApp, reader: Reader) -> None:
    reader.name, reader.text = f"{ODD}.py", "a\x1b[2J"
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader, folder=Path(f"/{ODD}"))
        await it.shows(f"a path from /{ODD_SEEN} on"[:60])
        it.entry.post_message(events.Paste(f"{ODD}\nsecond"))
        await until(pilot, lambda: it.entry.value == ODD_SEEN)
        await it.press("enter", shows=f"{ODD_SEEN}.py 5 bytes · 1 line")
        await pilot.press("enter")
        await it.gives(Attachment(f"{ODD}.py", "a\x1b[2J", 1204))  # the model gets what is in the file


@pytest.mark.parametrize(
    ("text", "size", "lines"),
    [
        ("", "0 bytes", "0 lines"),
        ("a", "1 byte", "1 line"),
        ("図書館\n" * 2, "20 bytes", "2 lines"),
        ("x" * 12_345, "12 kB", "1 line"),
        ("x" * 2_400_000, "2 MB", "1 line"),
        ("\ud800", "3 bytes", "1 line"),
    ],
)
async def test_sizes(app: EmptyApp, text: str, size: str, lines: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, Reader(text))
        await it.type("a", shows=f"a {size} · {lines}")


# ---- completion ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("main.py", "make.sh", "notes 日本.md", ".hidden", "b\x1b[2J.py"):
        (tmp_path / name).write_text("x")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "deep.c").write_text("x")
    return tmp_path


def test_X05_find_lists_what_can_be_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("", folder) == ("main.py", "make.sh", "notes 日本.md", "sources/")
    assert find("ma", folder) == ("main.py", "make.sh")
    assert find("sources/", folder) == ("sources/deep.c",)
    assert find(f"{folder}/no", Path("/nowhere")) == (f"{folder}/notes 日本.md",)
    assert find(".", folder) == (".hidden",)
    assert find("none/", folder) == find("~nobody-here/", folder) == find("a\0/", folder) == ()
    monkeypatch.setenv("HOME", str(folder))
    assert find("~/so", Path("/nowhere")) == ("~/sources/",)


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("a.py", FOLDER / "a.py"),
        ("  /b/a.py ", Path("/b/a.py")),
        ("'/b/two words.py'", Path("/b/two words.py")),
        ('"/b/two words.py"', Path("/b/two words.py")),
        (r"/b/two\ words.py", Path("/b/two words.py")),
        ("file:///b/%E6%97%A5%20x.py", Path("/b/日 x.py")),
        ("it's.py", FOLDER / "it's.py"),
        ("'it is", FOLDER / "'it is"),
        ("two words.py", FOLDER / "two words.py"),
    ],
)
def test_paths_as_they_are_typed_or_dropped(typed: str, path: Path) -> None:
    assert path_of(typed, FOLDER) == path


async def test_tab_completes(app: EmptyApp, reader: Reader, folder: Path) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, reader, folder=folder)
        await it.press("m", "tab", shows="main.py make.sh")
        assert it.entry.value == "ma"
        await it.press("i", "tab")
        await until(pilot, lambda: it.entry.value == "main.py")
        assert "make.sh" not in it.words
        it.entry.value = "so"
        await it.press("tab")
        await until(pilot, lambda: it.entry.value == "sources/")
        await it.press("tab")
        await until(pilot, lambda: it.entry.value == "sources/deep.c")
        await it.press("enter", shows="1,204 tokens")
        assert reader.paths == [folder / "sources/deep.c"]
        await it.press("x", "tab", shows="Nothing begins like that.")


# ---- pictures ----


SEEN = [pytest.param("pardec-dark", (80, 24), id="80x24"), pytest.param("pardec-light", (120, 40), id="light-120x40")]
DARK = SEEN[:1]


@pytest.fixture
def shown(snap_compare: Any) -> Callable[..., bool]:
    """Whether the screen looks as before once `then` was done."""

    def compare(
        theme: str, size: tuple[int, int], reader: Reader, then: Callable[[Opened], Awaitable[None]], room: int = 7300
    ) -> bool:
        async def run(pilot: Pilot[None]) -> None:
            await then(await opened(pilot, reader, room))

        return bool(snap_compare(EmptyApp(theme), terminal_size=size, run_before=run))

    return compare


@pytest.mark.parametrize(("theme", "size"), DARK)
def test_at_first(shown: Any, theme: str, size: Any) -> None:
    assert shown(theme, size, Reader(), lambda it: it.shows("esc back"))


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_fits(shown: Any, theme: str, size: Any) -> None:
    assert shown(theme, size, Reader(), lambda it: it.type("sources/merge.py", shows="enter attach"))


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_does_not_fit(shown: Any, theme: str, size: Any) -> None:
    reader = Reader(TEXT * 9, 10_836)
    assert shown(theme, size, reader, lambda it: it.type("sources/merge.py", shows="too many"))


@pytest.mark.parametrize(("theme", "size"), DARK)
def test_unknown(shown: Any, theme: str, size: Any) -> None:
    assert shown(theme, size, Reader(n_tokens=None), lambda it: it.type("notes 日本.md", shows="not known"))


@pytest.mark.parametrize(("theme", "size"), DARK)
def test_error(shown: Any, theme: str, size: Any) -> None:
    reader = Reader()
    reader.error = UserError("/home/me/project/logo.png is not text.", "Attach a text file, such as code or notes.")
    assert shown(theme, size, reader, lambda it: it.type("logo.png", shows="Error:"))
