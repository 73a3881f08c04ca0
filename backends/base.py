"""The contract between the engine and the runtimes.

A `Target` is a loaded model whose distribution is sampled. A `Slot` is one conversation's place in its cache. A `Drafter`
proposes a `Draft`; a `Verdict` is what one forward pass of the target made of it. Token ids cross this seam, tensors do
not: `Draft.probabilities` is opaque to everything but the runtime that made it.

Two invariants hold between any two calls:

- the cache of a slot holds every committed token except the last; the last is the first row of the next verify;
- nobody ever sees a cache ahead of the text: `verify` commits and rewinds before it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from pardec_chat.backends.errors import BadSetting

if TYPE_CHECKING:
    from pardec_chat.backends.decoding.sampler import Sampler
    from pardec_chat.backends.machine import Machine
    from pardec_chat.backends.memory import CacheType
    from pardec_chat.backends.model_file import ModelFile


#: Numbers that weights and cache are kept in; `auto` leaves it to the runtime.
NumberType = Literal["auto", "bf16", "fp16", "fp32"]


class Method(StrEnum):
    """What guesses; the name used on the command line, on the screen and in files."""

    PLAIN = "plain"
    DRAFT = "draft"
    NGRAM = "ngram"
    LOOKAHEAD = "lookahead"
    #: Whichever of the others is measured fastest here and now; never the source of a draft.
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Probes:
    """Rows that are evaluated beside a draft and can never be accepted: the target says what would follow them.

    tokens, parents: a tree of its own below the last committed token, as in `Draft`. What follows is told for its leaves.
    """

    tokens: Sequence[int] = ()
    parents: Sequence[int] = ()

    def __post_init__(self) -> None:
        if len(self.parents) != len(self.tokens):
            raise ValueError("probes need one parent for each token")
        if any(not -1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError("the parents of probes come before their children")

    @property
    def leaves(self) -> list[int]:
        """Probes without children, in order."""
        return leaves(self.parents)

    def __len__(self) -> int:
        return len(self.tokens)


#: Nothing beside the draft.
NO_PROBES = Probes()


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens as a tree.

    tokens: proposed ids, parents before children.
    parents: index of each token's parent, -1 for the last committed token; a chain is -1, 0, 1, …
    probabilities: one row a token, the distributions they were really drawn from, in the runtime's own arrays (siblings
        drawn without replacement share the first one's row); None when the tokens were not drawn but chosen.
    source: the method that proposed them.
    confidence: for each token the probability of the source's best one there; empty where nobody asked for it.
    probes: what else the forward pass is to evaluate.
    """

    tokens: Sequence[int]
    parents: Sequence[int]
    source: Method
    probabilities: Sequence[object] | None = None
    confidence: Sequence[float] = ()
    probes: Probes = NO_PROBES

    def __post_init__(self) -> None:
        if len(self.parents) != len(self.tokens):
            raise ValueError("a draft needs one parent for each token")
        if any(not -1 <= parent < node for node, parent in enumerate(self.parents)):
            raise ValueError("a draft's parents come before their children")
        if self.probabilities is not None and len(self.probabilities) != len(self.tokens):
            raise ValueError("a drawn draft needs one row of probabilities for each token")

    @staticmethod
    def chain(
        tokens: Sequence[int],
        source: Method,
        probabilities: Sequence[object] | None = None,
        confidence: Sequence[float] = (),
    ) -> Draft:
        """A draft in which each token follows the one before it."""
        return Draft(tokens, range(-1, len(tokens) - 1), source, probabilities, confidence)

    @property
    def is_chain(self) -> bool:
        """Whether no token has a sibling."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    @property
    def depth(self) -> int:
        """Tokens that may be accepted at most: those of the longest path."""
        return max(depths(self.parents), default=0)

    @property
    def all_parents(self) -> list[int]:
        """Parents of the tokens and of the probes behind them, as one tree."""
        n = len(self.tokens)
        return [*self.parents, *(parent if parent == -1 else parent + n for parent in self.probes.parents)]

    @property
    def n_rows(self) -> int:
        """Rows of a forward pass that it takes, beside that of the last committed token."""
        return len(self.tokens) + len(self.probes)

    def __len__(self) -> int:
        return len(self.tokens)


def leaves(parents: Sequence[int]) -> list[int]:
    """The nodes of a tree that have no children, in order."""
    inner = set(parents)
    return [node for node in range(len(parents)) if node not in inner]


def depths(parents: Sequence[int]) -> list[int]:
    """How many tokens lie on the way to each node of a tree, itself included: 1 for children of the root."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent == -1 else found[parent] + 1)
    return found


#: Most tokens on the way to one of a draft's leaves. A chain has no more rows than that.
MAX_DEPTH = 32
#: Most tokens of a draft that is a tree, and most probes beside it; with the above they bound the rows of one forward pass
#: and the buffers for their logits.
MAX_NODES = 64
MAX_PROBES = 64
#: Leaves that one slot's draft and probes have together in a forward pass, where nobody asks for more or fewer at load.
LEAVES = 30

#: Nothing proposed: the step is one of plain decoding.
NO_DRAFT = Draft((), (), Method.PLAIN)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities under the target's softmax, before any sampler: of the emitted token and of the top ones."""

    logprob: float
    top: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one forward pass of the target made of a draft.

    tokens: the ids it commits, in the order of the text.
    path: indices into the draft of the accepted ones; the first `n_accepted` of `tokens` are theirs.
    logprobs: one entry a token, when the sampler asks for them.
    probe_tokens: what the target holds most probable behind each leaf of the draft's probes, before any sampler.
    features: hidden states behind the rows that are committed now (the last committed token, then the accepted ones), in the
        runtime's own arrays; None unless `Target.read_features` asked for them.
    drafting_ms: of the pass's time what went into the draft, where that was still being guessed when the pass was begun.
    """

    tokens: Sequence[int]
    path: Sequence[int]
    logprobs: Sequence[TokenLogprobs] | None = None
    probe_tokens: Sequence[int] = ()
    features: object | None = None
    drafting_ms: float = 0.0

    @property
    def n_accepted(self) -> int:
        """How many of the emitted tokens were drafted."""
        return len(self.path)


#: Why nothing that branches can be used where `Capabilities.tree` is false.
CANNOT_BRANCH = "this model's cache cannot branch on this runtime"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a loaded model can do on its runtime.

    rewind: `trim` takes the tail of a cache away, `snapshot` restores a saved state and evaluates the accepted tokens
        again, `none` allows no drafting at all.
    tree: whether a draft may branch and have probes.
    max_slots: how many conversations go through one forward pass.
    n_ctx: tokens a slot can hold.
    features: whether hidden states can be read, see `Target.read_features`.
    """

    rewind: Literal["trim", "snapshot", "none"]
    tree: bool
    max_slots: int
    n_ctx: int
    features: bool = False


class Vocabulary(ABC):
    """Ids and their texts, as the model's file gives them."""

    #: How many ids there are, padding rows included.
    size: int
    #: Text of the begin and the end token, as chat templates want them; empty where there is none.
    bos: str
    eos: str
    #: Whether the begin token stands in front of every text.
    begins_with_bos: bool
    #: Every id that ends an answer: end of text, end of turn, whatever the file names.
    end_ids: frozenset[int]

    @abstractmethod
    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`. add_special: with the begin token the model wants; parse_special: markers in the text count."""

    @abstractmethod
    def piece(self, token: int) -> bytes:
        """The bytes a token adds to a text: part of a character at times, nothing for a control token."""

    @abstractmethod
    def text(self, token: int) -> str:
        """The token's own name in the file, control tokens included; for comparisons and messages."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """n_cached ids were there already, n_evaluated were evaluated now; complete is False after a stop.

    features: hidden states behind the evaluated ids in the runtime's own arrays, a few ids each; see `Target.read_features`.
    """

    n_cached: int
    n_evaluated: int
    complete: bool
    features: Sequence[object] = ()


class Slot(ABC):
    """One conversation's place in a target's cache."""

    #: Tokens this slot can hold.
    n_ctx: int
    #: Whether anybody guesses for it: where nobody does, a runtime may begin the next pass before this one's token is asked for.
    guessed_for: bool = True

    @property
    @abstractmethod
    def tokens(self) -> Sequence[int]:
        """The committed ids, in order."""

    @abstractmethod
    def prefill(self, ids: Sequence[int], should_stop: Callable[[], bool]) -> Prefill:
        """Make the committed ids equal `ids` (at least one), evaluating only what is not in the cache yet.

        should_stop: asked once a chunk, while `tokens` shows how far it is; after a stop the slot holds a prefix of `ids`
        and is as usable as before.
        Raises ContextFull when `ids` are more than `n_ctx`.
        """

    @abstractmethod
    def rewind(self, length: int) -> None:
        """Keep the first `length` committed ids (absolute, so that doing it twice is harmless)."""

    @abstractmethod
    def fork(self) -> Slot:
        """Another slot with the same committed ids, evaluated already."""

    @abstractmethod
    def close(self) -> None:
        """Give the place back; harmless when done twice."""


#: Whose kernels multiply on the CPU: this package's where they are usable and faster, or the runtime's own.
KernelChoice = Literal["auto", "stock"]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Whose kernels a runtime multiplies with. own: this package's. reason: why not those, in words; empty where they are used.

    variant: the instruction set that they were compiled for.
    """

    own: bool = False
    variant: str = ""
    reason: str = ""

    def described(self) -> str:
        """In words: "own (avx2)", or "the runtime's", with the reason."""
        return f"own ({self.variant})" if self.own else f"the runtime's: {self.reason}"


class Target(ABC):
    """A loaded model. One thread, the one that loaded it, makes all calls."""

    path: Path
    vocabulary: Vocabulary
    capabilities: Capabilities
    #: The chat template of the model's own metadata, None where it has none.
    chat_template: str | None
    #: What the file calls the model.
    name: str
    #: Bytes of weights, cache and buffers on each device, as the runtime tells after the load; empty where it does not.
    placed: Mapping[str, int] = MappingProxyType({})
    #: Most bytes that were in use at once, weights as they were read included; 0 where the runtime does not tell.
    peak: int = 0
    #: Whose kernels it runs on.
    kernels: Kernels = Kernels(reason="the runtime has no others")

    @abstractmethod
    def open(self) -> Slot:
        """A new empty slot; raises QueueFull when all `max_slots` are taken."""

    @abstractmethod
    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """One forward pass over the last committed token and the draft of every slot; commits what it accepts.

        An empty draft is a plain step. Raises ContextFull when a slot has no room for its draft.
        """

    @abstractmethod
    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """Bring `slot` to the committed `ids`, then guess a chain of up to `n` tokens that follow them.

        What a target is asked when it serves as a draft model. A sampler that draws its drafts gets the rows they were
        drawn from, any other chooses the most probable tokens. The guesses are not committed. They may be on their way still:
        whoever reads a token of the draft waits for all.
        go_on: asked after each token; with it the draft holds the confidence in each.
        """

    def propose_tree(self, slot: Slot, ids: Sequence[int], depth: int, nodes: int, sampler: Sampler) -> Draft:
        """Like `propose`, but a tree of up to `nodes` chosen tokens, up to `depth` deep.

        A runtime that cannot evaluate trees for itself guesses a chain.
        """
        return self.propose(slot, ids, min(depth, nodes), sampler)

    def read_features(self, layers: Sequence[int]) -> None:
        """Hand the hidden states behind these layers on from now on, with every prefill and verdict; none for no layers.

        A drafter that reads them asks before its first token. Raises BadSetting for layers that there are not, or where
        `capabilities.features` says that there is nothing to read.
        """
        if layers:
            raise BadSetting("This runtime hands no hidden states on.", "Take another method, or the pytorch runtime.")

    @abstractmethod
    def close(self) -> None:
        """Free weights, cache and buffers; harmless when done twice."""


#: Asked after each guessed token with how many there are and the confidence in the last one: the probability of the draft
#: model's best token there, whichever was drawn. So no choice can hang on the value of a drawn token; a rule that dropped
#: tokens by their value would bias what rejection sampling emits.
GoOn = Callable[[int, float], bool]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the committed text says about one guess, whether it was put before the target or not.

    evidence: what spoke for it, see `Drafter.evidence`. confidence: as for `GoOn`, where the source has one.
    """

    evidence: int
    right: bool
    confidence: float | None = None


class Drafter(ABC):
    """Proposes continuations of one slot. Its own state follows the slot, whatever was accepted."""

    method: Method
    #: Whether `outcomes` tells about guesses with every token, put before the target or not: nothing has to be tried then to
    #: know how often they are right.
    shows_unasked = False

    @abstractmethod
    def begin(self, slot: Slot, sampler: Sampler, should_stop: Callable[[], bool]) -> None:
        """A new answer starts in `slot`, whose committed ids are the prompt. should_stop: as for `Slot.prefill`."""

    @abstractmethod
    def draft(self, n_max: int, go_on: GoOn | None = None) -> Draft:
        """Up to `n_max` tokens; `NO_DRAFT` when nothing is worth checking. go_on: may end the draft earlier."""

    @abstractmethod
    def accept(self, verdict: Verdict) -> None:
        """The target committed `verdict.tokens`; called after each verify, whoever drafted for it."""

    def prepare(self, should_stop: Callable[[], bool]) -> None:
        """Read what is committed now rather than with the first draft. should_stop: as for `Slot.prefill`."""

    @property
    def behind(self) -> int:
        """Committed ids that the next draft has to read first."""
        return 0

    def evidence(self, n_max: int) -> Sequence[int]:
        """What would speak for each guess of a draft of up to `n_max` tokens, from 1 on; empty when there is none.

        Guesses with equal evidence are right equally often, given that all before them are: here the place in the draft.
        """
        return range(1, n_max + 1)

    def outcomes(self) -> Sequence[Outcome]:
        """What the last `accept` said about guesses."""
        return ()

    def close(self) -> None:
        """Give back what the drafter holds."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is to be loaded.

    n_ctx: tokens a slot can hold; None takes the smaller of 4,096 and what the model was trained for.
    slots: conversations that go through one forward pass. branches: leaves that the draft trees and the probes of one forward
        pass may have, beside one for each slot.
    threads: None takes one for each physical core.
    draft: the model will only ever propose.
    cache_type: how exactly the cache keeps keys and values. gpu_layers: how many layers go on a GPU; None takes all.
    dtype: numbers of weights and cache, where the runtime has a choice; `auto` may be others for a draft model.
    progress: called with 0…1 while weights are read; returning False gives the load up.
    kernels: whose multiply on the CPU.
    """

    path: Path
    n_ctx: int | None = None
    slots: int = 1
    branches: int = 0
    threads: int | None = None
    draft: bool = False
    cache_type: CacheType = "f16"
    gpu_layers: int | None = None
    dtype: NumberType = "auto"
    progress: Callable[[float], bool] | None = None
    kernels: KernelChoice = "auto"


class Runtime(ABC):
    """A way to run models. Made, used and closed on one thread."""

    name: str

    @abstractmethod
    def read_model(self, path: Path, dtype: NumberType = "auto", *, draft: bool = False) -> ModelFile:
        """What the files say, before anything large is loaded. Raises ModelUnreadable.

        dtype, draft: as in `LoadOptions`.
        """

    def usable(self, machine: Machine) -> Machine:
        """The machine with those devices alone that this build can use."""
        return machine

    def kernels(self, choice: KernelChoice, gpu_layers: int | None) -> Kernels:
        """Whose kernels a model would run on that has so many layers on a GPU (None: all that there is one for)."""
        return Kernels(reason="the runtime has no others")

    @abstractmethod
    def load(self, options: LoadOptions) -> Target:
        """Load a model. Raises ModelUnreadable, OutOfMemory or BadSetting, and leaves nothing behind then."""

    @abstractmethod
    def describe(self) -> dict[str, str]:
        """version and features, for `doctor`; hint and mend where something about the build should be mended."""
