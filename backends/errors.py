"""Errors a user can cause or mend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pardec_chat.backends.memory import Alternative, Plan

_ABOUT_MEMORY: Final = re.compile("alloc|out of memory|insufficient memory", re.IGNORECASE)


class UserError(Exception):
    """Something the user can mend: says what was wrong and what to do next, in one line each.

    Front ends print both lines and exit with `exit_code`; nobody shows a traceback for it.
    """

    exit_code = 1

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.what} {self.next_step}".strip()


class ModelUnreadable(UserError):
    """A model file is missing, truncated, or of a kind that the runtime cannot load."""


class OutOfMemory(UserError):
    """An allocation for weights, cache or buffers failed."""


@contextmanager
def memory_errors(path: Path, next_step: str) -> Iterator[None]:
    """An allocation for the model at `path` that fails in a library which says so in words alone: raises OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        reason = str(error) or "no memory is left"
        if isinstance(error, RuntimeError) and not _ABOUT_MEMORY.search(reason):
            raise
        raise OutOfMemory(f"{path.name} does not fit into memory: {reason.splitlines()[0]}.", next_step) from error


class LoadGivenUp(UserError):
    """Whoever asked for a load did not want to wait for its end."""

    def __init__(self) -> None:
        super().__init__("The load was given up.", "F3 chooses a model.")


class DoesNotFit(OutOfMemory):
    """What is to be loaded takes more memory than there is; found before anything was loaded.

    plan: what it would take. alternatives: what fits instead, mildest first.
    """

    def __init__(self, what: str, next_step: str, plan: Plan, alternatives: Sequence[Alternative]) -> None:
        super().__init__(what, next_step)
        self.plan = plan
        self.alternatives = alternatives


class PairImpossible(UserError):
    """The draft model's vocabulary does not fit the target's."""


class MethodUnavailable(UserError):
    """The method is unknown here, or needs something that is not loaded."""


class ContextFull(UserError):
    """The prompt does not fit the context, even after the oldest turns were dropped."""


class TemplateFailed(UserError):
    """The model's chat template cannot render these messages."""


class QueueFull(UserError):
    """More requests wait than the engine is set to hold."""


class BadSetting(UserError):
    """A value given on the command line, in a file or by a client is outside what is allowed."""
