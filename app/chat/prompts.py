"""The prompt sets of `bench` and `check`: one TOML file a category under `assets/prompts`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from pardec_chat.app import locations
from pardec_chat.app.chat.request import Message
from pardec_chat.backends.errors import BadSetting


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with its place: `id` is unique within its `category`."""

    category: str
    id: str
    messages: tuple[Message, ...]


def categories() -> list[str]:
    """Names of the sets, in alphabetical order."""
    return sorted(path.stem for path in locations.prompts().glob("*.toml"))


def load_prompts(names: Sequence[str] | None = None, per_category: int | None = None) -> list[Prompt]:
    """The prompts of the named categories (all of them for None), at most `per_category` of each. Raises BadSetting."""
    known = categories()
    if names is not None and not names:
        raise BadSetting("No prompt category is named.", f"Choose from {', '.join(known)}.")
    if per_category is not None and per_category < 1:
        raise BadSetting(f"{per_category} prompts of a category are too few.", "Give 1 or more.")
    prompts = []
    for name in known if names is None else names:
        if name not in known:
            raise BadSetting(f"There is no prompt category {name!r}.", f"Choose from {', '.join(known)}.")
        document = tomllib.loads((locations.prompts() / f"{name}.toml").read_text(encoding="utf-8"))
        for entry in document["prompts"][:per_category]:
            messages = [Message("user", entry["text"])]
            if system := document.get("system"):
                messages.insert(0, Message("system", system))
            prompts.append(Prompt(name, entry["id"], tuple(messages)))
    return prompts
