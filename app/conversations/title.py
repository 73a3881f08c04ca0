"""Titles of conversations: from the first words of a message, or from what the model suggests."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from pardec_chat.app.conversations import reasoning
from pardec_chat.app.plain_text import visible, visible_line

UNTITLED: Final = "Untitled"

#: Cells of a suggestion beyond which it is no title, and of a sentence that says too little alone.
_LONGEST, _SHORT = 60, 12
#: Characters of a message that a title is made of, and those that the model is shown for it.
_LOOKED_AT, _EXCERPT = 8000, 800
#: What the model is told behind a conversation, so that it answers with a title.
QUESTION = (
    "Write a title for this conversation: at most six words, in the language of the conversation. "
    "Answer with nothing but the title."
)

_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*")
_FILE = re.compile(r"\S+\.\w+:")
_BEGINNING = re.compile(r"(?:#{1,6}|>|[-*+•]|\d{1,2}[.)])\s+")
_STRONG = re.compile(r"(\*\*|~~)(?=\S)(.+?)(?<=\S)\1")
_LABEL = re.compile(
    r"(?:(?:sure|certainly|of course|okay|ok|here(?:'s| is| are))\b[^:\n]*|(?:the |a |conversation |suggested |chat )*title"
    r"|assistant|titel|titre|título|titolo|タイトル|題名|标题|標題|제목|заголовок|название)\s*[:：]\s*",
    re.IGNORECASE,
)
_QUOTES = ('""', "''", "“”", "”“", "„“", "„”", "‘’", "«»", "»«", "‹›", "「」", "『』", "《》", "〈〉", "（）", "[]")
_NO_TITLE = re.compile(
    # A refusal.
    r"(?:i['’]?m|i am|we are) (?:very |really |so )?(?:sorry|unable|afraid|not able)\b|sorry[,.!]"
    r"|(?:i|we) (?:cannot|can['’]?t|could ?n['’o]t|do ?n['’o]t|will not|won['’]?t|apologi[sz]e|have no)\b|unfortunately,"
    r"|as an? (?:ai|language model)\b|申し訳|すみません|ごめん|抱歉|对不起|很抱歉|죄송"
    # What it was told, said again.
    r"|user:|write a title|.*\bsix words\b|.*nothing but the title"
    r"|(?:untitled|title|conversation|n/?a|none|null|no title)[.!]?$",
    re.IGNORECASE,
)


def from_words(text: str, most: int = 48) -> str:
    """A title of at most so many cells from the first words of a message, those outside of code."""
    line = next((bare for line in _prose(text) if (bare := _bare(line))), "")
    title, *rest = _SENTENCE.split(line)
    for sentence in rest:
        if cells(title) >= _SHORT:
            break
        title += line[len(title) : line.index(sentence, len(title))] + sentence
    title = title.strip()
    if title.endswith((".", "。", ":", "：")) and not title.endswith(".."):
        title = title[:-1].rstrip()
    return _cut(title, most) or UNTITLED


def clean(answer: str) -> str | None:
    """The title in what the model answered to `QUESTION`; None where there is none."""
    lines = [line for line in map(visible_line, visible(_without_reasoning(answer)).split("\n")) if line]
    while lines and (len(lines) > 1 and (lines[0].endswith((":", "：")) or lines[0].startswith("```"))):
        lines.pop(0)
    if not lines:
        return None
    title, before = lines[0], ""
    while title != before:
        before = title
        title = _LABEL.sub("", _bare(title), count=1) if _LABEL.match(_bare(title)) else _bare(title)
        title = _unquoted(title)
        if title.endswith((".", "。")) and not title.endswith(".."):
            title = title[:-1].rstrip()
    if _NO_TITLE.match(title) or cells(title) > _LONGEST or not any(map(str.isalnum, title)):
        return None
    return title


def cells(text: str) -> int:
    """Columns that a line of text takes in a terminal, nearly."""
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _prose(text: str) -> Iterator[str]:
    """The lines outside of fenced code, without the names of files that stand in front of it."""
    fence = reasoning.Fence()
    lines = text[:_LOOKED_AT].splitlines()
    for line, behind in zip(lines, [*lines, ""][1:], strict=True):
        before = fence.mark
        fence.line(line)
        names_file = _FILE.fullmatch(line.strip()) and behind.lstrip().startswith(("```", "~~~"))
        if not (before or fence.mark or names_file):
            yield line


def _bare(line: str) -> str:
    """A line without the signs of Markdown."""
    line = visible_line(line)
    while begins := _BEGINNING.match(line):
        line = line[begins.end() :]
    line = _STRONG.sub(r"\2", line).replace("`", "").strip()
    return line[1:-1].strip() if len(line) > 2 and line[0] == line[-1] and line[0] in "*_" else line


def _unquoted(line: str) -> str:
    pair = line[:1] + line[-1:]
    return line[1:-1].strip() if len(line) > 1 and pair in _QUOTES and line[0] not in line[1:-1] else line


def _cut(line: str, most: int) -> str:
    """At most so many cells of it, up to the end of a word where that is not far."""
    if cells(line) <= most:
        return line
    room, end = most - 1, 0
    while end < len(line) and (room := room - _cells_of(line[end])) >= 0:
        end += 1
    short = line[:end]
    head, _, tail = short.rpartition(" ")
    if head and not line[end].isspace() and cells(tail) <= most // 2:
        short = head
    return short.rstrip(" ,;:.-–—、，\u200d") + "…"


def _without_reasoning(text: str) -> str:
    parts = reasoning.split(text, reasoning.begins_inside(text), whole=True)
    return "".join(text[part.start : part.end] for part in parts if part.kind == "text")
