"""The colours of the two themes of ours, for the screen and for picture files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours as #rrggbb. quiet: text that stands back. rule, track: lines, and what of a bar is not filled."""

    primary: str
    foreground: str
    background: str
    surface: str
    warning: str
    error: str
    rule: str
    quiet: str
    track: str


DARK = Palette(
    primary="#7cc4a8",
    foreground="#d6d9dc",
    background="#14171a",
    surface="#1b1f23",
    warning="#d9b36c",
    error="#e08a7d",
    rule="#2b3137",
    quiet="#8a939b",
    track="#343b42",
)
LIGHT = Palette(
    primary="#0f766e",
    foreground="#24292e",
    background="#fbfaf7",
    surface="#f1efe9",
    warning="#8a5a00",
    error="#b3261e",
    rule="#dcd8ce",
    quiet="#667079",
    track="#d5d1c6",
)
