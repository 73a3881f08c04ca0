from __future__ import annotations

import os
import random
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pardec_chat.app import locations, settings_file
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.settings import (
    OF_PRESETS,
    Chat,
    Look,
    Problem,
    Rebinding,
    Settings,
    preset_setup,
)
from pardec_chat.app.settings_file import SettingsBroken, SettingsFile, SettingsNotWritten, change, read
from pardec_chat.app.settings_text import CannotEdit, changed, documented
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import BadSetting
from pardec_chat.tests.unit.test_settings import EVERYTHING


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_a_file_is_made_of_the_documented_defaults(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "settings.toml"
    change(path, {"look.theme": "pardec-light", "keys.again": ["f9", "ctrl+g"], "chat.titles": False})
    assert read(path) == (
        Settings(Look("pardec-light"), Chat(titles=False), keys={"again": Rebinding(("f9", "ctrl+g"))}),
        (),
    )
    now = path.read_text()
    assert now == documented().replace('# theme = "pardec-dark"', 'theme = "pardec-light"').replace(
        '# again = "ctrl+g"', 'again = ["f9", "ctrl+g"]'
    ).replace("# titles = true", "titles = false")
    # And back again.
    change(path, {"look.theme": None, "keys.again": None, "chat.titles": None})
    assert path.read_text() == documented()


@pytest.mark.parametrize(
    ("text", "changes", "wanted"),
    [
        ('[look]\ntheme = "nord"  # mine\ntint=true', {"look.theme": "terminal"},
         '[look]\ntheme = "terminal"  # mine\ntint=true'),
        # A key that was commented out by the user stays, and the new one stands behind it.
        ('[look]\n# theme = "nord"\n', {"look.theme": "terminal"}, '[look]\n# theme = "nord"\ntheme = "terminal"\n'),
        # What stands before the next table is about that table.
        ("[look]\ntint = true\n\n# About chats\n[chat]\n", {"look.figures": "line"},
         '[look]\ntint = true\nfigures = "line"\n\n# About chats\n[chat]\n'),
        ("# x\n", {"endpoint.port": 81}, "# x\n\n[endpoint]\nport = 81\n"),
        ("", {"endpoint.port": 81}, "[endpoint]\nport = 81\n"),
        ("look.tint = true\n", {"look.figures": "line"}, 'look.tint = true\nlook.figures = "line"\n'),
        ("look = {tint = true}\n", {"look.tint": False}, "look = {tint = false}\n"),
        ("[chat]\r\ntop_k = 5 # c\r\n", {"chat.top_k": 6, "chat.top_p": 0.5}, "[chat]\r\ntop_k = 6 # c\r\ntop_p = 0.5\r\n"),
        ('[chat]\nsystem = """\n[look]\n# top_k = 40\n"""\n', {"chat.top_k": 6},
         '[chat]\nsystem = """\n[look]\n# top_k = 40\n"""\ntop_k = 6\n'),
        ("[chat]\n# twice\ntop_k = 5\ntop_p = 0.5\n", {"chat.top_k": None}, "[chat]\n# twice\n# top_k = 40\ntop_p = 0.5\n"),
        ("[unknown]\nx = 1979-05-27\n[[list]]\ny = 1\n[[list]]\n", {"look.tint": True},
         "[unknown]\nx = 1979-05-27\n[[list]]\ny = 1\n[[list]]\n\n[look]\ntint = true\n"),
        ("[presets.a]\nseed = 1\n\n# about b\n[presets.b]\nseed = 2\n", {("presets", "a"): None},
         "# about b\n[presets.b]\nseed = 2\n"),
    ],
)  # fmt: skip
def test_the_rest_of_the_file_stays(path: Path, text: str, changes: dict[Any, object], wanted: str) -> None:
    path.write_bytes(text.encode())
    change(path, changes)
    assert path.read_bytes().decode() == wanted
    change(path, changes)
    assert path.read_bytes().decode() == wanted


def test_any_text_can_be_a_value(path: Path) -> None:
    random_ = random.Random(3)
    for _ in range(60):
        system = "".join(random_.choices('a"\\\n\t\r\x00\x1b\x7f\u2028日🙂#=[]', k=random_.randint(0, 12)))
        change(path, {"chat.system": system, ("presets", f"{len(system)}\"'.é]", "system"): system})
        settings, problems = read(path)
        assert problems == ()
        assert settings.chat.system == system
        assert settings.presets[f"{len(system)}\"'.é]"]["system"] == system


@pytest.mark.parametrize(
    ("address", "value"),
    [
        ("look.theme", "nope"),
        ("look.tint", 1),
        ("chat.top_p", 0.0),
        ("chat.nothing", 1),
        ("look", {}),
        ("keys.again", []),
        (("presets", "a", "titles"), True),
    ],
)
def test_D14_nothing_is_written_that_would_not_be_read(path: Path, address: Any, value: object) -> None:
    with pytest.raises(BadSetting):
        change(path, {"look.figures": "line", address: value})
    assert not path.exists()


def test_U06_a_broken_file_is_never_written_over(path: Path) -> None:
    for content in (b"[look\n", b"[look]\n\xff", b"x = " + b"[" * 5000):
        path.write_bytes(content)
        file = SettingsFile(path)
        writes: list[Callable[[], object]] = [
            partial(file.change, {"look.tint": True}),
            partial(file.save_preset, "a", Setup()),
            partial(file.delete_preset, "a"),
        ]
        for write in writes:
            with pytest.raises(SettingsBroken) as error:
                write()
            assert str(path) in error.value.what
            assert error.value.next_step
        assert path.read_bytes() == content
    path.write_text("[look\n")
    with pytest.raises(SettingsBroken, match="line 1: This is not valid TOML"):
        change(path, {"look.tint": True})
    assert [child.name for child in path.parent.iterdir()] == ["settings.toml"]


def test_what_cannot_be_changed_by_itself_is_left(path: Path) -> None:
    for text in ("look = 3\n", "[[look]]\n"):
        path.write_text(text)
        with pytest.raises(CannotEdit, match=re.escape("look.tint cannot be changed")):
            change(path, {"look.tint": True})
        assert path.read_text() == text
    assert changed("look = 3", {("look", "tint"): None}) == "look = 3"


def test_links_and_rights_stay(tmp_path: Path, path: Path) -> None:
    real = tmp_path / "dots" / "real.toml"
    real.parent.mkdir()
    real.write_text("[look]\n")
    real.chmod(0o640)
    path.symlink_to(real)
    change(path, {"look.tint": True})
    assert path.is_symlink()
    assert real.read_text() == "[look]\ntint = true\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [child.name for child in real.parent.iterdir()] == ["real.toml"]
    real.unlink()
    change(path, {"look.tint": True})
    assert path.is_symlink()
    assert read(real)[0] == Settings(Look(tint=True))


@pytest.mark.parametrize("where", ["replace", "fsync", "mkdir", "access"])
def test_a_disk_that_refuses_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    path.write_text("[look]\n")
    if where == "access":
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        monkeypatch.setattr(os if where == "fsync" else Path, where, refuse)
    why = "it is write-protected" if where == "access" else "No space left on device"
    with pytest.raises(SettingsNotWritten, match=why) as error:
        change(path, {"look.tint": True})
    assert error.value.next_step
    assert path.read_text() == "[look]\n"
    assert [child.name for child in path.parent.iterdir()] == ["settings.toml"]


@pytest.mark.parametrize("exists", [True, False])
def test_presets_are_kept_whole_and_deleted(path: Path, exists: bool) -> None:
    if exists:
        path.write_text("# mine\n[look]\ntint = true\n\n# about a\n[presets.a]\nseed = 1\n\n# the end\n")
    kept = Setup(
        Path("m"), None, Method.NGRAM, 3, SamplingParams(0.3, 5, 0.9, 0.0, 1.2, seed=9), 77, 'Be\n"kind" \x1b\t日本.'
    )
    file = SettingsFile(path)
    settings, problems = file.save_preset("日本 one.two", kept)
    assert problems == ()
    other = Setup(Path("m"), None, Method.DRAFT, 7, SamplingParams(0.9, seed=3), 5, "else")
    assert preset_setup(settings, "日本 one.two", other) == kept
    # Nothing of what was set before shows through, not even where it was set and now is not.
    settings, _ = file.save_preset("日本 one.two", Setup())
    assert set(settings.presets["日本 one.two"]) == set(OF_PRESETS)
    assert preset_setup(settings, "日本 one.two", other) == Setup(Path("m"))
    settings, _ = file.delete_preset("日本 one.two")
    assert set(settings.presets) == ({"a"} if exists else set())
    assert file.delete_preset("日本 one.two")[0] == settings
    if exists:
        assert file.delete_preset("a")[0] == Settings(Look(tint=True))
        assert path.read_text() == "# mine\n[look]\ntint = true\n\n# about a\n# the end\n"
    assert file.poll() is None


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "x" * 61])
def test_names_that_presets_cannot_have(path: Path, name: str) -> None:
    with pytest.raises(BadSetting, match="name of a preset"):
        settings_file.save_preset(path, name, Setup())
    assert not path.exists()


def test_deleting_where_no_file_is_makes_none(path: Path) -> None:
    settings_file.delete_preset(path, "a")
    assert not path.exists()


def test_changes_of_others_are_found_once(path: Path) -> None:
    path.write_text("[look]\ntint = true\n")
    file = SettingsFile(path)
    assert (file.settings, file.problems) == (Settings(Look(tint=True)), ())
    assert file.poll() is None
    path.write_text("[look]\ntint = true\nfigures = 'line'\nx = 1\n")
    problems = (Problem("x is not known.", 4),)
    assert file.poll() == (Settings(Look(tint=True, figures="line")), problems)
    assert file.poll() is None
    assert file.problems == problems


def test_a_change_that_keeps_the_size_is_found(path: Path) -> None:
    path.write_text("[chat]\ntop_k = 1\n")
    file = SettingsFile(path)
    path.write_text("[chat]\ntop_k = 2\n")
    os.utime(path, ns=(1, 1))
    assert file.poll() == (Settings(chat=Chat(top_k=2)), ())


def test_own_changes_are_not_found_again(path: Path) -> None:
    file = SettingsFile(path)
    assert file.change({"look.tint": True}) == (Settings(Look(tint=True)), ())
    assert file.poll() is None
    # What an editor wrote since comes along.
    path.write_text(path.read_text().replace("# seed", "seed").replace('seed = "auto"', "seed = 5"))
    assert file.change({"look.tint": False})[0] == Settings(chat=Chat(seed=5))
    assert file.poll() is None


def test_U06_a_file_that_breaks_changes_nothing(path: Path) -> None:
    path.write_text("[look]\ntint = true\n")
    file = SettingsFile(path)
    path.write_text("[look]\ntint = tr")
    assert file.poll() is None  # an editor may be at it
    problems = (Problem("This is not valid TOML: Invalid value.", 2, whole=True),)
    assert file.poll() == (Settings(Look(tint=True)), problems)
    assert file.settings == Settings(Look(tint=True))
    assert file.poll() is None
    path.write_text("[look]\ntint = false\nfigures = 'none'\n")
    assert file.poll() == (Settings(Look(figures="none")), ())


def test_a_file_that_is_away_or_empty_for_a_moment(path: Path) -> None:
    path.write_text("[look]\ntint = true\n")
    file = SettingsFile(path)
    kept = path.rename(path.with_suffix(".old"))
    assert file.poll() is None
    path.write_text("")
    assert file.poll() is None
    kept.rename(path)
    assert file.poll() is None
    assert file.settings == Settings(Look(tint=True))
    path.unlink()
    assert file.poll() is None
    assert file.poll() == (Settings(), ())
    assert file.poll() is None


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARDEC_CHAT_CONFIG", str(tmp_path))
    assert locations.settings() == tmp_path / "settings.toml"
    monkeypatch.delenv("PARDEC_CHAT_CONFIG")
    assert locations.settings().parent == locations.user_catalogue().parent


def test_start_waits_for_nothing_heavy(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(EVERYTHING.replace('"nord"', '"terminal"'))
    code = (
        "import sys; from pathlib import Path; from pardec_chat.app.settings_file import SettingsFile\n"
        f"assert not SettingsFile(Path({str(file)!r})).problems\n"
        "print(sorted({'numpy', 'pydantic', 'textual', 'rich', 'tomlkit', 'llama_cpp'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
