"""The list of conversations: what it says when keys are pressed, and what it leaves where it is."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from rich.cells import cell_len, set_cell_size
from textual import events
from textual.geometry import Offset
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.lines import plain
from pardec_chat.app.widgets import conversation_row, sidebar_words
from pardec_chat.app.widgets.sidebar import Sidebar
from pardec_chat.tests.ui.fake_sidebar import NOW, SOME, Bench, summary
from pardec_chat.tests.ui.helpers import screen_text, until

MakeApp = Callable[..., PardecChat]
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
ODD = "[/b] [red]x[/red] \x1b]52;c;aGk=\x07\x1b[2J\x9b1m\u202e"
MANY = [summary(f"c{n:04}", f"Conversation {n}", n * 3) for n in range(300)]


class Opened:
    """The bench, and what it says."""

    def __init__(self, pilot: Pilot[None], bench: Bench) -> None:
        self.pilot = pilot
        self.bench = bench
        self.sidebar = bench.sidebar

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        """Those of the list alone, without its scroll bar."""
        app = self.pilot.app
        assert isinstance(app, PardecChat)
        width, height = self.sidebar.size
        return [set_cell_size(line, width - 1).rstrip() for line in screen_text(app).split("\n")[:height]]

    def line(self, text: str) -> int:
        """The place of the one line that has this."""
        (place,) = (n for n, line in enumerate(self.lines) if text in line)
        return place


Open = Callable[..., AbstractAsyncContextManager[Opened]]


@pytest.fixture
def opened(make_app: MakeApp) -> Open:
    """Opens a bench over the app."""

    @asynccontextmanager
    async def open_(bench: Bench, size: tuple[int, int] = (80, 30), *, enter: bool = True) -> AsyncIterator[Opened]:
        app = make_app(model=None, draft=None)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.chat.state == "no model")
            await app.push_screen(bench)
            await pilot.pause()
            if enter:
                bench.sidebar.enter()
                await pilot.pause()
            yield Opened(pilot, bench)

    return open_


# ---- the list ----


async def test_sections_and_the_open_one(opened: Open) -> None:
    async with opened(Bench(), (80, 40), enter=False) as it:
        assert it.lines[3:32] == [
            " Pinned",
            "   Bread without knead…  ★",
            "",
            " Today",
            " ▸ Merging lists",
            "   Bicycle advice for a w…",
            "   図書館の開館時間と休館…",
            "",
            " Yesterday",
            "   CSV parser",
            "   [/INST] a[0] [bold",
            "",
            " This week",
            "   Letters to a landlord",
            "",
            " March",
            "   Names for a small boat",
            "",
            " February",
            "   Why the sky is blue",
            "",
            " November 2025",
            "   Tax return, second try",
            "",
            " 2023",
            "   A first try",
            "",
            "",
            "",
        ]


async def test_keys_say_what_the_user_wants(opened: Open) -> None:
    bench = Bench()
    bench.does = False
    async with opened(bench) as it:
        assert bench.marked == "Merging lists"
        await it.press("down", "enter", "p", "n", "d", "up", "delete", "escape")
        assert bench.said == [
            Sidebar.Opened("bicycle"),
            Sidebar.PinToggled("bicycle"),
            Sidebar.NewAsked(),
            Sidebar.Deleted("bicycle"),
            Sidebar.Deleted("lists"),
            Sidebar.Left(),
        ]


async def test_mark_is_seen_while_the_list_has_the_keys(opened: Open) -> None:
    async with opened(Bench(), enter=False) as it:
        assert not any("▌" in line for line in it.lines)
        it.sidebar.enter()
        await it.pilot.pause()
        assert it.lines[it.line("Merging")] == "▌▸ Merging lists"
        await it.press("escape")
        assert not any("▌" in line for line in it.lines)


async def test_a_click_opens_once(opened: Open) -> None:
    bench = Bench()
    bench.does = False
    async with opened(bench, enter=False) as it:
        place = Offset(6, it.line("CSV"))
        await it.pilot.click(offset=place, button=3)
        assert bench.said == []
        await it.pilot.click(offset=place, times=2)
        await it.pilot.pause()
        assert bench.said == [Sidebar.Opened("csv")]
        await it.pilot.click(offset=Offset(6, it.line("Yesterday")))
        assert bench.said == [Sidebar.Opened("csv")]


async def test_U01_brackets_in_titles(opened: Open) -> None:
    titles = ["[/INST]", "a[0] [bold", "[b +", "[/", "[@click=app.quit]x[/]"]
    kept = [summary(str(n), title, n) for n, title in enumerate(titles)]
    async with opened(Bench(kept, "0"), enter=False) as it:
        assert set(titles) < {line.removeprefix(" ▸ ").strip() for line in it.lines}
        it.sidebar.enter()
        await it.press("home", "d")
        assert it.lines[-2:] == [" Deleted “[/INST]”", " u undoes"]
        await it.press("r")
        assert it.lines[1] == " › a[0] [bold"


async def test_X05_control_bytes_never_reach_the_terminal(opened: Open) -> None:
    kept = [summary("odd", ODD, 1), replace(summary("hit", ODD, 2), snippet=f"before {ODD} after")]
    bench = Bench(kept, None)
    async with opened(bench, (120, 30)) as it:
        it.sidebar.styles.width = 80
        await it.pilot.pause()
        assert it.lines[4] == "▌  [/b] [red]x[/red] ␛]52;c;aGk=␇␛[2J\ufffd1m\ufffd".ljust(73) + "14:30"
        assert it.line("before [/b] [red]x[/red] ␛]52;c;aGk=␇␛[2J\ufffd1m\ufffd after")
        await it.press("r")
        assert it.lines[1] == " › [/b] [red]x[/red] ␛]52;c;aGk=␇␛[2J\ufffd1m\ufffd"
        await it.press("enter")
        assert bench.said == []
        await it.press("d")
        assert not CONTROL.search(screen_text(it.pilot.app).replace("\n", ""))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [24, 26, 27, 28, 30, 47, 48, 80, 200])
def test_rows_fill_their_width_with_wide_characters(width: int) -> None:
    wide = summary(
        "a",
        "図書館の開館時間と休館日について、もう一度",
        1,
        pinned=True,
        snippet="図書館の開館時間と休館日について" * 4,
    )
    rows = [line for is_open in (True, False) for line in conversation_row.draw(wide, width, NOW, is_open=is_open)]
    assert len(rows) == 4
    for line in rows:
        assert cell_len(plain(line)) <= width
    assert "★" in plain(rows[0])


def test_a_hit_is_cut_so_that_it_is_seen() -> None:
    hit = summary("a", "Title", 1, snippet="…a long way before it there is the needle and then there is more of it")
    _, snippet = conversation_row.draw(hit, 26, NOW, found=re.compile("needle"))
    assert snippet == (("  ", "quiet"), ("…is the ", "quiet"), ("needle", "value"), (" and then…", "quiet"))
    assert cell_len(plain(snippet)) == 26


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (datetime(2026, 3, 19, 9, 5), "09:05"),
        (datetime(2026, 3, 18, 23, 59), "Wed 23:59"),
        (datetime(2026, 3, 16, 0, 0), "Mon 00:00"),
        (datetime(2026, 3, 15, 23, 59), "15 Mar"),
        (datetime(2025, 12, 31, 12, 0), "31 Dec 2025"),
        (datetime(2026, 3, 20, 0, 0), "20 Mar"),
    ],
)
def test_when(moment: datetime, words: str) -> None:
    assert conversation_row.when(moment.timestamp(), NOW) == words


def test_when_of_what_is_no_time() -> None:
    assert [conversation_row.when(n, NOW) for n in (1e300, -1e300, float("inf"), float("nan"))] == [""] * 4


def test_sections_on_a_monday() -> None:
    now = datetime(2026, 3, 16, 8, 0)
    moments = [datetime(2026, 3, 17, 1), datetime(2026, 3, 16, 7), datetime(2026, 3, 15, 22), datetime(2026, 3, 14, 22)]
    kept = [replace(summary(str(n)), updated=moment.timestamp()) for n, moment in enumerate(moments)]
    kept.append(replace(summary("none"), updated=-1e300))
    assert conversation_row.sections(kept, now) == {0: "Today", 2: "Yesterday", 3: "March", 4: "Earlier"}


async def test_a_new_day_moves_the_sections(opened: Open) -> None:
    bench = Bench()
    async with opened(bench, (80, 40)) as it:
        bench.now = NOW + timedelta(days=1)
        bench.refill()
        await it.pilot.pause()
        assert it.line("Yesterday") == it.line("Merging lists") - 1
        assert not any("Today" in line for line in it.lines)


# ---- what stays ----


async def test_the_same_again_draws_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(MANY, "c0000")
    async with opened(bench) as it:
        it.sidebar.rows.scroll_to(y=100, animate=False)
        await it.pilot.pause()
        shown: list[object] = []
        monkeypatch.setattr(it.sidebar.rows, "show", lambda *a, **k: shown.append(a))
        it.sidebar.show([replace(one) for one in MANY], "c0000", False)
        await it.pilot.pause()
        assert (shown, it.sidebar.rows.scroll_offset.y) == ([], 100)


async def test_reader_stays_where_they_scrolled(opened: Open) -> None:
    bench = Bench(MANY, "c0000")
    async with opened(bench) as it:
        rows = it.sidebar.rows
        rows.scroll_to(y=100, animate=False)
        await it.pilot.pause()
        bench.kept["c0100"] = replace(bench.kept["c0100"], title="Another title")
        bench.refill()
        await it.pilot.pause()
        assert (rows.scroll_offset.y, bench.marked) == (100, "Conversation 0")


async def test_marked_one_keeps_its_line_when_others_come_before_it(opened: Open) -> None:
    bench = Bench(MANY, "c0000")
    async with opened(bench) as it:
        await it.press(*["pagedown"] * 4)
        title = bench.marked
        assert title is not None
        line = it.line(f"{title}")
        bench.kept["c0200"] = replace(bench.kept["c0200"], updated=NOW.timestamp())
        bench.refill()
        await it.pilot.pause()
        assert (bench.marked, it.line(title)) == (title, line)


async def test_mark_follows_what_is_opened_elsewhere(opened: Open) -> None:
    bench = Bench(MANY, "c0000")
    async with opened(bench, enter=False) as it:
        bench.current = "c0150"
        bench.refill()
        await it.pilot.pause()
        assert bench.marked == "Conversation 150"
        it.line("▸ Conversation 150")


async def test_enter_begins_at_the_open_one(opened: Open) -> None:
    bench = Bench(MANY, "c0002")
    async with opened(bench) as it:
        await it.press("end", "escape")
        assert bench.marked == "Conversation 299"
        it.sidebar.enter()
        await it.pilot.pause()
        assert bench.marked == "Conversation 2"
        it.line("▌▸ Conversation 2")


# ---- search ----


async def test_search_as_one_types(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("slash", "b", "o")
        assert bench.said == [Sidebar.SearchTyped("b"), Sidebar.SearchTyped("bo")]
        assert it.lines[0] == " Conversations     2 found"
        assert it.lines[3:5] == ["▌  [/INST] a[0] [bold", "▌  … and then about bo in…"]
        await it.press("down", "enter")
        assert bench.opened == "early"
        assert it.lines[1] == " / bo"


async def test_an_answer_to_another_search_is_left_alone(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("slash", "b", "o")
        before = it.lines
        it.sidebar.show(SOME[:1], "lists", True, query="b")
        await it.pilot.pause()
        assert it.lines == before


async def test_nothing_found(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("slash", *"xyz", "enter", "down", "pagedown")
        assert it.lines[0] == " Conversations     0 found"
        assert it.lines[3] == "   nothing found"
        assert bench.opened is None


async def test_escape_peels_one_thing_after_the_other(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("slash", "b", "o", "tab")
        assert it.sidebar.rows.has_focus
        await it.press("escape")
        assert bench.said[2:] == [Sidebar.SearchTyped("")]
        assert (it.lines[0], it.lines[1], bench.marked) == (" Conversations       n new", " / search", "Merging lists")
        await it.press("slash", "escape")
        assert it.sidebar.rows.has_focus
        await it.press("escape")
        assert bench.said[3:] == [Sidebar.Left()]


async def test_mark_that_was_moved_is_kept_when_the_search_ends(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("slash", "b", "o", "down", "escape")
        assert bench.marked == "Names for a small boat"


async def test_enter_waits_for_the_hits_of_what_was_typed(opened: Open) -> None:
    bench = Bench()
    bench.does = False
    async with opened(bench) as it:
        await it.press("slash", "b", "o", "enter")
        assert bench.opened is None
        hits = [one for one in SOME if one.id in ("early", "brackets")]
        # Of the key before; and what has changed meanwhile.
        it.sidebar.show(SOME[:3], "lists", True, query="b")
        it.sidebar.show(SOME[:4], "lists", False)
        await it.pilot.pause()
        assert bench.opened is None
        it.sidebar.show(hits, "lists", True, query="bo")
        await it.pilot.pause()
        assert bench.opened == hits[0].id


async def test_first_hit_is_marked_until_the_mark_is_moved(opened: Open) -> None:
    bench = Bench()
    bench.does = False
    async with opened(bench) as it:
        await it.press("slash", "b")
        it.sidebar.show(SOME[:5], "lists", True)
        await it.press("o")
        it.sidebar.show(SOME[2:5], "lists", True)
        await it.pilot.pause()
        assert bench.marked == SOME[2].title
        await it.press("down")
        it.sidebar.show((SOME[0], *SOME[2:5]), "lists", True)
        await it.pilot.pause()
        assert bench.marked == SOME[3].title


async def test_letters_are_letters_in_the_search(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("slash", *"rpdun/", "delete")
        assert [type(message) for message in bench.said] == [Sidebar.SearchTyped] * 6
        assert it.lines[1] == " / rpdun/"


# ---- another title ----


async def test_rename(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("down", "r")
        assert it.lines[0] == " New title"
        assert it.lines[-2] == " enter save · esc leave it"
        await it.press("ctrl+u", *"  Wheels ", "enter")
        assert bench.said == [Sidebar.Renamed("bicycle", "Wheels")]
        assert (it.lines[0], it.lines[1]) == (" Conversations       n new", " / search")
        assert it.lines[it.line("Wheels")] == "▌  Wheels"
        assert it.sidebar.rows.has_focus


@pytest.mark.parametrize("keys", [("enter",), ("x", "escape"), ("ctrl+u", "enter"), ("ctrl+u", "space", "enter")])
async def test_a_title_that_is_none_changes_nothing(opened: Open, keys: tuple[str, ...]) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("r", *keys)
        assert bench.said == []
        assert it.sidebar.rows.has_focus
        assert it.lines[1] == " / search"


async def test_a_click_elsewhere_ends_renaming(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("r", "x")
        await it.pilot.click("#prompt")
        await it.pilot.pause()
        assert (bench.said, it.lines[1]) == ([], " / search")


async def test_renaming_outlasts_a_terminal_in_the_background(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("r", "x")
        it.pilot.app.post_message(events.AppBlur())
        await it.pilot.pause()
        it.pilot.app.post_message(events.AppFocus())
        await it.pilot.pause()
        await it.press("y", "enter")
        assert bench.said == [Sidebar.Renamed("lists", "Merging listsxy")]


async def test_renaming_ends_with_its_conversation(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("r", "x")
        del bench.kept["lists"]
        bench.refill()
        await it.pilot.pause()
        assert it.lines[1] == " / search"
        assert it.sidebar.rows.has_focus


# ---- delete, undo, pin ----


async def test_delete_and_undo(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("down", "u")
        assert bench.said == []
        await it.press("d")
        assert it.lines[-2:] == [" Deleted “Bicycle advice…”", " u undoes"]
        assert bench.marked == "図書館の開館時間と休館日について"
        await it.press("down", "u")
        assert bench.said == [Sidebar.Deleted("bicycle"), Sidebar.UndoAsked()]
        assert bench.marked == SOME[1].title
        assert it.lines[-2] == " enter open · r rename"


@pytest.mark.parametrize("keys", [("enter",), ("p",), ("n",), ("r", "escape"), ("slash", "x", "escape")])
async def test_undo_is_offered_until_the_next_action(opened: Open, keys: tuple[str, ...]) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("d")
        assert it.lines[-1] == " u undoes"
        await it.press(*keys, "u")
        assert it.lines[-1] != " u undoes"
        assert Sidebar.UndoAsked() not in bench.said


async def test_undo_is_offered_once_it_is_gone(opened: Open) -> None:
    bench = Bench()
    bench.does = False
    async with opened(bench) as it:
        await it.press("d", "u")
        assert bench.said == [Sidebar.Deleted("lists")]
        assert it.lines[-2] == " enter open · r rename"


async def test_all_deleted(opened: Open) -> None:
    bench = Bench(SOME[:1])
    async with opened(bench) as it:
        await it.press("d")
        assert it.lines[3] == "   No conversations yet."
        # Nothing is marked that these could be about.
        await it.press("enter", "p", "r", "d", "u")
        assert bench.said == [Sidebar.Deleted("lists"), Sidebar.UndoAsked()]
        assert bench.marked == "Merging lists"
        assert it.lines[4] == "▌▸ Merging lists"


async def test_mark_stays_on_what_is_pinned(opened: Open) -> None:
    bench = Bench()
    async with opened(bench) as it:
        await it.press("down", "p")
        assert bench.kept["bicycle"].pinned
        assert bench.marked == SOME[1].title
        assert it.line("Bicycle") == 4
        assert it.lines[-1] == " p unpin · d delete"
        await it.press("p")
        assert not bench.kept["bicycle"].pinned


# ---- words ----


@pytest.mark.parametrize("size", [(24, 12), (26, 20), (80, 24), (200, 60)])
async def test_keys_fit_where_there_is_little_room(opened: Open, size: tuple[int, int]) -> None:
    bench = Bench(over=True)
    async with opened(bench, size) as it:
        words = " ".join(it.lines[-2:]).split(" · ")
        assert "enter open" in words[0]
        assert all(cell_len(line) <= size[0] for line in it.lines)
        await it.press("down", "d")
        assert "u undoes" in it.lines[-1]


def test_words_are_whole_or_not_there() -> None:
    words = sidebar_words.in_list(pinned=False)
    assert sidebar_words.packed(words, 22, 2) == ["enter open · r rename", "p pin · d delete"]
    assert sidebar_words.packed(words, 22, 1) == ["enter open · r rename"]
    assert sidebar_words.packed(words, 9, 2) == ["", ""]
    assert sidebar_words.packed(words, 100, 1) == [
        "enter open · r rename · p pin · d delete · / search · n new · esc back"
    ]


def test_what_was_deleted_gives_way_to_what_undoes_it() -> None:
    assert sidebar_words.deleted("図書館の開館時間", 20, 2) == ["Deleted “図書館の…”", "u undoes"]
    assert sidebar_words.deleted("Bicycle advice", 60, 1) == ["Deleted “Bicycle advice” · u undoes"]
    assert sidebar_words.deleted("Bicycle advice", 34, 1) == ["Deleted “Bicycle advi…” · u undoes"]
    assert sidebar_words.deleted("Bicycle advice", 22, 1) == ["Deleted · u undoes"]


def test_count_gives_way_to_the_title() -> None:
    assert sidebar_words.heading(26, found=5000) == ("Conversations  ", "5,000 found")
    assert sidebar_words.heading(22, found=5000) == ("Conversations    ", "5,000")
    assert sidebar_words.heading(22, hint="^L") == ("Conversations       ", "^L")
    assert sidebar_words.heading(26, found=3, renaming=True)[0].rstrip() == "New title"
