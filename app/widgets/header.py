"""The title line: what answers, and what it is doing."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive

from pardec_chat.app.widgets.kept import Kept
from pardec_chat.app.widgets.wording import fit

_BRAND = "pardec-chat   "
_GAP = "   "
_LEAST_NAMES = 12


class Header(Kept):
    """Model and draft at the left, the state in words at the right; all texts are plain, never markup.

    endpoint: where the endpoint listens, as host:port; empty while it is off.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"brand", "model", "label", "state"}

    names: reactive[tuple[str, str | None]] = reactive(("", None), layout=False)
    state: reactive[str] = reactive("", layout=False)
    endpoint: reactive[str] = reactive("", layout=False)

    def render(self) -> Content:
        """The name of the program gives way first, then the endpoint's host, then the names of the models."""
        width = self.content_size.width
        model, draft = self.names
        names = model + (f"  +  {draft}" if draft else "")
        dot, endpoint = self._endpoint(width - cell_len(names) - 3, width)
        right = cell_len(self.state + dot + endpoint)
        brand = _BRAND if cell_len(_BRAND) + cell_len(names) + 3 + right <= width or not names else ""
        names = fit(names, max(0, width - cell_len(brand) - right - 3))
        target, plus, rest = names.partition("  +  ")
        gap = max(1, width - cell_len(brand) - cell_len(names) - right)
        return Content.assemble(
            (brand, ".brand"),
            (target, ".model"),
            (plus + rest, ".label"),
            " " * gap,
            (self.state + dot, ".state"),
            (endpoint, ".label"),
        )

    def _endpoint(self, room: int, width: int) -> tuple[str, str]:
        """Its dot and its words: with the host where there is `room`, nothing where it would leave none for the names."""
        if not self.endpoint:
            return "", ""
        dot = f"{_GAP if self.state else ''}● "
        port = f"endpoint :{self.endpoint.rpartition(':')[2]}"
        for words, limit in ((f"endpoint {self.endpoint}", room), (port, width - _LEAST_NAMES)):
            if cell_len(self.state + dot + words) <= limit:
                return dot, words
        return "", ""
