"""Lines as an SVG file: rich draws it, without the window around it and without fonts from the network."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

from pardec_chat.app.lines import Line
from pardec_chat.app.palette import DARK, Palette
from pardec_chat.backends.errors import UserError

#: Cells of a line in a file, and of the margin at both sides.
WIDTH, _MARGIN = 84, 2

_RUNS = re.compile(r"(^ +| {2,}| +$)")

_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {{width}} {{height}}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{{unique_id}}-matrix {{{{
        font-family: "Fira Code", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
        font-size: {{char_height}}px;
        line-height: {{line_height}}px;
    }}}}
    {{styles}}
    </style>
    <defs>{{lines}}</defs>
    <rect width="{{width}}" height="{{height}}" rx="6" fill="{background}" />
    <g transform="translate({{terminal_x}}, 8)">
    {{backgrounds}}
    <g class="{{unique_id}}-matrix">{{matrix}}</g>
    </g>
</svg>
"""


class NotWritten(UserError):
    """A file could not be written."""


def draw(lines: Sequence[Line], palette: Palette = DARK) -> str:
    """An SVG document of `lines`, each `WIDTH` cells at most."""
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

    styles = {
        "title": Style(color=palette.primary, bold=True),
        "text": Style(color=palette.foreground),
        "quiet": Style(color=palette.quiet),
        "value": Style(color=palette.foreground, bold=True),
        "bar": Style(color=palette.primary),
    }
    console = Console(
        record=True,
        file=io.StringIO(),
        width=WIDTH + 2 * _MARGIN,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},
    )
    margin = " " * _MARGIN
    for line in (*lines, ()):
        # Some viewers drop blanks at either end of a run of text; between unstyled blanks each run has a place of its own.
        runs = ((run, styles[role] if run.strip() else "") for part, role in line for run in _RUNS.split(part))
        # A Text is never read as markup.
        text = Text.assemble(margin, *runs, no_wrap=True, overflow="ellipsis")
        console.print(text, highlight=False, soft_wrap=False)
    return console.export_svg(
        title="", code_format=_FORMAT.format(background=palette.background), font_aspect_ratio=0.602
    )


def write(svg: str, path: Path) -> None:
    """Put `svg` into `path`, whole or not at all. Raises NotWritten."""
    from pardec_chat.app.downloads.files import write_atomically

    try:
        write_atomically(path, svg.encode("utf-8"))
    except OSError as error:
        raise NotWritten(
            f"{path} could not be written: {error.strerror or error}.", "Choose another folder, or make room."
        ) from error
