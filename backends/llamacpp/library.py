"""The native library: imported once, its log lines sent to Python's logging, never to the screen."""

from __future__ import annotations

import ctypes
import logging
import re
from collections import Counter, deque

# isort: split
from pardec_chat.backends import threads as threads

# isort: split
import llama_cpp

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())  # a program without logging set up must not print warnings either

_ERROR = 4
_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, _ERROR: logging.ERROR}
#: The newest error lines, which say why a call returned nothing.
_errors: deque[str] = deque(maxlen=20)
#: Where the library put what it loaded: device, bytes. It tells nobody but its log.
_BUFFER = re.compile(r"(\S+)\s+(?:model|KV|RS|compute|output) buffer size\s*=\s*([\d.]+) MiB")
_placed: Counter[str] = Counter()


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _log(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    line = text.decode("utf-8", "replace").rstrip()
    if level == _ERROR and line:
        _errors.append(line)
    if found := _BUFFER.search(line):
        _placed[found[1]] += int(float(found[2]) * (1 << 20))
    if line.strip("."):
        logger.log(_LEVELS.get(level, logging.DEBUG), "%s", line)


# The package's own import installs a callback that prints to standard error; llama and ggml share this one instead.
llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def last_error() -> str:
    """What the library said last when something failed, on one line; forgotten when read."""
    text = _errors[-1].split(": ", 1)[-1] if _errors else ""
    _errors.clear()
    return text


def placed() -> dict[str, int]:
    """Bytes on each device since the last call, by the names that the library gives its devices."""
    found = dict(_placed)
    _placed.clear()
    return found


def version() -> str:
    """Version of the Python package, which pins the library's."""
    return str(llama_cpp.__version__)


def system_info() -> str:
    """Build features as the library names them."""
    return str(llama_cpp.llama_print_system_info().decode("utf-8", "replace"))


def has_tile_kernels() -> bool:
    """Whether the library was built with AMX kernels for a CPU that has AMX; they are kept off then.

    GCC before 13 drops the stores in front of `ldtilecfg` (its intrinsic declares 8 of the 64 bytes as read), so the first
    product kills the process, and a build does not tell its compiler. The price is llama.cpp's repacked kernels, which
    come with the same switch; the Makefile therefore builds without AMX.
    """
    return "AMX_INT8 = 1" in system_info()
