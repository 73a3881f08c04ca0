"""What the control panel shows and changes, without a widget: a setup, its presets, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.widgets import knobs
from pardec_chat.app.widgets.method_words import SHORT, WHAT
from pardec_chat.app.widgets.setting_row import SettingRow
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

Apply = Callable[[Setup], Setup]

NUMBERS = {number.key: number for number in knobs.NUMBERS}
#: What there is to set, in the order of the panel; what stands behind some of it has to do with something else.
ROWS = ("preset", "model", "draft", "method", *NUMBERS, "system")
GAPS = tuple(ROWS.index(key) for key in ("preset", "depth", "max_tokens"))

_ABOUT = {
    "model": "Enter chooses another model and its draft model.",
    "draft": "The small model that guesses for the method draft. Enter chooses another one.",
    "system": "What the model is told before the conversation begins.",
}


class Panel:
    """setup: as it is now. See `ControlScreen` for the rest."""

    def __init__(
        self,
        setup: Setup,
        models: tuple[str, str | None],
        why_not: Callable[[Method], str],
        presets: Sequence[tuple[str, Apply]],
        defaults: Setup,
    ) -> None:
        self.setup = self._before = setup
        self.defaults = defaults
        self.why_not = why_not
        self._models = models
        self._presets = dict(presets)
        #: The preset that was taken last; at first the one that all is as.
        self.preset = next(filter(self._holds, self._presets), None)
        self._past: list[tuple[Setup, str | None]] = []
        #: Depths that belong to methods which are not chosen now.
        self._depths: dict[Method, int | None] = {}

    @property
    def changed(self) -> bool:
        """Whether it is another setup than at first."""
        return self.setup != self._before

    # ---- what is seen ----

    def row(self, key: str, *, marked: bool) -> SettingRow:
        """marked: with the ways to other values."""
        setup, defaults = self.setup, self.defaults
        if key in NUMBERS:
            number = NUMBERS[key]
            ways = (number.step(setup, -1) != setup, number.step(setup, 1) != setup) if marked else (False, False)
            return SettingRow(
                number.name, number.shown(setup), number.effect(setup), number.differs(setup, defaults), ways
            )
        if key == "method":
            what = "not now" if self.why_not(setup.method) else SHORT[setup.method]
            return SettingRow(key, setup.method, what, setup.method != defaults.method, (marked, marked))
        if key == "system":
            return SettingRow("system prompt", setup.system or "none", differs=setup.system != defaults.system)
        if key == "preset":
            changed = self.preset is not None and not self._holds(self.preset)
            return SettingRow(key, (self.preset or "none") + (", changed" if changed else ""))
        n = 0 if key == "model" else 1
        path, before = ((one.model, one.draft)[n] for one in (setup, self._before))
        name = self._models[n] if path == before else path and path.stem
        return SettingRow(key, name or "none")

    def about(self, key: str) -> str:
        """What there is to say about a row."""
        if key == "preset":
            return f"Now: {self.summary()}"
        if key == "method":
            reasons = [f"{method}, not now: {why}." for method in WHAT if (why := self.why_not(method))]
            return " ".join(reasons) or WHAT[self.setup.method]
        return NUMBERS[key].about if key in NUMBERS else _ABOUT[key]

    def summary(self, preset: str | None = None) -> str:
        """What is not as usual, with a preset or as it is now."""
        try:
            setup = self.setup if preset is None else self._presets[preset](self.setup)
        except UserError as error:  # it is gone meanwhile; whoever takes it is told, too
            return str(error)
        return knobs.summary(setup, self.defaults)

    # ---- other values ----

    def set(self, setup: Setup, preset: str | None = None) -> None:
        """preset: where it comes from."""
        preset = preset or self.preset
        if (setup, preset) != (self.setup, self.preset):
            self._past.append((self.setup, self.preset))
            self.setup, self.preset = setup, preset

    def set_method(self, method: Method) -> None:
        """With the depth that it had when it was chosen before."""
        self._depths[self.setup.method] = self.setup.depth
        self.set(replace(self.setup, method=method, depth=self._depths.get(method)))

    def type(self, key: str, text: str) -> None:
        """Take the number that somebody typed. Raises BadSetting."""
        self.set(NUMBERS[key].typed(self.setup, text))

    def step(self, key: str, by: int) -> None:
        """The value before or the next one, where a row has such; methods that cannot be chosen are passed over."""
        now = self.setup.method
        if key in NUMBERS:
            self.set(NUMBERS[key].step(self.setup, by))
        elif key == "method":
            methods = [method for method in WHAT if method == now or not self.why_not(method)]
            self.set_method(methods[(methods.index(now) + by) % len(methods)])

    def reset(self, key: str) -> None:
        """Back to the default, where a row has one."""
        setup, defaults = self.setup, self.defaults
        if key in NUMBERS:
            self.set(NUMBERS[key].put(setup, NUMBERS[key].default(setup, defaults)))
        elif key == "method" and setup.method != defaults.method:
            self.set_method(defaults.method)
        elif key == "system":
            self.set(replace(setup, system=defaults.system))

    @property
    def can_undo(self) -> bool:
        """Whether anything was changed."""
        return bool(self._past)

    def undo(self) -> None:
        """As it was before the last change."""
        if self._past:
            self.setup, self.preset = self._past.pop()

    # ---- presets ----

    @property
    def presets(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._presets)

    def _holds(self, name: str) -> bool:
        with suppress(UserError):
            return self._presets[name](self.setup) == self.setup
        return False

    def take_preset(self, name: str | None) -> None:
        """All as it is in the preset; with None as in a new conversation, but the models. Raises UserError."""
        if name is not None:
            self.set(self._presets[name](self.setup), name)
            return
        self.set(replace(self.defaults, model=self.setup.model, draft=self.setup.draft))
        self.preset = None

    def saved(self, name: str) -> None:
        """All is kept as a preset now."""
        saved = self.setup
        self._presets[name] = lambda now: replace(saved, model=now.model, draft=now.draft)
        self.preset = name

    def deleted(self, name: str) -> None:
        """The preset is gone; what was set with it stays."""
        del self._presets[name]
        self.preset = None if self.preset == name else self.preset
        self._past = [(setup, None if preset == name else preset) for setup, preset in self._past]
