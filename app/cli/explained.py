"""What `bench` explains: the picture of costs, rates and what follows, as text, as JSON and as an SVG file."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pardec_chat.app.cli.options import tell
from pardec_chat.app.cli.output import print_error

if TYPE_CHECKING:
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.chat.request import Loaded
    from pardec_chat.app.lines import Line
    from pardec_chat.backends.decoding.explain import Explanation, Kind, Rate
    from pardec_chat.backends.decoding.options import Option

_NARROW, _WIDE = 60, 110


def calibrate(engine: Engine) -> Explanation:
    """Measure directly, with progress on standard error when that is a terminal. Raises UserError."""
    from pardec_chat.app.widgets import wording

    ended = threading.Event()
    shows = sys.stderr.isatty()

    def progress(done: float) -> bool:
        if shows and not ended.is_set():
            print(f"\r\033[Kmeasuring passes and guesses: {wording.percent(done)}", end="", file=sys.stderr, flush=True)
        return not ended.is_set()

    try:
        return engine.calibrate(progress).result()
    finally:
        ended.set()
        if shows:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def show(explanation: Explanation, loaded: Loaded) -> None:
    """Print the picture, as wide as the terminal is within reason."""
    from pardec_chat.app import lines

    width = min(_WIDE, max(_NARROW, shutil.get_terminal_size().columns))
    print("\n".join(lines.plain(line) for line in _picture(explanation, loaded, width)))


def save(explanation: Explanation, loaded: Loaded, path: Path | None) -> int:
    """Write the picture as SVG if there is a path for it; the exit code: what was printed before stands in any case."""
    from pardec_chat.app import svg

    if path is None:
        return 0
    try:
        svg.write(svg.draw(_picture(explanation, loaded, svg.WIDTH)), path)
    except svg.NotWritten as error:
        print_error(error)
        return error.exit_code
    tell(f"Saved as {path}")
    return 0


def check_path(path: Path) -> None:
    """Refuse what cannot be written before anything is measured for it. Raises BadSetting."""
    from pardec_chat.backends.errors import BadSetting

    if path.is_dir():
        raise BadSetting(f"--svg names the folder {path}.", "Name a file, for instance pays.svg.")
    if not path.absolute().parent.is_dir():
        raise BadSetting(f"--svg: there is no folder {path.parent}.", "Make it first, or name another one.")


def document(explanation: Explanation, loaded: Loaded) -> dict[str, Any]:
    """The same figures for scripts."""
    from pardec_chat.app import pays

    return {
        "verdict": pays.verdict(explanation, loaded.draft),
        "single_step_ms": _round(explanation.plain_ms),
        "draft_guess_ms": _round(explanation.draft_ms),
        "break_even_rate": _round(explanation.break_even),
        "passes": [
            {"rows": cost.rows, "ms": _round(cost.ms), "single_steps": _round(cost.steps), "n": cost.n}
            for cost in explanation.passes
        ],
        "kinds": [_kind(kind) for kind in explanation.kinds],
    }


def _picture(explanation: Explanation, loaded: Loaded, width: int) -> list[Line]:
    from pardec_chat.app import lines, pays

    return [
        pays.heading(loaded.model, loaded.draft, width),
        lines.BLANK,
        *pays.picture(explanation, loaded.draft, width),
    ]


def _kind(kind: Kind) -> dict[str, Any]:
    shortest = kind.shortest_match
    return {
        "kind": kind.name,
        "draft": {
            "by_place": [{"place": rate.evidence, **_rate(rate)} for rate in kind.places],
            "by_depth": [_option(option) for option in kind.draft],
            "best_depth": kind.best_draft.depth,
        },
        "ngram": {
            "by_match": [{"match": rate.evidence, **_rate(rate)} for rate in kind.matches],
            "best_by_match": [{"match": match.length, **_option(match.option)} for match in kind.ngram],
            "shortest_match": None if shortest is None else shortest.length,
        },
        "measured": [
            {
                "method": speed.method.value,
                "depth": speed.depth,
                "steps": speed.steps,
                "tokens_per_step": _round(speed.tokens_per_step),
                "tokens_per_second": _round(speed.tokens_per_second),
            }
            for speed in kind.measured
        ],
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"right": _round(rate.mean), "low": _round(rate.low), "high": _round(rate.high), "n": _round(rate.n)}


def _option(option: Option) -> dict[str, Any]:
    return {
        "depth": option.depth,
        "tokens_per_step": _round(option.tokens),
        "single_steps": _round(option.cost),
        "speedup": _round(option.speedup),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
