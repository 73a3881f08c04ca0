from __future__ import annotations

import dataclasses
import os
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pardec_chat.app.cli import diagnosis, doctor
from pardec_chat.app.cli.diagnosis import Diagnosis
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.settings import (
    Chat,
    Endpoint,
    Look,
    Model,
    NoPreset,
    Problem,
    Rebinding,
    Settings,
    preset_setup,
    start_setup,
)
from pardec_chat.app.settings_file import read
from pardec_chat.app.settings_table import CHECKS, parse
from pardec_chat.app.settings_text import documented
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams

SECTIONS: dict[str, Any] = {"look": Look, "chat": Chat, "model": Model, "endpoint": Endpoint}

EVERYTHING = """
[look]
theme = "nord"
tint = true
figures = "none"
conversations = "shown"
reduced_motion = true
[chat]
method = "draft"
depth = 5
temperature = 0
top_k = 1
top_p = 0.5
min_p = 0.25
repeat_penalty = 1.1
seed = 7
max_tokens = 100
system = '''
Two
lines'''
titles = false
[model]
model = "a.gguf"
draft = "none"
runtime = "llamacpp"
ctx = 8192
threads = 2
cache_type = "q8_0"
kernels = "stock"
[endpoint]
port = 0
[keys]
again = "ctrl+g"
stop = ["escape", "f12"]
[presets.Careful]
temperature = 0.2
[presets."速い one.two"]
method = "ngram"
depth = 9
seed = "auto"
system = ""
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_every_key() -> None:
    settings, problems = parse(EVERYTHING)
    assert problems == ()
    assert settings == Settings(
        Look("nord", True, "none", "shown", True),
        Chat(Method.DRAFT, 5, 0.0, 1, 0.5, 0.25, 1.1, 7, 100, "Two\nlines", False),
        Model("a.gguf", "none", "llamacpp", 8192, 2, "q8_0", "stock"),
        Endpoint(0),
        {"again": Rebinding(("ctrl+g",)), "stop": Rebinding(("escape", "f12"))},
        {
            "Careful": {"temperature": 0.2},
            "速い one.two": {"method": Method.NGRAM, "depth": 9, "seed": None, "system": ""},
        },
    )
    assert [rebinding.line for rebinding in settings.keys.values()] == [33, 34]


def test_every_key_is_checked_documented_and_has_the_documented_default() -> None:
    assert {name: set(checks) for name, checks in CHECKS.items()} == {
        name: {field.name for field in dataclasses.fields(kind)} for name, kind in SECTIONS.items()
    }
    assert parse(documented()) == (Settings(), ())
    # With all `#` before keys away; the examples that follow are no defaults.
    text = re.sub(r"^# (?=\w+ = |\[)", "", documented(), flags=re.MULTILINE)
    settings, problems = parse(text)
    assert problems == ()
    document = tomllib.loads(text)
    assert {name: set(document[name]) for name in SECTIONS} == {name: set(CHECKS[name]) for name in SECTIONS}
    assert settings.look == Look()
    assert settings.chat == Chat()
    assert settings.endpoint == Endpoint()
    assert settings.model == Model(model="qwen2.5-coder-1.5b-instruct-q4_k_m", draft="none")
    assert set(settings.keys) == {"again", "stop"}
    assert set(settings.presets) == {"Careful"}


def test_defaults_are_those_of_the_sampler() -> None:
    sampler = SamplingParams(temperature=Chat().temperature)
    assert start_setup(Settings()) == Setup(sampling=sampler)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("[look]\nthene = 'nord'", "thene is not known. Did you mean theme?"),
        ("[look]\ntint = 1", "tint must be true or false."),
        ("[look]\ntheme = 'nrod'", "theme must be 'pardec-dark', 'pardec-light', 'pardec-contrast' or 'terminal', or another "
         "one of the menu. Did you mean nord?"),
        ("[look]\nfigures = 'Panel'", "figures must be 'auto', 'panel', 'line' or 'none'. Did you mean panel?"),
        ("[look]\ntheme = []", "theme must be 'pardec-dark', 'pardec-light', 'pardec-contrast' or 'terminal', or another one "
         "of the menu."),
        ("[chat]\nmethod = 'medusa'", "method must be 'plain', 'draft', 'ngram', 'lookahead' or 'auto'."),
        ("[chat]\ndepth = 33", "depth must be a whole number from 0 to 32, or 'auto'."),
        ("[chat]\ndepth = 3", "depth is not for the method auto, which finds it itself."),
        ("[chat]\ndepth = true", "depth must be a whole number from 0 to 32, or 'auto'."),
        ("[chat]\ntemperature = -1", "temperature is -1.0, which is outside 0.0 to 100.0."),
        ("[chat]\ntemperature = nan", "temperature is nan, which is outside 0.0 to 100.0."),
        ("[chat]\ntemperature = '0.7'", "temperature must be a number."),
        ("[chat]\ntemperature = true", "temperature must be a number."),
        ("[chat]\ntop_k = 1.5", "top_k must be a whole number."),
        ("[chat]\ntop_k = -1", "top_k is -1, which is outside 0 to 2147483648."),
        ("[chat]\ntop_p = 0", "top_p is 0, which leaves no token."),
        ("[chat]\nseed = -1", "seed must be a whole number from 0 on, or 'auto'."),
        ("[chat]\nmax_tokens = 0", "max_tokens must be a whole number from 1 to 2,147,483,648, or 'auto'."),
        (f"[chat]\nseed = 0x{'f' * 5000}", "seed must be a whole number from 0 on, or 'auto'."),
        (f"[chat]\ntop_k = 0x{'f' * 5000}", "top_k must be a whole number."),
        (f"[chat]\ntemperature = 0x{'f' * 5000}", "temperature must be a number."),
        ("[chat]\nsystem = 3", "system must be a text."),
        ("[model]\nmodel = ''", "model must be one line of text."),
        ("[model]\nruntime = 'vllm'", "runtime must be 'llamacpp', 'pytorch' or 'mlx'."),
        ("[model]\ncache_type = 'f32'", "cache_type must be 'f16' or 'q8_0'."),
        ("[model]\nkernels = 'own'", "kernels must be 'auto' or 'stock'."),
        ("[endpoint]\nport = 65536", "port must be a whole number from 0 to 65,535."),
        ("[keys]\nstop = []", 'stop must be a key such as "ctrl+r", or a list of keys.'),
        ("[keys]\nstop = ['f9', 3]", 'stop must be a key such as "ctrl+r", or a list of keys.'),
        ("[presets]\nfast = 3", "fast must be a table: a line [presets.fast], its keys below it."),
        ("[presets.a]\ntitles = true", "titles is not known."),
        ("[presets]\n'' = {}", "The name of a preset is not one line of text."),
        ("[presets]\na = {method = 'auto', depth = 2}", "depth is not for the method auto, which finds it itself."),
        ("\n[[look]]", "look must be a table: a line [look], its keys below it."),
        ("\nchat = 3", "chat must be a table: a line [chat], its keys below it."),
        ("\n[lok]", "[lok] is not known. Did you mean look?"),
        ("\ntheme = 'nord'", "[theme] is not known."),
        ("[look]\n'\\u001b[31m' = 1", "'\\\\u001b[31m' is not known."),
    ],
)  # fmt: skip
def test_U06_what_is_wrong_is_named_with_its_line(line: str, what: str) -> None:
    settings, problems = parse(f"# first\n{line}\n[presets.fine]\nseed = 1\n")
    if "u001b" in line:
        assert [(problem.what, problem.line) for problem in problems] == [("\\u001b[31m is not known.", 3)]
    else:
        assert [(problem.what, problem.line) for problem in problems] == [(what, 3)]
        assert str(problems[0]) == f"line 3: {what}"
    assert settings.look == Look()
    assert settings.chat == Chat()
    assert settings.model == Model()
    assert settings.endpoint == Endpoint()
    assert settings.keys == {}
    assert settings.presets["fine"] == {"seed": 1}


def test_U06_one_bad_key_leaves_the_others() -> None:
    settings, problems = parse(
        "[chat]\ntop_p = 2\ntop_k = 7\n[look]\ntint = 'x'\ntheme = 'terminal'\n[presets.a]\nsed = 1\nseed = 2\n"
    )
    assert (settings.chat.top_p, settings.chat.top_k) == (0.95, 7)
    assert settings.look == Look(theme="terminal")
    assert settings.presets == {"a": {"seed": 2}}
    assert [problem.line for problem in problems] == [2, 5, 8]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[look]\ntheme = nord\n", 2),
        ("[look]\ntheme = 'a\n\n", 2),
        ("[look]\n[look]\n", 2),
        ("a = [\n1,\n\n", 2),
        ("x = " + "[" * 5000, None),
        ("x = " + "9" * 5000, None),
    ],
)
def test_U06_not_toml(path: Path, text: str, line: int | None) -> None:
    path.write_text(text)
    settings, (problem,) = read(path)
    assert settings == Settings()
    assert problem.line == line
    assert problem.whole
    assert problem.what.startswith("This is not valid TOML")
    assert "(at" not in problem.what


def test_U06_files_that_cannot_be_read(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(path) == (Settings(), ())
    path.mkdir()
    assert read(path) == (Settings(), (Problem("The file cannot be read: it is a folder.", whole=True),))
    path.rmdir()
    path.write_bytes(b"[look]\ntint = true\n# \xff\n")
    assert read(path) == (Settings(), (Problem("This is not UTF-8 text.", 3, whole=True),))
    path.unlink()
    os.mkfifo(path)
    assert read(path)[1] == (Problem("The file cannot be read: it is not a file.", whole=True),)
    path.unlink()
    path.write_text("#" * 1_000_001)
    assert read(path)[1] == (Problem("The file cannot be read: it has more than 1,000,000 bytes.", whole=True),)
    path.write_text("")
    assert read(path / "below") == (Settings(), (Problem("The file cannot be read: Not a directory.", whole=True),))
    path.unlink()
    path.symlink_to(path)
    assert read(path)[1] == (Problem("The file cannot be read: Too many levels of symbolic links.", whole=True),)

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    path.unlink()
    path.write_text("")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert read(path)[1] == (Problem("The file cannot be read: Permission denied.", whole=True),)


def test_a_mark_at_the_front_and_ends_of_lines_of_windows(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf[look]\r\ntint = true\r\n")
    assert read(path) == (Settings(Look(tint=True)), ())


def test_U06_no_file_makes_it_raise(path: Path) -> None:
    random_ = random.Random(6)
    parts = [
        "[",
        "]",
        "look",
        "chat",
        ".",
        "=",
        " ",
        "\n",
        '"',
        "'",
        "#",
        "{",
        "}",
        ",",
        "tint",
        "true",
        "3",
        "-",
        "\\",
        "é",
    ]
    for _ in range(1500):
        text = "".join(random_.choices(parts, k=random_.randint(1, 25)))
        path.write_text(text)
        settings, problems = read(path)
        assert problems or settings == Settings() or tomllib.loads(text)
    base = EVERYTHING.encode()
    for _ in range(300):
        at = random_.randrange(len(base))
        path.write_bytes(base[:at] + bytes([random_.randrange(256)]) + base[at + random_.randint(0, 3) :])
        read(path)
        path.write_bytes(base[:at])
        read(path)


def test_what_new_conversations_begin_with() -> None:
    settings, _ = parse(EVERYTHING)
    assert start_setup(settings) == Setup(
        method=Method.DRAFT,
        depth=5,
        sampling=SamplingParams(0.0, 1, 0.5, 0.25, 1.1, seed=7),
        max_tokens=100,
        system="Two\nlines",
    )


def test_presets_change_what_they_name() -> None:
    settings, _ = parse(EVERYTHING)
    base = Setup(Path("m"), Path("d"), Method.DRAFT, 4, SamplingParams(0.9, seed=3), 50, "base")
    assert preset_setup(settings, "Careful", base) == dataclasses.replace(base, sampling=SamplingParams(0.2, seed=3))
    assert preset_setup(settings, "速い one.two", base) == Setup(
        Path("m"), Path("d"), Method.NGRAM, 9, SamplingParams(0.9), 50, ""
    )
    with pytest.raises(NoPreset, match="There is no preset 'gone'"):
        preset_setup(settings, "gone", base)


def test_a_depth_goes_with_the_method_it_was_given_with() -> None:
    settings, _ = parse("[presets.a]\nmethod='auto'\n[presets.n]\nmethod='ngram'\n[presets.d]\ndepth=2\n")
    base = Setup(method=Method.DRAFT, depth=4)
    assert preset_setup(settings, "a", base) == Setup()
    assert preset_setup(settings, "n", base) == Setup(method=Method.NGRAM)
    assert preset_setup(settings, "d", base) == Setup(method=Method.DRAFT, depth=2)
    assert preset_setup(settings, "d", Setup()) == Setup()


def _diagnosed(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Diagnosis, list[str]]:
    monkeypatch.setenv("PARDEC_CHAT_CONFIG", str(path.parent))
    found = Diagnosis()
    report: dict[str, Any] = {"settings": diagnosis._settings(found)}
    return found, list(doctor._settings_lines(report))


def test_U06_doctor_names_what_is_wrong_in_the_settings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, lines = _diagnosed(path, monkeypatch)
    assert found.problems == []
    assert lines == ["", "settings", f"  {path}  (not there: the defaults hold)"]
    path.write_text("[keys]\nagian = 'f9'\n[look]\ntint = 1\n")
    found, lines = _diagnosed(path, monkeypatch)
    assert lines == [
        "",
        "settings",
        f"  {path}",
        "  line 2: agian is no action that has a key. Did you mean again?",
        "  line 4: tint must be true or false.",
    ]
    (problem,) = found.problems
    assert problem.what == (
        "Not all of the settings is taken: line 2: agian is no action that has a key. Did you mean again?"
    )
    assert problem.mend == f'"${{EDITOR:-vi}}" +2 {path}'
    path.write_bytes(b"\xff")
    found, lines = _diagnosed(path, monkeypatch)
    assert lines[-1] == "  line 1: This is not UTF-8 text."
    assert found.problems[0].what == "Nothing of the settings is taken: line 1: This is not UTF-8 text."
