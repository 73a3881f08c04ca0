"""What was learned about a pair of models on this machine, kept from one start to the next.

One file a pair under the cache folder. It holds for one runtime, build, model file, draft file, device and thread count: when
one of them changes, what was learned before is not about this pair any more and is left behind.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pardec_chat.app import locations
from pardec_chat.app.chat.request import ModelChoice
from pardec_chat.backends.decoding.knowledge import Knowledge

logger = logging.getLogger(__name__)

_VERSION = 1
#: Pairs that are remembered; the one not used for longest goes first.
_MOST_FILES = 64


@dataclass(frozen=True, slots=True)
class Learned:
    """The file of one pair. path: where it is; key: what it holds for."""

    path: Path
    key: dict[str, Any]

    @staticmethod
    def of(choice: ModelChoice, runtime: str, build: Mapping[str, str]) -> Learned:
        """The file for what is loaded. build: version, features and devices, as the runtime describes itself."""
        models = [choice.model, *([choice.draft] if choice.draft is not None else [])]
        name = hashlib.sha256("\n".join([runtime, *(str(path) for path in models)]).encode()).hexdigest()[:24]
        key = {
            "version": _VERSION,
            "runtime": runtime,
            "build": dict(build),
            "models": [_identity(path) for path in models],
            "threads": choice.threads or os.cpu_count(),
            "kernels": choice.kernels,
        }
        return Learned(locations.learned() / f"{name}.json", key)

    def restore(self) -> Knowledge | None:
        """What the file knows; None where there is none that holds for this key."""
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            if document["key"] == self.key:
                return Knowledge.load(document["learned"])
            logger.info("what was learned in %s holds for something else: it is left behind", self.path.name)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            logger.warning("%s cannot be read and is left behind: %s", self.path.name, error)
        return None

    def save(self, knowledge: Knowledge) -> None:
        """Write atomically. A disk that refuses costs what was learned, nothing else: it goes to the log."""
        document = {"key": self.key, "learned": knowledge.dump()}
        new = self.path.with_suffix(f".{os.getpid()}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(document), encoding="utf-8")
            new.replace(self.path)
            kept = sorted(self.path.parent.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in kept[_MOST_FILES:]:
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("what was learned could not be kept: %s", error)
            with suppress(OSError):
                new.unlink(missing_ok=True)


def _identity(path: Path) -> list[Any]:
    try:
        status = path.stat()
    except OSError:
        return [str(path), 0, 0]
    return [str(path), status.st_size, status.st_mtime_ns]
