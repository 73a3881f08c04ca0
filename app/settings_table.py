"""A settings file's text taken key by key: what is wrong in it becomes a problem, and the default holds for that key alone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pardec_chat.app import palette
from pardec_chat.app.nearest import did_you_mean
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.settings import (
    OF_PRESETS,
    SAMPLING,
    Chat,
    Endpoint,
    Look,
    Model,
    Problem,
    Rebinding,
    Settings,
)
from pardec_chat.app.toml_lines import Address, lines_of
from pardec_chat.backends import registry
from pardec_chat.backends.base import MAX_DEPTH, Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import BadSetting

#: Gives what to keep of the value of a key. Raises BadSetting, naming the key.
Check = Callable[[str, object], Any]
#: In place of a number that may be left out: as if it were.
AUTO = "auto"
_LONGEST_NAME = 60
_NO_DEPTH = "depth is not for the method auto, which finds it itself."
#: Whole numbers beyond it are nobody's meaning, and Python refuses to print the longest of them.
_MOST = 2**63 - 1
_Section = TypeVar("_Section", Look, Chat, Model, Endpoint)


def parse(text: str) -> tuple[Settings, tuple[Problem, ...]]:
    """The settings of a file's text and its problems by line; text that is not TOML gives the defaults and one problem."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return Settings(), (not_toml(text, error),)
    reading = _Reading(lines_of(text))
    settings = reading.settings(document)
    return settings, tuple(sorted(reading.problems, key=lambda problem: problem.line or 0))


def not_toml(text: str, error: Exception) -> Problem:
    """The problem of a text that is not TOML."""
    found = re.search(r" ?\(at (?:line (\d+), column \d+|end of document)\)$", str(error))
    if found is None:
        return Problem(f"This is not valid TOML: {visible_line(str(error)) or 'too deeply nested'}.", whole=True)
    line = int(found[1]) if found[1] else text.count("\n", 0, len(text.rstrip())) + 1
    return Problem(f"This is not valid TOML: {visible_line(str(error)[: found.start()])}.", line, whole=True)


def check(address: tuple[str, ...], value: object) -> Any:
    """What the key at `address` would hold. Raises BadSetting for a key that is not known, or a value that it cannot have."""
    match address:
        case ("presets", name, key) if key in OF_PRESETS:
            check_name(name)
            return CHECKS["chat"][key](key, value)
        case ("keys", id_) if id_:
            return _keys(id_, value)
        case (section, key) if key in CHECKS.get(section, {}):
            return CHECKS[section][key](key, value)
    raise BadSetting(f"{'.'.join(address)} is no setting.")


def check_name(name: str) -> None:
    """Raises BadSetting for what cannot name a preset."""
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise BadSetting("The name of a preset is not one line of text.", f"Give up to {_LONGEST_NAME} characters.")


# ---- values ----


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadSetting(f"{key} must be true or false.")
    return value


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadSetting(f"{key} must be a text.")
    return value


def _line(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise BadSetting(f"{key} must be one line of text.")
    return value


def _choice(*choices: str) -> Check:
    def check(key: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise BadSetting(f"{key} must be {_either(map(repr, choices))}.{did_you_mean(value, choices)}")
        return value

    return check


def _theme(key: str, value: object) -> str:
    ours = (*palette.PALETTES, palette.TERMINAL)
    if isinstance(value, str) and value in ours:
        return value
    from textual.theme import BUILTIN_THEMES

    if isinstance(value, str) and value in BUILTIN_THEMES:
        return value
    near = did_you_mean(value, (*ours, *BUILTIN_THEMES))
    raise BadSetting(f"{key} must be {_either(map(repr, ours))}, or another one of the menu.{near}")


def _method(key: str, value: object) -> Method:
    return Method(_choice(*(method.value for method in Method))(key, value))


def _whole(least: int, most: int) -> Check:
    def check(key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            upto = f"from {least} to {most:,}" if most < _MOST else f"from {least} on"
            raise BadSetting(f"{key} must be a whole number {upto}.")
        return value

    return check


def _or_auto(inner: Check) -> Check:
    def check(key: str, value: object) -> Any:
        if value == AUTO:
            return None
        try:
            return inner(key, value)
        except BadSetting as error:
            raise BadSetting(f"{error.what.removesuffix('.')}, or {AUTO!r}.") from None

    return check


def _sampler(key: str, value: object) -> float | int:
    whole = isinstance(getattr(SamplingParams(), key), int)
    if not isinstance(value, int if whole else int | float) or isinstance(value, bool) or abs(value) > _MOST:
        raise BadSetting(f"{key} must be a {'whole ' * whole}number.")
    number: int | float = value if whole else float(value)
    change: dict[str, Any] = {key: number}
    replace(SamplingParams(), **change)
    return number


def _keys(key: str, value: object) -> Rebinding:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise BadSetting(f'{key} must be a key such as "ctrl+r", or a list of keys.')
    return Rebinding(tuple(names))


#: Section → key → what it may hold.
CHECKS: Mapping[str, Mapping[str, Check]] = {
    "look": {
        "theme": _theme,
        "tint": _flag,
        "figures": _choice("auto", "panel", "line", "none"),
        "conversations": _choice("auto", "shown", "hidden"),
        "reduced_motion": _flag,
    },
    "chat": {
        "method": _method,
        "depth": _or_auto(_whole(0, MAX_DEPTH)),
        **dict.fromkeys(SAMPLING, _sampler),
        "seed": _or_auto(_whole(0, _MOST)),
        "max_tokens": _or_auto(_whole(1, 2**31)),
        "system": _text,
        "titles": _flag,
    },
    "model": {
        "model": _line,
        "draft": _line,
        "runtime": _choice(*registry.names()),
        "ctx": _or_auto(_whole(1, 2**31)),
        "threads": _or_auto(_whole(1, 4096)),
        "cache_type": _choice("f16", "q8_0"),
    },
    "endpoint": {"port": _whole(0, 65535)},
}
SECTIONS = (*CHECKS, "keys", "presets")


class _Reading:
    """Goes through a document once."""

    def __init__(self, lines: Mapping[Address, int]) -> None:
        self._lines = lines
        self.problems: list[Problem] = []

    def settings(self, document: Mapping[str, object]) -> Settings:
        tables: dict[str, Mapping[str, object]] = {}
        for name, value in document.items():
            if name not in SECTIONS:
                self._unknown((name,), SECTIONS, f"[{name}]")
            elif isinstance(value, dict):
                tables[name] = value
            else:
                self._wrong((name,), f"{name} must be a table: a line [{name}], its keys below it.")
        return Settings(
            self._section(Look, "look", tables),
            self._depth_fits(self._section(Chat, "chat", tables)),
            self._section(Model, "model", tables),
            self._section(Endpoint, "endpoint", tables),
            dict(self._keys(tables.get("keys", {}))),
            dict(self._presets(tables.get("presets", {}))),
        )

    def _wrong(self, address: Address, what: str) -> None:
        while address not in self._lines:
            address = address[:-1]
        self.problems.append(Problem(visible_line(what), self._lines[address]))

    def _unknown(self, address: Address, known: Iterable[str], shown: str) -> None:
        self._wrong(address, f"{shown} is not known.{did_you_mean(address[-1], known)}")

    def _section(self, kind: type[_Section], name: str, tables: Mapping[str, Mapping[str, object]]) -> _Section:
        return kind(**self._taken((name,), tables.get(name, {}), CHECKS[name]))

    def _taken(self, address: Address, table: Mapping[str, object], checks: Mapping[str, Check]) -> dict[str, Any]:
        taken = {}
        for key, value in table.items():
            if key not in checks:
                self._unknown((*address, key), checks, key)
                continue
            try:
                taken[key] = checks[key](key, value)
            except BadSetting as error:
                self._wrong((*address, key), error.what)
        return taken

    def _depth_fits(self, chat: Chat) -> Chat:
        if chat.depth is None or chat.method != Method.AUTO:
            return chat
        self._wrong(("chat", "depth"), _NO_DEPTH)
        return replace(chat, depth=None)

    def _keys(self, table: Mapping[str, object]) -> Iterator[tuple[str, Rebinding]]:
        for id_, value in table.items():
            try:
                found = _keys(id_, value)
            except BadSetting as error:
                self._wrong(("keys", id_), error.what)
            else:
                yield id_, replace(found, line=self._lines.get(("keys", id_), 0))

    def _presets(self, table: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
        checks = {key: CHECKS["chat"][key] for key in OF_PRESETS}
        for name, value in table.items():
            address: Address = ("presets", name)
            try:
                check_name(name)
            except BadSetting as error:
                self._wrong(address, error.what)
                continue
            if not isinstance(value, dict):
                self._wrong(address, f"{name} must be a table: a line [presets.{name}], its keys below it.")
                continue
            given = self._taken(address, value, checks)
            if given.get("depth") is not None and given.get("method") == Method.AUTO:
                self._wrong((*address, "depth"), _NO_DEPTH)
                del given["depth"]
            yield name, given


def _either(choices: Iterable[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last
