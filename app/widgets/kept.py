"""Not drawing again what is drawn already."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class Kept(Widget):
    """Keeps what it drew until something of it changes.

    With each picture Textual asks all widgets that stand in the way of what changed for all of their lines. Stands behind
    other bases of a class: Textual takes a widget's style from the first one.
    """

    _kept: tuple[Region, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """See `Widget`."""
        if self._kept is None or self._kept[0] != crop:
            self._kept = (crop, self.draw_lines(crop))
        return self._kept[1]

    def draw_lines(self, crop: Region) -> list[Strip]:
        """The lines of what is seen, anew."""
        return super().render_lines(crop)

    def _set_dirty(self, *regions: Region) -> None:
        # What each way to say that something changed comes to.
        self._kept = None
        super()._set_dirty(*regions)

    def notify_style_update(self) -> None:
        """Another theme."""
        self._kept = None
        super().notify_style_update()
