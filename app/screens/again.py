"""The question behind “again with…”: how another answer to the same message is to be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.screens import choosing
from pardec_chat.app.screens.picker import Choice, Picker
from pardec_chat.app.widgets import knobs
from pardec_chat.app.widgets.method_words import DEPTHS, SHORT
from pardec_chat.backends.base import Method

if TYPE_CHECKING:
    from textual.app import App

_SAME = "same"
_TEMPERATURES = (0.0, 0.3, 0.7, 1.0, 1.3)


async def choose_again(app: App[None], setup: Setup, why_not: Callable[[Method], str]) -> Setup | None:
    """Ask for one thing to change, or none; None asks for no answer. setup: what the last answer was asked with."""
    choices = [_same(setup), *_methods(setup, why_not), *_temperatures(setup)]
    while True:
        picked = await app.push_screen_wait(Picker("Again with…", choices))
        if picked is None:
            return None
        if picked == _SAME:
            return setup
        kind, _, value = picked.partition(" ")
        if kind == "temperature":
            return replace(setup, sampling=replace(setup.sampling, temperature=float(value)))
        changed = setup if setup.method == value else replace(setup, method=Method(value), depth=None)
        if changed.method not in DEPTHS:
            return changed
        depth = await choosing.choose_depth(app, changed.method, changed.depth)
        if depth is not None:
            return knobs.DEPTH.put(changed, depth)


def _same(setup: Setup) -> Choice:
    sampling = setup.sampling
    again = "it will be the same text" if sampling.greedy or sampling.seed is not None else ""
    used = f"The last one: {knobs.summary(setup, Setup())}"
    temperature = "" if "temperature" in used else f" · temperature {sampling.temperature:g}"
    return Choice(_SAME, "the same once more", detail=used + temperature, right=again)


def _methods(setup: Setup, why_not: Callable[[Method], str]) -> list[Choice]:
    """All others; the one that was used only where it can guess further or less far."""
    return [
        Choice(
            f"method {method}",
            f"{method} at another depth…" if method == setup.method else f"{method}…" if method in DEPTHS else method,
            right=what,
            why_not=why_not(method),
        )
        for method, what in SHORT.items()
        if method != setup.method or method in DEPTHS
    ]


def _temperatures(setup: Setup) -> list[Choice]:
    return [
        Choice(f"temperature {t}", f"temperature {t:g}", right="" if t else "greedy: the same text every time")
        for t in _TEMPERATURES
        if t != setup.sampling.temperature
    ]
