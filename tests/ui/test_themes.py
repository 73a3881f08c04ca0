"""Our themes: what can be read on them, and that `terminal` takes nothing but the terminal's own colours."""

from __future__ import annotations

from typing import Any

import pytest
from rich.color import Color as RichColor
from rich.color import ColorType
from rich.segment import Segment
from textual.color import Color
from textual.pilot import Pilot
from textual.theme import BUILTIN_THEMES

from pardec_chat.app import palette, themes
from pardec_chat.app.app import PardecChat
from pardec_chat.app.palette import CONTRAST, PALETTES, Palette
from pardec_chat.tests.ui.fake_engine import FakeEngine, delta, finished, run_of
from pardec_chat.tests.ui.helpers import ask, ready, until
from pardec_chat.tests.ui.test_snapshots import MERGE, QUESTION

ORIGINS = ("origin_draft", "origin_ngram", "origin_lookahead", "origin_head")
#: Code, a table, a quotation and a link behind what is seen of an answer in other pictures.
EVERYTHING = (
    "# Title\n\n> a quotation\n\n[a link](https://example.org) and `code`\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n" + MERGE
)


def luminance(color: Color) -> float:
    """Relative luminance as WCAG 2 has it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Color, other: Color) -> float:
    """1 to 21."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast(Color.parse("#000"), Color.parse("#fff")) == pytest.approx(21.0)
    assert contrast(Color.parse("#777777"), Color.parse("#ffffff")) == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("colours", PALETTES.values(), ids=PALETTES)
def test_text_can_be_read(colours: Palette) -> None:
    def ratio(text: str, ground: str) -> float:
        return contrast(Color.parse(getattr(colours, text)), Color.parse(getattr(colours, ground)))

    best = colours is CONTRAST
    for ground in ("background", "surface"):
        assert ratio("foreground", ground) >= 7
        for text in ("quiet", "primary", "warning", "error"):
            assert ratio(text, ground) >= (7 if best else 4.5), (text, ground)
        for line in ("rule", "track"):
            assert ratio(line, ground) >= (3 if best else 1.2)
    for ground in ORIGINS:
        assert ratio("foreground", ground) >= 7
        # They are seen, and are not taken for each other.
        assert ratio(ground, "background") >= 1.1
    assert len({getattr(colours, ground) for ground in ORIGINS}) == len(ORIGINS)


@pytest.mark.parametrize("name", [name for name, theme in BUILTIN_THEMES.items() if not theme.ansi])
def test_origins_leave_text_readable_on_foreign_themes(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    colours = {**themes.defaults(theme), **theme.to_color_system().generate()}
    ground, text = Color.parse(colours["background"]), Color.parse(colours["foreground"])
    for origin in ORIGINS:
        tinted = ground + Color.parse(colours[origin.replace("_", "-")])
        assert tinted != ground
        # Some themes have not 4.5 without them.
        assert contrast(text, tinted) >= min(4.5, 0.75 * contrast(text, ground))


async def test_every_theme_has_every_colour_of_ours(make_app: Any) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        for name in app.available_themes:
            app.theme = name
            await pilot.pause()
            for key in ("rule", "quiet", "track", *(origin.replace("_", "-") for origin in ORIGINS)):
                colour = Color.parse(app.theme_variables[key])
                assert (colour.ansi is not None) == app.current_theme.ansi, (name, key)
    assert [theme.name for theme in themes.OURS] == ["pardec-dark", "pardec-light", "pardec-contrast", "terminal"]
    assert (*PALETTES, palette.TERMINAL) == tuple(theme.name for theme in themes.OURS)
    assert themes.DEFAULT in PALETTES


async def test_U06_a_theme_that_is_not_there_is_the_default(make_app: Any) -> None:
    assert make_app(theme="gone").theme == "pardec-dark"


def _drawn(app: PardecChat) -> list[Segment]:
    """What goes to the terminal, all of it."""
    return [segment for strip in app.screen._compositor.render_strips() for segment in strip if segment.style]


def _wrong(app: PardecChat) -> list[str]:
    """Segments in other colours than the terminal's sixteen, or with a ground under them."""
    wrong = []
    for segment in _drawn(app):
        style = segment.style
        assert style is not None
        text, ground = style.color or RichColor.default(), style.bgcolor or RichColor.default()
        if ground.type != ColorType.DEFAULT or text.type not in (ColorType.DEFAULT, ColorType.STANDARD):
            wrong.append(f"{segment.text!r} in {style}")
    return wrong


async def test_terminal_takes_only_the_terminals_colours(make_app: Any, engine: FakeEngine) -> None:
    app = make_app(theme="terminal")
    async with app.run_test(size=(110, 40), notifications=True) as pilot:
        await ready(pilot)
        assert app.native_ansi_color
        assert _wrong(app) == []
        await ask(pilot, QUESTION)
        at = run_of(12, 220.0)[-1]
        engine.turns[-1].send(delta(EVERYTHING, at), finished(EVERYTHING, at))
        await until(pilot, lambda: not app.chat.dialogue.busy)
        await until(pilot, lambda: app.chat.query("Reply").last().source == EVERYTHING)
        for key in ("end", "ctrl+home"):
            await pilot.press(key)
            await pilot.pause()
            assert _wrong(app) == []
        app.chat.prompt.text = "marked"
        app.chat.prompt.select_all()
        app.notify("A toast", timeout=60)
        await until(pilot, lambda: bool(app.screen.query("Toast")))
        assert _wrong(app) == []
        for keys in (["f1"], ["f2", "down"], ["f3"], ["f4"], ["f6"], ["ctrl+p", "t"]):
            depth = len(app.screen_stack)
            await pilot.press(*keys)
            await until(pilot, lambda depth=depth: len(app.screen_stack) > depth)  # type: ignore[misc]
            await pilot.hover("OptionList") if keys[0] in ("f2", "f3") else None
            assert _wrong(app) == [], keys
            while len(app.screen_stack) > depth:
                app.pop_screen()
                await pilot.pause()


async def test_themes_change_while_it_runs(make_app: Any) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        grounds = {}
        for name in ("terminal", "pardec-contrast", "terminal", "pardec-dark"):
            app.theme = name
            await until(pilot, lambda: app.screen._css_update_count == app._css_update_count)
            grounds[name] = {s.style.bgcolor.name for s in _drawn(app) if s.style and s.style.bgcolor}
        assert grounds["terminal"] == {"default"}
        assert "#000000" in grounds["pardec-contrast"]
        assert "#14171a" in grounds["pardec-dark"]


@pytest.mark.parametrize("theme", ["pardec-contrast", "terminal"])
class TestPictures:
    def test_chat(self, snap_compare: Any, make_app: Any, engine: FakeEngine, theme: str) -> None:
        async def run(pilot: Pilot[None]) -> None:
            app = pilot.app
            assert isinstance(app, PardecChat)
            await ask(pilot, QUESTION)
            text, at = MERGE[: MERGE.index("\n    while")], run_of(24, 440.0)
            engine.turns[-1].send(*(delta("", figures) for figures in at[:-1]), delta(text, at[-1]))
            await until(pilot, lambda: app.chat.query("Reply").last().source == text)  # type: ignore[attr-defined]

        assert snap_compare(make_app(theme=theme), terminal_size=(80, 24), run_before=run)

    def test_picker(self, snap_compare: Any, make_app: Any, theme: str) -> None:
        async def run(pilot: Pilot[None]) -> None:
            await ready(pilot)
            await pilot.press("f2", "down")
            await pilot.pause()

        assert snap_compare(make_app(theme=theme), terminal_size=(80, 24), run_before=run)
