from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import ClassVar

import pytest
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import TextArea

from pardec_chat.app import keymap, widgets
from pardec_chat.app.app import PardecChat
from pardec_chat.app.keymap import Place
from pardec_chat.app.places import places
from pardec_chat.app.screens.chat import ChatScreen
from pardec_chat.app.settings import Problem, Rebinding


class Writing(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "stop", id="stop"),
        Binding("escape", "leave", "leave", id="leave"),
        Binding("ctrl+g", "again", "again", id="again"),
        Binding("f10", "race", "race", id="race", priority=True),
        Binding("f8", "fixed", "something fixed"),
        Binding("m", "measure", "measure", id="measure"),
    ]


class Reading(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "back", id="back")]


PLACES: tuple[Place, ...] = ((TextArea, Writing, PardecChat), (Reading, PardecChat))


def make(**keys: str | list[str]) -> keymap.Keymap:
    found = {
        id_: Rebinding(tuple([value] if isinstance(value, str) else value), line)
        for line, (id_, value) in enumerate(keys.items(), start=1)
    }
    return keymap.make(found, PLACES)


def test_a_key_several_keys_and_none() -> None:
    assert keymap.make({}, PLACES) == keymap.Keymap({})
    assert make(again="F9") == keymap.Keymap({"again": "f9"})
    assert make(again=["F9", "alt+g", "f9"]).keys == {"again": "f9,alt+g"}
    assert make(menu="f12", quit="ctrl+c").keys == {"menu": "f12", "quit": "ctrl+c"}


@pytest.mark.parametrize(
    ("written", "key", "shown"),
    [
        ("ctrl+g", "ctrl+g", "^G"),
        ("Ctrl+G", "ctrl+g", "^G"),
        ("^G", "ctrl+g", "^G"),
        ("control+g", "ctrl+g", "^G"),
        ("shift+ctrl+g", "ctrl+shift+g", "ctrl+shift+g"),
        ("esc", "escape", "esc"),
        ("pgup", "pageup", "pgup"),
        ("shift+F5", "shift+f5", "shift+F5"),
        ("ctrl++", "ctrl+plus", "^+"),
        ("alt+é", "alt+é", "alt+é"),
        ("ctrl+home", "ctrl+home", "ctrl+home"),
        ("ctrl+left", "ctrl+left", "^←"),
    ],
)
def test_names_of_keys(written: str, key: str, shown: str) -> None:
    assert keymap._key(written) == key
    assert keymap.shown(key) == shown


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("escpae", "'escpae' is no key. Did you mean escape?"),
        ("crtl+g", "'crtl+g' is no key. Did you mean ctrl?"),
        ("f2,f3", "'f2,f3' is no key. Several keys are a list of texts."),
        ("f99", "'f99' is no key. Did you mean f9?"),
        ("[red]", "'[red]' is no key."),
        ("ctrl+", "'ctrl+' is no key."),
        ("\x1b", "'\\x1b' is no key."),
        ("shift+a", "'shift+a' is no key of its own: write the character that it gives."),
        ("ctrl+i", "'ctrl+i' comes from terminals as tab: take another key."),
    ],
)
def test_what_is_no_key(written: str, what: str) -> None:
    assert make(again=written) == keymap.Keymap({}, (Problem(what, 1),))


def test_what_is_no_action() -> None:
    assert make(agian="f9").problems == (Problem("agian is no action that has a key. Did you mean again?", 1),)
    assert make(**{"[x": "f9"}).problems == (Problem("[x is no action that has a key.", 1),)


@pytest.mark.parametrize("key", ["a", "Z", "space", "?", "enter", "backspace", "up", "tab"])
def test_keys_that_write_are_not_for_where_one_writes(key: str) -> None:
    for id_ in ("again", "race", "menu"):
        (problem,) = make(**{id_: key}).problems
        assert problem.what.startswith(
            f"{id_} cannot have {keymap.shown(keymap._key(key))}, which writes where it works."
        )
    assert make(measure="z").keys == {"measure": "z"}
    assert make(back=["q", "space"]).keys == {"back": "q,space"}


def test_two_actions_on_one_key() -> None:
    made = make(again="f9", race="f9")
    assert made == keymap.Keymap({"again": "f9"}, (Problem("race cannot have F9, which is there for: again.", 2),))
    assert make(again="f10").problems == (Problem("again cannot have F10, which is there for: race.", 1),)
    assert make(again="f8").problems == (Problem("again cannot have F8, which is there for: something fixed.", 1),)
    assert make(again="ctrl+q").problems == (Problem("again cannot have ^Q, which is there for: quit.", 1),)
    # In another place it is another matter.
    assert make(again="f9", back="f9").keys == {"again": "f9", "back": "f9"}


def test_what_a_text_area_has_itself() -> None:
    assert make(again="f6").problems == (Problem("again cannot have F6, which is there for: Select line.", 1),)
    (problem,) = make(again="ctrl+k").problems
    assert problem.what.startswith("again cannot have ^K, which is there for: ")
    assert make(race="ctrl+k").keys == {"race": "ctrl+k"}  # it has priority


def test_keys_that_change_places() -> None:
    assert make(again="f10", race="ctrl+g").keys == {"again": "f10", "race": "ctrl+g"}
    # What gives way takes its old key back, and whoever has that now gives way in turn.
    made = make(again="f10", race="f8")
    assert made.keys == {}
    assert made.problems == (
        Problem("again cannot have F10, which is there for: race.", 1),
        Problem("race cannot have F8, which is there for: something fixed.", 2),
    )


def test_actions_that_take_turns_stay_together_or_part() -> None:
    # Textual drops all of a key when one of its actions moves.
    assert make(stop="f9").keys == {"stop": "f9", "leave": "escape"}
    assert make(stop="f9", leave="f9").keys == {"stop": "f9", "leave": "f9"}


def test_bindings_as_they_are_now() -> None:
    made = make(again=["f9", "ctrl+t"])
    again = Binding("ctrl+g", "again", id="again", key_display="^G")
    stop = Binding("escape", "stop", id="stop", key_display="esc")
    assert made.bound(again) == Binding("f9,ctrl+t", "again", id="again")
    assert keymap.shown(made.bound(again).key) == "F9 ^T"
    assert made.bound(stop) is stop


def test_our_keys_are_shown_as_they_say() -> None:
    for binding in ChatScreen.BINDINGS:
        assert isinstance(binding, Binding)
        assert binding.key_display in (None, keymap.shown(binding.key))


def test_every_action_of_ours_can_have_another_key() -> None:
    owners = {owner for place in places() for owner in place}
    ids = {b.id for owner in owners if "pardec" in owner.__module__ for _, b in owner._merge_bindings() if b.id}
    assert {"stop", "again", "race", "race-stop", "menu", "quit"} <= ids
    for id_ in ids:
        made = keymap.make({id_: Rebinding(("ctrl+shift+f12",))}, places())
        assert made.problems == ()
        assert made.keys[id_] == "ctrl+shift+f12"
    # Nothing that has no id shares a key with something that has one: Textual would drop it.
    for owner in owners:
        for bindings in owner._merge_bindings().key_to_bindings.values():
            assert len(bindings) == 1 or all(binding.id for binding in bindings)


def test_every_class_with_keys_of_its_own_has_a_place() -> None:
    known = {owner for place in places() for owner in place}
    for found in iter_modules(widgets.__path__, f"{widgets.__name__}."):
        for value in vars(import_module(found.name)).values():
            if isinstance(value, type) and issubclass(value, Widget) and value.__module__ == found.name:
                ids = {binding.id for _, binding in value._merge_bindings() if binding.id}
                assert not ids or value in known, f"add {value.__name__} to app/places.py"
