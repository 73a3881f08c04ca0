"""The numbers of a setup: how they read, which steps they go in, and what may be typed; no widget, no colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.method_words import DEPTHS
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import BadSetting

#: None is nothing given, where that is a choice.
Value = float | int | None

_DRAWN = ("top_k", "top_p", "min_p", "seed")


@dataclass(frozen=True, slots=True)
class Number:
    """A number that answers are asked with.

    name: on the screen. key: in the setup, or in its sampling. what: what it does, in a few words; about: in a sentence.
    values: what left and right go through, in order; empty for one by one from nothing given on.
    words: of values that read better so. notes: what single values do, instead of `what`.
    """

    name: str
    key: str
    what: str
    about: str
    values: tuple[Value, ...]
    whole: bool = True
    words: Mapping[Value, str] = field(default_factory=dict)
    notes: Mapping[Value, str] = field(default_factory=dict)

    def get(self, setup: Setup) -> Value:
        """As it holds."""
        return self._kept(setup)

    def _kept(self, setup: Setup) -> Value:
        value: Value = getattr(setup.sampling if self._sampled else setup, self.key)
        return value

    def put(self, setup: Setup, value: Value) -> Setup:
        """With another value; all else stays. Raises BadSetting."""
        from pardec_chat.app.chat.request import Request

        change: dict[str, Any] = {self.key: value}
        try:
            if self._sampled:
                changed = replace(setup, sampling=replace(setup.sampling, **change))
            else:
                Request(method=setup.method, **change)
                changed = replace(setup, **change)
        except BadSetting as error:
            raise BadSetting(error.what.replace(self.key, self.name), error.next_step) from None
        if self._kept(Setup.load(changed.dump())) != value:
            raise BadSetting(f"{self.name} is {value}, which is more than can be kept.", "Give less.")
        return changed

    @property
    def _sampled(self) -> bool:
        return self.key in SamplingParams.__dataclass_fields__

    # ---- in words ----

    def shown(self, setup: Setup) -> str:
        """The value as it is read."""
        value = self.get(setup)
        return self.words.get(value) or self._exact(value, "," if self.key == "max_tokens" else "")

    def exact(self, setup: Setup) -> str:
        """The value as it is typed."""
        return self._exact(self.get(setup))

    @staticmethod
    def _exact(value: Value, thousands: str = "") -> str:
        if value is None:
            return ""
        return f"{value:{thousands}}" if isinstance(value, int) else str(value).removesuffix(".0")

    def effect(self, setup: Setup) -> str:
        """What it does now, or why it does nothing."""
        return self.idle(setup) or self.notes.get(self.get(setup)) or self.what

    def idle(self, setup: Setup) -> str:
        """Why it has no effect; empty where it has one."""
        sampling = setup.sampling
        if sampling.greedy:
            return "no effect at temperature 0" if self.key in _DRAWN else ""
        one_left = sampling.top_k == 1 and self.key != "top_k" and self.key in (*_DRAWN, "temperature")
        return "no effect while top-k is 1" if one_left else ""

    def fixed(self, setup: Setup) -> str:
        """Why it cannot be set; empty where it can."""
        return ""

    # ---- other values ----

    def step(self, setup: Setup, by: int) -> Setup:
        """The next value or the one before; at the end it stays as it is."""
        now, values = self.get(setup), self._values(setup)
        if self.fixed(setup):
            return setup
        if not values:
            n = (-1 if now is None else int(now)) + by
            return setup if n < -1 else self.put(setup, None if n < 0 else n)
        places = {self._place(value): value for value in values}
        ahead = [place for place in places if (place - self._place(now)) * by > 0]
        return self.put(setup, places[min(ahead, key=lambda place: place * by)]) if ahead else setup

    def _values(self, setup: Setup) -> tuple[Value, ...]:
        return self.values

    def _place(self, value: Value) -> float:
        # Beyond all others, so that any value has its place; finite, so that it can be compared with itself.
        end = 1e300 if self.values and self.values[-1] is None else -1e300
        return end if value is None else value

    def check(self, setup: Setup) -> None:
        """Raises BadSetting where it cannot be set."""
        if reason := self.fixed(setup):
            raise BadSetting(f"There is no {self.name} to set: {reason}.", "Choose another method for it.")

    def typed(self, setup: Setup, text: str) -> Setup:
        """With the value that `text` names. Raises BadSetting."""
        self.check(setup)
        text = text.strip()
        for value, word in self.words.items():
            if text.lower() == word:
                return self.put(setup, value)
        example = "Give a whole number." if self.whole else "Give a number, such as 0.7."
        if not text:
            if self.get(Setup()) is None or None in self.words:
                return self.put(setup, None)
            raise BadSetting(f"There is no {self.name} in it.", example)
        try:
            number = int(text) if self.whole else float(text) + 0.0  # no negative zero
        except ValueError:
            raise BadSetting(f"{self.name} is {text!r}.", example) from None
        return self.put(setup, number)

    def default(self, setup: Setup, defaults: Setup) -> Value:
        """What it is when nobody says otherwise."""
        return self.get(defaults)

    def differs(self, setup: Setup, defaults: Setup) -> bool:
        """Whether somebody said otherwise."""
        return self.get(setup) != self.default(setup, defaults)


class Depth(Number):
    """How far the method guesses; nothing given is the method's own."""

    __slots__ = ()

    def get(self, setup: Setup) -> Value:
        """As it holds, whoever said so."""
        return _usual(setup.method) if setup.depth is None else setup.depth

    def put(self, setup: Setup, value: Value) -> Setup:
        """With another depth. Raises BadSetting."""
        return super().put(setup, None if value == _usual(setup.method) else value)

    def shown(self, setup: Setup) -> str:
        """A number, where the method has one."""
        value = self.get(setup)
        return "–" if self.fixed(setup) or value is None else str(value)

    def effect(self, setup: Setup) -> str:
        """How far that is."""
        own = self.get(setup) == _usual(setup.method)
        return self.fixed(setup) or (f"{self.what}, as usual" if own else self.what)

    def fixed(self, setup: Setup) -> str:
        """Methods without one."""
        if setup.method in DEPTHS:
            return ""
        return "auto finds it itself" if setup.method == Method.AUTO else "nothing is guessed"

    def _values(self, setup: Setup) -> tuple[Value, ...]:
        return DEPTHS.get(setup.method, ())

    def default(self, setup: Setup, defaults: Setup) -> Value:
        """A depth is meant for its method."""
        return self.get(defaults) if defaults.method == setup.method else _usual(setup.method)


DEPTH = Depth(
    "depth", "depth", "tokens guessed at a time", "Guesses that turn out wrong were for nothing. 0 to 32.", ()
)
NUMBERS = (
    DEPTH,
    Number(
        "temperature",
        "temperature",
        "how freely words are chosen",
        "0 takes the most probable token, 1 draws as the model has it, more is wilder. 0 to 100.",
        (0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8, 2),
        whole=False,
        notes={0: "greedy: the same text every time"},
    ),
    Number(
        "top-k",
        "top_k",
        "so many of the likeliest are left",
        "Draws from so many of the most probable tokens; 0 switches it off.",
        (0, 10, 20, 40, 60, 80, 100, 200),
        words={0: "off"},
    ),
    Number(
        "top-p",
        "top_p",
        "the likeliest, up to this share",
        "Draws from the most probable tokens that have this share of all together; 1 switches it off.",
        (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1),
        whole=False,
        words={1: "off"},
    ),
    Number(
        "min-p",
        "min_p",
        "no less than this part of the best",
        "Leaves out tokens with less than this part of the best one's probability; 0 switches it off.",
        (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3),
        whole=False,
        words={0: "off"},
    ),
    Number(
        "repeat penalty",
        "repeat_penalty",
        "keeps it from repeating itself",
        "Above 1, tokens that prompt or answer hold already are less probable; 1 switches it off. 0.01 to 100.",
        (0.9, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5),
        whole=False,
        words={1: "off"},
    ),
    Number(
        "seed",
        "seed",
        "the same text every time",
        "Where the random numbers begin: the same seed and settings give the same text again.",
        (),
        words={None: "fresh"},
        notes={None: "another text each time"},
    ),
    Number(
        "max tokens",
        "max_tokens",
        "an answer ends there at the latest",
        "An answer that gets longer is cut; with no limit it may fill the context.",
        (64, 128, 256, 512, 1024, 2048, 4096, 8192, None),
        words={None: "no limit"},
        notes={None: "an answer may fill the context"},
    ),
)


def summary(setup: Setup, defaults: Setup) -> str:
    """What is not as usual, method and depth always, on one line."""
    parts = [wording.method(setup.method.value, 0 if DEPTH.fixed(setup) else int(DEPTH.get(setup) or 0))]
    parts += [f"{n.name} {n.shown(setup)}" for n in NUMBERS[1:] if n.differs(setup, defaults)]
    if setup.system != defaults.system:
        parts.append("system prompt" if setup.system else "no system prompt")
    return " · ".join(parts)


def _usual(method: Method) -> int | None:
    from pardec_chat.app.chat.request import default_depth

    return default_depth(method)
