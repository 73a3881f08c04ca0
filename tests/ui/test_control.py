"""The control panel: each row changes its part of the setup and nothing else, and what is typed, saved or pasted holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual import events
from textual.pilot import Pilot

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.screens.control import Changed, ControlScreen
from pardec_chat.app.screens.picker import Picker
from pardec_chat.app.widgets import knobs
from pardec_chat.app.widgets.editor import Editor
from pardec_chat.app.widgets.entry import Entry
from pardec_chat.app.widgets.panel import ROWS, Panel
from pardec_chat.app.widgets.setting_list import SettingList
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import BadSetting, UserError
from pardec_chat.tests.ui.empty_app import EmptyApp
from pardec_chat.tests.ui.helpers import screen_text, until

Run = Callable[[Pilot[None]], Awaitable[None]]
NUMBERS = {number.key: number for number in knobs.NUMBERS}
MODELS = ("Qwen2.5 Coder 1.5B", "Qwen2.5 Coder 0.5B")
SETUP = Setup(Path("/models/large.gguf"), Path("/models/small.gguf"), Method.DRAFT)
ODD = "[/b] [@click=q]x[/] \x1b]52;aGk=\x07\x1b[2J\x9b1m\u202e"
ODD_SEEN = "[/b] [@click=q]x[/] ␛]52;aGk=␇␛[2J\ufffd1m\ufffd"


def sampled(setup: Setup = SETUP, **changes: Any) -> Setup:
    return replace(setup, sampling=replace(setup.sampling, **changes))


def may(method: Method) -> str:
    return ""


def no_draft(method: Method) -> str:
    return "it needs a draft model, F3 chooses one" if method == Method.DRAFT else ""


def refuse(name: str, setup: Setup | None = None) -> None:
    raise UserError("settings.toml cannot be written: [disk] is full.", "Make room.")


def with_temperature(temperature: float, setup: Setup) -> Setup:
    return sampled(setup, temperature=temperature)


PRESETS = (("exact", partial(with_temperature, 0.0)), ("日本語 [b]wild", partial(with_temperature, 1.6)))


class Opened:
    """The panel, and what came of it."""

    def __init__(self, pilot: Pilot[None], screen: ControlScreen) -> None:
        app = pilot.app
        assert isinstance(app, EmptyApp)
        self.pilot, self.app, self.screen = pilot, app, screen
        self.given: list[Changed | None] = []

    @property
    def lines(self) -> list[str]:
        """What is seen, without what is at the left of the panel."""
        return [line.partition("│")[2] or line for line in screen_text(self.app).splitlines()]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.lines).split())

    def line(self, begins: str) -> str:
        """The row that begins like that."""
        lines = (line.strip(" ▸•") for line in self.lines)
        return next(" ".join(line.split()) for line in lines if line.startswith(begins))

    async def shows(self, *texts: str) -> None:
        await until(self.pilot, lambda: all(text in self.words for text in texts))

    async def press(self, *keys: str, shows: str = "") -> None:
        await self.pilot.press(*keys)
        await self.shows(shows)

    async def mark(self, key: str) -> None:
        """Move to a row by keys."""
        await self.pilot.press("home", *["down"] * ROWS.index(key))
        rows = self.screen.query_one(SettingList)
        await until(self.pilot, lambda: rows.marked == ROWS.index(key))

    async def left(self) -> Changed | None:
        await self.pilot.press("escape")
        await until(self.pilot, lambda: bool(self.given))
        assert self.app.screen is self.app.empty
        return self.given[0]


async def opened(
    pilot: Pilot[None],
    setup: Setup = SETUP,
    models: tuple[str, str | None] = MODELS,
    why_not: Callable[[Method], str] = may,
    presets: Any = (),
    save: Any = refuse,
    delete: Any = refuse,
    defaults: Setup | None = None,
) -> Opened:
    app = pilot.app
    assert isinstance(app, EmptyApp)
    it = Opened(pilot, ControlScreen(setup, models, why_not, presets, save, delete, defaults))
    app.push_screen(it.screen, it.given.append)
    await it.shows("esc back")
    return it


@pytest.fixture
def app() -> EmptyApp:
    return EmptyApp()


# ---- what each row changes ----


@pytest.mark.parametrize(
    ("key", "less", "more"),
    [
        ("depth", replace(SETUP, depth=2), replace(SETUP, depth=4)),
        ("temperature", sampled(temperature=0.6), sampled(temperature=1)),
        ("top_k", sampled(top_k=20), sampled(top_k=60)),
        ("top_p", sampled(top_p=0.9), sampled(top_p=0.98)),
        ("min_p", sampled(min_p=0.02), sampled(min_p=0.1)),
        ("repeat_penalty", sampled(repeat_penalty=0.9), sampled(repeat_penalty=1.05)),
        ("seed", SETUP, sampled(seed=0)),
        ("max_tokens", replace(SETUP, max_tokens=8192), SETUP),
        ("method", replace(SETUP, method=Method.PLAIN), replace(SETUP, method=Method.NGRAM)),
        ("preset", SETUP, SETUP),
        ("model", SETUP, SETUP),
        ("draft", SETUP, SETUP),
        ("system", SETUP, SETUP),
    ],
)
def test_D14_left_and_right_change_their_field_alone(key: str, less: Setup, more: Setup) -> None:
    for by, wanted in ((-1, less), (1, more)):
        panel = Panel(SETUP, MODELS, may, (), Setup())
        panel.step(key, by)
        assert panel.setup == wanted


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("depth", "7", replace(SETUP, depth=7)),
        ("depth", "0", replace(SETUP, depth=0)),
        ("depth", "3", SETUP),  # the method's own
        ("depth", "", SETUP),
        ("temperature", "0.35", sampled(temperature=0.35)),
        ("temperature", " -0 ", sampled(temperature=0)),
        ("top_k", "1", sampled(top_k=1)),
        ("top_k", "Off", sampled(top_k=0)),
        ("top_p", "off", sampled(top_p=1)),
        ("min_p", ".5", sampled(min_p=0.5)),
        ("repeat_penalty", "1.17", sampled(repeat_penalty=1.17)),
        ("seed", "18446744073709551616", sampled(seed=2**64)),
        ("seed", "fresh", SETUP),
        ("max_tokens", "300", replace(SETUP, max_tokens=300)),
        ("max_tokens", "", SETUP),
        ("max_tokens", "2147483648", replace(SETUP, max_tokens=2**31)),
    ],
)
def test_D14_what_is_typed_is_what_is_asked(key: str, text: str, wanted: Setup) -> None:
    assert NUMBERS[key].typed(SETUP, text) == wanted
    assert Setup.load(wanted.dump()) == wanted  # and what is kept


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("temperature", "200", "temperature is 200.0, which is outside 0.0 to 100.0. Give a value inside."),
        ("temperature", "nan", "temperature is nan, which is outside 0.0 to 100.0."),
        ("temperature", "hot", "temperature is 'hot'. Give a number, such as 0.7."),
        ("temperature", "", "There is no temperature in it. Give a number, such as 0.7."),
        ("top_k", "-1", "top-k is -1, which is outside 0 to 2147483648."),
        ("top_k", "1.5", "top-k is '1.5'. Give a whole number."),
        ("top_p", "0", "top-p is 0, which leaves no token."),
        ("min_p", "1.01", "min-p is 1.01, which is outside 0.0 to 1.0."),
        ("repeat_penalty", "0", "repeat penalty is 0.0, which is outside 0.01 to 100.0."),
        ("seed", "-1", "seed is -1. Give a whole number from 0 on."),
        ("seed", "9" * 5000, "seed is '999"),
        ("max_tokens", "0", "max tokens is 0. Give 1 or more."),
        ("max_tokens", "2147483649", "max tokens is 2147483649, which is more than can be kept."),
        ("depth", "33", "depth is 33, which is outside 0 to 32."),
    ],
)
def test_what_is_wrong_is_refused(key: str, text: str, says: str) -> None:
    with pytest.raises(BadSetting) as caught:
        NUMBERS[key].typed(SETUP, text)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize("key", list(NUMBERS))
def test_steps_lead_from_end_to_end_and_back(key: str) -> None:
    number, setups = NUMBERS[key], [SETUP]
    for by in (-1, 1):
        setup = SETUP
        for _ in range(30):
            setup = number.step(setup, by)
        setups.append(setup)
        if key != "seed" or by < 0:
            assert number.step(setup, by) == setup
    values = [number.exact(setup) for setup in setups]
    assert (
        values
        == {
            "depth": ["3", "1", "8"],
            "temperature": ["0.8", "0", "2"],
            "top_k": ["40", "0", "200"],
            "top_p": ["0.95", "0.5", "1"],
            "min_p": ["0.05", "0", "0.3"],
            "repeat_penalty": ["1", "0.9", "1.5"],
            "seed": ["", "", "29"],
            "max_tokens": ["", "64", ""],
        }[key]
    )
    # What lies between two steps goes to the next one.
    assert NUMBERS["temperature"].step(sampled(temperature=0.35), 1) == sampled(temperature=0.4)
    assert NUMBERS["temperature"].step(sampled(temperature=0.35), -1) == sampled(temperature=0.2)
    assert NUMBERS["max_tokens"].step(replace(SETUP, max_tokens=10**6), 1) == SETUP


def test_what_has_no_effect_says_so() -> None:
    def idle(setup: Setup) -> list[str]:
        return [key for key, number in NUMBERS.items() if "no effect" in number.effect(setup)]

    assert idle(SETUP) == []
    assert idle(sampled(temperature=0.0)) == ["top_k", "top_p", "min_p", "seed"]
    assert idle(sampled(top_k=1)) == ["temperature", "top_p", "min_p", "seed"]
    assert NUMBERS["temperature"].effect(sampled(temperature=0.0)) == "greedy: the same text every time"
    depth = NUMBERS["depth"]
    assert depth.effect(replace(SETUP, method=Method.AUTO)) == "auto finds it itself"
    assert depth.effect(replace(SETUP, method=Method.PLAIN)) == "nothing is guessed"
    assert depth.shown(replace(SETUP, method=Method.NGRAM)) == "15"


def test_a_depth_stays_with_its_method() -> None:
    panel = Panel(replace(SETUP, depth=5), MODELS, may, (), Setup())
    panel.set_method(Method.AUTO)
    assert panel.setup == replace(SETUP, method=Method.AUTO, depth=None)
    panel.set_method(Method.DRAFT)
    assert panel.setup == replace(SETUP, depth=5)
    panel.set_method(Method.NGRAM)
    assert panel.setup.depth is None


def test_D14_methods_that_cannot_be_chosen_are_passed_over() -> None:
    panel = Panel(replace(SETUP, method=Method.PLAIN), MODELS, no_draft, (), Setup())
    seen = []
    for _ in range(4):
        panel.step("method", 1)
        seen.append(panel.setup.method)
    assert seen == [Method.NGRAM, Method.LOOKAHEAD, Method.AUTO, Method.PLAIN]
    assert "draft, not now: it needs a draft model" in panel.about("method")
    stuck = Panel(SETUP, MODELS, no_draft, (), Setup())
    assert stuck.row("method", marked=False).what == "not now"


def test_defaults_are_those_of_a_new_conversation() -> None:
    defaults = sampled(Setup(method=Method.NGRAM, depth=8, system="Be brief."), temperature=0.7)
    panel = Panel(SETUP, MODELS, may, (), defaults)
    differ = [key for key in ROWS if panel.row(key, marked=False).differs]
    assert differ == ["method", "temperature", "system"]
    for key in ROWS:
        panel.reset(key)
    assert panel.setup == replace(defaults, model=SETUP.model, draft=SETUP.draft)
    assert panel.changed
    while panel.can_undo:
        panel.undo()
    assert panel.setup == SETUP and not panel.changed


# ---- keys ----


async def test_nothing_changed_gives_nothing(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("temperature")
        await it.press("right", "left")
        assert await it.left() is None


async def test_D14_keys_change_what_is_marked(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("temperature")
        await it.press("left", "left", shows="temperature ‹ 0.4 ›")
        await it.mark("max_tokens")
        await it.press("left", shows="max tokens ‹ 8,192 ›")
        await it.mark("method")
        await it.press("right", shows="method ‹ ngram ›")
        await it.mark("depth")
        await it.press("right", shows="depth ‹ 20 ›")
        assert await it.left() == Changed(
            sampled(replace(SETUP, method=Method.NGRAM, depth=20, max_tokens=8192), temperature=0.4)
        )


@pytest.mark.parametrize("key", ["backspace", "delete"])
async def test_back_to_the_default_and_undo(app: EmptyApp, key: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, sampled(top_k=7))
        await it.mark("top_k")
        assert "• top-k ‹ 7 ›" in it.words
        await it.press(key, shows="top-k ‹ 40 ›")
        assert "• top-k" not in it.words
        await it.press("ctrl+z", shows="• top-k ‹ 7 ›")
        assert await it.left() is None


async def test_a_typed_value_is_taken(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("top_p")
        await it.press("enter", shows="enter take")
        assert it.screen.query_one(Entry).value == "0.95"
        await it.press("0", ".", "3", "enter", shows="top-p 0.3 ›")
        await it.mark("seed")
        await it.press("4", "2", shows="enter take")  # a digit begins by itself
        await it.press("enter", shows="seed ‹ 42 ›")
        assert await it.left() == Changed(sampled(top_p=0.3, seed=42))


async def test_keys_that_come_fast_are_not_lost(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("seed")
        rows = it.screen.query_one(SettingList)
        for digit in "1234":
            rows.post_message(events.Key(digit, digit))
        await until(pilot, lambda: it.screen.query_one(Entry).value == "1234")
        for _ in range(2):
            await it.screen.query_one(Entry).action_submit()
        await it.shows("seed ‹ 1234 ›")
        assert await it.left() == Changed(sampled(seed=1234))


async def test_what_is_wrong_says_why_and_is_not_lost(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("temperature")
        await it.press("2", "0", "0", "enter", shows="Error: temperature is 200.0, which is outside 0.0 to 100.0.")
        entry = it.screen.query_one(Entry)
        assert entry.value == "200" and entry.has_focus
        await it.press("backspace")
        await until(pilot, lambda: "Error" not in it.words)
        await it.press("backspace", ".", "5", "enter", shows="temperature ‹ 2.5")
        # Left as it was.
        await it.press("enter", "9", "escape", shows="temperature ‹ 2.5")
        assert it.screen.query_one(SettingList).has_focus
        assert await it.left() == Changed(sampled(temperature=2.5))


async def test_there_is_no_depth_to_type_for_auto(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, replace(SETUP, method=Method.AUTO))
        await it.mark("depth")
        await it.press("right", "enter", shows="Error: There is no depth to set: auto finds it itself.")
        await it.press("up", shows="method")
        assert "Error" not in it.words
        assert await it.left() is None


async def test_the_method_picker_says_why_not(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, replace(SETUP, method=Method.PLAIN), why_not=no_draft)
        await it.mark("method")
        await it.press("enter", shows="not now: it needs a draft model, F3 chooses one")
        assert isinstance(app.screen, Picker)
        await it.press("down", "enter", shows="method ‹ ngram ›")
        assert await it.left() == Changed(replace(SETUP, method=Method.NGRAM))


@pytest.mark.parametrize("key", ["model", "draft"])
async def test_models_are_chosen_next_and_changes_are_kept(app: EmptyApp, key: str) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("temperature")
        await it.press("left")
        await it.mark(key)
        await it.press("enter")
        await until(pilot, lambda: bool(it.given))
        assert it.given == [Changed(sampled(temperature=0.6), models=True)]


# ---- the mouse ----


def place(it: Opened, text: str) -> tuple[int, int]:
    """The cell at which a text begins on the screen."""
    lines = screen_text(it.app).splitlines()
    y = next(y for y, line in enumerate(lines) if text in line)
    return lines[y].index(text), y


async def test_clicks_mark_change_and_type(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await pilot.click(offset=place(it, "top-k"))
        await it.shows("top-k ‹ 40 ›")
        x, y = place(it, "‹ 40 ›")
        await pilot.click(offset=(x + 5, y))
        await it.shows("top-k ‹ 60 ›")
        await pilot.click(offset=(x, y))
        await it.shows("top-k ‹ 40 ›")
        await pilot.click(offset=(x, y))
        await it.shows("top-k ‹ 20 ›")
        await pilot.click(offset=(x + 3, y))  # on the value
        await it.shows("enter take")
        await it.press("9")
        # A click on another row takes what was typed.
        await pilot.click(offset=place(it, "min-p"))
        await it.shows("min-p ‹ 0.05 ›", "top-k 9")
        await pilot.click(offset=(0, 5))  # beside the panel
        await until(pilot, lambda: bool(it.given))
        assert it.given == [Changed(sampled(top_k=9))]


async def test_a_click_away_from_what_is_wrong_stays_there(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("top_k")
        await it.press("enter", "x")
        await pilot.click(offset=place(it, "min-p"))
        await it.shows("Error: top-k is 'x'.")
        entry = it.screen.query_one(Entry)
        assert entry.has_focus and entry.value == "x"
        assert it.screen.query_one(SettingList).marked == ROWS.index("top_k")


async def test_typing_stays_on_its_row_when_the_screen_changes(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("max_tokens")
        await it.press("5", shows="enter take")
        await pilot.resize_terminal(70, 14)
        await until(pilot, lambda: it.line("max tokens").startswith("max tokens 5"))
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: it.line("max tokens").startswith("max tokens 5"))


# ---- the system prompt ----


async def test_a_system_prompt_of_many_lines(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("system")
        await it.press("enter", shows="Nothing: the model begins with the conversation.")
        await it.press("q", "enter", "s", "1", shows="q s1")
        await it.press("escape", shows="system prompt q s1")
        assert await it.left() == Changed(replace(SETUP, system="q\ns1"))


async def test_a_system_prompt_can_be_taken_back(app: EmptyApp) -> None:
    setup = replace(SETUP, system="You write\nPython.")
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, setup)
        await it.mark("system")
        await it.press("backspace", shows="system prompt none")
        await it.press("ctrl+z", shows="system prompt You write Python.")
        await it.press("enter", shows="enter new line")
        await it.press("ctrl+u", "ctrl+z", "escape", shows="system prompt You write Python.")
        assert await it.left() is None


async def test_X05_control_bytes_in_a_system_prompt_are_seen(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, replace(SETUP, system=f"A\x1b[2J{ODD}"))
        await it.shows(f"system prompt A␛[2J{ODD_SEEN}")
        await it.mark("system")
        await it.press("enter", shows=f"A␛[2J{ODD_SEEN}")
        it.screen.query_one(Editor).post_message(events.Paste("\r\nB\x1b]0;title\x07\rC"))
        await it.shows("B␛]0;title␇ C")
        await it.press("escape", shows="system prompt")
        assert await it.left() == Changed(replace(SETUP, system=f"A␛[2J{ODD_SEEN}\nB␛]0;title␇\nC"))


async def test_X05_a_system_prompt_that_was_looked_at_is_untouched(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, replace(SETUP, system="A\x1b[2J"))
        await it.mark("system")
        await it.press("enter", shows="enter new line")
        await it.press("escape", shows="esc back")
        assert await it.left() is None


# ---- presets ----


async def test_presets_are_chosen_and_changed(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, presets=PRESETS)
        assert it.line("preset") == "preset none"
        await it.press("enter", shows="draft, 3 deep · temperature 1.6")
        await it.press("down", "enter", shows="preset exact")
        await it.mark("temperature")
        await it.press("right", shows="preset exact, changed")
        await it.press("left", shows="temperature 0 ›")
        assert it.line("preset") == "preset exact"
        await it.press("ctrl+z", "ctrl+z", "ctrl+z", shows="preset none")
        await it.mark("preset")
        await it.press("enter", "end", "enter", shows="preset 日本語 [b]wild")
        assert await it.left() == Changed(sampled(temperature=1.6))


async def test_the_preset_that_holds_is_named(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, sampled(temperature=0.0), presets=PRESETS)
        assert it.line("preset") == "preset exact"
        await it.press("enter", "home", "enter", shows="preset none")
        assert await it.left() == Changed(Setup(SETUP.model, SETUP.draft))


async def test_a_preset_is_saved_and_overwritten_when_told_so(app: EmptyApp) -> None:
    saved: list[tuple[str, Setup]] = []
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, presets=PRESETS, save=lambda *one: saved.append(one))
        await it.press("s", "enter", shows="Error: A preset needs a name.")
        await it.press("m", "y", "space", "o", "n", "e", "enter", shows="preset my one")
        assert saved == [("my one", SETUP)]
        await it.mark("temperature")
        await it.press("right", shows="preset my one, changed")
        await it.mark("preset")
        await it.press("s", "enter", shows="There is a preset my one")
        await it.press("enter", shows="esc leave it as it was")  # keep it
        assert len(saved) == 1
        await it.press("enter", "down", "enter", shows="s save")
        assert saved[1:] == [("my one", sampled(temperature=1))]
        assert it.line("preset") == "preset my one"
        # It can be taken at once.
        await it.press("enter", "home", "down", "enter", shows="preset exact")
        await it.press("enter", "end", "enter", shows="preset my one")
        assert await it.left() == Changed(sampled(temperature=1))


async def test_a_preset_is_deleted(app: EmptyApp) -> None:
    deleted: list[str] = []
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, sampled(temperature=0.0), presets=PRESETS, delete=deleted.append)
        await it.press("x", shows="Delete which preset?")
        await it.press("escape", shows="preset exact")
        await it.press("x", "enter", shows="preset none")
        assert deleted == ["exact"]
        await it.press("enter", shows="日本語 [b]wild")
        assert "exact" not in it.words
        await it.press("escape", "x", "enter", "x", shows="No preset is saved.")
        assert deleted == ["exact", "日本語 [b]wild"]
        await it.press("escape")
        assert await it.left() is None


async def test_U01_presets_that_cannot_be_kept_say_why(app: EmptyApp) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, presets=PRESETS)
        await it.press("s", "a", "enter", shows="Error: settings.toml cannot be written: [disk] is full. Make room.")
        assert it.screen.query_one(Entry).value == "a"
        await it.press("escape", "x", "enter", shows="Error: settings.toml cannot be written: [disk] is full.")
        await it.press("down", "up", "enter", shows="exact")  # it is still there


async def test_a_preset_that_is_gone_is_told(app: EmptyApp) -> None:
    def gone(setup: Setup) -> Setup:
        raise UserError("There is no preset 'old'.", "Choose another one.")

    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot, presets=[("old", gone)])
        await it.press("enter", "end", "enter", shows="Error: There is no preset 'old'. Choose another one.")
        assert await it.left() is None


async def test_U01_X05_names_are_text(app: EmptyApp) -> None:
    saved: list[str] = []
    async with app.run_test(size=(120, 24)) as pilot:
        it = await opened(
            pilot,
            models=(f"Model {ODD}", f"Draft {ODD}"),
            why_not=lambda method: ODD if method == Method.DRAFT else "",
            presets=[(ODD, partial(with_temperature, SETUP.sampling.temperature))],
            save=lambda name, _setup: saved.append(name),
        )
        await it.shows(f"Model {ODD_SEEN}", f"Draft {ODD_SEEN}", f"preset {ODD_SEEN}")
        await it.press("enter", shows=ODD_SEEN)
        await it.press("escape", "s", "ctrl+u")
        it.screen.query_one(Entry).post_message(events.Paste(f"\n{ODD}\nmore"))
        await it.press("enter", shows="s save")
        assert saved == [ODD_SEEN]
        await it.mark("method")
        await it.press("enter", shows=f"not now: {ODD_SEEN}")


async def test_the_keys_of_each_row_are_seen(app: EmptyApp) -> None:
    expected = {
        "preset": "↑↓ move · enter choose · s save · x delete · ^Z undo · esc back",
        "model": "↑↓ move · enter choose · ^Z undo · esc back",
        "draft": "↑↓ move · enter choose · ^Z undo · esc back",
        "method": "↑↓ move · ←→ change · enter choose · del default · ^Z undo · esc back",
        "system": "↑↓ move · enter write · del default · ^Z undo · esc back",
    }
    async with app.run_test(size=(80, 24)) as pilot:
        it = await opened(pilot)
        await it.mark("temperature")
        await it.press("left")
        room = it.screen.query_one("#foot").content_size.width
        for row, key in enumerate(ROWS):
            it.screen.query_one(SettingList).marked = row
            keys = it.screen._keys()
            assert keys == expected.get(key, "↑↓ move · ←→ change · enter type · del default · ^Z undo · esc back")
            assert cell_len(keys) <= room
        await it.shows(expected["system"])


def test_keys_have_names() -> None:
    bindings: list[Any] = [*ControlScreen.BINDINGS, *SettingList.BINDINGS]
    assert all(binding.id and binding.tooltip for binding in bindings)
    assert len({binding.id for binding in bindings}) == len(bindings)


# ---- pictures ----


SEEN = [pytest.param("pardec-dark", (80, 24), id="80x24"), pytest.param("pardec-dark", (120, 40), id="120x40")]
LIGHT = [pytest.param("pardec-light", (80, 24), id="light-80x24")]
MIXED = replace(
    SETUP,
    depth=5,
    sampling=SamplingParams(temperature=0.0, repeat_penalty=1.1),
    max_tokens=1024,
    system="You are a careful reviewer of Python code. Be brief.\n\nAnswer in 日本語 where you are asked in it.",
)


@pytest.fixture
def shown(snap_compare: Any) -> Callable[..., bool]:
    """Whether the panel looks as before once it shows `shows`."""

    def compare(theme: str, size: tuple[int, int], then: Callable[[Opened], Awaitable[None]], **options: Any) -> bool:
        async def run(pilot: Pilot[None]) -> None:
            await then(await opened(pilot, **options))

        app = EmptyApp(theme)
        return bool(snap_compare(app, terminal_size=size, run_before=run))

    return compare


@pytest.mark.parametrize(("theme", "size"), [*SEEN, *LIGHT])
def test_panel(shown: Any, theme: str, size: Any) -> None:
    assert shown(theme, size, lambda it: it.mark("temperature"), setup=MIXED, presets=PRESETS)


@pytest.mark.parametrize(("theme", "size"), SEEN[:1])
def test_panel_without_models(shown: Any, theme: str, size: Any) -> None:
    setup = Setup(method=Method.DRAFT)
    assert shown(theme, size, lambda it: it.mark("method"), setup=setup, models=("", None), why_not=no_draft)


@pytest.mark.parametrize(("theme", "size"), SEEN[:1])
def test_typing_a_value(shown: Any, theme: str, size: Any) -> None:
    async def then(it: Opened) -> None:
        await it.mark("top_p")
        await it.press("0", ".", "9", shows="enter take")

    assert shown(theme, size, then)


@pytest.mark.parametrize(("theme", "size"), [*SEEN[:1], *LIGHT])
def test_a_wrong_value(shown: Any, theme: str, size: Any) -> None:
    async def then(it: Opened) -> None:
        await it.mark("top_p")
        await it.press("9", "enter", shows="Error:")

    assert shown(theme, size, then)


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_system_prompt(shown: Any, theme: str, size: Any) -> None:
    async def then(it: Opened) -> None:
        await it.mark("system")
        await it.press("enter", shows="enter new line")

    assert shown(theme, size, then, setup=MIXED)


@pytest.mark.parametrize(("theme", "size"), SEEN[:1])
def test_preset_list(shown: Any, theme: str, size: Any) -> None:
    async def then(it: Opened) -> None:
        await it.press("enter", shows="As a new conversation has it.")

    assert shown(theme, size, then, presets=PRESETS)


@pytest.mark.parametrize(("theme", "size"), SEEN[:1])
def test_saving_a_preset(shown: Any, theme: str, size: Any) -> None:
    async def then(it: Opened) -> None:
        await it.press("s", shows="enter save")

    assert shown(theme, size, then, setup=sampled(temperature=0.0), presets=PRESETS)
