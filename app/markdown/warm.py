"""What the first text to be drawn would wait for, done ahead of it."""

from __future__ import annotations

import threading

from pardec_chat.app.markdown.parser import make

_SAMPLE = "Some *text* with www.example.org\n\n- and more\n\n| a | b |\n|---|---|\n| `1` | 2 |\n"


def warm() -> None:
    """Load and compile on a thread; returns at once. Nothing that the UI thread uses is touched."""
    threading.Thread(target=_warm, name="warm-markdown", daemon=True).start()


def _warm() -> None:
    make().parse(_SAMPLE)
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    list(get_lexer_by_name("python").get_tokens("def f(x):\n    return 'x'\n"))
