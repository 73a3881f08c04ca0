"""The few file operations that must survive a crash or a second process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pardec_chat.app.downloads.errors import AlreadyRunning, FolderUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_disk_full(error: OSError) -> bool:
    """Whether an operation failed for want of space or of quota."""
    return error.errno in _FULL


def unusable(folder: Path, error: OSError) -> FolderUnusable:
    """The error to show when the models folder let an operation fail."""
    return FolderUnusable(
        f"The models folder cannot be used: {error.strerror or error} ({error.filename or folder}).",
        "Mend its permissions, or let PARDEC_CHAT_MODELS point to another folder.",
    )


def free_bytes(folder: Path) -> int:
    """Bytes this user can still write below `folder`, which exists."""
    return shutil.disk_usage(folder).free


def size_of(path: Path) -> int:
    """Size in bytes; 0 where no such file is."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def sync_folder(folder: Path) -> None:
    """Makes renames in `folder` survive a power cut; a file system that cannot is left alone."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces `path` in one step: a reader sees the old content or the new, never half of it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def locked(path: Path, subject: str, *, wait: bool = False) -> Iterator[None]:
    """Holds the lock file `path`; the system lets go of it when the process dies, however it dies.

    Raises AlreadyRunning, which names `subject` and the other process, unless `wait` is set.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise AlreadyRunning(
                f"{subject} is already being worked on by another pardec-chat"
                + (f" (process {owner})." if owner.isdigit() else "."),
                "Wait until it is done, or stop it first.",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        if _is_same_file(descriptor, path):
            break
        os.close(descriptor)  # its last holder removed it while we waited: lock the new one
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
