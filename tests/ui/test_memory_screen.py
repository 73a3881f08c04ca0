"""A model that does not fit: the picture of its plan, and what is given back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from pardec_chat.app import fit_words, lines
from pardec_chat.app.app import PardecChat
from pardec_chat.app.screens.memory import MemoryScreen
from pardec_chat.backends.memory import Alternative, Part, Plan, Shape, Wish
from pardec_chat.tests.ui.helpers import screen_text, until

MakeApp = Callable[..., PardecChat]
GB, MB = 10**9, 10**6
GPU = "NVIDIA GeForce RTX 3060"
PARTS = (
    Part("program", "program", "memory", 80 * MB),
    Part("weights", "target", "memory", 9 * GB),
    Part("cache", "target", "memory", int(1.3 * GB)),
    Part("buffers", "target", "memory", 120 * MB),
    Part("weights", "draft", "memory", 500 * MB),
    Part("cache", "draft", "memory", 900 * MB),
)
PLAN = Plan(PARTS, {"memory": 9 * GB}, 8192, "f16", has_draft=True)
FITS = replace(PLAN, free={"memory": 20 * GB})
SPLIT = Plan(
    (*PARTS[:3], replace(PARTS[4], device=GPU), replace(PARTS[1], device=GPU, bytes=5 * GB)),
    {"memory": 9 * GB, GPU: int(5.2 * GB)},
    16_384,
    "q8_0",
    has_draft=True,
    gpu_layers=20,
    draft_gpu_layers=0,
)


def shown(plan: Plan, width: int = 78) -> list[str]:
    return [lines.plain(line) for line in fit_words.plan_lines(plan, width)]


def test_a_plan_that_does_not_fit() -> None:
    assert shown(PLAN) == [
        "It does not fit: 2.9 GB are missing in memory.",
        "Planned for 8,192 tokens of context in a cache of 16 bits.",
        "",
        "memory  11.9 GB, but 9.0 GB are free",
        "█" * 54 + "▓" * 8 + "▒" + "▚" * 8 + "░",
        "9.0 GB free ▲".rjust(54),
        "█ weights 9.0 GB   ▓ cache 1.3 GB   ▒ buffers 0.1 GB   ▚ draft 1.4 GB",
        "░ program 0.1 GB",
    ]


def test_a_plan_that_fits() -> None:
    assert shown(FITS, 120) == [
        "It fits: it takes 11.9 GB of the 20.0 GB that are free in memory.",
        "Planned for 8,192 tokens of context in a cache of 16 bits.",
        "",
        "memory  11.9 GB of 20.0 GB",
        "█" * 31 + "▓" * 5 + "▒" + "▚" * 5 + "░" + "┄" * 29,
        "█ weights 9.0 GB   ▓ cache 1.3 GB   ▒ buffers 0.1 GB   ▚ draft 1.4 GB   ░ program 0.1 GB",
    ]


def test_two_devices() -> None:
    text = shown(SPLIT, 100)
    assert text[:3] == [
        f"It does not fit: 1.4 GB are missing in memory and 0.3 GB on {GPU}.",
        "Planned for 16,384 tokens of context in a cache of 8 bits; 20 layers and none of the draft's on the",
        "GPU.",
    ]
    assert f"{GPU}  5.5 GB, but 5.2 GB are free" in text
    fits = shown(replace(SPLIT, free={"memory": 20 * GB, GPU: 8 * GB}))
    assert fits[0] == "It fits: it takes 15.9 GB in all."
    nothing = shown(replace(SPLIT, parts=PARTS, free={"memory": 20 * GB, GPU: 8 * GB}, gpu_layers=0, has_draft=False))
    assert f"{GPU}  nothing of 8.0 GB" in nothing
    assert "no layer on the GPU" in " ".join(nothing)


@pytest.mark.parametrize("free", [0, 1, 40 * MB, 5 * GB, sum(part.bytes for part in PARTS) - 1, 11_900 * MB, 64 * GB])
@pytest.mark.parametrize("width", [40, 60, 78, 118, 198])
def test_lines_keep_to_their_width(free: int, width: int) -> None:
    for plan in (
        replace(PLAN, free={"memory": free}),
        replace(SPLIT, free={"memory": free, "グラフィックス" * 9: free}),
    ):
        text = shown(plan, width)
        assert max(map(cell_len, text)) <= width
        bars = [line for line in text if set(line) & set("█┄") and "weights" not in line]
        assert {cell_len(line) for line in bars} == {min(72, width)}


def test_little_is_not_nothing() -> None:
    text = shown(replace(PLAN, free={"memory": PLAN.need() - 1}))
    assert text[0] == "It does not fit: <0.1 GB are missing in memory."
    assert fit_words.amount(0) == "0.0 GB"
    assert fit_words.amount(40 * MB) == "<0.1 GB"
    assert fit_words.amount(1234 * GB) == "1,234.0 GB"


# ---- the screen ----

SHAPE = Shape("Qwen3 14B", 9 * GB, 40, 163_840, 151_936, 32_768)
WITHOUT = Wish(SHAPE, None, 8192)
SHORTER = Wish(SHAPE, SHAPE, 2048)
ALTERNATIVES = (
    Alternative("Without the draft model", WITHOUT, replace(FITS, parts=PARTS[:4])),
    Alternative("With a context of 2,048 tokens", SHORTER, FITS),
)


async def opened(
    pilot: Pilot[None], given: list[Any], alternatives: Sequence[Alternative] = ALTERNATIVES, name: str = "Qwen3 14B"
) -> PardecChat:
    """The screen over the chat."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await until(pilot, lambda: app.chat.state == "no model")
    app.push_screen(MemoryScreen(PLAN, alternatives, (name, f"{name} draft")), given.append)
    await until(pilot, lambda: "It does not fit" in screen_text(app))
    return app


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], WITHOUT),
        (["down", "enter"], SHORTER),
        (["down", "down", "enter"], "force"),
        (["end", "enter"], None),
        (["up", "enter"], None),
        (["escape"], None),
    ],
)
async def test_what_it_gives(make_app: MakeApp, keys: list[str], answer: Any) -> None:
    given: list[Any] = []
    async with make_app(model=None, draft=None).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, given)
        assert "Without the draft model" in screen_text(app) and "takes 10.5 GB" in screen_text(app)
        await pilot.press(*keys)
        await until(pilot, lambda: bool(given))
        assert given == [answer]


async def test_a_click_takes(make_app: MakeApp) -> None:
    given: list[Any] = []
    async with make_app(model=None, draft=None).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, given)
        line = next(y for y, text in enumerate(screen_text(app).splitlines()) if "2,048" in text)
        await pilot.click(offset=(20, line))
        await until(pilot, lambda: bool(given))
        assert given == [SHORTER]


async def test_without_a_way_out_enter_does_no_harm(make_app: MakeApp) -> None:
    given: list[Any] = []
    async with make_app(model=None, draft=None).run_test(size=(80, 24)) as pilot:
        await opened(pilot, given, ())
        await pilot.press("enter")
        await until(pilot, lambda: bool(given))
        assert given == [None]


async def test_a_low_screen_can_be_read_on(make_app: MakeApp) -> None:
    async with make_app(model=None, draft=None).run_test(size=(80, 16)) as pilot:
        app = await opened(pilot, [])
        assert "program 0.1 GB" not in screen_text(app)
        await pilot.press("shift+down", "shift+down", "shift+down")
        await until(pilot, lambda: "program 0.1 GB" in screen_text(app))


async def test_U01_X05_names_are_text(make_app: MakeApp) -> None:
    odd = (Alternative("[red]Words[/red]\x1b[2J", WITHOUT, FITS),)
    async with make_app(model=None, draft=None).run_test(size=(100, 24)) as pilot:
        app = await opened(pilot, [], odd, name="[/b] 日本語 \x1b[2J")
        assert "[/b] 日本語 ␛[2J  +  [/b] 日本語 ␛[2J draft" in screen_text(app)
        assert "[red]Words[/red]␛[2J" in screen_text(app)
