"""Bars and curves of block characters."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar; a share above 0 fills at least one cell, one below 1 leaves one."""
    filled = round(min(1.0, max(0.0, share)) * width)
    if 0 < share < 1 and width > 1:
        filled = min(width - 1, max(1, filled))
    return "━" * filled, "┄" * (width - filled)


def curve(values: Sequence[float], top: float) -> str:
    """One character a value, from 0 to `top`; 0 is the lowest block, so that the line never breaks off."""
    scale = (len(_LEVELS) - 1) / top if top > 0 else 0.0
    return "".join(_LEVELS[min(len(_LEVELS) - 1, max(0, round(value * scale)))] for value in values)


def columns(values: Sequence[float], height: int, width: int) -> list[list[str]]:
    """Bars that stand side by side, drawn from the highest line to the lowest; the largest value reaches the top."""
    eighths = [max(1, round(value / max(values) * height * 8)) for value in values]
    return [
        [(" " + _LEVELS)[min(8, max(0, value - line * 8))] * width for value in eighths]
        for line in reversed(range(height))
    ]


def round_top(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 4, 6, 8, 10, 15, …: a scale that changes seldom while values grow."""
    power = 1.0
    while value > power * 10:
        power *= 10
    return power * next(step for step in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0) if value <= power * step)
