"""The engine, without a widget: what is loaded, what is on its way, and what answers are asked with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.messages import (
    EngineMissing,
    EngineReady,
    LoadFailed,
    LoadProgress,
    ModelLoaded,
    post,
)
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.base import CANNOT_BRANCH, Method
from pardec_chat.backends.errors import DoesNotFit, PairImpossible, UserError

# The request module brings numpy, which the first paint does not wait for: it is imported where it is used.
if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from pardec_chat.app.chat.request import Loaded, ModelChoice, Request, Sink
    from pardec_chat.app.screens.dialogue import KeeperLike
    from pardec_chat.app.screens.downloads import WizardLike
    from pardec_chat.app.screens.endpoint import EndpointLike
    from pardec_chat.app.settings import Settings
    from pardec_chat.app.settings_file import SettingsFile
    from pardec_chat.backends.base import KernelChoice, NumberType
    from pardec_chat.backends.decoding.explain import Explanation
    from pardec_chat.backends.decoding.params import SamplingParams
    from pardec_chat.backends.memory import CacheType, Wish
    from pardec_chat.backends.pairs import PairVerdict


class TicketLike(Protocol):
    """What `Engine.submit` gives."""

    def cancel(self) -> None:
        """End the answer."""


class EngineLike(Protocol):
    """The part of `Engine` that the screens use."""

    def load(self, choice: ModelChoice, progress: Callable[[float], object] | None = None) -> Future[Loaded]:
        """See `Engine.load`."""

    def submit(self, request: Request, sink: Sink) -> TicketLike:
        """See `Engine.submit`."""

    def explain(self, n_context: int = 512) -> Future[Explanation]:
        """See `Engine.explain`."""

    def calibrate(self, progress: Callable[[float], bool], seconds: float = 25.0) -> Future[Explanation]:
        """See `Engine.calibrate`."""

    def use_earlier(self, agreed: bool) -> Future[None]:
        """See `Engine.use_earlier`."""

    def count(self, text: str) -> Future[int]:
        """See `Engine.count`."""

    def close(self, timeout: float = 10.0) -> None:
        """See `Engine.close`."""


class Models(NamedTuple):
    """Which models answer. runtime: what runs them; None is what the engine was made with."""

    model: Path
    draft: Path | None = None
    runtime: str | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model on disk, as the pickers show it.

    kind: `chat` or `base`; other words are shown as they are. runtime: what runs it; None is what the engine was made with.
    runs: whether that can, which takes a look into the file.
    """

    id: str
    name: str
    path: Path
    size_bytes: int
    kind: str = "chat"
    runtime: str | None = None
    runs: Callable[[], bool] = field(default=lambda: True, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What the app starts with.

    model: what to load at once; None leaves it to the user. runtime: what runs it, as in `Models`.
    sampling: None takes the defaults. dtype: numbers of weights and cache, where the runtime has a choice.
    system: system prompt, empty for none. choices: the models on disk; read each time a picker opens.
    titles: whether the model gives conversations their titles while nothing else is to be done. keeper: makes what keeps
    conversations; None keeps none. settings: the user's file; None where there is none. setup_of: what
    answers are asked with as the file has it now, and what was given at the start instead.
    slots: answers at the same time. wizard: makes what gets more models here, once it is wanted; None where there is no way.
    verdict: whether one model can guess for another, by their files; None leaves that to the engine. endpoint: makes the
    endpoint of an engine; None where there is none. port: where it is to listen. kernels: whose; None leaves it to the settings.
    """

    model: Path | None = None
    draft: Path | None = None
    method: Method = Method.PLAIN
    depth: int | None = None
    ngram_min_match: int | None = None
    sampling: SamplingParams | None = None
    max_tokens: int | None = None
    system: str = ""
    n_ctx: int | None = None
    threads: int | None = None
    slots: int = 1
    cache_type: CacheType = "f16"
    unchecked: bool = False
    kernels: KernelChoice | None = None
    dtype: NumberType = "auto"
    runtime: str | None = None
    choices: Callable[[], Sequence[ModelEntry]] = tuple
    wizard: Callable[[], WizardLike] | None = None
    verdict: Callable[[Path, Path], PairVerdict] | None = None
    endpoint: Callable[[EngineLike, Session], EndpointLike] | None = None
    port: int = 8080
    titles: bool = False
    keeper: Callable[[Callable[[UserError], None]], KeeperLike] | None = None
    settings: SettingsFile | None = None
    setup_of: Callable[[Settings], Setup] | None = None
    theme: str = "pardec-dark"

    def setup(self) -> Setup:
        """What a new conversation is answered with."""
        from pardec_chat.backends.decoding.params import SamplingParams

        if self.settings is not None and self.setup_of is not None:
            return self.setup_of(self.settings.settings)
        # A depth is meant for the method that was given with it.
        return Setup(
            method=self.method,
            depth=None if self.method == Method.AUTO else self.depth,
            sampling=self.sampling or SamplingParams(),
            max_tokens=self.max_tokens,
            system=self.system,
        )

    @property
    def whose_kernels(self) -> KernelChoice:
        """What a load asks for, as things are now; an option of the command line comes first."""
        return self.kernels or ("auto" if self.settings is None else self.settings.settings.model.kernels)

    @property
    def makes_titles(self) -> bool:
        """Whether the model gives titles, as things are now."""
        return self.titles if self.settings is None else self.settings.settings.chat.titles


class Session:
    """Used on the UI thread alone; what other threads have to say reaches `pump` as messages."""

    def __init__(self, options: ChatOptions, make_engine: Callable[[], EngineLike], pump: MessagePump) -> None:
        self.options = options
        #: What the conversation that is shown is answered with.
        self.setup = options.setup()
        self.choice: Models | None = None
        self.loaded: Loaded | None = None
        self.engine: EngineLike | None = None
        #: Number of the latest load; messages of others come too late.
        self.load_number = 0
        self.loading: Models | None = None
        #: How far that is, 0…1 for each file; None before the first is begun.
        self.load_done: float | None = None
        self._load_draft = False
        #: Decoding leaves a core to whatever else is done: its threads are fewer, or it is done elsewhere.
        self.leaves_room = False
        #: There is no engine, and there will be none.
        self.broken = False
        self._given_up = 0
        self._wizard: WizardLike | None = None
        self._endpoint: EndpointLike | None = None
        #: Answers at the same time: more than was asked for while other programs may ask.
        self.slots = options.slots
        self._make_engine = make_engine
        self._known: dict[Path, str] = {}
        #: What the user gave up for a target that does not fit as it is; "force": nothing.
        self._ways: dict[Path, Wish | Literal["force"]] = {}
        self._pump = pump
        self._lock = threading.Lock()
        self._closed = False

    # ---- the engine ----

    def start(self) -> None:
        """Make the engine on a thread: its imports take longer than the first paint may."""
        threading.Thread(target=self._make, name="make-engine", daemon=True).start()

    def _make(self) -> None:
        try:
            engine = self._make_engine()
        except Exception as error:  # noqa: BLE001  # shown to the user; there is nobody else to catch it
            post(self._pump, EngineMissing(error))
            return
        with self._lock:
            self.engine = engine
            closed = self._closed
        if closed:
            engine.close(0)
        else:
            post(self._pump, EngineReady(engine))

    def close(self, timeout: float) -> None:
        """End the engine and what belongs to it, waiting `timeout` seconds at most in all; harmless when done twice."""
        end = monotonic() + timeout
        with self._lock:
            self._closed = True
            engine = self.engine
        if self._wizard is not None:
            self._wizard.downloads.close(max(0.0, end - monotonic()))
        if self._endpoint is not None:
            self._endpoint.close(max(0.0, end - monotonic()))
        if engine is not None:
            engine.close(max(0.0, end - monotonic()))

    @property
    def endpoint(self) -> EndpointLike | None:
        """What lets other programs ask the engine; None before there is one, and where there is no way."""
        if self._endpoint is None and self.options.endpoint is not None and self.engine is not None:
            self._endpoint = self.options.endpoint(self.engine, self)
        return self._endpoint

    @property
    def listening(self) -> str:
        """Where other programs may ask, as host:port; empty while they may not."""
        address = None if self._endpoint is None else self._endpoint.address
        return "" if address is None else f"{address.host}:{address.port}"

    async def wizard(self) -> WizardLike:
        """What gets more models here; made when it is first asked for, on a thread."""
        if self._wizard is None:
            assert self.options.wizard is not None
            self._wizard = await asyncio.to_thread(self.options.wizard)
        return self._wizard

    # ---- models ----

    def load(self, model: Path, draft: Path | None, runtime: str | None = None) -> None:
        """Load models; ModelLoaded or LoadFailed with this `load_number` will follow."""
        from pardec_chat.app.chat.request import ModelChoice

        if self.engine is None or self._closed:
            return
        self.load_number += 1
        self.loading, self.load_done, self._load_draft = Models(model, draft, runtime), None, False
        with suppress(UserError):  # only for their names; the picker tells what is wrong with the folder
            self._known = {entry.path: entry.name for entry in self.options.choices()}
        number, pump = self.load_number, self._pump
        options, way = self.options, self._ways.get(model)
        wish = None if way == "force" else way
        choice = ModelChoice(
            model,
            draft,
            options.n_ctx if wish is None else wish.n_ctx,
            options.threads,
            self.slots,
            cache_type=options.cache_type if wish is None else wish.cache_type,
            unchecked=options.unchecked or way == "force",
            kernels=options.whose_kernels,
            dtype=options.dtype,
            runtime=runtime,
        )

        def progress(done: float) -> bool:
            post(pump, LoadProgress(number, done))
            return self._given_up < number

        future = self.engine.load(choice, progress)
        future.add_done_callback(partial(_report, pump, number))

    def fit(self, model: Path, way: Wish | Literal["force"]) -> None:
        """From now on `model` is loaded like that."""
        self._ways[model] = way

    def give_up_load(self) -> bool:
        """Do not wait for the load that is on its way; LoadFailed follows. False when none is."""
        if self.loading is None:
            return False
        self._given_up = self.load_number
        return True

    def take_progress(self, done: float) -> None:
        """A part of a file was read; the draft model is the file behind the target's."""
        self._load_draft = self._load_draft or (self.load_done is not None and done < self.load_done)
        self.load_done = done

    @property
    def load_state(self) -> str:
        """The load in words."""
        what = "loading the draft" if self._load_draft else "loading"
        if self._given_up == self.load_number:
            return "giving up the load"
        return what if self.load_done is None else f"{what} … {int(self.load_done * 100)} %"

    def take_loaded(self, loaded: Loaded) -> str:
        """A load ended well: what it means for the method, in words; empty when nothing changes."""
        from pardec_chat.backends.machine import physical_cores, usable_cpus

        before = self.choice
        self.setup = replace(self.setup, model=self.loading and self.loading[0], draft=self.loading and self.loading[1])
        self.choice, self.loading, self.loaded = self.loading, None, loaded
        self.leaves_room = self._is_elsewhere(loaded) or usable_cpus() > (self.options.threads or physical_cores())
        assert self.choice is not None
        draft = self.choice[1]
        if draft is None and self.method == Method.DRAFT:
            self.method = Method.AUTO
            return "The method is auto now: there is no draft model."
        # Whoever chooses a draft model wants it used; auto sees for itself.
        chosen = draft is not None and before is not None and before[1] != draft
        if chosen and self.method not in (Method.DRAFT, Method.AUTO):
            self.method = Method.AUTO
            return "The method is auto now."
        return ""

    def take_failed_load(self, error: BaseException) -> bool:
        """A load failed: whether the models from before are on their way back (they may have had to go for it)."""
        failed, self.loading = self.loading, None
        if isinstance(error, PairImpossible | DoesNotFit):
            return False  # refused before anything changed
        self.loaded = None
        before, self.choice = self.choice, None
        if before is None or before == failed:
            return False
        self.load(*before)
        return True

    @staticmethod
    def _is_elsewhere(loaded: Loaded) -> bool:
        """Whether most of a model lies on a GPU."""
        on_cpu = sum(n for device, n in loaded.placed.items() if device.startswith("CPU"))
        return on_cpu * 2 < sum(loaded.placed.values())

    @property
    def names(self) -> tuple[str, str | None]:
        """What target and draft are called on the screen: those loaded, else those on their way."""
        choice = self.loading or self.choice
        if choice is None:
            return "", None
        known = self._known
        loaded = self.loaded if self.loading is None else None
        model = known.get(choice[0]) or (loaded.model if loaded else "") or choice[0].stem
        draft: str | None = None
        if choice[1] is not None and (loaded is None or loaded.draft is not None):
            draft = visible_line(known.get(choice[1]) or (loaded.draft if loaded else "") or choice[1].stem)
        return visible_line(model), draft

    @property
    def method(self) -> Method:
        """What guesses from the next answer on."""
        return self.setup.method

    @method.setter
    def method(self, method: Method) -> None:
        if method != self.setup.method:  # a depth is meant for one method
            self.setup = replace(self.setup, method=method, depth=None)

    @property
    def depth(self) -> int:
        """How many tokens the method will guess at a time; 0 while that is not known, and for auto, which finds out."""
        if self.setup.depth is not None:
            return self.setup.depth
        if self.loaded is None:
            return 0
        from pardec_chat.app.chat.request import default_depth

        return default_depth(self.method) or 0

    def why_not(self, method: Method) -> str:
        """Why `method` cannot be chosen now; empty when it can."""
        if method == Method.DRAFT and (self.choice is None or self.choice[1] is None):
            return "it needs a draft model, F3 chooses one"
        if method == Method.LOOKAHEAD and self.loaded is not None and not self.loaded.branches:
            return CANNOT_BRANCH
        return ""


def _report(pump: MessagePump, number: int, future: Future[Loaded]) -> None:
    try:
        loaded = future.result()
    except (Exception, CancelledError) as error:  # noqa: BLE001  # shown to the user
        post(pump, LoadFailed(number, error))
    else:
        post(pump, ModelLoaded(number, loaded))
