"""What kind of text is asked for: guesses are right more often in some than in others, and that is remembered by kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pardec_chat.app.chat.request import Message

#: A message that brings so many characters along is about them: it is changed, summed up or asked about.
_MATERIAL = 600
_FENCE = re.compile(r"```|^(?: {4}|\t)\S", re.MULTILINE)
#: Code itself, the name of a language, or the wish for a piece of code.
_CODE = re.compile(
    r"```|^\s*(?:def|class|return|func|fn|let|const|public|#include)\b.*[(){}:;<>=]"
    r"|^\s*(?:import [\w.]+;?|from [\w.]+ import .+)$"
    r"|\bSELECT\b.+\bFROM\b"
    r"|\b(?:python|javascript|typescript|rust|golang|kotlin|sql|bash|html|css|regexp?|pytest|numpy)\b|\bc\+\+"
    r"|\b(?:write|implement|fix|debug|refactor|complete|add|optimi[sz]e)\b[^.?!\n]{0,60}"
    r"\b(?:code|function|script|class|unit tests?|query|docstring|algorithm)\b",
    re.IGNORECASE | re.MULTILINE,
)
_TRANSLATE = re.compile(r"\btranslat", re.IGNORECASE)


def kind_of(messages: Sequence[Message], prompt: str | None = None) -> str:
    """`edit` (long material with code in it), `code`, `quote` (other long material), `translation` or `chat`."""
    text = prompt if prompt is not None else next((m.content for m in reversed(messages) if m.role == "user"), "")
    is_long = len(text) >= _MATERIAL
    if _CODE.search(text):
        return "edit" if is_long or len(_FENCE.findall(text)) > 2 else "code"
    if is_long:
        return "quote"
    wide = sum(ord(character) > 0x24F for character in text)
    return "translation" if _TRANSLATE.search(text) or wide * 4 > len(text) > 0 else "chat"
