"""What the files of other programs have in common: times in any unit, names of models, and what is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pardec_chat.app.conversations.columns import storable
from pardec_chat.app.conversations.conversation import Conversation
from pardec_chat.app.conversations.documents import is_sane
from pardec_chat.app.conversations.record import AnswerRecord
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.base import Method

#: Characters of a title, of a model's name and of a title made of the first words.
_TITLE, _NAME, _WORDS = 200, 200, 60


class Skipped:
    """What a conversation had that is not taken over, counted by kind."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    def add(self, kind: str) -> None:
        """One more of a kind, named in the singular."""
        self._kinds[kind] += 1

    def line(self) -> str:
        """All of it in a line; empty where there is nothing."""
        return ", ".join(f"{n:,} {kind}{'s' if n > 1 else ''}" for kind, n in self._kinds.items())


def moment(value: object) -> float | None:
    """Seconds since 1970 of a time in seconds, milli-, micro- or nanoseconds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_sane(value, 10**19) or value <= 0:
        return None
    # A number of seconds as large as this is the year 5138.
    while value >= 1e11:
        value /= 1000
    return float(value)


def mapping(value: object) -> Mapping[str, object]:
    """An object; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[object]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def text_of(value: object) -> str:
    """A text that can be kept; empty for anything else."""
    return storable(value) if isinstance(value, str) else ""


def answered_by(model: object, runtime: str) -> AnswerRecord | None:
    """A record that names the model and the program, without figures: theirs are taken otherwise than ours."""
    name = visible_line(text_of(model))[:_NAME]
    if not name:
        return None
    return AnswerRecord(name, None, runtime, Method.PLAIN, temperature=0.0, state="off")


def name_it(conversation: Conversation, title: object) -> None:
    """The title that it had, which nobody changes, or the first words of its first message."""
    if named := visible_line(text_of(title))[:_TITLE].strip():
        conversation.title, conversation.title_by = named, "user"
        return
    first = next((node.text for node in conversation.path() if node.role == "user"), "")
    words = visible_line(first[: 10 * _WORDS])
    conversation.title = words if len(words) <= _WORDS else words[:_WORDS].rsplit(" ", 1)[0] + "…"
