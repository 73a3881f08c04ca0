"""Markdown that grows: it looks as if it had come at once, and an addition costs only what it adds to."""

from __future__ import annotations

import random
from itertools import pairwise
from time import perf_counter

import pytest
from markdown_it.rules_block.table import escapedSplit
from rich.cells import cell_len

from pardec_chat.app.markdown import highlight
from pardec_chat.app.markdown.build import Builder
from pardec_chat.app.markdown.document import Document
from pardec_chat.backends.base import Method

#: What is hard about Markdown, in bits that are put together at random.
BITS = (
    *("word ", "two words ", "*em*", "**str", "ong**", "`code`", "``a`b``", "~~s~~", "_under_", "__", "* * *", "1", "-", "="),
    *("[link](http://x.y 't')", "[foo]", "[foo][bar]", "\n[foo]: http://a.b\n", "\n[bar]: /u\n'title'\n", "![alt](u)", "["),
    *("&amp;", "&#27;", "\\*", "\\|", "\\\n", "  \n", "|", "](", "!", "#", "    ", "  ", "\t", "<div>", "http://a.b/c_d"),
    *("\n", "\n", "\n\n", "\n\n", "- item", "\n- item\n", "\n- [ ] task", "\n  - nested", "\n1. one", "\n2. two", "+ plus\n"),
    *("\n10. ten", "\n9) nine", "\n```py\n", "\n```\n", "```", "\n~~~\n", "~~~~", "\n    code\n", "\n> quote", "\n> "),
    *("# head", "\n## h ##", "\n===\n", "\n---\n", "---", "\n***\n", "\n| a | b |\n|---|:-:|\n", "\n| c | d |\n", "|---|"),
    *("\n|x|\n|-|\n", "\n| 1 | `2\\|3` |", "x|y\n-|-\n", "def f(x):\n    return 'a'\n", "'''", "/* c\n", "*/", "www.x.de"),
    *("日本語", "👨‍👩‍👧", "é", "한글", "שלום", "a@b.cd"),
)  # fmt: skip
METHODS = (Method.PLAIN, Method.DRAFT, Method.NGRAM)

Drawn = list[tuple[str, list[tuple[int, int, str]], int, str]]


def lines(document: Document, width: int) -> Drawn:
    """All lines with their looks, when everything that waits is done."""
    while True:
        found = []
        for n in range(document.height(width)):
            line = document.line(n)
            spans = sorted((start, end, str(style)) for start, end, style in line.content.spans)
            found.append((line.content.plain, spans, line.lead, line.joint))
        if not document.busy:
            return found
        document.work(perf_counter() + 1)


def plain(text: str, width: int = 60) -> list[str]:
    """The lines of a text that came at once."""
    document = Document()
    document.append(text)
    document.close()
    return [line.rstrip() for line, *_ in lines(document, width)]


@pytest.mark.parametrize("start", range(0, 600, 100))
def test_U02_pieces_and_whole_look_alike(start: int) -> None:
    for seed in range(start, start + 100):
        rng = random.Random(seed)
        text = "".join(rng.choice(BITS) for _ in range(rng.randint(2, 40)))
        width = rng.choice([20, 33, 60])
        cuts = sorted({0, len(text), *(rng.randrange(len(text) + 1) for _ in range(rng.randint(0, 30)))})
        pieces = [(text[a:b], rng.choice(METHODS)) for a, b in pairwise(cuts)]
        grown, whole = Document(), Document()
        grown.tint = tint = rng.random() < 0.5
        for piece in pieces:
            grown.extend([piece])
            if rng.random() < 0.5:
                for n in range(grown.height(width)):
                    grown.line(n)
        whole.extend(pieces)
        whole.tint = tint
        grown.close()
        whole.close()
        drawn = lines(whole, width)
        assert lines(grown, width) == drawn, (seed, text, pieces)
        assert all(cell_len(line) <= width for line, *_ in drawn), (seed, text)


def test_X05_characters_that_a_reference_names_are_cleaned() -> None:
    assert plain("a &#27;[2J &#x9b;1m &#8238;x &amp; &#10; b") == ["a �[2J �1m �x &   b"]


def test_tags_are_text_and_lines_are_kept() -> None:
    assert plain("<div>\nblock & <b>so</b>\n</div>\nroses are red\nviolets are blue") == [
        "<div>",
        "block & <b>so</b>",
        "</div>",
        "roses are red",
        "violets are blue",
    ]


def test_blocks() -> None:
    text = "# T\n\nA\nB\n\n- a\n  - b\n    - c\n- [x] d\n\n> q\n\n---\n\n3. x\n4. y\n"
    assert plain(text, 20) == [
        "T", "", "A", "B", "", "• a", "  ◦ b", "    ▪ c", "☑ d", "", "▌ q", "", "─" * 20, "", "3. x", "4. y",
    ]  # fmt: skip


def test_what_stands_too_deep_is_not_indented() -> None:
    assert plain("- a\n  - b\n    - c and more\n", 12) == ["• a", "  ◦ b", "    c and", "    more"]


def test_code_in_an_item_has_room() -> None:
    text = "9. nine\n\n   ```\n   code\n   ```\n10. ten"
    assert plain(text) == [" 9. nine", "", "      code", "", "10. ten"]


@pytest.mark.parametrize("marks", ["```", "~~~~"])
def test_the_end_of_a_fence_is_not_shown_while_it_comes(marks: str) -> None:
    document = Document()
    for piece in (f"{marks}py\n", "a\n", *marks):
        document.append(piece)
        assert "".join(line.strip() for line, *_ in lines(document, 20)) == ("a" if "a" in document.source else "")
    document.append(" b\n")
    assert [line.strip() for line, *_ in lines(document, 20)] == ["a", f"{marks} b"]
    document.append(marks[:2])
    document.close()
    assert list(document.codes()) == [f"a\n{marks} b\n{marks[:2]}"]
    assert lines(document, 20)[-1][0].strip() == marks[:2]


def test_definitions_that_come_later_make_links() -> None:
    document = Document()
    for piece in ("See [this][1].\n\n", "```\n[1]\n```\n\nMore\n\n", "[1]: https://a.b", "/c\n"):
        document.append(piece)
    (_, spans, _, _), *_, (code, code_spans, _, _), _, _ = lines(document, 40)
    assert (4, 8, "@open https://a.b/c") in spans
    assert code.strip() == "[1]" and not any("open" in style for *_, style in code_spans)


def test_a_list_that_gets_wider_numbers_moves() -> None:
    document = Document()
    document.append("".join(f"{n}. item\n" for n in range(1, 10)))
    assert lines(document, 20)[0][0] == "1. item"
    document.append("10. item\n")
    assert [line for line, *_ in lines(document, 20)][::9] == [" 1. item", "10. item"]


class _Counting:
    """How much text was parsed, and highlighted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parsed: list[int] = []
        self.read: list[int] = []
        units, read = Builder.units, highlight._read

        def counted(builder, *rest):  # type: ignore[no-untyped-def]
            self.parsed.append(len("\n".join(builder.lines)))
            return units(builder, *rest)

        def reading(lexer, code):  # type: ignore[no-untyped-def]
            self.read.append(sum(map(len, code)))
            return read(lexer, code)

        monkeypatch.setattr(Builder, "units", counted)
        monkeypatch.setattr(highlight, "_read", reading)


def _stream(document: Document, text: str) -> None:
    for at in range(0, len(text), 200):
        document.append(text[at : at + 200])
        height = document.height(80)
        for n in range(max(0, height - 30), height):
            document.line(n)


def test_U02_an_open_fence_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = _Counting(monkeypatch)
    document = Document()
    code = "".join(f"x{n} = {n}  # number\n" for n in range(2000))
    _stream(document, f"Before.\n\n```python\n{code}")
    assert sum(counting.parsed) < 500
    # The last lines, at each of the two hundred additions, and no more.
    assert max(counting.read) < 5_000
    counting.read.clear()
    _stream(document, "```\n\nBehind.\n")
    assert sum(counting.parsed) < 1_000
    lines(document, 80)
    assert counting.read.count(len(code) - 2000) == 1
    assert next(document.codes()) == code.rstrip("\n")


def test_U02_a_table_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counting = _Counting(monkeypatch)
    cells: list[str] = []

    def counted(line):  # type: ignore[no-untyped-def]
        cells.append(line)
        return escapedSplit(line)

    monkeypatch.setattr("pardec_chat.app.markdown.build.escapedSplit", counted)
    document = Document()
    rows = "".join(f"| {n} | **{n * n}** | text |\n" for n in range(1000))
    _stream(document, f"Before.\n\n| a | b | c |\n|---|---|---|\n{rows}\nBehind.\n")
    assert sum(counting.parsed) < 2_000
    # Each row, and what there was of it at an addition.
    assert len(cells) < 1_000 + 2 * len(rows) // 200
    assert document.height(80) == 2 + 2 + 1000 + 2


@pytest.mark.parametrize(
    "unit", ["A paragraph of *some* words.\n\n", "- an item of `some` words\n", "> quoted\n\n# head\n\n"]
)
def test_U02_what_is_done_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    counting = _Counting(monkeypatch)
    _stream(Document(), unit * 1000)
    assert max(counting.parsed) < 600
    assert sum(counting.parsed) < 3 * len(unit) * 1000
