"""Pictures of export and import; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.export import AlreadyThere
from pardec_chat.app.conversations.importing import Imported
from pardec_chat.app.screens.exporting import ExportScreen
from pardec_chat.app.screens.importing import ImportScreen
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.helpers import screen_text, until

#: No folder of a machine; nothing is read there, and nothing written.
FOLDER = Path("/home/ada/texts")
DAY = 86_400.0
TITLES = (
    ("Merging lists", "How do I merge two sorted lists?"),
    ("図書館の開館時間", "図書館は何時に開きますか。"),
    ("[/INST] a[0] [bold", "What does [/INST] mean?"),
    ("", "Hello"),
    *((f"Letter {n} to a landlord who never answers any letter, whatever is in it", "Dear Sir") for n in range(12)),
)
SKIPPED = ("“Pictures of cats”: 3 images", "number 7 in chats.json: it has no messages that can be read")


def conversations() -> list[Conversation]:
    """Of a time that needs its year."""
    made = []
    for n, (title, text) in enumerate(TITLES):
        day = datetime(2017, 7, 14, 12).timestamp() - n * 9 * DAY
        conversation = Conversation(title=title, created=day, updated=day)
        parent = None
        for i in range(1 + n * 3 % 5):
            parent = conversation.add(Node("assistant" if i % 2 else "user", text, parent=parent, created=day)).id
        made.append(conversation)
    return made


@pytest.fixture
def shown(snap_compare: Any, make_app: Callable[..., PardecChat]) -> Callable[..., bool]:
    """Whether a screen looks as before, once it shows `shows` behind these keys."""

    def compare(screen: Any, size: tuple[int, int], keys: list[str], shows: str, theme: str = "pardec-dark") -> bool:
        async def run(pilot: Pilot[None]) -> None:
            app = pilot.app
            assert isinstance(app, PardecChat)
            await until(pilot, lambda: app.chat.state == "no model")
            await app.push_screen(Screen())  # the chat would be seen at the edges
            app.push_screen(screen)
            await until(pilot, lambda: "esc back" in screen_text(app))
            await pilot.press(*keys)
            await until(pilot, lambda: shows in " ".join(screen_text(app).split()))

        app = make_app(theme=theme, model=None, draft=None)
        return bool(snap_compare(app, terminal_size=size, run_before=run))

    return compare


def exporting(error: UserError | None = None) -> ExportScreen:
    def write(path: Path, text: str, overwrite: bool) -> None:
        if error is not None:
            raise error

    return ExportScreen("Merging lists", str, write, FOLDER, lambda suffix: f"Merging lists{suffix}")


def importing(imported: Imported | None = None) -> ImportScreen:
    def read(path: Path) -> Imported:
        if imported is None:
            raise UserError("chats.json breaks off: its end is missing.", "Export or copy it again.")
        return imported

    return ImportScreen(read, lambda _: None, FOLDER)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)
def test_export(shown: Callable[..., bool], size: tuple[int, int]) -> None:
    assert shown(exporting(), size, ["down"], "Merging lists.json")


def test_export_over_a_file(shown: Callable[..., bool]) -> None:
    error = AlreadyThere("Merging lists.md is there already.", "Give another name, or agree to replace it.")
    assert shown(exporting(error), (80, 24), ["enter"], "y replace it", "pardec-light")


def test_export_failed(shown: Callable[..., bool]) -> None:
    error = UserError("The folder /home/ada/texts is not there.", "Name another one.")
    assert shown(exporting(error), (80, 24), ["enter"], "Name another one.")


def test_import(shown: Callable[..., bool]) -> None:
    assert shown(importing(), (80, 24), [], "enter look at it")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids="{0[0]}x{0[1]}".format)
def test_import_found(shown: Callable[..., bool], size: tuple[int, int]) -> None:
    imported = Imported(conversations(), list(SKIPPED), "Open WebUI")
    assert shown(importing(imported), size, [*"chats.json", "enter", "down"], "▸ 図書館")


def test_import_failed(shown: Callable[..., bool]) -> None:
    assert shown(importing(), (80, 24), [*"chats.json", "enter"], "Export or copy it again.")
