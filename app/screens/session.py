"""One conversation and the engine under it, without a widget: what was said, what is loaded, what is being asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal, Protocol

from pardec_chat.app.messages import (
    EngineMissing,
    EngineReady,
    LoadFailed,
    LoadProgress,
    Mailbox,
    ModelLoaded,
    post,
)
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import DoesNotFit, PairImpossible, UserError

# The request module brings numpy, which the first paint does not wait for: it is imported where it is used.
if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from pardec_chat.app.chat.request import Loaded, ModelChoice, Request, Sink
    from pardec_chat.app.screens.downloads import WizardLike
    from pardec_chat.app.screens.endpoint import EndpointLike
    from pardec_chat.backends.base import KernelChoice
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

    def load(self, choice: ModelChoice, progress: Callable[[float], None] | None = None) -> Future[Loaded]:
        """See `Engine.load`."""

    def submit(self, request: Request, sink: Sink) -> TicketLike:
        """See `Engine.submit`."""

    def explain(self, n_context: int = 512) -> Future[Explanation]:
        """See `Engine.explain`."""

    def calibrate(self, progress: Callable[[float], bool], seconds: float = 25.0) -> Future[Explanation]:
        """See `Engine.calibrate`."""

    def use_earlier(self, agreed: bool) -> Future[None]:
        """See `Engine.use_earlier`."""

    def close(self, timeout: float = 10.0) -> None:
        """See `Engine.close`."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model on disk, as the pickers show it. kind: `chat` or `base`; other words are shown as they are."""

    id: str
    name: str
    path: Path
    size_bytes: int
    kind: str = "chat"


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What the app starts with.

    model: what to load at once; None leaves it to the user. sampling: None takes the defaults.
    system: system prompt, empty for none. choices: the models on disk; read each time a picker opens.
    slots: answers at the same time. wizard: makes what gets more models here, once it is wanted; None where there is no way.
    verdict: whether one model can guess for another, by their files; None leaves that to the engine. endpoint: makes the
    endpoint of an engine; None where there is none. port: where it is to listen.
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
    kernels: KernelChoice = "auto"
    choices: Callable[[], Sequence[ModelEntry]] = tuple
    wizard: Callable[[], WizardLike] | None = None
    verdict: Callable[[Path, Path], PairVerdict] | None = None
    endpoint: Callable[[EngineLike, Session], EndpointLike] | None = None
    port: int = 8080
    theme: str = "pardec-dark"


@dataclass(slots=True)
class Exchange:
    """A message of the user's and its answer. failed: it came to nothing, and the model is not told of it."""

    user: str
    answer: str = ""
    failed: bool = False


class Session:
    """Used on the UI thread alone; what other threads have to say reaches `pump` as messages."""

    def __init__(self, options: ChatOptions, make_engine: Callable[[], EngineLike], pump: MessagePump) -> None:
        self.options = options
        self.method = options.method
        self.choice: tuple[Path, Path | None] | None = None
        self.loaded: Loaded | None = None
        self.engine: EngineLike | None = None
        self.exchanges: list[Exchange] = []
        #: Number of the latest answer and of the latest load; events of others come too late.
        self.turn = 0
        self.load_number = 0
        self.loading: tuple[Path, Path | None] | None = None
        #: How far that is, 0…1 for each file; None before the first is begun.
        self.load_done: float | None = None
        self._load_draft = False
        #: There is no engine, and there will be none.
        self.broken = False
        self.ticket: TicketLike | None = None
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
        """Cancel what runs and end the engine, waiting `timeout` seconds at most in all; harmless when done twice."""
        end = monotonic() + timeout
        self.stop()
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

    def load(self, model: Path, draft: Path | None) -> None:
        """Load models; ModelLoaded or LoadFailed with this `load_number` will follow."""
        from pardec_chat.app.chat.request import ModelChoice

        if self.engine is None or self._closed:
            return
        self.load_number += 1
        self.loading, self.load_done, self._load_draft = (model, draft), None, False
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
            kernels=options.kernels,
        )
        future = self.engine.load(choice, lambda done: post(pump, LoadProgress(number, done)))
        future.add_done_callback(partial(_report, pump, number))

    def fit(self, model: Path, way: Wish | Literal["force"]) -> None:
        """From now on `model` is loaded like that."""
        self._ways[model] = way

    def take_progress(self, done: float) -> None:
        """A part of a file was read; the draft model is the file behind the target's."""
        self._load_draft = self._load_draft or (self.load_done is not None and done < self.load_done)
        self.load_done = done

    @property
    def load_state(self) -> str:
        """The load in words."""
        what = "loading the draft" if self._load_draft else "loading"
        return what if self.load_done is None else f"{what} … {int(self.load_done * 100)} %"

    def take_loaded(self, loaded: Loaded) -> str:
        """A load ended well: what it means for the method, in words; empty when nothing changes."""
        before = self.choice
        self.choice, self.loading, self.loaded = self.loading, None, loaded
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
    def depth(self) -> int:
        """How many tokens the method will guess at a time; 0 while that is not known, and for auto, which finds out."""
        # A depth that was given is meant for the method that was given with it.
        if self.method != Method.AUTO and self.options.depth is not None and self.method == self.options.method:
            return self.options.depth
        if self.loaded is None:
            return 0
        from pardec_chat.app.chat.request import default_depth

        return default_depth(self.method) or 0

    def why_not(self, method: Method) -> str:
        """Why `method` cannot be chosen now; empty when it can."""
        if method == Method.DRAFT and (self.choice is None or self.choice[1] is None):
            return "it needs a draft model, F3 chooses one"
        return ""

    # ---- asking ----

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way."""
        return self.ticket is not None

    def ask(self, text: str) -> None:
        """Ask the engine to answer `text`. Raises UserError."""
        self.exchanges.append(Exchange(text))
        self._submit()

    def again(self) -> None:
        """Ask for another answer to the last message. Raises UserError."""
        self.stop()
        self.exchanges[-1] = Exchange(self.exchanges[-1].user)
        self._submit()

    def stop(self) -> None:
        """End the answer that is on its way; what came of it stays."""
        if self.ticket is not None:
            self.ticket.cancel()

    def clear(self) -> None:
        """A new conversation."""
        self.stop()
        self.ticket = None
        self.turn += 1
        self.exchanges.clear()

    def finish(self, answer: str, *, failed: bool = False) -> None:
        """The answer is whole, or there will be none."""
        self.ticket = None
        self.exchanges[-1].answer = answer
        self.exchanges[-1].failed = failed

    def _submit(self) -> None:
        from pardec_chat.app.chat.request import Message, Request
        from pardec_chat.backends.decoding.params import SamplingParams

        assert self.engine is not None
        options = self.options
        messages = [Message("system", options.system)] if options.system else []
        for exchange in self.exchanges:
            if exchange.failed:
                continue
            messages.append(Message("user", exchange.user))
            if exchange.answer:
                messages.append(Message("assistant", exchange.answer))
        request = Request(
            messages=messages,
            sampling=options.sampling or SamplingParams(),
            max_tokens=options.max_tokens,
            method=self.method,
            depth=None if self.method == Method.AUTO else self.depth,
            ngram_min_match=options.ngram_min_match,
        )
        self.turn += 1
        try:
            self.ticket = self.engine.submit(request, Mailbox(self.turn, self._pump).put)
        except Exception:
            self.finish("", failed=True)
            raise


def _report(pump: MessagePump, number: int, future: Future[Loaded]) -> None:
    try:
        loaded = future.result()
    except (Exception, CancelledError) as error:  # noqa: BLE001  # shown to the user
        post(pump, LoadFailed(number, error))
    else:
        post(pump, ModelLoaded(number, loaded))
