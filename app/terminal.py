"""The terminal kept for the app alone, whatever native libraries print."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path


@contextmanager
def guarded_terminal(log_path: Path) -> Iterator[None]:
    """From here on file descriptors 1 and 2 lead to the log, and Textual draws on a copy of the terminal.

    Entered once, before anything native is loaded, and left when the app is over: nothing is redirected while it draws, so
    no thread can print in between. Textual takes `sys.__stderr__` for output and `sys.__stdout__` for the size of the
    terminal when it starts; both are the copy here. What Python code prints goes to the log as well.

    Afterwards Python's own streams lead to where they led before, but the two descriptors stay with the log until the
    process ends: a native thread outlives the app by a moment, and what it prints then has no business on the terminal.
    """
    terminal_fd = next((fd for fd in (2, 1) if os.isatty(fd)), None)
    if terminal_fd is None:
        # No terminal, no screen to guard: a pipe wants what is printed.
        yield
        return
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = [os.dup(1), os.dup(2)]
    terminal = _open(os.dup(terminal_fd))
    log = _open_log(log_path)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc]
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = (_open(copy) for copy in saved)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
        os.close(log)
        terminal.close()


def _open(fd: int) -> TextIOWrapper:
    return open(fd, "w", encoding="utf-8", errors="replace")  # a descriptor; closed by the caller


def _open_log(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another user's eyes have no business in it: errors can quote a prompt.
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
