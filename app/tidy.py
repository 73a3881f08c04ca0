"""Pauses of Python's own, kept out of the moments in which something is being written."""

from __future__ import annotations

import gc


def tidy() -> None:
    """Collect what is garbage now, and leave what is in use out of later collections.

    One of those goes over everything that lives: a tenth of a second with all libraries loaded, in which no key is read.
    To be called when it is quiet.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
