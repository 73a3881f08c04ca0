"""The terminal app: owns the screens and the themes, starts the engine after the first paint and ends it in time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, TypeGuard

from textual import constants
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.theme import Theme

from pardec_chat.app import locations, themes
from pardec_chat.app.keymap import Keymap, shown
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.chat import ChatScreen
from pardec_chat.app.screens.session import ChatOptions, EngineLike, ModelEntry
from pardec_chat.app.settings import Problem, Settings
from pardec_chat.app.terminal import guarded_terminal
from pardec_chat.backends.errors import UserError

__all__ = ["ChatOptions", "ModelEntry", "PardecChat", "run"]

logger = logging.getLogger(__name__)

#: What the engine may take to end, when everything else is over already.
_CLOSE_SECONDS = 1.2
#: How often the settings file is looked at.
_LOOK_SECONDS = 2.0
#: Of the settings, told one by one.
_MOST_PROBLEMS = 3


def _is_binding(binding: BindingType) -> TypeGuard[Binding]:
    return isinstance(binding, Binding)


def make_engine(runtime: str = "llamacpp") -> EngineLike:
    """The engine of this machine; brings numpy, so it is not imported before it is needed."""
    from pardec_chat.app.chat.engine import Engine

    return Engine(runtime)


class PardecChat(App[None]):
    """options: what to start with. make_engine: called once, on a thread, behind the first paint."""

    TITLE = "pardec-chat"
    # Textual reads the style sheet of a screen when it is pushed; the first one is not.
    CSS_PATH = ["screens/common.tcss", "screens/ansi.tcss", "screens/chat.tcss", "screens/talk.tcss"]  # noqa: RUF012  # the name and the kind are Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+p", "command_palette", "menu", tooltip="All commands, and themes", priority=True, id="menu"),
        Binding("ctrl+q", "quit", "quit", tooltip="Leave; an answer on its way is ended", priority=True, id="quit"),
    ]

    def __init__(
        self,
        options: ChatOptions,
        make_engine: Callable[[], EngineLike] = make_engine,
    ) -> None:
        super().__init__()
        self.chat = ChatScreen(options, make_engine)
        #: Whether a fault of ours ended the app; the log has the traceback.
        self.failed = False
        for theme in themes.OURS:
            self.register_theme(theme)
        self.theme = options.theme if options.theme in self.available_themes else themes.DEFAULT
        self._settings = options.settings
        #: The user's own keys.
        self.keymap = Keymap({})

    def get_default_screen(self) -> Screen[None]:
        """The chat is all there is at first."""
        return self.chat

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colour names, for themes that are not ours."""
        return themes.defaults(self.current_theme)

    def on_mount(self) -> None:
        """Leave in good order when the terminal or the system says so; follow the user's settings."""
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                with suppress(NotImplementedError, RuntimeError, ValueError):
                    asyncio.get_running_loop().add_signal_handler(number, self._leave)
        if self._settings is not None:
            settings = self._settings
            self.call_after_refresh(self._apply, settings.settings, settings.problems)
            self.set_interval(_LOOK_SECONDS, self._look)
            self.theme_changed_signal.subscribe(self, self._keep_theme)

    # ---- settings ----

    def _look(self) -> None:
        """Take over what somebody changed in the settings file."""
        if self._settings is not None and (found := self._settings.poll()) is not None:
            if (theme := found[0].look.theme) in self.available_themes:
                self.theme = theme
            self._apply(*found)

    def _apply(self, settings: Settings, problems: Sequence[Problem]) -> None:
        self.animation_level = "none" if settings.look.reduced_motion else constants.TEXTUAL_ANIMATIONS
        problems = [*problems, *self._take_keys(settings)]
        self.chat.follow_settings(settings)
        if settings.look.theme not in self.available_themes:
            problems.append(Problem(f"There is no theme {visible_line(settings.look.theme)}."))
        for problem in problems[:_MOST_PROBLEMS]:
            self.notify(f"settings.toml, {visible_line(str(problem))}", severity="warning", timeout=10, markup=False)
        if len(problems) > _MOST_PROBLEMS:
            rest = f"{len(problems) - _MOST_PROBLEMS} more: pardec-chat doctor lists them."
            self.notify(rest, severity="warning", timeout=10, markup=False)

    def _take_keys(self, settings: Settings) -> Sequence[Problem]:
        if not settings.keys and not self.keymap.keys:
            return ()
        # All screens are imported for it.
        from pardec_chat.app import keymap
        from pardec_chat.app.places import places

        self.keymap = keymap.make(settings.keys, places())
        self.set_keymap(self.keymap.keys)
        return self.keymap.problems

    def _keep_theme(self, theme: Theme) -> None:
        """Write down what was chosen in the menu."""
        if self._settings is None or theme.name == self._settings.settings.look.theme:
            return
        try:
            self._settings.change({"look.theme": theme.name})
        except UserError as error:
            self.notify(visible_line(str(error)), severity="error", markup=False)

    # ---- keys and commands ----

    def get_key_display(self, binding: Binding) -> str:
        """^R rather than ^r: as it is printed on the key."""
        return binding.key_display or shown(binding.key)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the palette offers: the keys of the chat by name, and what has no key."""
        if isinstance(screen, ChatScreen):
            for binding in map(self.keymap.bound, filter(_is_binding, screen.BINDINGS)):
                if not binding.action.startswith("app."):
                    yield SystemCommand(
                        binding.tooltip.split(";")[0],
                        f"Key {self.get_key_display(binding)}",
                        lambda action=binding.action: screen.call_later(screen.run_action, action),
                    )
            for title, help_, action in screen.commands():
                yield SystemCommand(title, help_, action)
        for command in super().get_system_commands(screen):
            if command.title in {"Theme", "Screenshot", "Quit"}:
                yield command

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save the screen as SVG; to the working folder where the user has none for downloads, which Textual takes."""
        return super().deliver_screenshot(filename, path or str(locations.pictures()), time_format)

    async def action_quit(self) -> None:
        """Leave at once; what runs is told to stop while the terminal is given back."""
        self._leave()

    def _leave(self) -> None:
        self.chat.close(0)
        self.exit()

    def close_engine(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait for the engine's end; says whether it came in time."""
        start = monotonic()
        self.chat.close(seconds)
        return monotonic() - start < seconds

    def _fatal_error(self) -> None:
        # Textual would print the traceback on the user's terminal.
        logger.exception("the app ended")
        self.failed = True
        self._close_messages_no_wait()


@contextmanager
def _logging() -> Iterator[None]:
    # Bound to the standard error of now, which leads to the log: Textual puts its own in place while it runs.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def run(options: ChatOptions, log_path: Path, make_engine: Callable[[], EngineLike] = make_engine) -> int:
    """Run the app on this terminal until it is left; the exit code.

    An engine that does not end in time (a long forward pass cannot be interrupted) ends with the process, at once.
    """
    in_time = False
    with guarded_terminal(log_path), _logging():
        app = PardecChat(options, make_engine)
        try:
            app.run()
        finally:
            in_time = app.close_engine()
    code = app.return_code or 0
    if app.failed:
        sys.stderr.write(f"pardec-chat ended by a fault of its own. {log_path} says where.\n")
    if not in_time:
        sys.stdout.flush()
        sys.stderr.flush()
        # Interpreter shutdown would free what the native thread still works on.
        os._exit(code)
    return code
