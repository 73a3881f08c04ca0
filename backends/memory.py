"""What a model will take before it is loaded, and where; and what to give up when that is more than there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
    vocabulary: how many ids. context: tokens it was trained for, 0 where not known.
    """

    name: str
    weights: int
    layers: int
    cache_per_token: int
    vocabulary: int
    context: int = 0
    width: int = 0
    window: int = 0
    window_per_token: int = 0
    state: int = 0
    repacked: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the memory. of: the target, the draft model, or the program itself. device: "memory", or a GPU's name."""

    what: Literal["weights", "cache", "buffers", "program"]
    of: Literal["target", "draft", "program"]
    device: str
    bytes: int


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

    def need(self, device: str | None = None) -> int:
        """Bytes on a device, or on all."""
        return sum(part.bytes for part in self.parts if device in (None, part.device))

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
    """What is to be loaded. n_ctx: None takes the smaller of 4,096 and what the model was trained for."""

    target: Shape
    draft: Shape | None = None
    n_ctx: int | None = None
    slots: int = 1
    cache_type: CacheType = "f16"


@dataclass(frozen=True, slots=True)
class Alternative:
    """Something to give up, in words, and what fits then."""

    words: str
    wish: Wish
    plan: Plan


def plan(wish: Wish, machine: Machine, *, reclaimed: int = 0) -> Plan:
    """Where everything goes and what it takes. reclaimed: bytes that a model in memory now will give back first."""
    raise NotImplementedError


def alternatives(wish: Wish, machine: Machine, *, reclaimed: int = 0) -> Sequence[Alternative]:
    """What fits instead, mildest first: without the draft, then with an 8-bit cache, then with a shorter context."""
    raise NotImplementedError
