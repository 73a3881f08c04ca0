"""Text of models, files and users is shown as it is: no markup (U01), no control bytes (X05)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pardec_chat.app.app import PardecChat
from pardec_chat.app.chat.request import Failed, Notice
from pardec_chat.app.screens.session import ModelEntry
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.fake_engine import FakeEngine, delta, figures, finished
from pardec_chat.tests.ui.helpers import ask, ready, screen_text, until

MakeApp = Callable[..., PardecChat]

MARKUP = ("[/INST]", "[/", "a[0] [bold", "[b +", "[@click=q]x", "[red]x[/red]")
CONTROLS = (
    "\x1b]52;c;aGk=\x07",
    "\x1b[2J",
    "\x1b]0;title",
    "\x9b31m",
    "\x90q\x9c",
    "\x07\x08\x0b\x0c",
    "a\rb",
    "\u202eabc",
    "&#27;[2J &#x9b;1m &#12; &#8238;x",
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("text", MARKUP)
async def test_U01_markup_is_text_everywhere(make_app: MakeApp, engine: FakeEngine, text: str) -> None:
    path = Path("/models/odd.gguf")
    entry = ModelEntry(text, f"N {text}", path, 1_000_000, text)
    engine.notices = (f"Notice {text}",)
    app = make_app(model=path, draft=None, choices=lambda: (entry,), method=Method.NGRAM)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(pilot)
        assert f"N {text}" in screen_text(app)
        assert f"Notice {text}" in screen_text(app)
        await pilot.press("f3", "enter")
        await pilot.pause()
        assert f"Draft model for N {text}" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert f"{text}, 1 MB" in screen_text(app)
        await pilot.press("escape")
        await ask(pilot, f"user {text}")
        at = figures(1, 20.0, state="idle", reason=f"reason {text}")
        table = f"| head {text} |\n|---|\n| cell {text} |\n"
        answer = f"answer {text}\n\n# title {text}\n\n- item {text}\n\n{table}\n```\ncode {text}\n```\n"
        engine.turns[0].send(Notice(f"turn {text}"), delta(answer, at))
        await until(pilot, lambda: app.query_one(Reply).source == answer)
        shown = screen_text(app)
        for where in ("user", "answer", "title", "item", "head", "cell", "code", "turn", "reason"):
            assert f"{where} {text}" in shown, where
        engine.turns[0].send(Failed(UserError(f"error {text}", f"step {text}")))
        await until(pilot, lambda: app.chat.state == "ready")
        assert f"error {text}" in screen_text(app)
        assert f"step {text}" in screen_text(app)
        app.chat.prompt.text = text
        await pilot.hover("Reply", offset=(6, 8))
        await pilot.pause()


@pytest.mark.parametrize("text", CONTROLS)
@pytest.mark.parametrize("fenced", [False, True], ids=["text", "code"])
async def test_X05_no_control_byte_reaches_the_screen(
    make_app: MakeApp, engine: FakeEngine, text: str, fenced: bool
) -> None:
    path = Path("/models/odd.gguf")
    engine.names = {path: f"Name {text}"}
    engine.notices = (f"Notice {text}",)
    app = make_app(model=path, draft=None, choices=tuple, method=Method.NGRAM)
    written: list[str] = []
    async with app.run_test(size=(120, 36)) as pilot:
        driver = app._driver
        assert driver is not None
        driver.write = written.append  # type: ignore[method-assign,assignment]
        await ask(pilot, f"user {text}")
        # One character a step: a sequence is split at every place.
        start = "```sh\n" if fenced else ""
        at = figures(1, 20.0, state="idle", reason=f"reason {text}")
        engine.turns[0].send(delta(start, at), *(delta(character, at) for character in f"answer {text} end"))
        await until(pilot, lambda: app.query_one(Reply).source.endswith(" end"))
        engine.turns[0].send(Failed(UserError(f"error {text}", f"step {text}")))
        await until(pilot, lambda: app.chat.state == "ready")
        shown = screen_text(app)
        assert "answer" in shown and "error" in shown
        assert not CONTROL.search(shown.replace("\n", ""))
        svg = app.export_screenshot()
        assert not CONTROL.search(svg.replace("\n", ""))
    for part in ("\x1b]52", "\x1b[2J", "\x1b]0;", "\x9b", "\x90", "\u202e"):
        assert not any(part in text for text in written)


async def test_line_ends_split_over_two_steps(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "x")
        for part in ("one\r", "\ntwo\r", "three\r"):
            engine.turns[0].send(delta(part))
            await pilot.pause()
        engine.turns[0].send(finished("one\r\ntwo\rthree\r"))
        await until(pilot, lambda: app.chat.state == "ready")
        assert app.query_one(Reply).source == "one\ntwo␍three␍"


async def test_tags_and_lines_are_kept(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ask(pilot, "x")
        text = "<thought>\nhm & <b>so</b>\n</thought>\n\n<div>\nblock\n</div>\n\nroses are red\nviolets are blue"
        engine.turns[0].send(delta(text), finished(text))
        await until(pilot, lambda: app.chat.state == "ready")
        lines = [line.strip() for line in screen_text(app).splitlines()]
        for line in (
            "<thought>",
            "hm & <b>so</b>",
            "</thought>",
            "<div>",
            "block",
            "</div>",
            "roses are red",
            "violets are blue",
        ):
            assert line in lines


@pytest.mark.parametrize(
    ("address", "opened"),
    [
        ("https://example.org/a", "https://example.org/a"),
        ("http://example.org/&#27;[2J", "http://example.org/&#27;%5B2J"),
        ("ftp://example.org/a", ""),
        ("x%1B]52;", ""),
    ],
)
async def test_only_web_addresses_open(
    make_app: MakeApp, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, address: str, opened: str
) -> None:
    app = make_app()
    asked: list[str] = []
    async with app.run_test(notifications=True) as pilot:
        await ask(pilot, "x")
        monkeypatch.setattr(app, "open_url", asked.append)
        engine.turns[0].send(delta(f"see [here]({address})"))
        await until(pilot, lambda: "see here" in screen_text(app))
        await pilot.click("Reply", offset=(3 + len("see "), 1))
        await until(pilot, lambda: ("Opened" if opened else "Not a web address") in screen_text(app))
        assert asked == ([opened] if opened else [])
        # As if the parser had let it through.
        app.query_one(Reply).action_open("x\x1b]52;")
        await until(pilot, lambda: "x␛]52;" in screen_text(app))
        assert not CONTROL.search(screen_text(app).replace("\n", ""))


async def test_reason_that_is_long_stays_in_its_place(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ask(pilot, "x")
        row = next(i for i, line in enumerate(screen_text(app).splitlines()) if "first token" in line)
        at = figures(1, 20.0, state="off", reason="the draft model could not be loaded: " + "why " * 60)
        engine.turns[0].send(delta("y", replace(at, depth=3)))
        await until(pilot, lambda: "off: the draft model" in screen_text(app))
        assert "first token" in screen_text(app).splitlines()[row]
