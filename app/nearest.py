"""What somebody may have meant who wrote a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence with a blank before it, to put behind one that refuses `name`; empty where nothing is near."""
    if not isinstance(name, str):
        return ""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), list(known), n=1)
    return f" Did you mean {near[0]}?" if near else ""
