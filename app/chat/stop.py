"""Stop strings in a stream of text."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Finds the stop string that is complete first, across any cuts of the text; holds back only what may become one.

    Of several that end at the same character the one that starts first counts, so that the result does not depend on how
    the text was cut into tokens and blocks.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self._released = 0

    def push(self, text: str) -> tuple[str, int | None]:
        """What may be shown now, and where the text ends (characters from its start) when a stop string is complete."""
        held = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := held.find(stop)) >= 0]
        if found:
            at = min(found)[1]
            self._held = ""
            self._released += at
            return held[:at], self._released
        keep = max((_overlap(held, stop) for stop in self._stops), default=0)
        shown = held[: len(held) - keep]
        self._held = held[len(shown) :]
        self._released += len(shown)
        return shown, None

    def finish(self) -> str:
        """What was held back and became no stop string."""
        held, self._held = self._held, ""
        self._released += len(held)
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
