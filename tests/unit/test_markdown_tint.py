"""Each character on the screen stands on the ground of the token that it came with (M04)."""

from __future__ import annotations

import random

import pytest
from textual.content import Content

from pardec_chat.app.markdown.document import Document
from pardec_chat.app.markdown.origins import Origins, Run, look
from pardec_chat.app.markdown.written import Written
from pardec_chat.backends.base import Method

METHODS = (Method.PLAIN, Method.DRAFT, Method.NGRAM)
#: Marks around letters that stand for themselves; each `x` becomes a letter that occurs nowhere else.
FORMS = (
    "xxx *xxx* **xxx** ***xxx*** ~~xxx~~ _xxx_ __x__xx\n",
    "`xxx` ``xx`xx`` ` xx ` `xx\nxx` xxx\n",
    "xx [xxx](https://xxx 'xxx') xx ![xxx](xxx) xx <https://xxx> [xxx]\n",
    "xxx\\*xxx \\[xxx\\] xx &amp; xxx &lt;xxx&gt; xxx\n",
    "# xxx *xx* ##\n",
    "xxx xxx\n===\n",
    "\n- xxx\n  - xxx **xx**\n- [ ] xxx\n  xxx\n\n1. xx\n2. xxx\n   xx\n",
    "\n> xxx\n> xx *xx*\n> - xx\nxx\n",
    "\n```py\nxxx = 'xx'\n\txx\n\nxx\n```\n",
    "\n- xx\n\n  ```\n  xxx\n    xx\n  ```\n",
    "\n    xxx\n      xx\n\n",
    "\n| xx | *xx* |\n|---|--:|\n| xx | `x` |\n|   | xx |\n| x\\|x | [xx](x) |\n",
    "\n> | xx | x |\n> |---|---|\n> | xx | x |\n",
    "\n~~~\nxx\n",
    "xxx  \nxx\\\nxxx\n",
    "**xx *xx* `x` [xx *x*](x)** xx\n\n",
)  # fmt: skip


def _letters(text: str, start: int) -> tuple[str, int]:
    out = []
    for character in text:
        if character == "x":
            character, start = chr(start), start + 1
        out.append(character)
    return "".join(out), start


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("width", [20, 70])
def test_M04_every_character_has_the_colour_of_its_token(seed: int, width: int) -> None:
    rng = random.Random(seed)
    # Letters of two cells and of one, none of which Markdown knows.
    source, start = "", rng.choice([0x5000, 0x1400])
    for _ in range(rng.randint(1, 6)):
        form, start = _letters(rng.choice(FORMS), start)
        source += form
    tokens = []
    at = 0
    while at < len(source):
        n = rng.randint(1, 6)
        tokens.append((source[at : at + n], rng.choice(METHODS)))
        at += n
    document = Document()
    document.tint = True
    for i in range(0, len(tokens), 7):
        document.extend(tokens[i : i + 7])
    wanted = {letter: look(method) for text, method in tokens for letter in text if ord(letter) > 0x1000}
    seen = 0
    for n in range(document.height(width)):
        content = document.line(n).content
        for i, character in enumerate(content.plain):
            if character in wanted:
                grounds = [s.style for s in content.spans if s.start <= i < s.end and str(s.style).startswith("origin")]
                assert grounds == ([wanted[character]] if wanted[character] else []), (character, source)
                seen += 1
    assert seen > 0


def test_M04_the_mask_of_the_verifier_is_what_is_shown() -> None:
    # The same paragraph three times, copied the second and third time.
    paragraph = "It rained all day, and **nobody** went out.\n\n"
    written = Written()
    written.tint(True)
    mask = [(Method.PLAIN, Method.DRAFT)[n % 3 > 0] for n in range(12)] + [Method.NGRAM] * 24
    size = -(-len(paragraph) // 12)
    pieces = [paragraph[i : i + size] for i in range(0, len(paragraph), size)] * 3
    written.write(list(zip(pieces, mask, strict=True)))
    (document,) = written.texts()
    document.height(60)
    for n, names in ((0, {"origin-draft"}), (2, {"origin-ngram"}), (4, {"origin-ngram"})):
        spans = [s for s in document.line(n).content.spans if str(s.style).startswith("origin")]
        assert {s.style for s in spans} == names
        covered = sum(s.end - s.start for s in spans)
        assert covered == len(document.line(n).content) if n else covered < len(document.line(n).content)


@pytest.mark.parametrize("character", ["é", "👩‍👩‍👧‍👦", "👍🏽", "🇯🇵", "❤️", "नि", "각"])
def test_M04_a_character_of_many_codes_has_one_colour(character: str) -> None:
    origins = Origins()
    text = f"a{character}b"
    for n in range(len(text)):
        origins.add(1, METHODS[n % 2])
    content = origins.tint(Content(text), [Run(0, len(text), 0, len(text))])
    # The letter before is the model's own, and so is the one in the middle where it begins at an even place.
    assert [(s.start, s.end) for s in content.spans] == [(1, 1 + len(character))] + (
        [(len(text) - 1, len(text))] if (len(text) - 1) % 2 else []
    )


def test_S01_tokens_without_text_count_and_colour_nothing() -> None:
    written = Written()
    written.tint(True)
    written.write(
        [("a", Method.PLAIN), ("", Method.DRAFT), ("", Method.DRAFT), ("👍", Method.NGRAM), ("b", Method.PLAIN)]
    )
    (document,) = written.texts()
    document.height(20)
    assert [(s.start, s.end, s.style) for s in document.line(0).content.spans] == [(1, 2, "origin-ngram")]
    assert written.counts == {Method.PLAIN: 2, Method.DRAFT: 2, Method.NGRAM: 1}
