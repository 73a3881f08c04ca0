"""Keys of the user's own in the real app: they work where the old ones did, and these no longer do."""

from __future__ import annotations

from collections.abc import Callable

from pardec_chat.app import keymap
from pardec_chat.app.app import PardecChat
from pardec_chat.app.places import places
from pardec_chat.app.screens.help import HelpScreen
from pardec_chat.app.screens.picker import Picker
from pardec_chat.app.screens.race import RaceScreen
from pardec_chat.app.settings import Rebinding
from pardec_chat.tests.ui.helpers import ready, until

MakeApp = Callable[..., PardecChat]


def _made(**keys: str) -> keymap.Keymap:
    made = keymap.make({id_.replace("_", "-"): Rebinding((key,)) for id_, key in keys.items()}, places())
    assert made.problems == ()
    return made


async def test_keys_move(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        # F1 and F2 change places; F6 has priority over what a text area does with it, wherever it is.
        app.set_keymap(_made(help="f2", method="f1", race="ctrl+k").keys)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("escape", "f2")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape", "f6")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("ctrl+k")
        await until(pilot, lambda: isinstance(app.screen, RaceScreen))


async def test_actions_that_share_a_key_keep_it(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        app.set_keymap(_made(race_stop="f9").keys)
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, RaceScreen))
        await pilot.press("f9")
        await pilot.pause()
        assert isinstance(app.screen, RaceScreen)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)


async def test_keys_are_shown_as_they_are(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        made = _made(again="alt+g")
        app.set_keymap(made.keys)
        (again,) = [active.binding for active in app.screen.active_bindings.values() if active.binding.id == "again"]
        assert keymap.shown(again.key) == "alt+g"
        assert made.bound(again).key == again.key
