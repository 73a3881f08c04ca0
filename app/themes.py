"""The themes of ours, and what themes from elsewhere are given of the colours that only this app knows."""

from __future__ import annotations

from textual.theme import Theme

from pardec_chat.app.palette import LIGHT, PALETTES, TERMINAL, Palette

#: What the app has where nothing else was chosen, or what was chosen is not there.
DEFAULT = "pardec-dark"


def _variables(palette: Palette) -> dict[str, str]:
    return {
        "rule": palette.rule,
        "quiet": palette.quiet,
        "track": palette.track,
        "origin-draft": palette.origin_draft,
        "origin-ngram": palette.origin_ngram,
        "origin-lookahead": palette.origin_lookahead,
        "origin-head": palette.origin_head,
    }


def _theme(name: str, palette: Palette) -> Theme:
    return Theme(
        name=name,
        dark=palette is not LIGHT,
        primary=palette.primary,
        accent=palette.primary,
        secondary=palette.primary,
        foreground=palette.foreground,
        background=palette.background,
        surface=palette.surface,
        panel=palette.surface,
        success=palette.primary,
        warning=palette.warning,
        error=palette.error,
        variables=_variables(palette),
    )


#: The same colour names where nobody knows what the terminal's colours look like: a ground under text could hide it, so
#: origins are told by their underlines alone.
_ANSI_VARIABLES = {
    "rule": "ansi_bright_black",
    "quiet": "ansi_bright_black",
    "track": "ansi_bright_black",
    "origin-draft": "ansi_default",
    "origin-ngram": "ansi_default",
    "origin-lookahead": "ansi_default",
    "origin-head": "ansi_default",
}
_TERMINAL = Theme(
    name=TERMINAL,
    ansi=True,
    primary="ansi_cyan",
    accent="ansi_cyan",
    secondary="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    success="ansi_cyan",
    warning="ansi_yellow",
    error="ansi_red",
    variables={
        **_ANSI_VARIABLES,
        # Textual makes these transparent, and what lies below would shine through; or it takes black for the ground.
        "surface": "ansi_default",
        "panel": "ansi_default",
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
    },
)

#: In the order in which they are offered.
OURS = (*(_theme(name, palette) for name, palette in PALETTES.items()), _TERMINAL)


def defaults(theme: Theme) -> dict[str, str]:
    """Our colour names for `theme`, which may be one that does not know them. Grounds let most of what is below through."""
    if theme.ansi:
        return _ANSI_VARIABLES
    return {
        "rule": "#80808040",
        "quiet": "#808080",
        "track": "#80808060",
        "origin-draft": "#2a9d7530",
        "origin-ngram": "#3b82d630",
        "origin-lookahead": "#c9971c30",
        "origin-head": "#a04bb830",
    }
