"""A settings file's text with other values in it: comments, order and everything else stay."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from pardec_chat.app import locations
from pardec_chat.backends.errors import UserError

#: The way to a key from the top → what it is to hold; None takes it away.
Changes = Mapping[tuple[str, ...], object]

_HEADER = re.compile(r"\s*\[")


class CannotEdit(UserError):
    """A settings file is written so that a change cannot be made in it without harm."""


def documented() -> str:
    """The file that comes with the program: every key with its default, commented out."""
    return (locations.ROOT / "assets" / "settings.toml").read_text(encoding="utf-8")


def changed(text: str, changes: Changes) -> str:
    """`text`, which is TOML, with the changes. Raises CannotEdit where something else would be different, too."""
    for address, value in changes.items():
        before, wanted = tomllib.loads(text), tomllib.loads(text)
        try:
            _put(wanted, address, value)
        except (AttributeError, TypeError):  # something else than a table is on the way
            raise _refused(address) from None
        if wanted == before:
            continue
        # Each is a guess at what a person would write; only one that means just what it shall is taken.
        fitting = (new for new in _candidates(text, address, value) if _filled(_meaning(new)) == _filled(wanted))
        found = next(fitting, None)
        if found is None:
            raise _refused(address)
        text = found
    return text


def _refused(address: tuple[str, ...]) -> CannotEdit:
    return CannotEdit(f"{'.'.join(address)} cannot be changed in the file as it is written.", "Change it by hand.")


def _put(document: Any, address: tuple[str, ...], value: object) -> None:
    *tables, key = address
    for table in tables:
        if value is None and not isinstance(document.get(table), dict):
            return
        document = document.setdefault(table, {})
    if value is not None:
        document[key] = value
    elif key in document:
        del document[key]


def _meaning(text: str) -> object:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def _filled(meaning: Any) -> Any:
    """Without tables that hold nothing: they say nothing either."""
    if not isinstance(meaning, dict):
        return meaning
    return {key: inner for key, value in meaning.items() if (inner := _filled(value)) != {}}


def _candidates(text: str, address: tuple[str, ...], value: object) -> Iterator[str]:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    *tables, key = address
    if value is None:
        yield from _without_table(lines, _block(lines, address))
        yield from _without_key(lines, _block(lines, tuple(tables)), key, end)
    elif isinstance(value, dict):
        keys = [f"{name} = {tomlkit.item(one).as_string()}{end}" for name, one in value.items()]
        yield "".join([*_spaced(lines, end), f"[{_dotted(address)}]{end}", *keys])
    else:
        new = f"{tomlkit.key(key).as_string()} = {tomlkit.item(value).as_string()}{end}"
        yield from _with_key(lines, _block(lines, tuple(tables)), key, new)
        yield "".join([*_spaced(lines, end), f"[{_dotted(tuple(tables))}]{end}", new])
    with suppress(TOMLKitError, ValueError, KeyError, AttributeError, TypeError):
        document = tomlkit.parse(text)
        _put(document, address, value)
        yield tomlkit.dumps(document)


def _spaced(lines: list[str], end: str) -> list[str]:
    return [*lines, end] if lines and lines[-1].strip() else lines


def _dotted(address: tuple[str, ...]) -> str:
    import tomlkit

    return ".".join(tomlkit.key(step).as_string() for step in address)


def _block(lines: list[str], address: tuple[str, ...]) -> range:
    """The lines of a table from its header to the next one; none where it has no header."""
    headers = [at for at, line in enumerate(lines) if _HEADER.match(line)]
    for number, at in enumerate(headers):
        if _names(lines[at], address):
            return range(at, headers[number + 1] if number + 1 < len(headers) else len(lines))
    return range(0)


def _names(header: str, address: tuple[str, ...]) -> bool:
    found: Any = _meaning(header)
    for step in address:
        if not isinstance(found, dict) or list(found) != [step]:
            return False
        found = found[step]
    return bool(found == {})


def _key_of(line: str) -> str | None:
    meant = _meaning(line)
    return next(iter(meant)) if isinstance(meant, dict) and len(meant) == 1 else None


def _with_key(lines: list[str], block: range, key: str, new: str) -> Iterator[str]:
    """With a line for `key`: in the place of the line that documents it, behind one that was commented out, or last."""
    if not block:
        return
    examples = set(documented().splitlines())
    last = block.start
    for at in block[1:]:
        line = lines[at].strip()
        if line.startswith("#"):
            if _key_of(line.lstrip("# ")) == key:
                yield "".join([*lines[: at + (line not in examples)], new, *lines[at + 1 :]])
        elif line:
            last = at
    yield "".join([*lines[: last + 1], new, *lines[last + 1 :]])


def _without_key(lines: list[str], block: range, key: str, end: str) -> Iterator[str]:
    """With the line that documents `key` in the place of its own."""
    if not block:
        return
    header = lines[block.start].strip()
    ours = documented().splitlines()
    at_ours = ours.index(header) if header in ours else len(ours)
    example = next(
        (line for line in ours[at_ours:] if line.startswith("#") and _key_of(line.lstrip("# ")) == key), None
    )
    for at in block[1:]:
        if example is not None and _key_of(lines[at]) == key:
            yield "".join([*lines[:at], example + end, *lines[at + 1 :]])


def _without_table(lines: list[str], block: range) -> Iterator[str]:
    """Comments at its end stay: they are about what follows."""
    last = max((at for at in block if lines[at].strip() and not lines[at].lstrip().startswith("#")), default=None)
    if last is not None:
        rest = lines[last + 1 :]
        while rest and not rest[0].strip():
            del rest[0]
        before = lines[: block.start]
        while not rest and before and not before[-1].strip():
            del before[-1]
        yield "".join([*before, *rest])
