"""Answers of earlier conversations with one model, for n-grams to copy from: kept only where the user agreed to it.

The agreement is the folder itself: it is made when the user agrees and removed, with all that is in it, when they no longer do.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

from pardec_chat.app import locations
from pardec_chat.backends.drafters.suffix import SuffixAutomaton

logger = logging.getLogger(__name__)

#: Tokens kept for a model: some 15 MB of memory, 130 KB on disk.
MOST = 1 << 15
#: Stands between two answers; no model has it.
_BETWEEN = -1


def is_agreed() -> bool:
    """Whether answers may be kept."""
    return locations.earlier().is_dir()


def agree(agreed: bool) -> None:
    """Begin to keep answers, or forget all that were kept. Raises OSError."""
    folder = locations.earlier()
    if agreed:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    elif folder.is_dir():
        shutil.rmtree(folder)


class Earlier:
    """The kept answers of one model. Used on the thread that decodes."""

    def __init__(self, model: Path, n_vocabulary: int) -> None:
        name = hashlib.sha256(str(model).encode()).hexdigest()[:24]
        self._path = locations.earlier() / f"{name}.ids"
        self.text = SuffixAutomaton(MOST)
        self.text.extend(self._read(n_vocabulary))

    def _read(self, n_vocabulary: int) -> Sequence[int]:
        ids = array("i")
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            logger.warning("earlier answers cannot be read: %s", error)
            return ()
        ids.frombytes(raw[: len(raw) // ids.itemsize * ids.itemsize])
        if sys.byteorder == "big":
            ids.byteswap()
        # Another model may have taken the file's place: what it cannot have written is no text of it.
        return [i for i in ids[-MOST:] if _BETWEEN <= i < n_vocabulary]

    def add(self, answer: Sequence[int]) -> None:
        """An answer is whole. A disk that refuses costs what would have been kept, nothing else."""
        if not answer or not is_agreed():
            return
        self.text.extend((_BETWEEN, *answer))
        ids = array("i", (_BETWEEN, *answer))
        if sys.byteorder == "big":
            ids.byteswap()
        try:
            with self._path.open("ab") as file:
                file.write(ids.tobytes())
            if self._path.stat().st_size > 2 * MOST * ids.itemsize:
                new = self._path.with_suffix(".new")
                new.write_bytes(self._path.read_bytes()[-MOST * ids.itemsize :])
                new.replace(self._path)
        except OSError as error:
            logger.warning("an answer could not be kept: %s", error)
