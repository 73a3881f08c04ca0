"""An answer that came in pieces looks like the same answer at once, on the screen."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method
from pardec_chat.tests.ui.column import Column

TEXTS = {
    "mixed": "# Title\n\nOne *two* `three`.\n\n- a\n- b\n  - c\n  - d\n- e\n\n1. x\n2. y\n\n"
    "```py\nx = 1\n\ny = 2\n```\n\n> quote\n> more\n\n---\n\nend",
    "table": "before\n\n| a | b |\n|---|---|\n| 1 | `2` |\n| 日本語 | **4** |\n\nafter",
    "list": "\n".join(f"- item {i}\n  1. sub {i}\n  2. sub" for i in range(12)) + "\n\ntext\n",
    "numbers": "\n".join(f"{i}. item {i}" for i in range(1, 13)),
    "code in a list": "1. first\n\n   ```sh\n   ls\n   ```\n\n2. second\n   - deep\n3. third",
    "heading below": "Title\n=====\n\nText\n----\n\ntext",
    "quote": "> one\n>\n> - two\n> - three\n\nfour",
}  # fmt: skip


async def _shown(pieces: list[str], *, theme: str = "pardec-dark") -> list[str]:
    app = Column()
    async with app.run_test(size=(60, 60)) as pilot:
        reply = Reply("")
        await app.transcript.add(reply)
        for piece in pieces:
            reply.write([(piece, Method.PLAIN)])
            if len(piece) % 3 == 0:
                await pilot.pause()
        app.theme = theme
        await pilot.pause()
        return app.lines()


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("seed", range(3))
async def test_U02_pieces_and_whole_look_alike(name: str, seed: int) -> None:
    text = TEXTS[name]
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, len(text)), min(25, len(text) - 1)))
    pieces = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    assert await _shown(pieces) == await _shown([text])


async def test_table_fits_its_width() -> None:
    text = "| short | long |\n|---|---|\n| 日本語 | " + "word " * 30 + "|\n| x | y |\n"
    lines = await _shown([text])
    assert any(line.lstrip().startswith("日本語   word word") for line in lines)
    assert all(len(line) <= 60 for line in lines)
    assert "─────" in "".join(lines)


async def test_list_is_indented() -> None:
    lines = [line for line in await _shown(["8. " + "word " * 20 + "\n9. nine\n10. ten\n    - deep\n"]) if line]
    assert [line.strip() for line in lines][-3:] == ["9. nine", "10. ten", "• deep"]
    column = lines[0].index("word")
    assert lines[1].index("word") == column
    assert lines[-3].index("nine") == lines[-2].index("ten") == lines[-1].index("•") == column


async def test_another_theme_changes_nothing_but_colours() -> None:
    text = "- a\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| b |\n"
    assert await _shown([text], theme="textual-light") == await _shown([text])
