"""[keys] of the settings as Textual's keymap. What cannot be is a problem, and the action keeps the keys that it has."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys, _character_to_key, format_key

from pardec_chat.app.nearest import did_you_mean
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.settings import Problem, Rebinding
from pardec_chat.backends.errors import BadSetting

#: The classes that a key goes through where it is pressed: the focused widget's, its screen's, the app's.
Place = tuple[type[DOMNode], ...]

_MODIFIERS = {name: name for name in ("alt", "ctrl", "hyper", "meta", "shift", "super")} | {"control": "ctrl"}
_OTHER_NAMES = {
    "del": "delete",
    "esc": "escape",
    "ins": "insert",
    "pgdn": "pagedown",
    "pgup": "pageup",
    "return": "enter",
}
_SIGNS = frozenset(map(_character_to_key, string.punctuation + " "))
_NAMES = _SIGNS | {name for key in Keys if re.fullmatch(r"[a-z][a-z0-9]+", name := key.value.split("+")[-1])}
#: Keys that write or move in a text, beside those of characters.
_EDITING = frozenset(
    ("enter", "ctrl+j", "tab", "shift+tab", "backspace", "delete", "left", "right", "up", "down", "home", "end")
)
#: What terminals cannot tell from another key.
_SAME = {"ctrl+i": "tab", "ctrl+m": "enter", "ctrl+h": "backspace", "ctrl+left_square_bracket": "escape"}


@dataclass(frozen=True, slots=True)
class Keymap:
    """keys: for `App.set_keymap`, which knows no problems. problems: what of the settings is not in it."""

    keys: Mapping[str, str]
    problems: tuple[Problem, ...] = ()

    def bound(self, binding: Binding) -> Binding:
        """The binding with the keys that it has now, as lists of keys show it."""
        keys = self.keys.get(binding.id or "")
        return binding if keys is None else binding.with_key(keys)


def shown(keys: str) -> str:
    """A binding's keys as they are printed on keys: ^R, F9, esc, alt+x."""
    return " ".join(map(_shown, keys.split(",")))


def make(rebindings: Mapping[str, Rebinding], places: Iterable[Place]) -> Keymap:
    """The keymap of the settings, for an app whose keys are pressed at `places`."""
    if not rebindings:
        return Keymap({})
    places = list(places)
    making = _Making([_actions(place) for place in places], [_takes_text(place) for place in places])
    for id_, rebinding in rebindings.items():
        try:
            making.add(id_, tuple(dict.fromkeys(map(_key, rebinding.keys))), rebinding.line)
        except BadSetting as error:
            making.refuse(error.what, rebinding.line)
    making.settle()
    keys = {id_: ",".join(keys) for id_, (keys, _) in making.wanted.items()}
    problems = sorted(making.problems, key=lambda problem: problem.line or 0)
    return Keymap(making.with_neighbours(keys), tuple(problems))


@dataclass(frozen=True, slots=True)
class _Action:
    """What a class does on some keys. id: None for those that nobody can move. ours: not there by Textual itself."""

    owner: type[DOMNode]
    id: str | None
    ours: bool
    words: str
    priority: bool
    keys: frozenset[str]


def _actions(place: Place) -> list[_Action]:
    return [action for owner in place for action in _actions_of(owner)]


def _actions_of(owner: type[DOMNode]) -> Iterator[_Action]:
    found: dict[tuple[str | None, str], list[Binding]] = {}
    for _, binding in owner._merge_bindings():
        found.setdefault((binding.id, "" if binding.id else binding.action), []).append(binding)
    for (id_, _), bindings in found.items():
        first, keys = bindings[0], frozenset(binding.key for binding in bindings)
        yield _Action(owner, id_, _is_ours(owner, first.key), first.description or first.action, first.priority, keys)


def _is_ours(owner: type[DOMNode], key: str) -> bool:
    made = (base for base in owner.__mro__ if key in _keys_of(base))
    return not next(made, owner).__module__.startswith("textual.")


def _keys_of(base: type) -> set[str]:
    return {binding.key for binding in Binding.make_bindings(base.__dict__.get("BINDINGS", ()))}


def _takes_text(place: Place) -> bool:
    return any(owner.check_consume_key is not DOMNode.check_consume_key for owner in place)


class _Making:
    """The keys that are wanted, out of which those fall that cannot be."""

    def __init__(self, places: Sequence[Sequence[_Action]], takes_text: Sequence[bool]) -> None:
        self._places = places
        self._takes_text = takes_text
        self.wanted: dict[str, tuple[tuple[str, ...], int]] = {}
        self.problems: list[Problem] = []

    def refuse(self, what: str, line: int) -> None:
        self.problems.append(Problem(visible_line(what), line or None))

    def add(self, id_: str, keys: tuple[str, ...], line: int) -> None:
        """Raises BadSetting where that cannot be, whatever the other keys are."""
        actions = [(action, i) for i, place in enumerate(self._places) for action in place if action.id == id_]
        if not actions:
            known = {action.id for place in self._places for action in place if action.id}
            raise BadSetting(f"{id_} is no action that has a key.{did_you_mean(id_, known)}")
        for action, i in actions:
            if self._takes_text[i] and not any(map(_writes, action.keys)):
                for key in filter(_writes, keys):
                    raise BadSetting(
                        f"{id_} cannot have {shown(key)}, which writes where it works. "
                        "Take a key with ctrl, or a function key."
                    )
        self.wanted[id_] = keys, line

    def settle(self) -> None:
        """Until no key does two things in one place; of two that were wanted, the later one in the file gives way."""
        while clash := next(self._clashes(), None):
            action, other, key = clash
            assert action.id is not None
            _, line = self.wanted.pop(action.id)
            self.refuse(f"{action.id} cannot have {shown(key)}, which is there for: {other.id or other.words}.", line)

    def _clashes(self) -> Iterator[tuple[_Action, _Action, str]]:
        order = list(self.wanted)
        for id_ in reversed(order):
            for place in self._places:
                for action in place:
                    if action.id != id_:
                        continue
                    for other in place:
                        for key in self.wanted[id_][0]:
                            if key in self._keys(other) and _clash(action, other):
                                yield action, other, key

    def _keys(self, action: _Action) -> Collection[str]:
        return self.wanted[action.id][0] if action.id in self.wanted else action.keys

    def with_neighbours(self, keys: dict[str, str]) -> dict[str, str]:
        """Textual drops all of a key's bindings when it moves one of them: the others are put there again."""
        moved = [action for place in self._places for action in place if action.id in keys]
        stay = [action for place in self._places for action in place if action.id and action.id not in keys]
        again = {
            action.id: ",".join(sorted(action.keys))
            for action in stay
            if any(action.owner is other.owner and action.keys & other.keys for other in moved)
        }
        return keys | {id_: keys for id_, keys in again.items() if id_}


def _clash(action: _Action, other: _Action) -> bool:
    if action is other or (action.id == other.id and other.id is not None):
        return False
    if action.keys & other.keys:  # they take turns, as stop and leave
        return False
    # With priority it may come before what a widget of Textual's has on that key, as F6 of a text area.
    return not action.priority or other.priority or other.ours


def _key(written: str) -> str:
    """A key's name as Textual has it. Raises BadSetting."""
    name = written.strip()
    if len(name) == 1 and name.isprintable():
        return _character_to_key(name)
    if len(name) == 2 and name[0] == "^":
        name = f"ctrl+{name[1]}"
    *modifiers, base = re.split(r"\+(?!$)", name.lower())
    base = _character_to_key(base) if len(base) == 1 else _OTHER_NAMES.get(base, base)
    unknown = [modifier for modifier in modifiers if modifier not in _MODIFIERS]
    if unknown or not (base in _NAMES or (len(base) == 1 and base.isprintable())):
        part, known = (unknown[0], list(_MODIFIERS)) if unknown else (base, sorted(_NAMES))
        list_ = " Several keys are a list of texts." if "," in name else did_you_mean(part, known)
        raise BadSetting(f"{written!r} is no key.{list_}")
    held = sorted({_MODIFIERS[modifier] for modifier in modifiers})
    if held == ["shift"] and _writes(base) and base not in _EDITING:
        raise BadSetting(f"{written!r} is no key of its own: write the character that it gives.")
    key = "+".join([*held, base])
    if key in _SAME:
        raise BadSetting(f"{written!r} comes from terminals as {_SAME[key]}: take another key.")
    return key


def _writes(key: str) -> bool:
    return len(key) == 1 or key in _SIGNS or key in _EDITING


def _shown(key: str) -> str:
    *modifiers, base = key.split("+")
    base = base.upper() if re.fullmatch(r"f\d+", base) else format_key(base)
    if modifiers == ["ctrl"]:
        return f"^{base.upper()}" if len(base) == 1 else f"ctrl+{base}"
    return "+".join([*modifiers, base])
