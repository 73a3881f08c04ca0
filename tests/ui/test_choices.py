"""The list that others are made of: what stays where it is while rows change, titles, and rows drawn when they are seen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot

from pardec_chat.app.lines import Line
from pardec_chat.app.widgets.choices import Choices, Draw


class Listed(App[None]):
    """A list that is 8 lines high."""

    CSS = """
    Choices { height: 8; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[str] = []
        self.taken: list[int] = []

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return {"quiet": "#808080"}

    def compose(self) -> ComposeResult:
        yield Choices()

    @property
    def choices(self) -> Choices:
        return self.query_one(Choices)

    def on_choices_taken(self, message: Choices.Taken) -> None:
        self.taken.append(message.index)

    def rows(self, names: Sequence[str]) -> list[Draw]:
        return [partial(self._draw, name) for name in names]

    def _draw(self, name: str, width: int) -> Sequence[Line]:
        self.drawn.append(name)
        return [((name, "text"),)]


def seen(app: Listed) -> list[str]:
    """The lines of the list, without blanks at their ends."""
    strips = app.choices.render_lines(app.choices.size.region)
    return [strip.text.rstrip() for strip in strips]


async def test_what_is_seen_stays_while_rows_are_drawn_anew() -> None:
    app, names = Listed(), [f"row {n}" for n in range(40)]
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows(names), 2)
        await pilot.pause()
        app.choices.scroll_to(y=20, animate=False)
        await pilot.pause()
        assert seen(app)[0] == "  row 20"
        app.choices.show(app.rows([name.upper() for name in names]))
        await pilot.pause()
        assert (seen(app)[0], app.choices.marked) == ("  ROW 20", 2)


async def test_marked_row_keeps_its_line_when_rows_come_before_it() -> None:
    app, names = Listed(), [f"row {n}" for n in range(40)]
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows(names), 20)
        await pilot.pause()
        before = seen(app)
        assert "▸ row 20" in before
        app.choices.show(app.rows(["new", "newer", *names]), 22, still=True)
        await pilot.pause()
        assert seen(app) == before


async def test_a_row_that_is_asked_for_comes_into_view() -> None:
    app, names = Listed(), [f"row {n}" for n in range(40)]
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows(names), 0)
        await pilot.pause()
        app.choices.show(app.rows(names), 30)
        await pilot.pause()
        assert "▸ row 30" in seen(app)


async def test_first_rows_bring_the_mark_into_view_although_it_was_set_before() -> None:
    app, names = Listed(), [f"row {n}" for n in range(40)]
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.marked = 30
        app.choices.show(app.rows(names))
        await pilot.pause()
        assert "▸ row 30" in seen(app)


async def test_titles_stand_above_rows_and_are_none_themselves() -> None:
    app = Listed()
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows("abcd"), 0, heads={0: "First", 2: "[/Second]"})
        await pilot.pause()
        assert seen(app) == ["  First", "▸ a", "  b", "", "  [/Second]", "  c", "  d", ""]
        await pilot.click(Choices, offset=Offset(3, 4))
        assert (app.taken, app.choices.marked) == ([], 0)
        await pilot.click(Choices, offset=Offset(3, 5))
        assert (app.taken, app.choices.marked) == ([2], 2)


async def test_going_to_the_first_row_shows_its_title() -> None:
    app, names = Listed(), [f"row {n}" for n in range(40)]
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows(names), 39, heads={0: "First"})
        await pilot.pause()
        app.choices.action_end(False)
        await pilot.pause()
        assert seen(app)[:2] == ["  First", "▸ row 0"]


async def test_rows_of_known_height_are_drawn_when_they_are_seen() -> None:
    app, names = Listed(), [f"row {n}" for n in range(5000)]
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows(names), 0, heights=[1] * len(names))
        await pilot.pause()
        assert set(app.drawn) == set(names[:8])
        app.choices.action_end(True)
        await pilot.pause()
        assert set(app.drawn) == {*names[:8], *names[-8:]}
        assert len(app.drawn) == 16


async def test_only_the_first_button_takes() -> None:
    app = Listed()
    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows("ab"), 0)
        await pilot.pause()
        await pilot.click(Choices, offset=Offset(3, 1), button=3)
        assert (app.taken, app.choices.marked) == ([], 0)


async def test_page_moves_by_what_is_seen() -> None:
    app, names = Listed(), [f"row {n}" for n in range(40)]

    async def pressed(pilot: Pilot[None], key: str) -> int | None:
        await pilot.press(key)
        return app.choices.marked

    async with app.run_test(size=(30, 10)) as pilot:
        app.choices.show(app.rows(names), 0)
        app.choices.focus()
        await pilot.pause()
        assert [await pressed(pilot, key) for key in ("pagedown", "pagedown", "pageup", "end", "home")] == [
            7,
            14,
            7,
            39,
            0,
        ]
