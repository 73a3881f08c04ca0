"""What can be set in `settings.toml`: every key with its default. Nothing heavy here, the first paint waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import UserError

#: The keys of Chat that go to the sampler.
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")
#: The keys of Chat that a preset may set.
OF_PRESETS = ("method", "depth", *SAMPLING, "max_tokens", "system")
_SAMPLER = SamplingParams()


class NoPreset(UserError):
    """There is no preset of this name, or no longer."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What of a settings file is not taken, as a sentence that names the key, and its line where it has one.

    whole: nothing of the file is taken.
    """

    what: str
    line: int | None = None
    whole: bool = False

    def __str__(self) -> str:
        return self.what if self.line is None else f"line {self.line}: {self.what}"


@dataclass(frozen=True, slots=True)
class Look:
    """[look]: what is seen."""

    theme: str = "pardec-dark"
    """The colours: pardec-dark, pardec-light, pardec-contrast, terminal (its own colours), or a theme of Textual's."""
    tint: bool = False
    """Whether answers show, token by token, what guessed it."""
    figures: Literal["auto", "panel", "line", "none"] = "auto"
    """Where the figures of an answer are; auto: the panel where there is room, else the line."""
    conversations: Literal["auto", "shown", "hidden"] = "auto"
    """The list of conversations at the left; auto: where there is room."""
    reduced_motion: bool = False
    """Whether nothing moves that need not."""


@dataclass(frozen=True, slots=True)
class Chat:
    """[chat]: what a new conversation's answers are asked with."""

    method: Method = Method.AUTO
    """What guesses ahead."""
    depth: int | None = None
    """Most tokens to guess in one step; None takes the method's default. The method auto finds it itself."""
    temperature: float = 0.7
    """How freely tokens are drawn; 0 takes the most probable one."""
    top_k: int = _SAMPLER.top_k
    """Draw among so many of the most probable tokens; 0 is off."""
    top_p: float = _SAMPLER.top_p
    """Draw among the most probable tokens that have this probability together; 1 is off."""
    min_p: float = _SAMPLER.min_p
    """Leave out tokens less probable than this part of the best one's probability; 0 is off."""
    repeat_penalty: float = _SAMPLER.repeat_penalty
    """Above 1, what was there before becomes less probable; 1 is off."""
    seed: int | None = None
    """The same seed gives the same text; None takes a fresh one for each answer."""
    max_tokens: int | None = None
    """Most tokens of an answer; None leaves it to the context's edge."""
    system: str = ""
    """The system prompt; empty for none."""
    titles: bool = True
    """Whether the model makes the titles of conversations while it has nothing else to do."""


@dataclass(frozen=True, slots=True)
class Model:
    """[model]: what is loaded at the start."""

    model: str | None = None
    """An id of `pardec-chat models`, or a path; None takes the built-in one, else any that is here."""
    draft: str | None = None
    """The same for the model that guesses, or `none`."""
    runtime: str = "llamacpp"
    """What runs the models."""
    ctx: int | None = None
    """Tokens that a conversation can hold; None takes up to 4,096."""
    threads: int | None = None
    """None takes one for each core."""
    cache_type: Literal["f16", "q8_0"] = "f16"
    """Numbers in the cache: 16 bits, or 8."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """[endpoint]: where other programs ask."""

    port: int = 8080
    """Of this machine alone; 0 takes any that is free."""


@dataclass(frozen=True, slots=True)
class Rebinding:
    """[keys]: the keys of an action, as they were written; which there are, only the app knows. line: where."""

    keys: tuple[str, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """All of the file. keys: by the id of the binding. presets: by name, of `OF_PRESETS` those that it sets."""

    look: Look = field(default_factory=Look)
    chat: Chat = field(default_factory=Chat)
    model: Model = field(default_factory=Model)
    endpoint: Endpoint = field(default_factory=Endpoint)
    keys: Mapping[str, Rebinding] = field(default_factory=dict)
    presets: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def start_setup(settings: Settings) -> Setup:
    """What new conversations begin with; which models answer is not part of it."""
    return _over(Setup(), {key: getattr(settings.chat, key) for key in OF_PRESETS})


def preset_setup(settings: Settings, name: str, base: Setup) -> Setup:
    """`base` with what the preset sets. Raises NoPreset."""
    if name not in settings.presets:
        raise NoPreset(f"There is no preset {name!r}.", "Choose another one.")
    return _over(base, settings.presets[name])


def _over(base: Setup, given: Mapping[str, object]) -> Setup:
    sampling: dict[str, Any] = {key: given[key] for key in SAMPLING if key in given}
    rest: dict[str, Any] = {key: value for key, value in given.items() if key not in SAMPLING}
    setup = replace(base, sampling=replace(base.sampling, **sampling), **rest)
    # A depth is meant for the method that it was given with; auto finds it itself.
    if setup.method == Method.AUTO or ("depth" not in given and setup.method != base.method):
        setup = replace(setup, depth=None)
    return setup


def preset_of(setup: Setup) -> dict[str, object]:
    """All that a preset can set, as `setup` has it: whoever takes the preset gets just this, whatever was set before."""
    given: dict[str, object] = {key: getattr(setup.sampling, key) for key in SAMPLING}
    given |= {key: getattr(setup, key) for key in OF_PRESETS if key not in SAMPLING}
    return {key: given[key] for key in OF_PRESETS}
