"""The models in memory: a target, perhaps a draft model, and the places of conversations in their caches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pardec_chat.app.chat.earlier import Earlier, is_agreed
from pardec_chat.app.chat.grammar import Grammars
from pardec_chat.app.chat.learned import Learned
from pardec_chat.app.chat.overflow import fit
from pardec_chat.app.chat.request import Loaded, Message, ModelChoice, Notice, Request, Sink, Thinking
from pardec_chat.app.chat.template import Template, TemplateWorker
from pardec_chat.backends.base import CANNOT_BRANCH, LEAVES, Drafter, LoadOptions, Method, Runtime, Slot, Target
from pardec_chat.backends.decoding.calibration import calibrate
from pardec_chat.backends.decoding.constraint import Constraint
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.lookahead import Lookahead
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.errors import (
    MethodUnavailable,
    ModelUnreadable,
    OutOfMemory,
    PairImpossible,
    UserError,
)
from pardec_chat.backends.memory import Plan
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.backends.pairs import judge

#: Answers at a time up to which each has branches of its own: llama.cpp tells up to 256 sequences apart.
_MOST_BRANCHING = 8


@dataclass(slots=True)
class Place:
    """A slot that outlives its turns, so that the next one finds its prefix in the cache, and the drafters beside it."""

    slot: Slot
    drafters: dict[tuple[Method, int], Drafter] = field(default_factory=dict)
    busy: bool = False

    def close(self) -> None:
        """Give slot and drafters back."""
        for drafter in self.drafters.values():
            drafter.close()
        self.slot.close()


class LoadedModels:
    """One target and what belongs to it. Made and used on the owner thread.

    Raises UserError where the target cannot be loaded; nothing stays behind then.
    """

    def __init__(
        self,
        runtime: Runtime,
        choice: ModelChoice,
        file: ModelFile,
        worker: TemplateWorker,
        report: Callable[[float], bool],
        plan: Plan,
    ) -> None:
        self._runtime = runtime
        #: Chooses method and depth, and learns what they give with these models.
        self.controller = Controller()
        self._learned: Learned | None = None
        self._earlier: Earlier | None = None
        self._build = runtime.describe()
        self._slots = slots = choice.slots
        self.choice = choice
        # With trees a cache of windows would have to keep everything; and a runtime may have an end to them.
        branches = 0 if file.cache != "full" or slots > _MOST_BRANCHING else LEAVES
        #: What is in memory and where, as planned.
        self.plan = plan
        self.target: Target = runtime.load(
            LoadOptions(
                choice.model,
                choice.n_ctx,
                slots,
                branches=branches * slots,
                threads=choice.threads,
                cache_type=choice.cache_type,
                gpu_layers=plan.gpu_layers,
                dtype=choice.dtype,
                progress=report,
                kernels=choice.kernels,
            )
        )
        self._template = Template(self.target.chat_template, self.target.vocabulary, worker)
        self._grammars: Grammars | None = None
        self._draft: Target | None = None
        self._banned: tuple[int, ...] = ()
        self._places: list[Place] = []
        self._notices: list[str] = []
        #: Why there is no draft model although one was asked for; empty otherwise.
        self.off = ""
        self.use_earlier(is_agreed())

    def serves(self, choice: ModelChoice) -> bool:
        """Whether the loaded target is the one that `choice` asks for."""
        mine = self.choice
        return replace(mine, draft=None, unchecked=False) == replace(choice, draft=None, unchecked=False)

    def set_draft(
        self,
        choice: ModelChoice,
        masked: tuple[int, ...],
        notices: Sequence[str],
        plan: Plan,
        report: Callable[[float], bool],
        off: str = "",
    ) -> None:
        """Take the draft model of `choice` in place of the present one; without one when it cannot be loaded.

        off: why it is left out although it was asked for; nothing is loaded then.
        """
        self._close_draft()
        self.keep()
        self.choice = choice
        # Why others are not used may be told in other words each time.
        kernels = self.target.kernels.variant or "stock"
        self._learned = Learned.of(choice, self._runtime.name, {**self._build, "kernels": kernels})
        known = self._learned.restore()
        costs = self.controller.knowledge.costs
        self.controller = Controller(known)
        if known is None:  # the target is the same as before: what its passes take need not be learned again
            self.controller.knowledge.costs.adopt_passes(costs)
        self._banned, self._notices, self.off, self.plan = masked, list(notices), off, plan
        if choice.draft is None or off:
            return
        n_ctx = self.target.capabilities.n_ctx
        try:
            self._draft = self._runtime.load(
                LoadOptions(
                    choice.draft,
                    n_ctx,
                    self._slots,
                    threads=choice.threads,
                    draft=True,
                    cache_type=choice.cache_type,
                    gpu_layers=plan.draft_gpu_layers,
                    dtype=choice.dtype,
                    progress=report,
                    kernels=choice.kernels,
                )
            )
        except UserError as error:
            # The target comes first: a session without speculation is better than none.
            self.off = f"the draft model could not be loaded: {error.what}"
            self.plan = plan.without_draft()
            kind = "does not fit into memory" if isinstance(error, OutOfMemory) else "could not be loaded"
            self._notices.append(f"The draft model {kind} and was left out: {error.what}")

    def describe(self) -> Loaded:
        """What is loaded, for front ends."""
        return Loaded(
            model=self.target.name,
            draft=self._draft.name if self._draft is not None else None,
            runtime=self._runtime.name,
            n_ctx=self.target.capabilities.n_ctx,
            notices=tuple(self._notices),
            plan=self.plan,
            placed=Counter(self.target.placed) + Counter({} if self._draft is None else self._draft.placed),
            peak=max(self.target.peak, 0 if self._draft is None else self._draft.peak),
            rewinds=self.target.capabilities.rewind != "none",
            branches=self.target.capabilities.tree,
            kernels=self.target.kernels,
        )

    def encode(self, request: Request, sink: Sink) -> list[int]:
        """Prompt ids of a request; sends notices about what had to be changed. Raises ContextFull or TemplateFailed."""
        vocabulary = self.target.vocabulary
        n_ctx = self.target.capabilities.n_ctx
        if request.prompt is not None:
            ids = vocabulary.encode(request.prompt, add_special=True, parse_special=False)
            ids = ids or vocabulary.encode("\n", add_special=True, parse_special=False)
            return [*ids, *request.answer_ids]
        notices: tuple[str, ...] = ()
        thinks = False

        def encode(messages: Sequence[Message]) -> list[int]:
            nonlocal notices, thinks
            rendered = self._template.render(messages, request.tools)
            notices, thinks = rendered.notices, rendered.text.rstrip().endswith(("<think>", "<thinking>"))
            # Most templates write the begin token themselves; where they do not, the model still wants it once.
            add = vocabulary.begins_with_bos and not (vocabulary.bos and rendered.text.startswith(vocabulary.bos))
            return [*vocabulary.encode(rendered.text, add_special=add, parse_special=True), *request.answer_ids]

        answer = min(n_ctx // 4, request.max_tokens or n_ctx)
        ids, dropped = fit(request.messages, encode, n_ctx - answer, n_ctx, drop=request.overflow == "drop")
        for notice in notices:
            sink(Notice(notice))
        if thinks:
            sink(Thinking())
        if dropped:
            sink(Notice(f"The oldest {dropped} messages no longer fit the context and were left out."))
        return ids

    def constraint(self, request: Request) -> Constraint | None:
        """What the request's grammar allows behind the ids that its answer begins with. Raises BadSetting."""
        if request.grammar is None:
            return None
        if self._grammars is None:
            self._grammars = Grammars(self.target.vocabulary)
        return self._grammars.constraint(request.grammar, request.answer_ids)

    def take_place(self, ids: Sequence[int]) -> Place:
        """The free place that shares the longest prefix with `ids`; a new one when none shares any."""
        free = [place for place in self._places if not place.busy]
        best = max(free, key=lambda place: self._shared(place, ids), default=None)
        # Templates begin alike (begin token, system marker): sharing that much does not make it one conversation.
        if (best is None or self._shared(best, ids) < 8) and len(self._places) < self._slots:
            best = Place(self.target.open())
            self._places.append(best)
        assert best is not None
        best.busy = True
        return best

    @staticmethod
    def _shared(place: Place, ids: Sequence[int]) -> int:
        return common_prefix(list(place.slot.tokens), ids)

    def drafters(self, place: Place, request: Request) -> list[Drafter]:
        """What may draft for a request: the place's own ones, none for plain decoding. Raises MethodUnavailable."""
        method = request.method
        if method == Method.DRAFT and self._draft is None and not self.off:
            raise MethodUnavailable(
                "The method draft needs a draft model.", "Choose one (--draft ID), or another method."
            )
        if self.why_off(method):
            return []
        drafters: list[Drafter] = []
        if method in (Method.NGRAM, Method.AUTO):
            guided = method == Method.AUTO
            key = (method, request.ngram_min_match or 0)
            if key not in place.drafters:
                text = self._earlier.text if self._earlier is not None else None
                place.drafters[key] = Ngram(request.ngram_min_match, guided=guided, earlier=text)
            drafters.append(place.drafters[key])
        if method == Method.LOOKAHEAD:
            ahead = (Method.LOOKAHEAD, 0)
            if ahead not in place.drafters:
                place.drafters[ahead] = Lookahead()
            drafters.append(place.drafters[ahead])
        if method in (Method.DRAFT, Method.AUTO) and self._draft is not None:
            tree = request.draft_tree if method == Method.DRAFT and self.target.capabilities.tree else 0
            of_model = (Method.DRAFT, tree)
            if of_model not in place.drafters:
                # The draft model has one place for each of ours.
                for other in [key for key in place.drafters if key[0] == Method.DRAFT]:
                    place.drafters.pop(other).close()
                place.drafters[of_model] = DraftModel(self._draft, self._banned, tree=tree)
            drafters.append(place.drafters[of_model])
        return drafters

    def why_off(self, method: Method) -> str:
        """Why nothing is drafted with `method`; empty when something is."""
        if method == Method.PLAIN:
            return "plain decoding was chosen"
        if self.target.capabilities.rewind == "none":
            return "this model's memory cannot be rewound on this runtime"
        if method == Method.LOOKAHEAD and not self.target.capabilities.tree:
            return CANNOT_BRANCH
        return self.off if method == Method.DRAFT else ""

    def calibrate(self, progress: Callable[[float], bool], seconds: float) -> None:
        """Measure what passes and guesses take. Places that no answer uses are given up for it, their caches with them."""
        for place in [place for place in self._places if not place.busy]:
            self._places.remove(place)
            place.close()
        drafter = None if self._draft is None else DraftModel(self._draft, self._banned)
        try:
            calibrate(self.target, drafter, self.controller.knowledge.costs, seconds=seconds, progress=progress)
        finally:
            if drafter is not None:
                drafter.close()

    def use_earlier(self, agreed: bool) -> None:
        """Let n-grams copy from earlier answers of this model, or from this conversation alone."""
        self._earlier = Earlier(self.choice.model, self.target.vocabulary.size) if agreed else None
        for place in self._places:
            for key in [key for key in place.drafters if key[0] != Method.DRAFT]:
                place.drafters.pop(key).close()

    def remember(self, answer: Sequence[int]) -> None:
        """An answer is whole: later ones may copy from it, where the user agreed."""
        if self._earlier is not None:
            self._earlier.add(answer)

    def keep(self) -> None:
        """Write down what was learned so far."""
        if self._learned is not None:
            self._learned.save(self.controller.knowledge)

    def close(self) -> None:
        """Free everything, in the order of dependence."""
        self.keep()
        self._close_draft()
        for place in self._places:
            place.close()
        self.target.close()

    def _close_draft(self) -> None:
        for place in self._places:
            for key in [key for key in place.drafters if key[0] == Method.DRAFT]:
                place.drafters.pop(key).close()
        draft, self._draft = self._draft, None
        if draft is not None:
            draft.close()


def pair(target: ModelFile, draft: ModelFile | None) -> tuple[tuple[int, ...], list[str]]:
    """Masked ids and notices for a target and its draft, from what their files say.

    Raises PairImpossible with the first differing ids and their texts, or ModelUnreadable for what is no target.
    """
    if draft is None:
        if not target.is_model:
            raise ModelUnreadable(
                f"{target.path.name} is a {target.kind}, not a model to chat with.", "Choose another."
            )
        return (), []
    verdict = judge(target, draft)
    if verdict.verdict == "impossible":
        raise PairImpossible(
            f"{draft.path.stem} cannot draft for {target.path.stem}: {' '.join(verdict.reasons)}",
            "Choose a draft model of the same family, or the method ngram, which needs none.",
        )
    if verdict.verdict == "exact":
        return (), []
    return verdict.masked_ids, [f"The pair fits with small differences: {verdict.reasons[0]}"]
