"""Figures in a row; a line ends between two of them, never inside one."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len

_SEPARATOR = " · "


def strung(parts: Iterable[str], width: int) -> list[str]:
    """`parts` with dots between them, on as many lines of `width` cells as they take."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{_SEPARATOR}{part}" if lines else part
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines
