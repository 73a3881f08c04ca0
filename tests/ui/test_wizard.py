"""The wizard's screens: what their keys do, what they ask, what they give; on a fake wizard."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from textual import events
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import Screen

from pardec_chat.app.app import PardecChat
from pardec_chat.app.downloads.errors import (
    HubGated,
    HubMissing,
    HubNeedsLogin,
    HubTokenLacksScope,
    HubTokenRefused,
    HubUnreachable,
    NotGguf,
)
from pardec_chat.app.downloads.repository import Repository
from pardec_chat.app.screens.browse import BrowseScreen
from pardec_chat.app.screens.downloads import NOTHING, Chosen, DownloadsScreen, first_part
from pardec_chat.app.screens.repository import RepositoryScreen
from pardec_chat.app.screens.token import TokenScreen
from pardec_chat.app.screens.wizard import WizardScreen
from pardec_chat.app.widgets import download_row, path_entry, watch
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.secret import Secret
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.fake_wizard import (
    CODER,
    DRAFT,
    LARGE,
    MODELS,
    REPOSITORY,
    SMALL,
    TINY,
    FakeWizard,
    model,
    offer,
    write,
)
from pardec_chat.tests.ui.helpers import notifications, screen_text, until

MakeApp = Callable[..., PardecChat]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ODD = "[/b] [red]x[/red] [@click=q] \x1b]52;c;aGk=\x07\x1b[2J\x9b1m\u202e"
ODD_SEEN = "[/b] [red]x[/red] [@click=q] ␛]52;c;aGk=␇␛[2J\ufffd1m\ufffd"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SECONDS", 0.005)


@pytest.fixture
def wizard(tmp_path: Path) -> FakeWizard:
    return FakeWizard(tmp_path / "models")


def words(app: PardecChat) -> str:
    """The screen without line breaks."""
    return " ".join(screen_text(app).split())


class Opened:
    """A screen of the wizard's over the chat, and what it gave."""

    def __init__(self, pilot: Pilot[None], screen: Screen[Any]) -> None:
        self.pilot = pilot
        self.screen = screen
        self.given: list[Any] = []
        app = pilot.app
        assert isinstance(app, PardecChat)
        self.app = app

    async def shows(self, *texts: str) -> None:
        """Wait until all these are seen."""
        await until(self.pilot, lambda: all(text in words(self.app) for text in texts))

    async def press(self, *keys: str, shows: str = "") -> None:
        """Press keys, and wait until that is seen."""
        await self.pilot.press(*keys)
        await self.shows(shows)

    async def gives(self, result: Any) -> None:
        """Wait until the screen is left with that."""
        await until(self.pilot, lambda: bool(self.given))
        assert self.given == [result]
        assert self.app.screen is self.app.chat


async def opened(pilot: Pilot[None], screen: Screen[Any], *shows: str) -> Opened:
    """Open the screen and wait until it shows that."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await until(pilot, lambda: app.chat.state == "no model")
    it = Opened(pilot, screen)
    app.push_screen(screen, it.given.append)
    await until(pilot, lambda: app.screen is screen)
    await it.shows(*shows)
    return it


@pytest.fixture
def app(make_app: MakeApp) -> PardecChat:
    return make_app(model=None, draft=None)


# ---- the first start ----


async def test_enter_is_the_only_key_from_the_first_start_to_the_chat(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, WizardScreen(wizard, first=True), "No model here yet.", "Start now")
        await it.press("enter", shows="waiting")
        wizard.downloads.come(SMALL, 0.5)
        await it.shows("50 %", "4 s left")
        wizard.downloads.set(SMALL, "verifying")
        await it.shows("verifying")
        wizard.downloads.set(SMALL, "done")
        await it.gives(Chosen(wizard.path(SMALL)))
        assert wizard.downloads.calls == [("start", SMALL.id)]


async def test_a_proposal_that_is_here_is_chosen_at_once(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.have(CODER, DRAFT)
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Choose a model.", "on this disk")
        await it.press("down", "enter")
        await it.gives(Chosen(wizard.path(CODER), wizard.path(DRAFT)))
        assert not wizard.downloads.calls


async def test_only_what_is_missing_is_fetched(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.have(DRAFT)
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "1.1 GB to come")
        await it.press("down", "enter", shows="waiting")
        assert wizard.downloads.calls == [("start", CODER.id)]
        wizard.downloads.set(CODER, "done")
        await it.gives(Chosen(wizard.path(CODER), wizard.path(DRAFT)))


async def test_both_files_have_to_be_here(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Recommended")
        await it.press("down", "enter", shows="waiting")
        wizard.downloads.set(DRAFT, "done")
        await it.shows("done")
        assert not it.given
        wizard.downloads.set(CODER, "done")
        await it.gives(Chosen(wizard.path(CODER), wizard.path(DRAFT)))


async def test_the_chat_can_begin_before_the_draft_is_here(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 30)) as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Recommended")
        await it.press("down", "enter", shows="waiting")
        await it.press("enter")
        assert not it.given
        wizard.downloads.set(CODER, "done")
        error = HubUnreachable("The Hub stopped sending.", "Check the connection.")
        wizard.downloads.set(DRAFT, "failed", error=error)
        await it.shows("Error: The Hub stopped sending. Check the connection.", "enter chat without the draft")
        await it.press("enter")
        await it.gives(Chosen(wizard.path(CODER)))


async def test_pause_and_go_on(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Recommended")
        await it.press("down", "enter", shows="p pause")
        wizard.downloads.come(CODER, 0.25)
        await it.shows("25 %")
        await it.press("p", shows="paused")
        assert "p go on" in words(app)
        await it.press("p", shows="p pause")
        assert "paused" not in words(app)


async def test_cancel_goes_back_to_the_choice(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Recommended")
        await it.press("down", "enter", shows="waiting")
        await it.press("x", shows="Largest that fits")
        assert not wizard.downloads.items()
        assert wizard.downloads.calls[-2:] == [("cancel", CODER.id), ("cancel", DRAFT.id)]
        await it.press("enter", shows="waiting")  # it is still marked


async def test_escape_leaves_the_download_running(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, WizardScreen(wizard, first=True), "Start now")
        await it.press("enter", shows="waiting")
        wizard.downloads.come(SMALL, 0.4)
        await it.press("escape", shows="Still fetching SmolLM2 135M Instruct, 40 %. Enter on it shows how far.")
        assert "40 % is here" in words(app)
        await it.press("enter", shows="p pause")
        await it.press("escape", shows="Still fetching")
        wizard.downloads.set(SMALL, "done")
        await it.shows("SmolLM2 135M Instruct is here: enter on it starts the chat.", "on this disk")
        assert not it.given
        await it.press("enter")
        await it.gives(Chosen(wizard.path(SMALL)))


async def test_L06_leaving_ends_no_download(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("enter", shows="waiting")
        await it.press("escape", shows="Still fetching")
        await it.press("escape")
        await it.gives(None)
        assert [item.state for item in wizard.downloads.items()] == ["waiting"]


async def test_one_download_behind_another(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("enter", shows="waiting")
        await it.press("escape", "down", shows="Still fetching")
        await it.press("enter", shows="Qwen2.5 Coder 1.5B Instruct waiting")
        wizard.downloads.set(SMALL, "done")
        wizard.downloads.come(CODER, 0.1)
        await it.shows("10 %")
        assert not it.given  # what was asked for first is not what is waited for now


async def test_what_was_called_off_elsewhere_is_not_waited_for(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("enter", shows="waiting")
        await it.press("escape", shows="Downloads…")
        await it.press("end", "enter", shows="1 waiting")
        await it.press("x", shows="Cancelled")
        await it.press("escape", shows="Browse all models…")
        await until(pilot, lambda: "Still fetching" not in words(app) and "stands still" not in words(app))


async def test_the_chat_waits_for_the_menu(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("enter", shows="waiting")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: app.screen is not it.screen)
        wizard.downloads.set(SMALL, "done")
        await pilot.pause()
        assert not it.given
        await pilot.press("escape")
        await it.gives(Chosen(wizard.path(SMALL)))


async def test_without_proposals_the_other_ways_stay_open(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.failures["proposals"] = UserError(f"The catalogue {ODD} is odd.", "Reinstall pardec-chat.")
    async with app.run_test(size=(100, 24)) as pilot:
        it = await opened(pilot, WizardScreen(wizard, first=True), "Error: The catalogue", "Reinstall pardec-chat.")
        assert ODD_SEEN in words(app)
        await it.press("enter", shows="All models")


async def test_a_fault_of_ours_is_told_and_logged(
    app: PardecChat, wizard: FakeWizard, caplog: pytest.LogCaptureFixture
) -> None:
    wizard.failures["machine"] = ZeroDivisionError("x")
    async with app.run_test(size=(120, 24)) as pilot:
        await opened(pilot, WizardScreen(wizard), "A fault of this program: ZeroDivisionError")
    assert "Traceback" in caplog.text


async def test_a_click_takes_a_proposal(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Recommended")
        line = next(y for y, text in enumerate(screen_text(app).splitlines()) if "Recommended" in text)
        await pilot.click(offset=(30, line))
        await it.shows("waiting")
        assert [item.model for item in wizard.downloads.items()] == [CODER, DRAFT]


async def test_a_refused_start_is_told(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.downloads.refusal = UserError("The models folder is read-only.", "Choose another one.")
    async with app.run_test(size=(100, 24)) as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("enter", shows="Error: The models folder is read-only. Choose another one.")
        wizard.downloads.refusal = None
        await it.press("enter", shows="waiting")


# ---- a file ----


async def test_a_file_of_the_users(app: PardecChat, wizard: FakeWizard, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "my models" / "llama-8b.gguf", 100)
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("up", "enter", shows="The path of a .gguf file.")
        await it.press("m", "tab", shows="› my models/")
        await it.press("tab", shows="› my models/llama-8b.gguf")
        await it.press("enter")
        await it.gives(Chosen(Path("my models/llama-8b.gguf")))


async def test_a_file_that_is_none(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.failures["add"] = NotGguf("x.txt is not a GGUF file.", "Choose the .gguf file of the model.")
    async with app.run_test() as pilot:
        it = await opened(pilot, WizardScreen(wizard), "Start now")
        await it.press("up", "enter", "x", "enter", shows="Error: x.txt is not a GGUF file. Choose the .gguf file")
        await it.press("y")
        await until(pilot, lambda: "Error" not in words(app))
        await it.press("escape", shows="Start now")
        await it.press("escape")
        await it.gives(None)


def test_completion_finds_folders_and_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.gguf", "B.GGUF", "b.txt", ".hidden.gguf", "日本語.gguf", "two  blanks.gguf", "esc\x1b[2J.gguf"):
        write(tmp_path / name, 1)
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert path_entry.find("") == ("B.GGUF", "a.gguf", "b/", "two  blanks.gguf", "日本語.gguf")
    assert path_entry.find("b") == ("b/",)
    assert path_entry.find("~/日") == ("~/日本語.gguf",)
    assert path_entry.find(f"{tmp_path}/a") == (f"{tmp_path}/a.gguf",)
    assert path_entry.find(".") == (".hidden.gguf",)
    assert path_entry.find("none/") == path_entry.find("~nobody-here/") == path_entry.find("a\0/") == ()


# ---- all models ----


def names(app: PardecChat) -> list[str]:
    """Names in the list of all models, as far as they are seen."""
    lines = screen_text(app).splitlines()
    first = next(y for y, line in enumerate(lines) if line.split()[:2] == ["model", "size"]) + 1
    last = next(y for y in range(first, len(lines)) if lines[y].startswith("───"))
    known = [one.name for one in MODELS]
    return [name for line in lines[first:last] for name in known if name in line]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", [one.name for one in MODELS]),
        ("QWEN2.5 1.5b", ["Qwen2.5 Coder 1.5B Instruct"]),
        ("coder qwen2.5", ["Qwen2.5 Coder 1.5B Instruct", "Qwen2.5 Coder 0.5B Instruct"]),
        ("ja sara", ["日本語 Sarashina 2.2 3B"]),
        ("日本", ["日本語 Sarashina 2.2 3B"]),
        ("mit speaks", ["日本語 Sarashina 2.2 3B"]),
        ("sister", ["Qwen2.5 Coder 1.5B Instruct"]),
        ("qwen3-0.6b", ["Qwen3 0.6B"]),
        ("qwen nothing", []),
    ],
)
async def test_search(app: PardecChat, wizard: FakeWizard, typed: str, found: list[str]) -> None:
    async with app.run_test(size=(80, 30)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        it.screen.query_one(Entry).value = typed
        await it.shows(f"{len(found)} of 7")
        assert names(app) == found


async def test_needs_follow_the_context(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        assert wizard.contexts == [4096]
        await it.press("]", shows="4k [8k] 16k")
        assert it.screen.query_one(Entry).value == ""  # it is a key even while one types
        await it.press("down", "+", shows="8k [16k]")
        await it.press("-", "-", shows="2k [4k]")
        await it.press("minus", "minus", "minus", shows="[2k] 4k")
        assert wizard.contexts == [4096, 8192, 16384, 8192, 4096, 2048]


async def test_only_the_newest_answer_counts(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.held.add("rows")
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "Reading the list")
        await it.press("]", "]", shows="[16k]")
        wizard.release.set()
        await it.shows("7 of 7")
        await until(pilot, lambda: len(wizard.contexts) == 3)
        need = int(SMALL.size * 1.05) + 16_384 * 160_000
        await it.shows(f"{need / 1e9:.1f} GB")


async def test_enter_fetches_with_the_draft(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press(*"sister", shows="fetches it and its draft Qwen2.5 Coder 0.5B Instruct, 1.6 GB")
        await it.press("enter", shows="2 waiting")
        assert isinstance(app.screen, DownloadsScreen)
        assert [item.model for item in wizard.downloads.items()] == [CODER, DRAFT]
        wizard.downloads.set(CODER, "done")
        wizard.downloads.set(DRAFT, "done")
        await it.shows("2 done")
        await it.press("enter")
        await it.gives(Chosen(wizard.path(CODER), wizard.path(DRAFT)))


async def test_d_leaves_the_draft_out_and_takes_it_back(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press("down", "down", shows="Enter fetches it and its draft")
        await it.press("d", shows="Enter fetches it, 1.1 GB. d fetches (491 MB) its draft")
        await it.press("enter", shows="1 waiting")
        assert [item.model for item in wizard.downloads.items()] == [CODER]
        await it.press("escape", shows="All models")
        await it.press("d", shows="Enter fetches it and its draft")
        await it.press("home", "d")
        assert "Nothing in the list guesses for this model." in notifications(app)


async def test_enter_chooses_what_is_here(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.have(CODER)
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press("down", "down", shows="Enter chats with it. d fetches (491 MB) its draft")
        await it.press("enter")
        await it.gives(Chosen(wizard.path(CODER)))


async def test_a_draft_that_is_here_guesses(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.have(CODER, DRAFT)
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press("down", "down", shows="Enter chats with it; its draft Qwen2.5 Coder 0.5B Instruct guesses.")
        await it.press("enter")
        await it.gives(Chosen(wizard.path(CODER), wizard.path(DRAFT)))


async def test_a_draft_can_be_fetched_for_what_is_here(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.have(CODER)
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press("down", "down", "d", shows="Enter fetches its draft Qwen2.5 Coder 0.5B Instruct, 491 MB.")
        await it.press("enter", shows="1 waiting")
        assert [item.model for item in wizard.downloads.items()] == [DRAFT]


async def test_a_pair_that_does_not_fit_comes_without_its_draft(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press(*"largest", shows="more than the 9.0 GB that are free")
        await it.shows("Enter fetches it, 9.0 GB. d fetches (484 MB) its draft Qwen3 0.6B as well.")


async def test_a_head_for_another_model_is_not_to_be_chosen(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.models = (replace(TINY, kind="draft"),)
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "1 of 1", "Not to be chosen: only guesses, by eagle")
        await it.press("enter")
        await until(pilot, lambda: "Not to be chosen" in notifications(app))
        assert not wizard.downloads.items() and not it.given


async def test_a_file_of_the_users_is_in_the_list(app: PardecChat, wizard: FakeWizard, tmp_path: Path) -> None:
    wizard.own = [tmp_path / "mine.gguf"]
    write(wizard.own[0], 1_000_000_000)
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "8 of 8")
        await it.press(*"mine", shows="A file of yours:")
        await it.press("enter")
        await it.gives(Chosen(wizard.own[0]))


async def test_the_marked_model_stays_marked(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        await it.press("down", "down", "down", "]", shows="[8k]")
        await until(pilot, lambda: wizard.contexts[-1] == 8192)
        assert "▸ Qwen2.5 Coder 0.5B" in words(app)


async def test_a_click_marks_and_a_second_one_takes(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        line = next(
            y for y, text in enumerate(screen_text(app).splitlines()) if "Qwen3 0.6B " in text and "484 MB" in text
        )
        await pilot.click(offset=(10, line))
        await it.shows("▸ Qwen3 0.6B")
        assert not wizard.downloads.items()
        await pilot.click(offset=(10, line))
        await it.shows("1 waiting")


async def test_rows_that_cannot_be_read_anew_stay(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "7 of 7")
        wizard.failures["rows"] = UserError("The disk is gone.", "Bring it back.")
        await it.press("]")
        await until(pilot, lambda: "The disk is gone. Bring it back." in notifications(app))
        assert "7 of 7" in words(app)


async def test_three_hundred_models_are_quick(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.models = tuple(model(f"Model {i} of a long list", 1_000_000_000 + i) for i in range(300))
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, BrowseScreen(wizard), "300 of 300")
        screen = it.screen
        assert isinstance(screen, BrowseScreen)
        assert len(list(screen.walk_children())) < 12  # no widget for a row
        start = perf_counter()
        for _ in range(10):
            screen.search()
        assert (perf_counter() - start) / 10 < 0.1
        await it.press("down", "end", shows="Model 299 of a long list")
        await it.press("pageup", "pageup")
        assert "Model 299" not in words(app)


# ---- a repository ----


async def ask(it: Opened, repo: str = "o/n") -> None:
    """Type a name and ask."""
    await it.press(*repo, "enter")


async def test_a_split_offer_is_fetched_and_chosen_as_one(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it, "bartowski/X")
        await it.shows("bartowski/Qwen2.5-14B-Instruct-GGUF", "Q8_0", "29.6 GB", "2 files")
        assert wizard.looked == ["bartowski/X"]
        await it.press("down", "down", shows="29.6 GB, 2 files fetched as one")
        await it.press("enter", shows="2 waiting")
        first, second = (item.model for item in wizard.downloads.items())
        wizard.downloads.set(second, "done")
        await it.press("down", "enter")
        await until(pilot, lambda: "The other parts of this model are still to come." in notifications(app))
        wizard.downloads.set(first, "done")
        await it.shows("2 done")
        await it.press("enter")
        await it.gives(Chosen(wizard.path(first)))
        assert first.id.endswith("-00001-of-00002")


async def test_helpers_say_why_they_cannot_be_chosen(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it)
        await it.shows("mmproj")
        await it.press("end", "up", "enter", shows="Not to be fetched: a vision projector: it helps another model")
        assert not wizard.downloads.items()
        assert "a vision projector" in notifications(app)


@pytest.mark.parametrize(
    ("error", "token"),
    [
        (HubNeedsLogin("Nobody without a token (401).", "Make a token."), True),
        (HubTokenRefused("Not your token (401).", "Make a new one."), True),
        (HubTokenLacksScope("Its scope does not do (403).", "Give it access."), True),
        (HubGated("It is gated (403).", "Accept its licence."), False),
        (HubMissing("The Hub has no such repository (404).", "Look at its page."), False),
        (HubUnreachable("HF_HUB_OFFLINE is set.", "Unset it to download."), False),
    ],
)
async def test_errors_and_their_next_steps(app: PardecChat, wizard: FakeWizard, error: UserError, token: bool) -> None:
    wizard.failures["look"] = error
    async with app.run_test(size=(100, 24)) as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it)
        await it.shows(f"Error: {error.what} {error.next_step}")
        assert ("t type a token" in words(app)) == token
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(app.screen, TokenScreen) == token
        if token:
            await it.press("escape", shows="r ask again")
        del wizard.failures["look"]
        await it.press("r", shows="Q8_0")


async def test_escape_ends_the_question(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.held.add("look")
    async with app.run_test() as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it)
        await it.shows("Asking the Hub … esc ends it.")
        await it.press("escape", shows="Enter asks what it holds.")
        await pilot.pause()
        assert "Error" not in words(app)
        await it.press("escape")
        await it.gives(None)


async def test_only_the_newest_question_is_answered(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.held.add("look")
    async with app.run_test() as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it, "a/b")
        await it.shows("Asking")
        await it.press("c", "enter")
        wizard.release.set()
        await it.shows("Q8_0")
        assert wizard.looked == ["a/b", "a/bc"]


async def test_an_empty_repository(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.repository = replace(REPOSITORY, offers=())
    async with app.run_test() as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it)
        await it.shows("There is nothing in it that can be fetched.")


async def test_what_is_asked_for_at_once(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, RepositoryScreen(wizard, "a/b"), "Q8_0")
        await it.press("slash", "c", "enter")
        await until(pilot, lambda: wizard.looked == ["a/b", "a/bc"])


# ---- a token ----

TOKEN = "hf_SecretSecretSecret"


async def test_a_token_is_handed_on_and_seen_nowhere(
    app: PardecChat, wizard: FakeWizard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wizard.failures["look"] = HubNeedsLogin("Nobody without a token (401).", "Make a token.")
    async with app.run_test(size=(100, 30)) as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        await ask(it)
        await it.press("t", shows="the Hub's own login, which keeps it")
        await it.press(*TOKEN[:10], shows="•" * 10)
        secret = app.screen.query_one(Secret)
        secret.post_message(events.Paste(f"\n{TOKEN[10:]}\n"))
        await until(pilot, lambda: "•" * len(TOKEN) in words(app))
        await pilot.press("ctrl+shift+a", "ctrl+c", "ctrl+x", "ctrl+c")
        await until(pilot, lambda: not secret.value)
        assert app.clipboard == ""
        secret.value = TOKEN
        wizard.failures["login"] = HubTokenRefused("Not your token (401).", "Make a new one.")
        await it.press("enter", shows="Error: Not your token (401). Make a new one.")
        assert wizard.tokens == [TOKEN]
        assert not secret.value and TOKEN not in screen_text(app)

        wizard.failures["login"] = ValueError(f"Illegal header value b'Bearer {TOKEN}'")
        secret.value = TOKEN
        await it.press("enter", shows="ValueError: Illegal header value b'Bearer …'")

        del wizard.failures["login"], wizard.failures["look"]
        secret.value = TOKEN
        await it.press("enter", shows="Q8_0")
        assert "The Hub knows you as ada." in notifications(app)
        assert TOKEN not in screen_text(app)
    assert "Secret" not in caplog.text


async def test_an_empty_token_asks_nobody(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, TokenScreen(wizard), "A token for the Hub")
        await it.press("enter", "space", "enter")
        assert not wizard.tokens
        await it.press("escape")
        await it.gives(None)


async def test_no_message_holds_the_token(app: PardecChat, wizard: FakeWizard, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    post = Screen.post_message

    def note_and_post(screen: Screen[Any], message: Message) -> bool:
        seen.append(repr(message))
        return post(screen, message)

    monkeypatch.setattr(Screen, "post_message", note_and_post)
    async with app.run_test() as pilot:
        it = await opened(pilot, TokenScreen(wizard), "A token for the Hub")
        app.screen.query_one(Secret).value = TOKEN
        await pilot.pause()
        await it.press("enter")
        await it.gives("ada")
    assert seen and TOKEN not in " ".join(seen)


# ---- downloads ----


async def test_L06_pause_and_cancel_one_of_two(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.downloads.come(CODER, 0.43)
    wizard.downloads.come(DRAFT, 0.07, 830_000)
    async with app.run_test(size=(120, 36)) as pilot:
        it = await opened(pilot, DownloadsScreen(wizard), "43 %", "2 downloading")
        await it.press("down", "p", shows="1 downloading, 1 paused")
        assert wizard.downloads.calls == [("pause", DRAFT.id)]
        await it.press("p", shows="1 downloading, 1 waiting")
        await it.press("x", shows="Cancelled: Qwen2.5 Coder 0.5B Instruct. What came of it is kept.")
        assert [item.model for item in wizard.downloads.items()] == [CODER]
        assert "▸ Qwen2.5 Coder 1.5B Instruct" in words(app)
        await it.press("x", shows=NOTHING)
        await it.press("x", "p", "enter")
        await it.press("escape")
        await it.gives(None)
        assert wizard.downloads.calls[-1] == ("cancel", CODER.id)


async def test_a_failed_one_says_why_and_is_tried_again(app: PardecChat, wizard: FakeWizard) -> None:
    error = HubUnreachable(f"The Hub {ODD} stopped sending.", "Check the connection.")
    wizard.downloads.set(CODER, "failed", error=error)
    async with app.run_test(size=(100, 24)) as pilot:
        it = await opened(pilot, DownloadsScreen(wizard), "p try again")
        assert f"Error: The Hub {ODD_SEEN} stopped sending. Check the connection." in words(app)
        await it.press("p", shows="1 waiting")
        assert "Error" not in words(app)


async def test_a_long_complaint_leaves_room_for_the_next_step(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.downloads.set(CODER, "failed", error=UserError("No source gave it. " * 30, "Do something else."))
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, DownloadsScreen(wizard), "Error: No source gave it.", "Do something else.")


async def test_a_done_one_is_chosen_with_the_draft_that_is_here(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.have(TINY)
    wizard.downloads.set(LARGE, "done")
    async with app.run_test() as pilot:
        it = await opened(pilot, DownloadsScreen(wizard), "enter chat with it")
        await it.press("x")  # there is nothing to cancel
        await it.press("enter")
        await it.gives(Chosen(wizard.path(LARGE), wizard.path(TINY)))


async def test_notes_of_a_download_are_told(app: PardecChat, wizard: FakeWizard) -> None:
    wizard.downloads.come(CODER, 0.43)
    wizard.downloads.set(CODER, "downloading", note=f"It broke {ODD}. Trying again in 4 s.")
    async with app.run_test(size=(120, 24)) as pilot:
        await opened(pilot, DownloadsScreen(wizard), f"It broke {ODD_SEEN}. Trying again in 4 s.")


async def test_many_changes_are_one_picture(app: PardecChat, wizard: FakeWizard, monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "SECONDS", 3600.0)
    wizard.downloads.come(CODER, 0.1)
    async with app.run_test(size=(120, 24)) as pilot:
        it = await opened(pilot, DownloadsScreen(wizard), "10 %")
        drawn: list[int] = []
        show = Choices.show

        def count_and_show(*args: Any, **kwargs: Any) -> None:
            drawn.append(1)
            show(*args, **kwargs)

        monkeypatch.setattr(Choices, "show", count_and_show)

        def change() -> None:
            for percent in range(10, 90):
                wizard.downloads.come(CODER, percent / 100)

        threads = [threading.Thread(target=change) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await pilot.pause()
        assert not drawn
        screen = it.screen
        assert isinstance(screen, DownloadsScreen)
        screen._watch.look()
        screen._watch.look()
        await it.shows("89 %")
        assert len(drawn) == 1


async def test_columns_stay_where_they_are(wizard: FakeWizard) -> None:
    for width in (60, 74, 115, 180):
        shapes = set()
        for share, speed in ((0.0, 1.0), (0.001, 999.0), (0.5, 12e6), (0.999, 1.3e9)):
            wizard.downloads.come(CODER, share, speed)
            item = wizard.downloads.items()[0]
            lines = ["".join(text for text, _ in line) for line in download_row.draw(item, width)]
            shapes.add((len(lines), lines[-1].index("%"), lines[-1].index(" of ")))
            assert all(len(line) <= width for line in lines)
        assert len(shapes) == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (39.2, "40 s"),
        (59, "59 s"),
        (61, "2 min"),
        (3540, "59 min"),
        (3541, "1 h 00 min"),
        (3900, "1 h 05 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert download_row.seconds(seconds) == text


@pytest.mark.parametrize(
    ("speed", "text"),
    [(None, ""), (840_000, "840 kB/s"), (1.26e6, "1.3 MB/s"), (12.3e6, "12 MB/s"), (1.3e9, "1.3 GB/s")],
)
def test_speeds(speed: float | None, text: str) -> None:
    assert download_row.speed(speed) == text


def test_parts_of_a_split_model() -> None:
    parts = [replace(CODER, id=f"x-q8-0000{i}-of-00003") for i in (1, 2, 3)]
    other = replace(CODER, id="y-q8-00001-of-00003")
    assert first_part(parts[2], [other, parts[2], parts[0], parts[1]]) is parts[0]
    assert first_part(parts[0], parts[:2]) is None
    assert first_part(CODER, []) is CODER


# ---- foreign text, late answers, leaving ----


async def test_U01_X05_foreign_text_is_shown_as_it_is(app: PardecChat, wizard: FakeWizard, tmp_path: Path) -> None:
    odd = replace(CODER, id="odd", name=f"N {ODD}", licence=ODD, description=f"D {ODD}", languages=(ODD,), pairs=())
    wizard.models = (odd,)
    wizard.repository = Repository(
        f"o/{ODD}", ODD, True, ODD, (offer(f"F {ODD}", 10**9), offer("h", 1, use=f"U {ODD}"))
    )
    proposal = wizard.proposals()[0]
    fit = replace(proposal.fit, words=f"fits {ODD}")
    wizard.only = (replace(proposal, title=f"T {ODD[:5]}", models=(odd, odd), words=f"W {ODD}", fit=fit),)
    wizard.described = replace(wizard.described, features=(ODD,))
    seen: list[str] = []
    async with app.run_test(size=(200, 40)) as pilot:
        it = await opened(
            pilot, WizardScreen(wizard), f"N {ODD_SEEN}", f"W {ODD_SEEN}", f"fits {ODD_SEEN}", f"with {ODD_SEEN}"
        )
        seen.append(screen_text(app))
        await it.press("enter", shows="waiting")
        seen.append(screen_text(app))
        await it.press("escape", shows="Still fetching N [/b] [red]")
        await it.press("down", "enter", shows=f"D {ODD_SEEN}")
        seen.append(screen_text(app))
        await it.press("enter", shows="1 waiting")
        seen.append(screen_text(app))
        await it.press("x", shows=f"Cancelled: N {ODD_SEEN}")
        seen.append(screen_text(app))
        await it.press("escape", "escape", "down", "enter", shows="OWNER/NAME")
        await ask(it)
        await it.shows(f"F {ODD_SEEN}", f"U {ODD_SEEN}", f"o/{ODD_SEEN}")
        await it.press("down", "enter", shows=f"Not to be fetched: U {ODD_SEEN}")
        seen.append(screen_text(app))
    assert not [CONTROL.findall(text.replace("\n", "")) for text in seen if CONTROL.search(text.replace("\n", ""))]


async def test_what_is_pasted_is_one_line_without_controls(app: PardecChat, wizard: FakeWizard) -> None:
    async with app.run_test() as pilot:
        it = await opened(pilot, RepositoryScreen(wizard), "OWNER/NAME")
        it.screen.query_one(Entry).post_message(events.Paste("\n \x1b[2Jowner/name\r\nmore"))
        await it.shows("› ␛[2Jowner/name")


@pytest.mark.parametrize("method", ["rows", "proposals", "look", "login", "add"])
async def test_U04_an_answer_behind_the_screen_does_no_harm(app: PardecChat, wizard: FakeWizard, method: str) -> None:
    wizard.held.add(method)
    screens: dict[str, Callable[[], Screen[Any]]] = {
        "rows": lambda: BrowseScreen(wizard),
        "proposals": lambda: WizardScreen(wizard),
        "look": lambda: RepositoryScreen(wizard, "a/b"),
        "login": lambda: TokenScreen(wizard),
        "add": lambda: WizardScreen(wizard),
    }
    before = threading.active_count()
    async with app.run_test() as pilot:
        it = await opened(pilot, screens[method]())
        if method == "login":
            await it.press("x", "enter")
        if method == "add":
            await it.shows("Start now")
            await it.press("up", "enter", "x", "enter")
        await until(pilot, lambda: threading.active_count() > before)
        while app.screen is not app.chat:
            await pilot.press("escape")
            await pilot.pause()
        wizard.release.set()
        await until(pilot, lambda: threading.active_count() <= before)
        assert app.screen is app.chat and it.given == [None]


@pytest.mark.parametrize("method", ["rows", "login", "look"])
async def test_L06_quit_does_not_wait(app: PardecChat, wizard: FakeWizard, method: str) -> None:
    wizard.held.add(method)
    wizard.downloads.come(CODER, 0.43)
    before = threading.active_count()
    start = perf_counter()
    async with app.run_test() as pilot:
        screens: dict[str, Screen[Any]] = {
            "rows": BrowseScreen(wizard),
            "login": TokenScreen(wizard),
            "look": RepositoryScreen(wizard, "a/b"),
        }
        it = await opened(pilot, screens[method])
        if method == "login":
            await it.press("x", "enter")
        await until(pilot, lambda: threading.active_count() > before)
        start = perf_counter()
        await pilot.press("ctrl+q")
    await asyncio.get_running_loop().shutdown_default_executor()  # as `App.run` does
    assert perf_counter() - start < 2
    wizard.release.set()
