"""The title line: what answers, and what it is doing."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from pardec_chat.app.widgets.wording import fit

_BRAND = "pardec-chat   "


class Header(Widget):
    """Model and draft at the left, the state in words at the right; both are plain text, never markup."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"brand", "model", "label", "state"}

    names: reactive[tuple[str, str | None]] = reactive(("", None), layout=False)
    state: reactive[str] = reactive("", layout=False)

    def render(self) -> Content:
        """The name of the program gives way first, then the names of the models."""
        width = self.content_size.width
        right = cell_len(self.state)
        model, draft = self.names
        names = model + (f"  +  {draft}" if draft else "")
        brand = _BRAND if cell_len(_BRAND) + cell_len(names) + 3 + right <= width or not names else ""
        names = fit(names, max(0, width - cell_len(brand) - right - 3))
        target, plus, rest = names.partition("  +  ")
        gap = max(1, width - cell_len(brand) - cell_len(names) - right)
        return Content.assemble(
            (brand, ".brand"),
            (target, ".model"),
            (plus + rest, ".label"),
            " " * gap,
            (self.state, ".state"),
        )
