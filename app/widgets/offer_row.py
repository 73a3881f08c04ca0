"""What a repository offers, in columns. No widget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.cells import left, right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.downloads.repository import Offer
    from pardec_chat.app.lines import Line, Role

_SIZE, _FILES = 10, 10
_WIDEST = 130
_KINDS = {"model": "", "draft": "only guesses", "helper": "a helper", "mlx": "MLX weights"}


def longest(offers: Sequence[Offer]) -> int:
    """Cells of the longest name."""
    return max((cell_len(visible_line(offer.name)) for offer in offers), default=0)


def draw(offer: Offer, width: int, name: int) -> Sequence[Line]:
    """One line; what cannot be chosen stands back and says why. name: cells of the longest one."""
    width = min(width, _WIDEST)
    name = min(name, width * 45 // 100)
    figures = right(wording.size(offer.size), _SIZE) + right(files(offer), _FILES)
    what = visible_line(offer.use or _KINDS[offer.kind])
    role: Role = "quiet" if offer.use else "text"
    return (
        (
            (left(visible_line(offer.name), name), role),
            (figures, role),
            (left(f"   {what}", width - name - _SIZE - _FILES), "quiet"),
        ),
    )


def files(offer: Offer) -> str:
    """How many, where it is more than one."""
    return f"{len(offer.files)} files" if len(offer.files) > 1 else ""
