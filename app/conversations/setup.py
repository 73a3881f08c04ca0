"""What answers are asked with: models, method, sampling and system prompt, as one thing that can be kept and named."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pardec_chat.backends.base import MAX_DEPTH, Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import UserError

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")


@dataclass(frozen=True, slots=True)
class Setup:
    """model, draft: what answered last; None where nothing did yet. depth: None takes the method's default.

    max_tokens: None leaves it to the context's edge. system: empty for none.
    """

    model: Path | None = None
    draft: Path | None = None
    method: Method = Method.AUTO
    depth: int | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None
    system: str = ""

    def dump(self) -> dict[str, object]:
        """As JSON has it; what is at its default is left out."""
        document: dict[str, object] = {"method": self.method.value}
        for key, path in (("model", self.model), ("draft", self.draft)):
            if path is not None:
                document[key] = str(path)
        document |= {key: n for key, n in (("depth", self.depth), ("max_tokens", self.max_tokens)) if n is not None}
        if self.system:
            document["system"] = self.system
        document |= {key: value for key in _SAMPLING if (value := getattr(self.sampling, key)) is not None}
        return document

    @staticmethod
    def load(document: object) -> Setup:
        """What `dump` wrote. Whatever in it makes no sense, as in a file from elsewhere, is at its default instead."""
        if not isinstance(document, dict):
            return Setup()
        setup = Setup(
            model=_path(document.get("model")),
            draft=_path(document.get("draft")),
            max_tokens=_whole(document.get("max_tokens"), 1, 2**31),
            system=text if isinstance(text := document.get("system"), str) else "",
        )
        if (method := document.get("method")) in [one.value for one in Method]:
            setup = replace(setup, method=Method(method))
        if setup.method != Method.AUTO:
            setup = replace(setup, depth=_whole(document.get("depth"), 0, MAX_DEPTH))
        for key in _SAMPLING:
            value = document.get(key)
            wanted = int if key in ("top_k", "seed") else int | float
            if isinstance(value, wanted) and not isinstance(value, bool):
                change: dict[str, Any] = {key: value}
                with suppress(UserError, OverflowError):  # outside its range
                    setup = replace(setup, sampling=replace(setup.sampling, **change))
        return setup


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) and value and "\0" not in value else None


def _whole(value: object, least: int, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None
