"""Where keys are pressed: the ways from the focus to the app, for what the user's own keys may be."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from textual.screen import Screen

from pardec_chat.app import screens

if TYPE_CHECKING:
    from pardec_chat.app.keymap import Place


def places() -> tuple[Place, ...]:
    """Each way that has keys of its own. Imports all screens: call it when it is needed."""
    from pardec_chat.app.app import PardecChat

    ways = (*_with_widgets(), *((screen,) for screen in _screens()))
    return tuple((*way, PardecChat) for way in ways)


def _screens() -> Iterator[type[Screen[object]]]:
    for found in iter_modules(screens.__path__, f"{screens.__name__}."):
        for value in vars(import_module(found.name)).values():
            if isinstance(value, type) and issubclass(value, Screen) and value.__module__ == found.name:
                yield value


def _with_widgets() -> tuple[Place, ...]:
    """Widgets that take text, or have keys that can be other ones, in their screens."""
    from pardec_chat.app.screens.attach import AttachScreen
    from pardec_chat.app.screens.browse import BrowseScreen
    from pardec_chat.app.screens.chat import ChatScreen
    from pardec_chat.app.screens.control import ControlScreen
    from pardec_chat.app.screens.exporting import ExportScreen
    from pardec_chat.app.screens.importing import ImportScreen
    from pardec_chat.app.screens.race import RaceScreen
    from pardec_chat.app.screens.repository import RepositoryScreen
    from pardec_chat.app.screens.talk import Talk
    from pardec_chat.app.screens.token import TokenScreen
    from pardec_chat.app.screens.wizard import WizardScreen
    from pardec_chat.app.widgets.conversation_list import ConversationList
    from pardec_chat.app.widgets.editor import Editor
    from pardec_chat.app.widgets.entry import Entry
    from pardec_chat.app.widgets.file_entry import FileEntry
    from pardec_chat.app.widgets.message import Message
    from pardec_chat.app.widgets.path_entry import PathEntry
    from pardec_chat.app.widgets.prompt import Prompt
    from pardec_chat.app.widgets.secret import Secret
    from pardec_chat.app.widgets.setting_list import SettingList
    from pardec_chat.app.widgets.sidebar import Sidebar
    from pardec_chat.app.widgets.transcript import Transcript

    return (
        (ConversationList, Sidebar, ChatScreen),
        (Entry, Sidebar, ChatScreen),
        (Prompt, RaceScreen),
        (Entry, BrowseScreen),
        (Entry, RepositoryScreen),
        (Secret, TokenScreen),
        (PathEntry, WizardScreen),
        (SettingList, ControlScreen),
        (Entry, ControlScreen),
        (Editor, ControlScreen),
        (FileEntry, AttachScreen),
        (FileEntry, ExportScreen),
        (FileEntry, ImportScreen),
        (Message, Transcript, Talk, ChatScreen),
        (Prompt, Talk, ChatScreen),
    )
