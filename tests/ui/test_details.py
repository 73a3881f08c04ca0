"""The details of an error: what they say, how they are copied, what they look like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app import log_end
from pardec_chat.app.app import PardecChat
from pardec_chat.app.lines import plain
from pardec_chat.app.log_end import LogEnd
from pardec_chat.app.screens.details import DetailsScreen
from pardec_chat.app.widgets import error_words
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.tests.ui.helpers import notifications, screen_text, until

MakeApp = Callable[..., PardecChat]

LOG = Path("/home/user/.local/state/pardec-chat/log/pardec-chat.log")
TRACEBACK = (
    "2026-01-02 10:00:01,000 ERROR pardec_chat.app.chat.engine: the turn failed",
    "Traceback (most recent call last):",
    '  File "/opt/pardec-chat/backends/decoding/loop.py", line 112, in step',
    "    kept = target.verify([generation.slot for generation in live], drafts)",
    "ValueError: could not broadcast input array from shape (4,) into shape (3,)",
)


def chained() -> Exception:
    """An error with two before it."""
    try:
        try:
            try:
                raise OSError(28, "No space left on device")
            except OSError as error:
                raise KeyError("row 3") from error
        except KeyError:
            raise ValueError("could not broadcast input array from shape (4,) into shape (3,)")  # noqa: B904
    except ValueError as error:
        return error


class Mute(Exception):
    """An error that fails to tell what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def told(error: BaseException | str, next_step: str = "", end: LogEnd | None = None) -> list[tuple[str, str]]:
    """The parts of the page."""
    return list(error_words.sections(error_words.of(error, next_step), LOG, end))


def test_what_happened_and_what_led_to_it() -> None:
    assert told(chained(), "Report it.", LogEnd(TRACEBACK, found=True)) == [
        ("What went wrong", "ValueError: could not broadcast input array from shape (4,) into shape (3,)"),
        ("What to do next", "Report it."),
        ("What led to it", "KeyError: 'row 3'\nOSError: [Errno 28] No space left on device"),
        ("The log", "\n".join([str(LOG), "What it says about this:", "", *TRACEBACK])),
    ]


def test_errors_of_users_have_no_type_and_bring_their_next_step() -> None:
    error = ModelUnreadable("The file is truncated.", "Load it again.")
    assert told(error)[:2] == [("What went wrong", "The file is truncated."), ("What to do next", "Load it again.")]
    assert told(error, "Or leave it.")[1] == ("What to do next", "Or leave it.")
    assert told("Only words.")[0] == ("What went wrong", "Only words.")


def test_it_never_fails() -> None:
    ring = ValueError("a")
    ring.__cause__ = KeyError("b")
    ring.__cause__.__cause__ = ring
    assert told(ring)[1] == ("What led to it", "KeyError: 'b'")
    assert told(Mute())[0] == ("What went wrong", "Mute")
    assert told(KeyboardInterrupt())[0] == ("What went wrong", "KeyboardInterrupt")
    assert told("")[0] == ("What went wrong", "Nobody said what.")
    for long in ("x" * 10**6, ValueError("x" * 10**6), ModelUnreadable("x" * 10**6)):
        assert len(told(long)[0][1]) < 5000
    assert told("a", end=LogEnd(problem="No such file or directory"))[-1] == (
        "The log",
        f"{LOG}\nIt could not be read: No such file or directory.",
    )
    assert told("a", end=LogEnd())[-1][1].endswith("It is empty.")
    assert "Nothing in it names this error. Its end:" in told("a", end=LogEnd(("b",)))[-1][1]


def test_suppressed_contexts_are_left_out() -> None:
    try:
        try:
            raise KeyError("secret")
        except KeyError:
            raise ValueError("plain") from None
    except ValueError as error:
        assert [title for title, _ in told(error)] == ["What went wrong", "The log"]


def test_X05_control_bytes_are_seen_and_not_copied() -> None:
    details = error_words.of(ValueError("a\x1b[2Jb\x9b"), "c\x07")
    end = LogEnd(("\x1b]52;c;eA==\x07 and\ttab",), found=True)
    copied = error_words.text(details, Path("/tmp/\x1b[31m"), end)
    assert "ValueError: a␛[2Jb\ufffd" in copied and "c␇" in copied and "␛]52;c;eA==␇ and\ttab" in copied
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in copied)
    drawn = [plain(line) for line in error_words.lines(details, LOG, end, 80)]
    assert "␛]52;c;eA==␇ and    tab" in drawn


def test_long_lines_go_on_below() -> None:
    details = error_words.of("x" * 100)
    assert [plain(line) for line in error_words.lines(details, Path("/l"), None, 40)][:4] == [
        "What went wrong",
        "x" * 40,
        "x" * 40,
        "x" * 20,
    ]


# ---- the screen ----


async def opened(
    pilot: Pilot[None], error: BaseException | str, next_step: str, log: Path, shows: str
) -> DetailsScreen:
    """Push the screen and wait until it shows that."""
    screen = DetailsScreen(error, next_step, log)
    pilot.app.push_screen(screen)
    await until(pilot, lambda: shows in screen_text(pilot.app))  # type: ignore[arg-type]
    return screen


async def test_copied_only_by_the_key(make_app: MakeApp, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(TRACEBACK) + "\n", encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, chained(), "Report it.", log, "Traceback")
        assert not app.clipboard
        await pilot.press("c")
        await until(pilot, lambda: bool(app.clipboard))
        assert app.clipboard.startswith("What went wrong\nValueError: could not broadcast")
        assert app.clipboard.endswith(TRACEBACK[-1] + "\n")
        assert notifications(app) == "Copied: the error, and what the log says about it."
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


async def test_no_log(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "x", "", tmp_path / "gone", "It could not be read: No such file or directory.")


async def test_U01_brackets_in_errors(make_app: MakeApp, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("2026-01-02 10:00:01,000 ERROR [/INST] [b +\n", encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(100, 24)) as pilot:
        await opened(pilot, ValueError("[/ a[0] [bold"), "[b]Do[/b]\x1b[2J", log, "[/INST] [b +")
        text = screen_text(app)
        assert "ValueError: [/ a[0] [bold" in text
        assert "[b]Do[/b]␛[2J" in text


async def test_it_scrolls(make_app: MakeApp, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {i}\n" for i in range(100)), encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "x", "", log, "line 60")
        assert "line 99" not in screen_text(app)
        await pilot.press("end")
        await until(pilot, lambda: "line 99" in screen_text(app))


# ---- pictures ----

SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 40), id="120x40"),
    pytest.param("pardec-light", (80, 24), id="light"),
]


@pytest.mark.parametrize(("theme", "size"), SEEN)
def test_snapshot_details(
    snap_compare: Any, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, theme: str, size: Any
) -> None:
    monkeypatch.setattr(log_end, "read", lambda path, words: LogEnd(TRACEBACK, found=True))

    async def run(pilot: Pilot[None]) -> None:
        await opened(pilot, chained(), "Report it with what the log says: c copies all of it.", LOG, "The log")
        await until(pilot, lambda: "the turn failed" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert snap_compare(make_app(theme=theme), terminal_size=size, run_before=run)
