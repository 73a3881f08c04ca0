"""The screen behind ^E: what it switches, what it shows of requests, and what it keeps to itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.endpoint.address import Address
from pardec_chat.app.lines import plain
from pardec_chat.app.screens.endpoint import AddressLike, EndpointLike, EndpointScreen, Switching
from pardec_chat.app.widgets import endpoint_words, watch
from pardec_chat.app.widgets.choices import Choices
from pardec_chat.app.widgets.header import Header
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.ui.fake_endpoint import HOST, KEY, FakeEndpoint, busy, taken
from pardec_chat.tests.ui.fake_engine import on_thread
from pardec_chat.tests.ui.helpers import notifications, ready, screen_text, until
from pardec_chat.tests.ui.test_foreign_text import CONTROL, CONTROLS, MARKUP

MakeApp = Callable[..., PardecChat]
URL = "http://127.0.0.1:8080/v1"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a person could read."""
    monkeypatch.setattr(watch, "SECONDS", 0.002)


@pytest.fixture
def endpoint() -> FakeEndpoint:
    return FakeEndpoint()


def words(app: PardecChat) -> str:
    """The screen without line breaks."""
    return " ".join(screen_text(app).split())


async def shows(pilot: Pilot[None], text: str) -> None:
    """Wait until the screen shows that."""
    await until(pilot, lambda: text in words(pilot.app))  # type: ignore[arg-type]


async def opened(pilot: Pilot[None], endpoint: EndpointLike, change: Switching | None = None) -> list[Switching | None]:
    """Open the screen; what it gives once it is left comes into the list."""
    app = pilot.app
    assert isinstance(app, PardecChat)
    await ready(pilot)
    given: list[Switching | None] = []
    app.push_screen(EndpointScreen(endpoint, 8080, change), given.append)
    await shows(pilot, "Endpoint")
    await shows(pilot, "esc ")
    return given


# ---- on and off ----


async def test_on_and_off_with_one_key(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        assert "○ off Space switches it on, at port 8080 of this machine." in words(app)
        await pilot.press("space")
        await shows(pilot, f"● on {URL}")
        assert "key none needed" in words(app)
        assert f"clients OPENAI_BASE_URL={URL} OPENAI_API_KEY=none" in words(app)
        assert "No request yet." in words(app)
        await pilot.press("s")
        await shows(pilot, "○ off")
        await pilot.press("s")
        await shows(pilot, "● on")
        assert endpoint.starts == [8080, 8080]
        assert endpoint.stops == 1


async def test_a_second_press_while_it_starts_changes_nothing(make_app: MakeApp) -> None:
    endpoint = FakeEndpoint(held=True)
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("space", "space", "s", "enter")
        await shows(pilot, "◐ starting loading the models with room for several answers …")
        assert endpoint.starts == [8080]
        on_thread(endpoint.end)
        await shows(pilot, f"● on {URL}")
        await pilot.press("space", "space")
        await shows(pilot, "◐ stopping")
        assert endpoint.stops == 1
        on_thread(endpoint.end)
        await shows(pilot, "○ off")


async def test_U04_left_while_it_starts(make_app: MakeApp) -> None:
    endpoint = FakeEndpoint(held=True)
    app = make_app()
    async with app.run_test() as pilot:
        given = await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "esc back, it goes on")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        (change,) = given
        assert change is not None and change.on and not change.future.done()
        given = await opened(pilot, endpoint, change)
        assert "◐ starting" in words(app)
        on_thread(endpoint.end)
        await shows(pilot, f"● on {URL}")
        assert change.error is None
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert given == [None]
        assert endpoint.running


async def test_escape_leaves_it_on(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        given = await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "esc back, it stays on")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert given == [None]
        assert endpoint.running and endpoint.stops == 0
        asked = endpoint.asked
        for _ in range(20):
            await pilot.pause(0.002)
        assert endpoint.asked == asked, "nobody looks any more"
        await opened(pilot, endpoint)
        assert f"● on {URL}" in words(app)


async def test_quitting_while_it_starts_is_prompt(make_app: MakeApp) -> None:
    endpoint = FakeEndpoint(held=True)
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "◐ starting")
        await pilot.press("ctrl+q")
    on_thread(endpoint.end)  # comes too late, for nobody


async def test_it_went_off_by_itself(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint.on())
        assert "● on" in words(app)
        endpoint.address = None
        await shows(pilot, "○ off")


# ---- what comes between ----


async def test_a_taken_port_is_a_question(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    endpoint.failures = [taken(8080, 8081), taken(8081, 8090)]
    app = make_app()
    async with app.run_test() as pilot:
        given = await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "○ off Port 8080 is taken. Take 8081?")
        assert "enter take it · esc leave it off" in words(app)
        await pilot.press("space", "s")
        assert endpoint.starts == [8080], "the question is to be answered first"
        await pilot.press("enter")
        await shows(pilot, "Port 8081 is taken. Take 8090?")
        await pilot.press("enter")
        await shows(pilot, "● on http://127.0.0.1:8090/v1")
        assert endpoint.starts == [8080, 8081, 8090]
        await pilot.press("space")
        await shows(pilot, "○ off Space switches it on, at port 8090")
        assert not given


async def test_no_to_the_question(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    endpoint.failures = [taken(8080, 8081)]
    app = make_app()
    async with app.run_test() as pilot:
        given = await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "Take 8081?")
        await pilot.press("escape")
        await shows(pilot, "Space switches it on, at port 8080")
        assert not given and not endpoint.running
        await pilot.press("enter")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert endpoint.starts == [8080]


async def test_a_taken_port_without_another_one_is_an_error(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    endpoint.failures = [taken(8080, 0)]
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "Error: Port 8080 is taken.")


@pytest.mark.parametrize("refused", [False, True], ids=["later", "at once"])
async def test_a_failed_load_says_what_to_do(make_app: MakeApp, endpoint: FakeEndpoint, refused: bool) -> None:
    error = UserError("The [b]models[/b] do not fit twice.\x1b[2J", "Choose a smaller context.")
    if refused:
        endpoint.refusal = error
    else:
        endpoint.failures.append(error)
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "Error: The [b]models[/b] do not fit twice.␛[2J Choose a smaller context.")
        assert "○ off" in words(app)
        endpoint.refusal = None
        await pilot.press("space")
        await shows(pilot, "● on")
        assert "Error" not in words(app)


async def test_what_failed_while_it_was_not_seen(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        future: Future[AddressLike] = Future()
        future.set_exception(taken(8080, 8081))
        await opened(pilot, endpoint, Switching(True, 8080, future))
        await shows(pilot, "Take 8081?")


async def test_a_start_that_is_called_off(make_app: MakeApp) -> None:
    endpoint = FakeEndpoint(held=True)
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "◐ starting")
        on_thread(endpoint.call_off)
        await shows(pilot, "Switching it on was called off.")
        assert "○ off" in words(app)


# ---- the key ----


async def test_X02_the_key_is_masked_until_it_is_wanted(
    make_app: MakeApp, endpoint: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    endpoint.key = KEY
    endpoint.come(client=f"agent {KEY}", what=KEY, state="failed", error=f"{KEY} is wrong", method=KEY)
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await opened(pilot, endpoint)
        await pilot.press("k")
        await pilot.press("space")
        await shows(pilot, "key sk-…ghij")
        assert "OPENAI_API_KEY=<key>" in words(app)
        assert "Error: … is wrong" in words(app)
        assert KEY not in screen_text(app)
        await pilot.press("k")
        await shows(pilot, f"key {KEY}")
        assert words(app).count(KEY) == 1
        await pilot.press("k")
        await shows(pilot, "key sk-…ghij")
        await pilot.press("k")
        await shows(pilot, f"key {KEY}")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await opened(pilot, endpoint)
        assert "key sk-…ghij" in words(app)
        assert KEY not in screen_text(app)
        await pilot.press("c")
        assert KEY not in app.clipboard + notifications(app)
        await pilot.press("space")
        await shows(pilot, "○ off")
        assert KEY not in screen_text(app)
    assert KEY not in caplog.text


async def test_X02_the_menu_hides_the_key_and_so_do_pictures_taken_from_it(
    make_app: MakeApp, endpoint: FakeEndpoint
) -> None:
    endpoint.key = KEY
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint.on())
        await pilot.press("k")
        await shows(pilot, f"key {KEY}")
        await pilot.press("ctrl+p")
        await until(pilot, lambda: KEY not in screen_text(app))
        await pilot.press("escape")
        await shows(pilot, "key sk-…ghij")
        assert KEY not in app.export_screenshot()


async def test_X02_faults_are_logged_without_their_words(
    make_app: MakeApp, endpoint: FakeEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    def fault() -> BaseException:
        try:
            raise ValueError(f"bad header {KEY}")
        except ValueError as error:
            return error

    endpoint.failures = [fault()]
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("space")
        await shows(pilot, "Error: A fault of this program: ValueError")
        assert KEY not in screen_text(app)
    assert "ValueError" in caplog.text and "in fault" in caplog.text
    assert KEY not in caplog.text


def test_a_long_key_is_shown_to_its_end() -> None:
    key = "sk-" + "0123456789" * 12
    lines = [plain(line) for line in endpoint_words.on(Address(HOST, 8080, key), 76, key_shown=True)]
    assert "".join(line[14:] for line in lines[1:-1]) == key
    assert max(map(len, lines)) <= 76


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        (KEY, "sk-…ghij"),
        ("0123456789abcdef", "…cdef"),
        ("sk-short", "…"),
        ("", "…"),
    ],
)
def test_masked(key: str, shown: str) -> None:
    assert endpoint_words.masked(key) == shown


# ---- the address ----


async def test_only_c_copies_the_address(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, endpoint)
        await pilot.press("c")
        assert "There is no address yet" in notifications(app)
        await pilot.press("space")
        await shows(pilot, "● on")
        await pilot.press("k", "up", "down")
        assert app.clipboard == ""
        await pilot.press("c")
        assert app.clipboard == URL
        assert f"Copied: {URL}" in notifications(app)


# ---- requests ----


async def test_live_ones_first_then_the_newest(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await opened(pilot, busy(endpoint.on(), 3))
        lines = screen_text(app).splitlines()
        first = next(i for i, line in enumerate(lines) if "accepted" in line) + 1
        states = [line.split()[-1 - after :][0] for line, after in ((lines[first], 4), (lines[first + 1], 4))]
        assert states == ["waiting", "reading"]
        assert [n for n in range(first, first + 7) if "done" in lines[n]] == [first + 4, first + 5, first + 6]
        assert "failed" in lines[first + 3]
        assert "412   54.6      84 %  auto" in lines[first + 2]
        assert "1 writing, 1 reading, 1 waiting, 3 done, 1 failed" in words(app)


async def test_nothing_moves_while_it_goes_on(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, busy(endpoint.on()))
        table = app.screen.query_one(Choices)
        number = endpoint.come(state="writing", tokens=9, tokens_per_second=9.9)
        await shows(pilot, " 9 9.9")
        assert table.marked == 0, "at the top it stays at the top"
        await pilot.press("down", "down", "down", "down")
        await shows(pilot, "Error: The prompt has 9,412 tokens")
        for n in range(3):
            endpoint.come(what=f"another {n}")
        await until(pilot, lambda: table.marked == 7)
        assert "Error: The prompt has 9,412 tokens" in words(app)
        before = screen_text(app).splitlines()
        endpoint.change(number, tokens=12_345, tokens_per_second=123.4, acceptance=1.0, method="draft, 3 deep")
        await shows(pilot, "12,345 123 100 %")
        behind = screen_text(app).splitlines()
        assert [i for i, line in enumerate(before) if line != behind[i]] == [
            next(i for i, line in enumerate(behind) if "12,345" in line)
        ]
        # What the mouse has scrolled to stays, too.
        table.scroll_to(y=5, animate=False, immediate=True)
        table.marked = 1
        table.scroll_to(y=5, animate=False, immediate=True)
        endpoint.change(number, tokens=12_346)
        await until(pilot, lambda: any(row.tokens == "12,346" for row in app.screen._rows))  # type: ignore[attr-defined]
        assert table.scroll_offset.y == 5


async def test_it_looks_instead_of_being_told(make_app: MakeApp, endpoint: FakeEndpoint) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await opened(pilot, busy(endpoint.on()))
        table = app.screen.query_one(Choices)
        shown: list[object] = []
        original = table.show
        table.show = lambda *args, **kw: (shown.append(args), original(*args, **kw))  # type: ignore[method-assign, assignment, func-returns-value]
        asked = endpoint.asked
        await until(pilot, lambda: endpoint.asked > asked + 20)
        assert not shown, "nothing new, nothing drawn"


HOSTILE = (*MARKUP, *CONTROLS, "x" * 10_000, "図" * 5_000, "e" + "\u0301" * 9_000, "\ud800 half", "", "\n\n")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["80x24", "120x36"])
async def test_U01_X05_clients_can_say_anything(
    make_app: MakeApp, endpoint: FakeEndpoint, text: str, size: tuple[int, int]
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        endpoint.come(client="first", state="done", tokens=7)
        endpoint.come(client=text, what=text, state="failed", method=text, error=text)
        await opened(pilot, endpoint.on())
        seen = screen_text(app)
        assert not CONTROL.search(seen.replace("\n", ""))
        seen.encode()
        assert {cell_len(line) for line in seen.splitlines()} == {size[0]}
        if text in MARKUP:
            assert text in seen
        last = next(line for line in seen.splitlines() if "first" in line)
        assert "7" in last and "done" in last
        assert seen.splitlines()[-1].strip().startswith("space off")


# ---- the title line of the chat ----


@pytest.mark.parametrize(
    ("width", "shown"),
    [(120, "ready   ● endpoint 127.0.0.1:8080 "), (80, "Qwen2.5 Coder 0.5B…   ready   ● endpoint :8080 ")],
)
async def test_the_title_line_tells_of_it(make_app: MakeApp, width: int, shown: str) -> None:
    app = make_app()
    async with app.run_test(size=(width, 24)) as pilot:
        await ready(pilot)
        before = screen_text(app)
        header = app.chat.query_one(Header)
        header.endpoint = "127.0.0.1:8080"
        await pilot.pause()
        first = screen_text(app).splitlines()[0]
        assert first.endswith(shown)
        assert "Qwen2.5 Coder 1.5B Instruct" in first
        header.endpoint = ""
        await pilot.pause()
        assert screen_text(app) == before


async def test_a_narrow_title_line_keeps_the_names(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(34, 24)) as pilot:
        await ready(pilot)
        app.chat.query_one(Header).endpoint = "127.0.0.1:8080"
        await pilot.pause()
        first = screen_text(app).splitlines()[0]
        assert "Qwen2.5" in first and "ready" in first and "endpoint" not in first
