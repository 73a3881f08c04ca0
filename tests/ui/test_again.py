"""“Again with…”: what is offered, and which setup comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.screens.again import choose_again
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.tests.ui.empty_app import EmptyApp
from pardec_chat.tests.ui.helpers import screen_text, until

SETUP = Setup(method=Method.DRAFT, depth=5, sampling=SamplingParams(temperature=0.7, top_k=20), system="Be brief.")


def no_draft(method: Method) -> str:
    return "it needs a draft model, F3 chooses one" if method == Method.DRAFT else ""


def warm(temperature: float) -> Setup:
    return replace(SETUP, sampling=replace(SETUP.sampling, temperature=temperature))


def words(pilot: Pilot[None]) -> str:
    assert isinstance(pilot.app, EmptyApp)
    return " ".join(screen_text(pilot.app).split())


async def asked(
    pilot: Pilot[None], setup: Setup = SETUP, why_not: Callable[[Method], str] = lambda _method: ""
) -> list[Setup | None]:
    """Ask; what is answered will be in the list."""
    app, answers = pilot.app, []
    assert isinstance(app, EmptyApp)

    async def ask() -> None:
        answers.append(await choose_again(app, setup, why_not))

    app.run_worker(ask())
    await until(pilot, lambda: "Again with…" in words(pilot))
    return answers


@pytest.fixture
def app() -> EmptyApp:
    return EmptyApp()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], SETUP),
        (["down", "enter"], replace(SETUP, method=Method.AUTO, depth=None)),
        (["down", "down", "enter"], replace(SETUP, method=Method.PLAIN, depth=None)),
        (["down", "down", "down", "enter", "home", "enter"], replace(SETUP, depth=1)),
        (
            ["down", "down", "down", "enter", "up", "enter"],
            replace(SETUP, depth=4),
        ),  # it begins at the one that was used
        (["down", "down", "down", "down", "enter", "enter"], replace(SETUP, method=Method.NGRAM, depth=None)),
        (["down", "down", "down", "down", "enter", "end", "enter"], replace(SETUP, method=Method.NGRAM, depth=30)),
        (["end", "enter"], warm(1.3)),
        (["end", "up", "up", "enter"], warm(0.3)),
        (["end", "up", "up", "up", "enter"], warm(0.0)),
        (["escape"], None),
    ],
)
async def test_what_it_gives(app: EmptyApp, keys: list[str], answer: Setup | None) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        answers = await asked(pilot)
        await pilot.press(*keys)
        await until(pilot, lambda: bool(answers))
        assert answers == [answer]
        assert app.screen is app.empty


async def test_back_from_the_depth_is_to_the_question(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        answers = await asked(pilot)
        await pilot.press("down", "down", "down", "down", "enter")
        await until(pilot, lambda: "How far ngram guesses" in words(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: "Again with…" in words(pilot))
        await pilot.press("escape")
        await until(pilot, lambda: bool(answers))
        assert answers == [None]


async def test_what_was_used_is_shown_and_not_offered(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await asked(pilot)
        text = words(pilot)
        assert "The last one: draft, 5 deep · temperature 0.7 · top-k 20 · system prompt" in text
        assert "draft at another depth…" in text
        assert text.count("temperature 0.7") == 1
        assert all(f"temperature {t} " in text for t in ("0", "0.3", "1", "1.3"))
        assert "it will be the same text" not in text


@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0.0), SamplingParams(seed=7)])
async def test_it_says_where_the_same_gives_the_same(app: EmptyApp, sampling: SamplingParams) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await asked(pilot, replace(SETUP, sampling=sampling))
        assert "the same once more it will be the same text" in words(pilot)


async def test_D14_a_method_that_cannot_be_used_says_why(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        answers = await asked(pilot, Setup(), no_draft)
        assert "not now: it needs a draft model, F3 chooses one" in words(pilot)
        await pilot.press("down", "down", "enter")  # over it, to ngram
        await until(pilot, lambda: "How far ngram guesses" in words(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: bool(answers))
        assert answers == [Setup(method=Method.NGRAM)]


async def test_U01_X05_reasons_are_text(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        await asked(pilot, Setup(), lambda _method: "[/b] [red]no\x1b[2J")
        assert "not now: [/b] [red]no␛[2J" in words(pilot)


async def test_a_click_takes(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        answers = await asked(pilot)
        line = next(y for y, text in enumerate(screen_text(app).splitlines()) if "temperature 1.3" in text)
        await pilot.click(offset=(20, line))
        await until(pilot, lambda: bool(answers))
        assert answers == [warm(1.3)]


@pytest.mark.parametrize(
    ("theme", "size"),
    [
        pytest.param("pardec-dark", (80, 24), id="80x24"),
        pytest.param("pardec-light", (120, 40), id="light-120x40"),
    ],
)
@pytest.mark.parametrize("keys", [(), ("down", "down", "down", "enter")], ids=["question", "depth"])
def test_again(snap_compare: Any, theme: str, size: Any, keys: tuple[str, ...]) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await asked(pilot, why_not=lambda method: "nothing repeats here" if method == Method.NGRAM else "")
        await pilot.press(*keys)
        await until(pilot, lambda: ("How far" if keys else "Again with…") in words(pilot))

    assert snap_compare(EmptyApp(theme), terminal_size=size, run_before=run)
