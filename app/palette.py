"""The colours of the themes of ours, for the screen and for picture files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours as #rrggbb. quiet: text that stands back. rule, track: lines, and what of a bar is not filled.

    origin_…: the ground under text whose tokens were guessed so; head: by heads or layers of the model's own.
    """

    primary: str
    foreground: str
    background: str
    surface: str
    warning: str
    error: str
    rule: str
    quiet: str
    track: str
    origin_draft: str
    origin_ngram: str
    origin_lookahead: str
    origin_head: str


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
    origin_draft="#1f4436",
    origin_ngram="#213a5c",
    origin_lookahead="#4a3a17",
    origin_head="#47294f",
)
LIGHT = Palette(
    primary="#0f766e",
    foreground="#24292e",
    background="#fbfaf7",
    surface="#f1efe9",
    warning="#8a5a00",
    error="#b3261e",
    rule="#dcd8ce",
    quiet="#626c75",
    track="#d5d1c6",
    origin_draft="#cfeadf",
    origin_ngram="#d3e3f8",
    origin_lookahead="#f6e3b5",
    origin_head="#ecd8f2",
)
#: For eyes and screens that need it: text at 7:1 and more everywhere, lines at 3:1 and more.
CONTRAST = Palette(
    primary="#6fe3bd",
    foreground="#ffffff",
    background="#000000",
    surface="#14181c",
    warning="#ffd479",
    error="#ffa198",
    rule="#7d8790",
    quiet="#c4ccd4",
    track="#7d8790",
    origin_draft="#00543f",
    origin_ngram="#003f8a",
    origin_lookahead="#6b4a00",
    origin_head="#6a1b7a",
)
#: Name of the theme → its colours.
PALETTES = {"pardec-dark": DARK, "pardec-light": LIGHT, "pardec-contrast": CONTRAST}
#: The theme in the terminal's own colours, whichever these are.
TERMINAL = "terminal"
