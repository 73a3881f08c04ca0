"""A wizard without disk and network: the test plays the Hub, the machine and the bytes that come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

from pardec_chat.app.catalogue import HubSource, Model, Pair
from pardec_chat.app.downloads.fit import Fit, Proposal
from pardec_chat.app.downloads.library import Entry
from pardec_chat.app.downloads.queue import Item
from pardec_chat.app.downloads.repository import Offer, OfferedFile, Repository
from pardec_chat.app.downloads.waiting import Cancel, Stopped
from pardec_chat.app.downloads.wizard import Row
from pardec_chat.backends.errors import UserError
from pardec_chat.backends.machine import Machine

GB, MB = 10**9, 10**6
MACHINE = Machine("Linux", "a CPU", 2, ("AVX-512",), 24 * 2**30, 9 * GB)


def model(
    name: str,
    size: int,
    *,
    draft: str = "",
    licence: str = "Apache-2.0",
    description: str = "",
    languages: tuple[str, ...] = (),
    gain: str = "",
) -> Model:
    """A catalogued model whose id follows from its name."""
    return Model(
        id=ident(name),
        name=name,
        size=size,
        sha256="",
        licence=licence,
        description=description or f"{name} in four bits.",
        sources=(HubSource(f"owner/{ident(name)}", "model.gguf"),),
        pairs=(Pair("draft", ident(draft), gain),) if draft else (),
        context=32_768,
        languages=languages,
    )


def ident(name: str) -> str:
    """The id of a model of that name."""
    return name.lower().replace(" ", "-")


SMALL = model(
    "SmolLM2 135M Instruct",
    98_362_432,
    description="The built-in model: small enough to chat within a minute of installing.",
)
DRAFT = model(
    "Qwen2.5 Coder 0.5B Instruct", 491_400_064, description="The draft of the Qwen pair; also chats by itself."
)
CODER = model(
    "Qwen2.5 Coder 1.5B Instruct",
    1_117_320_768,
    draft=DRAFT.name,
    gain="1.5x on code, on a desktop CPU",
    description="The smallest real target: writes code and chats; its 0.5B sister guesses for it.",
    languages=("zh", "ja"),
)
TINY = model(
    "Qwen3 0.6B", 484_220_320, description="Thinks aloud before it answers; guesses for the larger Qwen3 models."
)
LARGE = model(
    "Qwen3 14B",
    9_001_752_960,
    draft=TINY.name,
    gain="about 1.4x",
    description="The largest of the family that a desktop machine holds; thinks before it answers.",
    languages=("zh", "ja", "de"),
)
HUGE = model("Llama 3.3 70B Instruct", 42_520_395_840, licence="Llama 3.3 terms", languages=("de", "fr"))
JAPANESE = model(
    "日本語 Sarashina 2.2 3B",
    2_020_000_000,
    licence="MIT",
    languages=("ja",),
    description="日本語で話します。Speaks Japanese first.",
)
MODELS = (SMALL, CODER, DRAFT, LARGE, TINY, JAPANESE, HUGE)


class FakeDownloads:
    """See `Downloads`; `come` and `set` play the threads that fetch. `path` is where a model goes when it is done."""

    def __init__(self, path: Callable[[Model], Path]) -> None:
        self._path = path
        self._items: list[Item] = []
        self.calls: list[tuple[str, str]] = []
        self.refusal: UserError | None = None

    def items(self) -> tuple[Item, ...]:
        """See `Downloads.items`."""
        return tuple(self._items)

    def start(self, models: Sequence[Model]) -> None:
        """See `Downloads.start`."""
        if self.refusal is not None:
            raise self.refusal
        for one in models:
            self.calls.append(("start", one.id))
            if self.item(one) is None:
                self._items.append(Item(one, "waiting", 0))
            elif self.item(one).state in ("paused", "failed"):  # type: ignore[union-attr]
                self.set(one, "waiting", error=None)

    def pause(self, model_id: str) -> None:
        """See `Downloads.pause`."""
        self.calls.append(("pause", model_id))
        self._items = [
            replace(item, state="paused", speed=None, seconds_left=None) if item.model.id == model_id else item
            for item in self._items
        ]

    def cancel(self, model_id: str) -> None:
        """See `Downloads.cancel`."""
        self.calls.append(("cancel", model_id))
        self._items = [item for item in self._items if item.model.id != model_id]

    def close(self, seconds: float = 1.0) -> None:
        """See `Downloads.close`."""
        self.calls.append(("close", ""))

    def item(self, of: Model) -> Item | None:
        """The download of a model."""
        return next((item for item in self._items if item.model.id == of.id), None)

    def set(self, of: Model, state: str, **changes: object) -> None:
        """It is in that state now; one that is done has its file."""
        if self.item(of) is None:
            self._items.append(Item(of, "waiting", 0))
        if state == "done":
            write(self._path(of), of.size)
            changes |= {"have": of.size, "speed": None, "seconds_left": None}
        self._items = [
            replace(item, state=state, **changes) if item.model.id == of.id else item  # type: ignore[arg-type]
            for item in self._items
        ]

    def come(self, of: Model, share: float, speed: float = 12.3 * MB) -> None:
        """So much of it is here."""
        have = ceil(of.size * share)
        self.set(of, "downloading", have=have, speed=speed, seconds_left=(of.size - have) / speed)


class FakeWizard:
    """See `Wizard`. folder: models go there, as files without content. failures: what a method raises, by its name.

    held: methods that wait until `release` is set, or until the question is called off.
    """

    def __init__(self, folder: Path, models: Sequence[Model] = MODELS) -> None:
        self.folder = folder
        self.models = tuple(models)
        self.downloads = FakeDownloads(self.path)
        self.failures: dict[str, BaseException] = {}
        self.held: set[str] = set()
        self.release = threading.Event()
        self.own: list[Path] = []
        self.contexts: list[int] = []
        self.looked: list[str] = []
        self.tokens: list[str] = []
        self.repository = REPOSITORY
        self.account = "ada"
        self.described = MACHINE
        #: What is told instead of what follows from the models.
        self.only: tuple[Proposal, ...] | None = None

    def _enter(self, method: str, cancel: Cancel | None = None) -> None:
        while method in self.held and not self.release.wait(0.001):
            if cancel is not None and cancel.is_set():
                raise Stopped
        if method in self.failures:
            raise self.failures[method]

    def have(self, *models: Model) -> None:
        """These are on the disk."""
        for one in models:
            write(self.path(one), one.size)

    @property
    def machine(self) -> Machine:
        """See `Wizard.machine`."""
        self._enter("machine")
        return self.described

    def path(self, model: Model) -> Path:
        """See `Wizard.path`."""
        return self.folder / model.file_name

    def _fetch(self, *models: Model) -> int:
        return sum(one.size for one in models if not self.path(one).exists())

    def proposals(self, n_ctx: int = 4096) -> tuple[Proposal, ...]:
        """See `Wizard.proposals`."""
        self._enter("proposals")
        if self.only is not None:
            return self.only
        fits = [Fit(True, need, n_ctx, "fits") for need in (250 * MB, int(2.6 * GB), int(11.6 * GB))]
        return (
            Proposal(
                "start", "Start now", (SMALL,), self._fetch(SMALL), fits[0], "small talk, offline, a minute to fetch"
            ),
            Proposal(
                "recommended", "Recommended", (CODER, DRAFT), self._fetch(CODER, DRAFT), fits[1], "about 1.5x on code"
            ),
            Proposal("largest", "Largest that fits", (LARGE, TINY), self._fetch(LARGE, TINY), fits[2], "slow here"),
        )

    def rows(self, n_ctx: int = 4096) -> tuple[Row, ...]:
        """See `Wizard.rows`."""
        self.contexts.append(n_ctx)
        self._enter("rows")
        rows = [self._row(one, n_ctx) for one in self.models]
        for path in self.own:
            size = path.stat().st_size
            entry = Entry(path.stem.lower(), path, size, size, "on disk")
            rows.append(Row(entry, None, Fit(True, int(size * 1.2), n_ctx, "fits"), ""))
        return tuple(rows)

    def _row(self, one: Model, n_ctx: int) -> Row:
        need = int(one.size * 1.05) + n_ctx * 160_000
        short = need - MACHINE.memory_free
        words = "fits" if short <= 0 else f"more than the {MACHINE.memory_free / 1e9:.1f} GB that are free"
        if need > MACHINE.memory_total:
            words = f"more than the {MACHINE.memory_total / 1e9:.1f} GB here"
        if one.kind == "draft":
            need, short, words = 0, 1, "only guesses, by eagle, which this version has not"
        item = self.downloads.item(one)
        here = self.path(one).exists()
        have = one.size if here else item.have if item is not None else 0
        entry = Entry(
            one.id, self.path(one), one.size, have, "on disk" if here else "partial" if have else "not here", one
        )
        pair = ""
        if one.pairs:
            pair = f"draft: {next(m.name for m in MODELS if m.id == one.drafts[0])} ({one.pairs[0].gain})"
        return Row(entry, one, Fit(short <= 0, need, n_ctx, words), pair)

    def look(self, repo: str, cancel: Cancel) -> Repository:
        """See `Wizard.look`."""
        self.looked.append(repo)
        self._enter("look", cancel)
        return self.repository

    def offered(self, repository: Repository, offer: Offer) -> tuple[Model, ...]:
        """See `Wizard.offered`."""
        self._enter("offered")
        return tuple(
            replace(model(file.file.removesuffix(".gguf"), file.size), id=file.file.removesuffix(".gguf").lower())
            for file in offer.files
        )

    def add(self, path: Path) -> Entry:
        """See `Wizard.add`."""
        self._enter("add")
        self.own.append(path)
        size = path.stat().st_size
        return Entry(path.stem.lower(), path, size, size, "on disk")

    def login(self, token: str) -> str:
        """See `Wizard.login`."""
        self.tokens.append(token)
        self._enter("login")
        return self.account


def offer(name: str, *sizes: int, kind: str = "model", use: str = "") -> Offer:
    """An offer of as many files as sizes."""
    if len(sizes) == 1:
        files = [OfferedFile(f"{name}.gguf", sizes[0], "a" * 64)]
    else:
        files = [OfferedFile(f"{name}-{i:05}-of-{len(sizes):05}.gguf", n, "a" * 64) for i, n in enumerate(sizes, 1)]
    return Offer(name, kind, tuple(files), use)  # type: ignore[arg-type]


REPOSITORY = Repository(
    "bartowski/Qwen2.5-14B-Instruct-GGUF",
    "38f6bab61d341b23a6c00226f32c0d6148bf9f43",
    False,
    "Apache-2.0",
    (
        offer("Qwen2.5-14B-Instruct-Q4_K_M", 8_988_110_976),
        offer("Qwen2.5-14B-Instruct-Q8_0", 15_701_597_984),
        offer("Qwen2.5-14B-Instruct-f16", 14_800_000_000, 14_800_000_000),
        offer("mmproj-Qwen2.5-f16", 1_350_000_000, kind="helper", use="a vision projector: it helps another model"),
        offer("mlx-4bit", 8_300_000_000, kind="mlx", use="MLX weights: they need an Apple machine"),
    ),
)


def write(path: Path, size: int) -> None:
    """A file of that size that takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as out:
        out.write(b"GGUF")
        out.truncate(size)
