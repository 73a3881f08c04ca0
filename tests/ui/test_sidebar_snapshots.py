"""Pictures of the list of conversations; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.conversations.conversation import Summary
from pardec_chat.tests.ui.fake_sidebar import SOME, Bench, summary
from pardec_chat.tests.ui.helpers import until

MANY = tuple(summary(f"c{n:04}", f"Conversation {n} about one thing or another", n * 3.3) for n in range(400))
BESIDE, ALONE = (80, 24), (28, 24)


@pytest.fixture
def shown(snap_compare: Any, make_app: Callable[..., PardecChat]) -> Callable[..., bool]:
    """Whether the list looks as before, after these keys; None: the prompt has them."""

    def compare(
        size: tuple[int, int],
        keys: Sequence[str] | None,
        summaries: Sequence[Summary] = SOME,
        *,
        theme: str = "pardec-dark",
    ) -> bool:
        async def run(pilot: Pilot[None]) -> None:
            app = pilot.app
            assert isinstance(app, PardecChat)
            await until(pilot, lambda: app.chat.state == "no model")
            bench = Bench(summaries, summaries[0].id if summaries else None, over=size != BESIDE)
            await app.push_screen(bench)
            await pilot.pause()
            if keys is not None:
                bench.sidebar.enter()
                await pilot.pause()
                await pilot.press(*keys)
                await pilot.pause()

        app = make_app(theme=theme, model=None, draft=None)
        return bool(snap_compare(app, terminal_size=size, run_before=run))

    return compare


def test_beside_the_conversation(shown: Callable[..., bool]) -> None:
    assert shown(BESIDE, None)


@pytest.mark.parametrize("theme", ["pardec-dark", "pardec-light"])
def test_with_the_keys(shown: Callable[..., bool], theme: str) -> None:
    assert shown(BESIDE, ["down", "down"], theme=theme)


def test_many(shown: Callable[..., bool]) -> None:
    assert shown(ALONE, ["pagedown"] * 5, MANY)


def test_none(shown: Callable[..., bool]) -> None:
    assert shown(ALONE, [], ())


def test_hits(shown: Callable[..., bool]) -> None:
    assert shown(BESIDE, ["slash", "b", "o", "down"])


def test_nothing_found(shown: Callable[..., bool]) -> None:
    assert shown(ALONE, ["slash", *"nothing"])


def test_another_title(shown: Callable[..., bool]) -> None:
    assert shown(ALONE, ["down", "r", *" too"])


def test_deleted(shown: Callable[..., bool]) -> None:
    assert shown(BESIDE, ["down", "d"])


@pytest.mark.parametrize("size", [(24, 12), (120, 40), (200, 60)], ids="{0[0]}x{0[1]}".format)
def test_over_the_whole_width(shown: Callable[..., bool], size: tuple[int, int]) -> None:
    assert shown(size, ["down"])


def test_hits_over_the_whole_width(shown: Callable[..., bool]) -> None:
    assert shown((120, 40), ["slash", "b"], theme="pardec-light")
