"""Pictures of the wizard's screens; `pytest --snapshot-update` accepts new ones, after they were looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from pardec_chat.app.app import PardecChat
from pardec_chat.app.downloads.errors import HubGated, HubNeedsLogin, HubUnreachable, NotGguf
from pardec_chat.app.screens.browse import BrowseScreen
from pardec_chat.app.screens.downloads import DownloadsScreen
from pardec_chat.app.screens.memory import MemoryScreen
from pardec_chat.app.screens.repository import RepositoryScreen
from pardec_chat.app.screens.wizard import WizardScreen
from pardec_chat.backends.errors import UserError
from pardec_chat.backends.machine import Device, Machine
from pardec_chat.backends.memory import Shape, Wish, alternatives, plan
from pardec_chat.tests.ui.fake_wizard import CODER, DRAFT, GB, JAPANESE, LARGE, SMALL, TINY, FakeWizard, write
from pardec_chat.tests.ui.helpers import screen_text, until

Run = Callable[[Pilot[None]], Awaitable[None]]
SEEN = [
    pytest.param("pardec-dark", (80, 24), id="80x24"),
    pytest.param("pardec-dark", (120, 36), id="120x36"),
]
LIGHT = [
    pytest.param("pardec-light", (80, 24), id="light-80x24"),
    pytest.param("pardec-light", (120, 36), id="light-120x36"),
]
WIDE = [pytest.param("pardec-dark", (200, 60), id="200x60")]
seen = pytest.mark.parametrize(("theme", "size"), SEEN)
seen_in_all = pytest.mark.parametrize(("theme", "size"), [*SEEN, *LIGHT, *WIDE])


@pytest.fixture
def wizard(tmp_path: Path) -> FakeWizard:
    return FakeWizard(tmp_path / "models")


@pytest.fixture
def shown(snap_compare: Any, make_app: Callable[..., PardecChat]) -> Callable[..., bool]:
    """Whether a screen looks as before, once it shows `shows` and `then` was done."""

    def compare(screen: Any, theme: str, size: tuple[int, int], shows: str, then: Run | None = None) -> bool:
        async def run(pilot: Pilot[None]) -> None:
            app = pilot.app
            assert isinstance(app, PardecChat)
            await until(pilot, lambda: app.chat.state == "no model")
            app.push_screen(screen)
            await until(pilot, lambda: shows in " ".join(screen_text(app).split()))
            if then is not None:
                await then(pilot)

        app = make_app(theme=theme, model=None, draft=None)
        return bool(snap_compare(app, terminal_size=size, run_before=run))

    return compare


def pressing(*keys: str, until_shown: str = "") -> Run:
    """Press keys, then wait until that is shown."""

    async def then(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await until(pilot, lambda: until_shown in " ".join(screen_text(pilot.app).split()))  # type: ignore[arg-type]

    return then


# ---- the choice ----


@seen_in_all
def test_first_start(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    assert shown(WizardScreen(wizard, first=True), theme, size, "Largest that fits")


@seen
def test_another_model(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.have(SMALL, TINY)
    wizard.downloads.come(CODER, 0.31)
    wizard.downloads.set(CODER, "paused", speed=None, seconds_left=None)
    assert shown(WizardScreen(wizard), theme, size, "Largest that fits")


@seen
def test_looking_at_the_machine(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.held.add("machine")
    try:
        assert shown(WizardScreen(wizard, first=True), theme, size, "Looking at this machine")
    finally:
        wizard.release.set()


@seen
def test_nothing_fits(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.only = ()
    assert shown(WizardScreen(wizard, first=True), theme, size, "Nothing in the catalogue fits")


@seen
def test_no_proposals(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.failures["proposals"] = UserError(
        "models.toml, line 12: model 'x': key 'bytes' is missing.", "Mend the file, or reinstall pardec-chat."
    )
    assert shown(WizardScreen(wizard, first=True), theme, size, "key 'bytes' is missing")


@seen_in_all
def test_fetching(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    async def then(pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: wizard.downloads.item(DRAFT) is not None)
        wizard.downloads.come(CODER, 0.43)
        wizard.downloads.come(DRAFT, 0.07, 830_000)
        await until(pilot, lambda: "43 %" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(WizardScreen(wizard, first=True), theme, size, "Recommended", then)


@seen
def test_fetching_stands_still(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    async def then(pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: wizard.downloads.item(DRAFT) is not None)
        wizard.downloads.set(CODER, "done")
        error = HubUnreachable(
            "cdn-lfs.huggingface.co stopped sending.", "Check the connection, then go on: what has come is kept."
        )
        wizard.downloads.set(DRAFT, "failed", have=180_000_000, error=error)
        await until(pilot, lambda: "failed" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(WizardScreen(wizard, first=True), theme, size, "Recommended", then)


@seen
def test_fetching_behind_the_choice(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    async def then(pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: wizard.downloads.item(DRAFT) is not None)
        wizard.downloads.come(CODER, 0.43)
        await until(pilot, lambda: "43 %" in screen_text(pilot.app))  # type: ignore[arg-type]
        await pilot.press("escape")
        await until(pilot, lambda: "Downloads…" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(WizardScreen(wizard, first=True), theme, size, "Recommended", then)


@seen
def test_a_file(shown: Any, wizard: FakeWizard, theme: str, size: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (
        "llama-3.2-3b-instruct-q4_k_m.gguf",
        "llama-3.1-8b-instruct-q4_k_m.gguf",
        "llama-guard/x.gguf",
        "notes.txt",
    ):
        write(tmp_path / "my" / name, 10)

    async def then(pilot: Pilot[None]) -> None:
        await pilot.press("up", "enter")
        await pilot.press(*"my/ll", "tab")
        await until(pilot, lambda: "guard" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(WizardScreen(wizard, first=True), theme, size, "Recommended", then)


@seen
def test_a_file_that_is_none(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.failures["add"] = NotGguf(
        "/home/ada/notes.txt is not a GGUF file: it does not begin with GGUF.",
        "Choose the .gguf file of the model; other formats have to be converted first.",
    )

    async def then(pilot: Pilot[None]) -> None:
        await pilot.press("up", "enter", *"notes.txt", "enter")
        await until(pilot, lambda: "Error" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(WizardScreen(wizard, first=True), theme, size, "Recommended", then)


# ---- all models ----


@seen_in_all
def test_browse(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.have(SMALL, DRAFT)
    wizard.downloads.come(CODER, 0.43)
    write(wizard.folder.parent / "自分のモデル-7b.gguf", 4_300_000_000)
    wizard.own = [wizard.folder.parent / "自分のモデル-7b.gguf"]
    assert shown(BrowseScreen(wizard), theme, size, "8 of 8", pressing("down", "down"))


@seen
def test_browse_searched(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    keys = (*"ja sp", "]")
    assert shown(BrowseScreen(wizard), theme, size, "7 of 7", pressing(*keys, until_shown="[8k]"))


@seen
def test_browse_without_the_draft(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    keys = ("down", "down", "down", "down", "d", "plus", "plus")
    assert shown(BrowseScreen(wizard), theme, size, "7 of 7", pressing(*keys, until_shown="[16k]"))


@seen
def test_browse_finds_nothing(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    assert shown(BrowseScreen(wizard), theme, size, "7 of 7", pressing(*"gpt", until_shown="0 of 7"))


@seen
def test_browse_fails(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.failures["rows"] = UserError(
        "The models folder cannot be used: Permission denied (/models).",
        "Mend its permissions, or let PARDEC_CHAT_MODELS point to another folder.",
    )
    assert shown(BrowseScreen(wizard), theme, size, "Permission denied")


# ---- a repository ----

NEEDS_LOGIN = HubNeedsLogin(
    "The Hub shows bartowski/Qwen2.5-14B-Instruct-GGUF to nobody without a token: it is private, gated, or does not exist "
    "(401).",
    "Make a read token at https://huggingface.co/settings/tokens and run `hf auth login`, or set HF_TOKEN.",
)


async def _asked(pilot: Pilot[None]) -> None:
    await pilot.press(*"bartowski/Qwen2.5-14B-Instruct-GGUF", "enter")


@seen
def test_repository_before(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    assert shown(RepositoryScreen(wizard), theme, size, "OWNER/NAME")


@seen_in_all
def test_repository(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    async def then(pilot: Pilot[None]) -> None:
        await _asked(pilot)
        await until(pilot, lambda: "Q8_0" in screen_text(pilot.app))  # type: ignore[arg-type]
        await pilot.press("down", "down")

    assert shown(RepositoryScreen(wizard), theme, size, "OWNER/NAME", then)


@seen
def test_repository_asking(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.held.add("look")

    async def then(pilot: Pilot[None]) -> None:
        await _asked(pilot)
        await until(pilot, lambda: "Asking the Hub" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(RepositoryScreen(wizard), theme, size, "OWNER/NAME", then)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(NEEDS_LOGIN, id="401"),
        pytest.param(
            HubGated(
                "meta-llama/Llama-3.3-70B-Instruct is gated, and the account of your token has no access yet (403).",
                "Accept its licence at https://huggingface.co/meta-llama/Llama-3.3-70B-Instruct, wait for the grant if it "
                "asks for one, and try again.",
            ),
            id="403",
        ),
    ],
)
@seen
def test_repository_refused(shown: Any, wizard: FakeWizard, theme: str, size: Any, error: UserError) -> None:
    wizard.failures["look"] = error

    async def then(pilot: Pilot[None]) -> None:
        await _asked(pilot)
        await until(pilot, lambda: "Error" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(RepositoryScreen(wizard), theme, size, "OWNER/NAME", then)


# ---- a token ----


async def _to_token(pilot: Pilot[None]) -> None:
    await _asked(pilot)
    await until(pilot, lambda: "t type a token" in screen_text(pilot.app))  # type: ignore[arg-type]
    await pilot.press("t")
    await until(pilot, lambda: "A token for the Hub" in screen_text(pilot.app))  # type: ignore[arg-type]
    await pilot.press(*"hf_abcdefgh")


@pytest.mark.parametrize(("theme", "size"), [*SEEN, *LIGHT])
def test_token(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.failures["look"] = NEEDS_LOGIN
    assert shown(RepositoryScreen(wizard), theme, size, "OWNER/NAME", _to_token)


@seen
def test_token_refused(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.failures["look"] = NEEDS_LOGIN
    wizard.failures["login"] = UserError(
        "The Hub does not accept your token: it is mistyped, expired or revoked (401).",
        "Make a new one at https://huggingface.co/settings/tokens and run `hf auth login`, or set HF_TOKEN to it.",
    )

    async def then(pilot: Pilot[None]) -> None:
        await _to_token(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: "mistyped" in screen_text(pilot.app))  # type: ignore[arg-type]

    assert shown(RepositoryScreen(wizard), theme, size, "OWNER/NAME", then)


# ---- downloads ----


def _all_states(wizard: FakeWizard) -> None:
    downloads = wizard.downloads
    downloads.come(CODER, 0.43)
    downloads.come(DRAFT, 0.91, 830_000)
    downloads.set(SMALL, "done")
    downloads.come(LARGE, 0.12)
    downloads.set(LARGE, "paused", speed=None, seconds_left=None)
    downloads.set(TINY, "failed", have=180_000_000, error=_FAILED)
    downloads.set(JAPANESE, "waiting")


_FAILED = HubUnreachable(
    "huggingface.co cannot be reached: [Errno -2] Name or service not known.",
    "Check the connection, then try again: what has come is kept.",
)


@seen_in_all
def test_downloads(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    _all_states(wizard)
    assert shown(DownloadsScreen(wizard), theme, size, "43 %", pressing("down"))


@seen
def test_downloads_failed(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    _all_states(wizard)
    assert shown(DownloadsScreen(wizard, TINY.id), theme, size, "Name or service not known")


@seen
def test_downloads_cancelled(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    wizard.downloads.come(CODER, 0.43)
    wizard.downloads.come(DRAFT, 0.91, 830_000)
    assert shown(DownloadsScreen(wizard), theme, size, "43 %", pressing("x", until_shown="Cancelled"))


@seen
def test_no_downloads(shown: Any, wizard: FakeWizard, theme: str, size: Any) -> None:
    assert shown(DownloadsScreen(wizard), theme, size, "Nothing is being fetched")


# ---- memory ----

TARGET = Shape("Qwen3 14B", 9 * GB, 40, 163_840, 151_936, 32_768, 5120, 128)
GUESSER = Shape("Qwen3 0.6B", 484_000_000, 28, 114_688, 151_936, 32_768, 1024, 128)
LACKS_LITTLE = Machine("Linux", "a CPU", 8, (), 24 * GB, int(11.2 * GB))
LACKS_MUCH = Machine("Linux", "a CPU", 2, (), 8 * GB, 6 * GB)
GPU = Device("NVIDIA GeForce RTX 3060", "cuda", 12 * GB, int(7.1 * GB))
WITH_GPU = Machine("Linux", "a CPU", 8, (), 16 * GB, int(3.1 * GB), (GPU,))


def memory_screen(machine: Machine, n_ctx: int = 8192) -> MemoryScreen:
    wish = Wish(TARGET, GUESSER, n_ctx)
    return MemoryScreen(plan(wish, machine), alternatives(wish, machine), ("Qwen3 14B", "Qwen3 0.6B"))


@seen_in_all
def test_memory(shown: Any, theme: str, size: Any) -> None:
    assert shown(memory_screen(LACKS_LITTLE), theme, size, "It does not fit")


@seen
def test_memory_with_a_gpu(shown: Any, theme: str, size: Any) -> None:
    assert shown(memory_screen(WITH_GPU, 16_384), theme, size, "It does not fit", pressing("down"))


@seen
def test_memory_without_a_way_out(shown: Any, theme: str, size: Any) -> None:
    assert shown(memory_screen(LACKS_MUCH), theme, size, "It does not fit")
