"""Settings of answers under names, in the user's settings file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from pardec_chat.app.conversations.setup import Setup
    from pardec_chat.app.screens.session import Session


class PresetFile:
    """Reads what the file says now, and writes to it."""

    def __init__(self, session: Session) -> None:
        self._file = session.options.settings

    @property
    def choices(self) -> Sequence[tuple[str, Callable[[Setup], Setup]]]:
        """Names, and what each makes of settings."""
        from pardec_chat.app.settings import preset_setup

        if self._file is None:
            return ()
        settings = self._file.settings
        return [(name, partial(preset_setup, settings, name)) for name in settings.presets]

    def save(self, name: str, setup: Setup) -> None:
        """Raises UserError."""
        if self._file is None:
            raise UserError("There is no settings file.", "Start the app without PARDEC_CHAT_CONFIG, or mend it.")
        self._file.save_preset(name, setup)

    def delete(self, name: str) -> None:
        """Raises UserError."""
        if self._file is not None:
            self._file.delete_preset(name)
