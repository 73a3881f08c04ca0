"""`pardec-chat models pull`: fetches models, or goes on where a download stopped."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from pardec_chat.app.cli.output import INTERRUPTED, described, print_error, print_json
from pardec_chat.backends.units import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.library import Library
    from pardec_chat.app.downloads.partial import Progress
    from pardec_chat.app.downloads.pull import Pulled


def pull(library: Library, ids: list[str], *, quiet: bool, as_json: bool) -> int:
    """Pulls one after the other; one that fails does not keep the rest from being tried. Returns the exit code."""
    from pardec_chat.app import catalogue
    from pardec_chat.backends.errors import UserError

    code = 0
    done: list[dict[str, Any]] = []
    for model_id in ids or [catalogue.BUILT_IN]:
        try:
            for pulled in _pull_one(library, model_id, quiet=quiet, hidden=quiet or as_json):
                done.append(
                    {
                        "id": pulled.id,
                        "path": str(pulled.path),
                        "bytes": pulled.size,
                        "already": pulled.already,
                        "source": pulled.source,
                    }
                )
                if not quiet and not as_json:
                    was = "was already" if pulled.already else "is"
                    print(f"{pulled.id} {was} on this disk: {_shown(str(pulled.path))}")
        except UserError as error:
            print_error(error)
            done.append({"id": model_id, "error": described(error)})
            code = code or error.exit_code
            if error.exit_code == INTERRUPTED:
                break
    if as_json:
        print_json({"models": done})
    return code


def _pull_one(library: Library, model_id: str, *, quiet: bool, hidden: bool) -> Iterator[Pulled]:
    """All files of one id. Raises UserError."""
    from pardec_chat.app.downloads.errors import PullStopped
    from pardec_chat.app.downloads.pull import pull

    for model in library.pullable(model_id):
        line = _ProgressLine(quiet=hidden)
        try:
            yield pull(model, library.folder, report=_announced(line, model) if quiet else line.show)
        except KeyboardInterrupt:
            entry = next(entry for entry in library.entries() if model in entry.models)
            raise PullStopped(
                f"Stopped: {entry.percent} % of {entry.id} are here and kept.",
                f"Run `pardec-chat models pull {entry.id}` to go on from there.",
            ) from None
        finally:
            line.clear()


class _ProgressLine:
    """One line on standard error, rewritten in place on a terminal; elsewhere only notes are printed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._width = 0
        self._drawn = 0.0
        self._began: tuple[float, int] | None = None

    def show(self, progress: Progress) -> None:
        """Draws at most ten times a second."""
        if progress.note and not self._quiet:
            self.clear()
            print(_shown(progress.note), file=sys.stderr)
        now = time.monotonic()
        if progress.stage == "downloading" and self._began is None:
            self._began = (now, progress.done)
        if not self._live or (now - self._drawn < 0.1 and progress.done < progress.total):
            return
        self._drawn = now
        line = f"{progress.stage} {progress.done * 100 // progress.total:3d} %  {size(progress.done)} of {size(progress.total)}"
        if progress.stage == "downloading" and self._began and now - self._began[0] > 1:
            gained = progress.done - self._began[1]
            line += f"  {size(int(gained / (now - self._began[0])))}/s" if gained > 0 else ""
        print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def clear(self) -> None:
        """Leaves the line empty for what is printed next."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def _announced(line: _ProgressLine, model: Model) -> Any:
    """A report that tells once, before the first byte, why the quiet user waits."""
    told: list[bool] = []

    def report(progress: Progress) -> None:
        if not told:
            told.append(True)
            print(f"fetching {model.name} ({size(progress.total - progress.done)}), once", file=sys.stderr)
        line.show(progress)

    return report


def _shown(text: str) -> str:
    from pardec_chat.app.plain_text import visible_line

    return visible_line(text)
