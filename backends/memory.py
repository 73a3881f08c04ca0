"""What a model will take before it is loaded, and where; and what to give up when that is more than there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from pardec_chat.backends.base import LEAVES, MAX_DEPTH, MAX_NODES
from pardec_chat.backends.cells import CHUNK

if TYPE_CHECKING:
    from pardec_chat.backends.machine import Machine

#: How exactly the cache keeps keys and values: 16 bits, or 8 with a scale for 32 of them.
CacheType = Literal["f16", "q8_0"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model decides its memory. Bytes unless said otherwise; from a file's header, or from the catalogue.

    cache_per_token: keys and values of all layers that see the whole context, in 16 bits.
    window, window_per_token: tokens a sliding-window layer sees, and what those layers keep for each of them.
    state: running state of recurrent layers, for each conversation.
    repacked: weights that are kept a second time in another order for the CPU's kernels.
    tied: the table of embeddings where it also serves as the output; own kernels keep it twice.
    vocabulary: how many ids. context: tokens it was trained for. width: values of the widest activation. head: values of a
    key. 0 stands for what is not known.
    """

    name: str
    weights: int
    layers: int
    cache_per_token: int
    vocabulary: int
    context: int = 0
    width: int = 0
    head: int = 0
    window: int = 0
    window_per_token: int = 0
    state: int = 0
    repacked: int = 0
    tied: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the memory. of: the target, the draft model, or the program itself. device: "memory", or a GPU's name.

    mapped: pages of a file, which the system counts as free even while they are in use.
    """

    what: Literal["weights", "cache", "buffers", "program"]
    of: Literal["target", "draft", "program"]
    device: str
    bytes: int
    mapped: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """parts: all that will be taken. free: bytes that can be taken on each device. n_ctx: tokens a conversation can hold.

    gpu_layers, draft_gpu_layers: layers placed on a GPU; 0 without one.
    """

    parts: tuple[Part, ...]
    free: dict[str, int]
    n_ctx: int
    cache_type: CacheType
    has_draft: bool
    gpu_layers: int = 0
    draft_gpu_layers: int = 0

    def need_of_models(self) -> int:
        """Bytes on all devices, the program itself left out."""
        return sum(part.bytes for part in self.parts if part.of != "program")

    def need(self, device: str | None = None) -> int:
        """Bytes on a device, or on all."""
        return sum(part.bytes for part in self.parts if device in (None, part.device))

    def without_draft(self) -> Plan:
        """The same when the draft model could not be had."""
        parts = tuple(part for part in self.parts if part.of != "draft")
        return replace(self, parts=parts, has_draft=False, draft_gpu_layers=0)

    def given_back(self) -> dict[str, int]:
        """Bytes on each device that become free when this is closed, by the system's own count."""
        given = dict.fromkeys(self.free, 0)
        for part in self.parts:
            if part.of != "program" and not part.mapped:
                given[part.device] += part.bytes
        return given

    @property
    def short(self) -> int:
        """Bytes that are missing on the device that lacks most; 0 when it fits."""
        return max((self.need(device) - free for device, free in self.free.items()), default=0)

    @property
    def fits(self) -> bool:
        """Whether every device has room for its parts."""
        return self.short <= 0


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be loaded. n_ctx: None takes the smaller of 4,096 and what the model was trained for.

    packed: own kernels keep the weights once, in their order, instead of pages of the file and llama.cpp's second copy.
    """

    target: Shape
    draft: Shape | None = None
    n_ctx: int | None = None
    slots: int = 1
    cache_type: CacheType = "f16"
    packed: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something to give up, in words, and what fits then."""

    words: str
    wish: Wish
    plan: Plan


#: Tokens that a conversation can hold when nobody says otherwise, if the model was trained for as many.
DEFAULT_CTX: Final = 4096
#: Nothing is in memory that would be given back.
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
#: The machine's own memory among the devices of a plan.
HOST: Final = "memory"
_MIB: Final = 1 << 20
#: What this program takes before it loads anything, where nobody measured it.
PROGRAM: Final = 80 * _MIB
#: Size of a cache against one of 16-bit numbers: 32 numbers of 8 bits share a 16-bit scale.
_SIZE_OF: Final[dict[CacheType, float]] = {"f16": 1.0, "q8_0": 34 / 64}
#: Bytes that an id takes in a loaded vocabulary, look-up tables included; and a native library with its threads.
_PER_ID: Final = 170
_LIBRARY: Final = 10 * _MIB
#: What a driver keeps on a GPU for itself and for a program's kernels.
_GPU_RESERVE: Final = 400 * _MIB
#: What is left to the rest of the machine.
_HOST_RESERVE: Final = 200 * _MIB
#: How many activations of the widest kind are alive in a prefill.
_ALIVE: Final = 3
#: Sliding-window caches are made in steps of so many tokens.
_WINDOW_STEP: Final = 256
_SHORTEST_CTX: Final = 512


@dataclass(frozen=True, slots=True)
class _Demand:
    """What one model takes, in bytes. repacked and host stay in the machine's memory, buffers go where the layers are."""

    of: Literal["target", "draft"]
    layers: int
    weights: int
    repacked: int
    cache: int
    buffers: int
    host: int
    mapped: bool

    def parts(self, on_gpu: int, gpu: str | None) -> list[Part]:
        """Its parts with so many of its layers on a GPU."""
        share = on_gpu / self.layers
        if gpu is None or not on_gpu:
            share, gpu = 0.0, HOST
        found = [
            Part("weights", self.of, gpu, int(self.weights * share)),
            Part("cache", self.of, gpu, int(self.cache * share)),
            Part("buffers", self.of, gpu, self.buffers),
            Part("weights", self.of, HOST, int(self.weights * (1 - share)), mapped=self.mapped),
            Part("weights", self.of, HOST, int(self.repacked * (1 - share))),
            Part("cache", self.of, HOST, int(self.cache * (1 - share))),
            Part("buffers", self.of, HOST, self.host),
        ]
        return [part for part in found if part.bytes]

    def layers_that_fit(self, room: int) -> int:
        """How many layers so many bytes of a GPU hold; the output counts as one."""
        each = (self.weights + self.cache) / self.layers
        return max(0, min(self.layers, int((room - self.buffers) / each)))


def context_of(wish: Wish) -> int:
    """Tokens that a conversation will be able to hold."""
    return wish.n_ctx or min(DEFAULT_CTX, wish.target.context or DEFAULT_CTX)


def plan(wish: Wish, machine: Machine, *, program: int = PROGRAM, reclaimed: Mapping[str, int] = NOTHING) -> Plan:
    """Where everything goes and what it takes.

    The draft model is placed on the GPU first: it runs several times for each pass of the target. Then as many of the
    target's layers as there is room for. program: bytes that this process takes without models; reclaimed: bytes on
    each device that a model in memory gives back before.
    """
    n_ctx = context_of(wish)
    host_free = max(0, machine.memory_free + reclaimed.get(HOST, 0) - _HOST_RESERVE)
    free = {HOST: host_free + program}
    gpu = max(machine.devices, key=lambda device: device.free, default=None)
    room = 0
    if gpu is not None:
        free[gpu.name] = min(gpu.free, host_free) if gpu.shared else gpu.free + reclaimed.get(gpu.name, 0)
        room = free[gpu.name] - (0 if gpu.shared else _GPU_RESERVE)
    parts = [Part("program", "program", HOST, program)]
    placed = {"target": 0, "draft": 0}
    for of, shape in (("draft", wish.draft), ("target", wish.target)):
        if shape is None:
            continue
        demand = _demand("draft" if of == "draft" else "target", shape, wish, n_ctx)
        placed[of] = 0 if gpu is None else demand.layers_that_fit(room)
        found = demand.parts(placed[of], None if gpu is None else gpu.name)
        room -= sum(part.bytes for part in found if part.device != HOST)
        parts += found
    return Plan(
        parts=tuple(parts),
        free=free,
        n_ctx=n_ctx,
        cache_type=wish.cache_type,
        has_draft=wish.draft is not None,
        gpu_layers=placed["target"],
        draft_gpu_layers=placed["draft"],
    )


def alternatives(
    wish: Wish, machine: Machine, *, program: int = PROGRAM, reclaimed: Mapping[str, int] = NOTHING
) -> Sequence[Alternative]:
    """What fits instead, mildest first: without the draft, then with an 8-bit cache, then with a shorter context.

    Speed goes before exactness, and exactness before length. Empty where the weights alone are too much.
    """
    n_ctx = context_of(wish)
    without = replace(wish, draft=None)
    tried: list[tuple[str, Wish]] = []
    if wish.draft is not None:
        tried.append(("Without the draft model", without))
    if wish.cache_type == "f16" and wish.target.head % 32 == 0:
        tried.append(("With an 8-bit cache", replace(wish, cache_type="q8_0")))
        if wish.draft is not None:
            tried.append(("Without the draft model and with an 8-bit cache", replace(without, cache_type="q8_0")))
    shorter = n_ctx // 2
    while shorter >= _SHORTEST_CTX:
        tried.append((f"With a context of {shorter:,} tokens", replace(wish, n_ctx=shorter)))
        if wish.draft is not None:
            tried.append(
                (f"Without the draft model and with a context of {shorter:,} tokens", replace(without, n_ctx=shorter))
            )
        shorter //= 2
    found: list[Alternative] = []
    kinds: set[tuple[bool, CacheType, bool]] = set()
    for words, other in tried:
        kind = (other.draft is None, other.cache_type, other.n_ctx == wish.n_ctx)
        if kind in kinds:  # a shorter context than one that fits already
            continue
        planned = plan(other, machine, program=program, reclaimed=reclaimed)
        if planned.fits:
            kinds.add(kind)
            found.append(Alternative(words, other, planned))
    return found


def _demand(of: Literal["target", "draft"], shape: Shape, wish: Wish, n_ctx: int) -> _Demand:
    # Rows with logits: of chains, or of trees and what is looked at beside them where the cache can branch.
    branches = of == "target" and not shape.window and not shape.state
    rows = wish.slots * (2 + MAX_NODES + LEAVES if branches else 1 + MAX_DEPTH)
    # A draft model runs ahead of what is committed, so its windows keep everything, see the llamacpp runtime.
    window = n_ctx if of == "draft" else min(n_ctx, _padded(shape.window + CHUNK))
    kept = shape.cache_per_token * n_ctx + shape.window_per_token * window
    logits = rows * shape.vocabulary * 4
    return _Demand(
        of=of,
        layers=shape.layers + 1,
        weights=shape.weights,
        repacked=shape.tied if wish.packed else shape.repacked,
        cache=int(kept * wish.slots * _SIZE_OF[wish.cache_type]) + shape.state * wish.slots,
        buffers=logits + CHUNK * shape.width * 4 * _ALIVE,
        host=logits + shape.vocabulary * _PER_ID + (_LIBRARY if of == "target" else 0),
        mapped=not wish.packed,
    )


def _padded(tokens: int) -> int:
    return -(-tokens // _WINDOW_STEP) * _WINDOW_STEP
