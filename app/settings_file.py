"""The settings file on disk: read whatever is in it, watched for changes of others, and written without harm."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pardec_chat.app.settings import Problem, Settings, preset_of
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.conversations.setup import Setup

#: What `read` gives: the settings, and what of the file was not taken.
Found = tuple[Settings, tuple[Problem, ...]]
#: By which a change of a file is seen: its time, size and number; an error's number where it cannot be looked at.
Stamp = tuple[int, ...]

#: No settings file is larger; bytes.
_LARGEST = 1_000_000


class SettingsBroken(UserError):
    """The settings file is not valid TOML, and is not written over."""


class SettingsNotWritten(UserError):
    """The settings file could not be written; the old one is as it was."""


def read(path: Path) -> Found:
    """The settings of the file and its problems; the defaults where there is none. Raises nothing."""
    try:
        text = _text(path)
    except FileNotFoundError:
        return Settings(), ()
    except (OSError, UnicodeDecodeError) as error:
        return Settings(), (_unreadable(error),)
    # Not needed where no file is, and the first paint waits for it.
    from pardec_chat.app.settings_table import parse

    return parse(text)


def change(path: Path, changes: Mapping[str | tuple[str, ...], object]) -> None:
    """Set keys, each by its address: "look.theme", or ("presets", name, key). None takes a key away: its default holds.

    Everything else in the file stays as it is; without a file, one is made of the documented defaults.

    Raises BadSetting for what no key can hold; SettingsBroken, CannotEdit or SettingsNotWritten, and the file is as it was.
    """
    from pardec_chat.app.settings_table import check

    addressed = {tuple(a.split(".")) if isinstance(a, str) else a: value for a, value in changes.items()}
    for address, value in addressed.items():
        if value is not None:
            check(address, value)
    _write(path, {address: _plain(value) for address, value in addressed.items()})


def save_preset(path: Path, name: str, setup: Setup) -> None:
    """Keep what a preset can set of `setup` under `name`, in place of what was there. Raises as `change` does."""
    from pardec_chat.app.settings_table import AUTO, check

    given = {key: AUTO if value is None else _plain(value) for key, value in preset_of(setup).items()}
    for key, value in given.items():
        check(("presets", name, key), value)
    known = name in read(path)[0].presets
    _write(path, {("presets", name, key): v for key, v in given.items()} if known else {("presets", name): given})


def delete_preset(path: Path, name: str) -> None:
    """Take a preset away; nothing where there is none. Raises as `change` does."""
    _write(path, {("presets", name): None}, make=False)


class SettingsFile:
    """The settings as they are now. Used on one thread; all of it is quick enough for the one that draws.

    `poll`, once a second, finds what others wrote. What is written through this object is not found again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)
        self._doubted: Stamp | None = None
        self.settings, self.problems = read(path)

    def poll(self) -> Found | None:
        """What holds since somebody changed the file; None where nobody did.

        While the file cannot be read, the last settings hold. An editor may leave it empty, away or cut off for a moment: such
        a state counts when it is still there at the next poll.
        """
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            self._doubted = None
            return None
        settings, problems = read(self.path)
        broken = any(problem.whole for problem in problems)
        if (broken or settings == Settings()) and stamp != self._doubted:
            self._doubted = stamp
            return None
        self._stamp, self._doubted, self.problems = stamp, None, problems
        if not broken:
            self.settings = settings
        return self.settings, problems

    def change(self, changes: Mapping[str | tuple[str, ...], object]) -> Found:
        """`change`, and what holds then; it may have more in it that others wrote. Raises as that does."""
        change(self.path, changes)
        return self._again()

    def save_preset(self, name: str, setup: Setup) -> Found:
        """`save_preset`, and what holds then. Raises as that does."""
        save_preset(self.path, name, setup)
        return self._again()

    def delete_preset(self, name: str) -> Found:
        """`delete_preset`, and what holds then. Raises as that does."""
        delete_preset(self.path, name)
        return self._again()

    def _again(self) -> Found:
        # The stamp first: what is written in between is found by the next poll.
        self._stamp, self._doubted = _stamp(self.path), None
        self.settings, self.problems = read(self.path)
        return self.settings, self.problems


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError as error:
        return (error.errno or 0,)
    return found.st_mtime_ns, found.st_size, found.st_ino


def _text(path: Path) -> str:
    # A pipe or a device would keep the caller waiting, and never end.
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it is not a file" if not stat.S_ISDIR(found.st_mode) else "it is a folder")
    if found.st_size > _LARGEST:
        raise OSError(f"it has more than {_LARGEST:,} bytes")
    return path.read_bytes().decode("utf-8").removeprefix("\ufeff")


def _unreadable(error: OSError | UnicodeDecodeError) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        return Problem("This is not UTF-8 text.", error.object.count(b"\n", 0, error.start) + 1, whole=True)
    return Problem(f"The file cannot be read: {error.strerror or error}.", whole=True)


def _plain(value: object) -> object:
    return value.value if isinstance(value, Method) else value


def _write(path: Path, changes: Mapping[tuple[str, ...], object], *, make: bool = True) -> None:
    from pardec_chat.app import settings_text
    from pardec_chat.app.settings_table import not_toml

    is_there = True
    try:
        text = _text(path)
    except FileNotFoundError:
        if not make:
            return
        is_there, text = False, settings_text.documented()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsBroken(f"{path}: {_unreadable(error)}", "Mend it, or move it away.") from error
    try:
        new = settings_text.changed(text, changes)
    except (ValueError, RecursionError) as error:
        what = f"{path}, {not_toml(text, error)}"
        raise SettingsBroken(what, "Mend that line, or move the file away; then change it again.") from error
    if is_there and new == text:
        return
    try:
        _replace(path, new.encode("utf-8"))
    except OSError as error:
        raise SettingsNotWritten(
            f"{path} could not be written: {error.strerror or error}.", "Mend its rights, or make room on the disk."
        ) from error


def _replace(path: Path, content: bytes) -> None:
    from pardec_chat.app.downloads.files import write_atomically

    target = path.resolve()  # a link stays one
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is write-protected")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, content)
    if mode is not None:
        target.chmod(mode)
