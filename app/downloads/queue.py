"""Downloads side by side: each can be paused, gone on with and called off without the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pardec_chat.app.catalogue import Model
    from pardec_chat.app.downloads.pull import Tools
    from pardec_chat.backends.errors import UserError

State = Literal["waiting", "asking", "downloading", "verifying", "paused", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Item:
    """One download as it stands now.

    `have` of `size` bytes are here; `speed` in bytes a second over the last seconds, `seconds_left` at that speed, None
    while nothing flows. `note` is the newest thing worth telling (a retry, another source); `error` says why it failed.
    """

    model: Model
    state: State
    have: int
    speed: float | None = None
    seconds_left: float | None = None
    note: str = ""
    error: UserError | None = None

    @property
    def percent(self) -> int:
        """How much is here, rounded down."""
        return min(100, self.have * 100 // self.model.size)


class Downloads:
    """Thread-safe. `changed` is called from the downloading threads, several times a second while bytes flow."""

    def __init__(
        self,
        folder: Path,
        *,
        tools: Tools | None = None,
        at_once: int = 2,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        raise NotImplementedError

    def items(self) -> tuple[Item, ...]:
        """All that were started or kept, in the order in which they came."""
        raise NotImplementedError

    def start(self, models: Sequence[Model]) -> None:
        """Fetch these; one that is paused or failed goes on, one that runs is left alone."""
        raise NotImplementedError

    def keep(self, models: Sequence[Model]) -> None:
        """List these as paused: what an earlier run of the program left unfinished."""
        raise NotImplementedError

    def pause(self, model_id: str) -> None:
        """Stop within half a second; it stays listed, and what came stays on disk."""
        raise NotImplementedError

    def cancel(self, model_id: str) -> None:
        """Stop within half a second and take it off the list; what came stays on disk for another time."""
        raise NotImplementedError

    def close(self, seconds: float = 1.0) -> None:
        """Stop all, waiting so long at most; harmless when done twice."""
        raise NotImplementedError
