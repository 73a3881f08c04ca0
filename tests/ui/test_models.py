"""Models in the app: the first start, getting more, drafts with their verdicts, and what to give up when memory is short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pardec_chat.app.app import PardecChat
from pardec_chat.app.screens.browse import BrowseScreen
from pardec_chat.app.screens.memory import MemoryScreen
from pardec_chat.app.screens.picker import Picker
from pardec_chat.app.screens.session import Models
from pardec_chat.app.screens.wizard import WizardScreen
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import DoesNotFit, ModelUnreadable
from pardec_chat.backends.machine import Machine
from pardec_chat.backends.memory import Shape, Wish, alternatives, plan
from pardec_chat.backends.pairs import PairVerdict
from pardec_chat.tests.ui.fake_engine import DRAFT, ENTRIES, LARGE, SMALL, FakeEngine, delta, finished, run_of
from pardec_chat.tests.ui.fake_wizard import SMALL as BUILT_IN
from pardec_chat.tests.ui.fake_wizard import FakeWizard
from pardec_chat.tests.ui.helpers import ready, screen_text, until

MakeApp = Callable[..., PardecChat]
GB = 10**9


@pytest.fixture
def wizard(tmp_path: Path) -> FakeWizard:
    return FakeWizard(tmp_path)


async def test_a_newcomer_chats_with_three_keys(make_app: MakeApp, engine: FakeEngine, wizard: FakeWizard) -> None:
    app = make_app(model=None, draft=None, method=Method.AUTO, choices=tuple, wizard=lambda: wizard)
    keys = 0
    async with app.run_test() as pilot:

        async def press(key: str) -> None:
            nonlocal keys
            keys += 1
            await pilot.press(key)

        await until(pilot, lambda: "Start now" in screen_text(app))
        assert "No model here yet." in screen_text(app)
        await press("enter")
        await until(pilot, lambda: ("start", BUILT_IN.id) in wizard.downloads.calls)
        wizard.downloads.come(BUILT_IN, 0.5)
        wizard.downloads.set(BUILT_IN, "done")
        await until(pilot, lambda: app.screen is app.chat)
        await ready(pilot)
        assert engine.loads[-1][0].model == wizard.path(BUILT_IN)
        await press("?")
        await press("enter")
        await until(pilot, lambda: bool(engine.turns))
        engine.turns[0].send(delta("Hello!"), finished("Hello!", run_of(3, 50.0)[-1]))
        await until(pilot, lambda: "Hello!" in screen_text(app))
        assert keys == 3


async def test_what_is_chosen_before_the_engine_is_there_is_loaded_first(
    make_app: MakeApp, engine: FakeEngine, wizard: FakeWizard
) -> None:
    wizard.have(BUILT_IN)
    app = make_app(model=None, draft=None, choices=tuple, wizard=lambda: wizard)
    async with app.run_test() as pilot:
        engine_made, app.chat.session.engine = app.chat.session.engine, None
        await until(pilot, lambda: "Start now" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.chat)
        if not engine.loads:
            app.chat.session.engine = engine_made or engine
            app.chat.load_first()
        await ready(pilot)
        assert [choice.model for choice, _, _ in engine.loads] == [wizard.path(BUILT_IN)]


async def test_a_file_is_offered_on_the_runtimes_alone_that_run_it(make_app: MakeApp, engine: FakeEngine) -> None:
    small, large = ENTRIES[0], ENTRIES[1]
    entries = (large, replace(small, runtime="mlx"), replace(large, runtime="mlx", runs=lambda: False))
    app = make_app(choices=lambda: entries)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, Picker))
        assert f"{small.id} · on mlx" in screen_text(app)
        assert large.id in screen_text(app)
        assert f"{large.id} · on mlx" not in screen_text(app)


async def test_with_models_on_disk_or_without_a_wizard_the_chat_comes_first(
    make_app: MakeApp, wizard: FakeWizard
) -> None:
    for app in (
        make_app(model=None, draft=None, wizard=lambda: wizard),
        make_app(model=None, draft=None, choices=tuple),
    ):
        async with app.run_test() as pilot:
            await until(pilot, lambda app=app: app.chat.state == "no model")  # type: ignore[misc]
            await pilot.pause()
            assert app.screen is app.chat


@pytest.mark.parametrize("keys", [("f7",), ("f3", "end", "enter")])
async def test_more_models_are_a_key_away_while_one_writes(
    make_app: MakeApp, engine: FakeEngine, wizard: FakeWizard, keys: tuple[str, ...]
) -> None:
    wizard.have(BUILT_IN)
    app = make_app(wizard=lambda: wizard)
    async with app.run_test() as pilot:
        await ready(pilot)
        app.chat.prompt.text = "a text that stays"
        await pilot.press(*keys)
        await until(pilot, lambda: isinstance(app.screen, WizardScreen))
        await until(pilot, lambda: "Start now" in screen_text(app))
        assert "Choose a model." in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: len(engine.loads) == 2)
        await ready(pilot)
        assert engine.loads[1][0].model == wizard.path(BUILT_IN)
        assert app.chat.prompt.text == "a text that stays"


async def test_escape_leaves_the_models_as_they_are(make_app: MakeApp, engine: FakeEngine, wizard: FakeWizard) -> None:
    app = make_app(wizard=lambda: wizard)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f7")
        await until(pilot, lambda: "Browse all models" in screen_text(app))
        await pilot.press("down", "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, BrowseScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, WizardScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert len(engine.loads) == 1


async def test_without_a_wizard_the_key_says_what_to_do(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f7")
        await pilot.pause()
        assert app.screen is app.chat
        (notification,) = app._notifications
        assert "pardec-chat models pull" in notification.message


async def test_the_runtime_changes_with_the_model_and_back(make_app: MakeApp, engine: FakeEngine) -> None:
    torch = tuple(replace(entry, runtime="pytorch") for entry in ENTRIES)
    app = make_app(choices=lambda: (*ENTRIES, *torch))
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f3")
        await until(pilot, lambda: "qwen2.5-1.5b · on pytorch" in screen_text(app))
        await pilot.press(*["down"] * len(ENTRIES), "enter")  # the same file, on the other runtime
        await until(pilot, lambda: "Draft model for" in screen_text(app))
        assert "qwen2.5-0.5b · on pytorch" in screen_text(app)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: len(engine.loads) == 2)
        await ready(pilot)
        choice = engine.loads[1][0]
        assert (choice.model, choice.draft, choice.runtime) == (LARGE, DRAFT, "pytorch")
        assert app.chat.session.choice == Models(LARGE, DRAFT, "pytorch")
        # A load that fails brings back what was there, on its runtime.
        engine.failures[SMALL] = [ModelUnreadable("No.", "Choose another.")]
        app.chat.load(SMALL, None)
        await until(pilot, lambda: len(engine.loads) == 4)
        await ready(pilot)
        assert (engine.loads[2][0].runtime, engine.loads[3][0].runtime) == (None, "pytorch")
        assert app.chat.session.choice == Models(LARGE, DRAFT, "pytorch")


async def test_looking_ahead_can_be_chosen_where_the_cache_branches(make_app: MakeApp, engine: FakeEngine) -> None:
    app = make_app()
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f2", "end", "enter")
        await until(pilot, lambda: app.chat.session.method == Method.LOOKAHEAD)
        assert app.chat.session.depth == 4
        loaded = app.chat.session.loaded
        assert loaded is not None and app.chat.session.why_not(Method.LOOKAHEAD) == ""
        app.chat.session.loaded = replace(loaded, branches=False)
        assert "cannot branch" in app.chat.session.why_not(Method.LOOKAHEAD)


async def test_U04_leaving_the_app_ends_the_downloads(make_app: MakeApp, wizard: FakeWizard) -> None:
    app = make_app(wizard=lambda: wizard)
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("f7")
        await until(pilot, lambda: "Start now" in screen_text(app))
        await pilot.press("ctrl+q")
        await pilot.pause()
    assert ("close", "") in wizard.downloads.calls


async def test_L08_every_draft_model_shows_whether_it_fits(make_app: MakeApp) -> None:
    def verdict(target: Path, draft: Path) -> PairVerdict:
        if draft == DRAFT:
            return PairVerdict(target, draft, "draft", "exact", ("Both have the same 151,936 ids.", "2.3 to 1."))
        if draft == SMALL:
            return PairVerdict(target, draft, "draft", "impossible", ("49,135 common ids have [/other] texts.", "more"))
        raise ModelUnreadable("gemma is damaged.")

    app = make_app(verdict=verdict)
    async with app.run_test(size=(100, 36)) as pilot:
        await ready(pilot)
        await pilot.press("f3", "enter")
        await until(pilot, lambda: "Draft model for" in screen_text(app))
        text = screen_text(app)
        assert isinstance(app.screen, Picker)
        assert "Both have the same 151,936 ids. 2.3 to 1." in text
        assert "not now: 49,135 common ids have [/other] texts." in text
        assert "not now: gemma is damaged." in text


def does_not_fit() -> DoesNotFit:
    """A pair for which a shorter context, an 8-bit cache or no draft make room."""
    wish = Wish(Shape("t", 3 * GB, 30, 100_000, 50_000, 32_768, head=128), Shape("d", GB, 10, 20_000, 50_000), 8192)
    need = plan(wish, Machine("", "", 2, (), GB, 0)).need_of_models()
    here = Machine("test", "test", 2, (), need, need + 100_000_000)
    return DoesNotFit("It needs more.", "Take less.", plan(wish, here), alternatives(wish, here))


@pytest.mark.parametrize(
    ("downs", "expected"),
    [
        (0, (LARGE, None, 8192, "f16", False)),
        (1, (LARGE, DRAFT, 8192, "q8_0", False)),
        (3, (LARGE, DRAFT, 4096, "f16", False)),
        (5, (LARGE, DRAFT, None, "f16", True)),
    ],
)
async def test_K03_the_user_is_asked_what_to_give_up(
    make_app: MakeApp, engine: FakeEngine, downs: int, expected: tuple[object, ...]
) -> None:
    engine.failures[LARGE] = [does_not_fit()]
    app = make_app(model=SMALL, draft=None, method=Method.PLAIN)
    async with app.run_test(size=(100, 36)) as pilot:
        await ready(pilot)
        app.chat.load(LARGE, DRAFT)
        await until(pilot, lambda: isinstance(app.screen, MemoryScreen))
        await until(pilot, lambda: "It does not fit" in screen_text(app))
        assert app.chat.session.choice == Models(SMALL)  # still loaded
        await pilot.press(*["down"] * downs, "enter")
        await until(pilot, lambda: len(engine.loads) == 3)
        await ready(pilot)
        choice = engine.loads[2][0]
        assert (choice.model, choice.draft, choice.n_ctx, choice.cache_type, choice.unchecked) == expected


async def test_K03_leaving_it_keeps_the_model_before(make_app: MakeApp, engine: FakeEngine) -> None:
    engine.failures[LARGE] = [does_not_fit()]
    app = make_app(model=SMALL, draft=None, method=Method.PLAIN)
    async with app.run_test(size=(100, 36)) as pilot:
        await ready(pilot)
        app.chat.load(LARGE, None)
        await until(pilot, lambda: isinstance(app.screen, MemoryScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await until(pilot, lambda: "was not loaded" in screen_text(app))
        assert app.chat.state == "ready"
        assert len(engine.loads) == 2
        assert app.chat.session.names[0] == "SmolLM2 135M Instruct"


async def test_what_was_given_up_holds_for_that_model_alone(make_app: MakeApp, engine: FakeEngine) -> None:
    error = does_not_fit()
    engine.failures[LARGE] = [error]
    app = make_app(model=LARGE, draft=DRAFT, n_ctx=8192)
    async with app.run_test(size=(100, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, MemoryScreen))
        await pilot.press("down", "enter")
        await ready(pilot)
        app.chat.load(SMALL, None)
        await until(pilot, lambda: len(engine.loads) == 3)
        await ready(pilot)
        app.chat.load(LARGE, None)
        await until(pilot, lambda: len(engine.loads) == 4)
        await ready(pilot)
        kinds = [(choice.model, choice.cache_type) for choice, _, _ in engine.loads]
        assert kinds == [(LARGE, "f16"), (LARGE, "q8_0"), (SMALL, "f16"), (LARGE, "q8_0")]
    assert replace(error.alternatives[1].wish, draft=None).cache_type == "q8_0"
