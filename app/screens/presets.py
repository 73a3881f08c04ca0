"""The questions about presets: which one to take, which one to delete, and whether to overwrite one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pardec_chat.app.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from textual.app import App

    from pardec_chat.app.widgets.panel import Panel

_DEFAULTS, _KEEP, _OVERWRITE = "defaults", "keep", "overwrite"


async def choose_preset(app: App[None], panel: Panel) -> tuple[str | None] | None:
    """Ask for the preset to take, (None,) for the defaults; None leaves all as it is."""
    choices = [Choice(_DEFAULTS, _DEFAULTS, "As a new conversation has it."), *_choices(panel)]
    hint = "" if panel.presets else "No preset is saved yet: s saves one."
    picked = await app.push_screen_wait(Picker("Preset", choices, current=_current(panel), hint=hint))
    if picked is None:
        return None
    return (None if picked == _DEFAULTS else panel.presets[int(picked)],)


async def choose_to_delete(app: App[None], panel: Panel) -> str | None:
    """Ask for the preset to delete; None deletes nothing."""
    hint = "" if panel.presets else "No preset is saved."
    picked = await app.push_screen_wait(
        Picker("Delete which preset?", _choices(panel), current=_current(panel), hint=hint)
    )
    return None if picked is None else panel.presets[int(picked)]


async def may_overwrite(app: App[None], name: str) -> bool:
    """Ask whether a preset may be replaced."""
    choices = [Choice(_KEEP, "Keep it as it is"), Choice(_OVERWRITE, "Overwrite it")]
    return await app.push_screen_wait(Picker(f"There is a preset {name}", choices, current=_KEEP)) == _OVERWRITE


def _choices(panel: Panel) -> list[Choice]:
    # By number, since a name may be anything.
    return [Choice(str(n), name, panel.summary(name)) for n, name in enumerate(panel.presets)]


def _current(panel: Panel) -> str:
    return "" if panel.preset is None else str(panel.presets.index(panel.preset))
