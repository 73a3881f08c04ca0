"""Which models this machine can hold: the three choices of a first start, and the verdict beside every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pardec_chat.app import catalogue as catalogues
from pardec_chat.backends.memory import HOST, PROGRAM, Shape, Wish, plan
from pardec_chat.backends.units import size

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Catalogue, Model
    from pardec_chat.backends.machine import Machine

#: Where the catalogue is silent: layers, ids, and bytes of cache for a token and a gigabyte of weights.
_LAYERS, _VOCABULARY, _CACHE_PER_GB = 32, 150_000, 30_000
#: Part of 4-bit weights that llama.cpp keeps a second time for the kernels of a CPU with AVX2.
_REPACKED: Final = 0.6
#: Part of a small model, and what is small, that own kernels keep twice: its table of embeddings is its output, too.
_TIED, _SMALL = 0.25, 4_000_000_000
#: On a CPU a step reads all weights: bytes for each core, and for all of them, with which writing keeps up with reading.
_PER_CORE, _ON_A_CPU = 600_000_000, 5_200_000_000


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model, with its draft where one is given, can be loaded here.

    need: bytes with a context of `n_ctx` tokens. words: "fits", or the reason why not.
    """

    fits: bool
    need: int
    n_ctx: int
    words: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One of the choices of a first start. models: the target, then what speeds it up.

    fetch: bytes that are not on this disk yet. words: what it is good for here.
    """

    kind: Literal["start", "recommended", "largest"]
    title: str
    models: tuple[Model, ...]
    fetch: int
    fit: Fit
    words: str


def shape_of(model: Model, machine: Machine) -> Shape:
    """What the catalogue knows of a model's memory, for one whose file is not here to be read."""
    four_bit = any(kind in model.id for kind in ("q4_k", "q4_0", "iq4_nl"))
    repacked = int(model.size * _REPACKED) if four_bit and not machine.devices else 0
    tied = int(model.size * _TIED) if model.size < _SMALL else 0
    cache = model.cache_per_token
    if cache is None:
        cache = int(model.size / 1e9 * _CACHE_PER_GB)
    return Shape(
        model.name,
        model.size,
        _LAYERS,
        cache,
        _VOCABULARY,
        context=model.context or 0,
        repacked=repacked,
        tied=tied,
    )


def judge(
    target: Shape,
    draft: Shape | None,
    machine: Machine,
    n_ctx: int,
    disk_free: int,
    fetch: int,
    *,
    packed: bool = False,
) -> Fit:
    """Whether this fits into memory, and onto the disk. fetch: bytes that have to be downloaded first; packed: see `Wish`."""
    length = min(n_ctx, target.context) if target.context else n_ctx
    planned = plan(Wish(target, draft, n_ctx=length, packed=packed), machine)
    need = planned.need_of_models()
    if fetch > disk_free:
        return Fit(False, need, length, f"the disk lacks {size(fetch - disk_free)}")
    if not planned.fits:
        total = machine.memory_total + sum(device.total for device in machine.devices if not device.shared)
        if need > total:
            return Fit(False, need, length, f"more than the {size(total)} here")
        return Fit(False, need, length, f"more than the {size(planned.free[HOST] - PROGRAM)} that are free")
    words = "fits"
    if machine.devices and planned.gpu_layers <= target.layers:
        words = f"fits, {planned.gpu_layers * 100 // (target.layers + 1)} % of it on the GPU"
    elif length < n_ctx:
        words = f"fits, with the {length:,} tokens it was trained for"
    return Fit(True, need, length, words)


def propose(
    catalogue: Catalogue,
    machine: Machine,
    n_ctx: int,
    disk_free: int,
    have: Mapping[str, int],
    *,
    packed: bool = False,
) -> tuple[Proposal, ...]:
    """The choices, at most three and each another target. have: bytes of each model that are on this disk; packed: see `Wish`.

    Recommended is the largest target with a draft model of its own that still writes as fast as one reads: on a GPU when
    both are on it whole, on a CPU by how much memory a step has to read.
    """
    found: list[Proposal] = []

    def add(
        kind: Literal["start", "recommended", "largest"], title: str, models: tuple[Model, ...], words: str
    ) -> None:
        if any(proposal.models[0] is models[0] for proposal in found):
            return
        fetch = sum(max(0, model.size - have.get(model.id, 0)) for model in models)
        shapes = [shape_of(model, machine) for model in models]
        draft = shapes[1] if len(shapes) > 1 else None
        fit = judge(shapes[0], draft, machine, n_ctx, disk_free, fetch, packed=packed)
        found.append(Proposal(kind, title, models, fetch, fit, words))

    built_in = catalogue.find(catalogues.BUILT_IN)
    if built_in is not None:
        add("start", "Start now", (built_in,), "small talk, offline from then on")
    quick, large = None, None
    for models in _choices(catalogue):
        fetch = sum(max(0, model.size - have.get(model.id, 0)) for model in models)
        shapes = [shape_of(model, machine) for model in models]
        draft = shapes[1] if len(shapes) > 1 else None
        if not judge(shapes[0], draft, machine, n_ctx, disk_free, fetch, packed=packed).fits:
            continue
        if draft is not None and _is_quick(shapes[0], draft, machine, n_ctx) and _larger(models, quick):
            quick = models
        if _larger(models, large):
            large = models
    if quick is not None:
        add("recommended", "Recommended", quick, _gain(quick))
    if large is not None:
        on_gpu = bool(machine.devices)
        slow = not on_gpu and large[0].size > _quick_bytes(machine)
        add("largest", "Largest that fits", large, "slow here" if slow else _gain(large))
    return tuple(found)


def _choices(catalogue: Catalogue) -> Iterator[tuple[Model, ...]]:
    """Chat models that this version runs, each with the smallest draft model it has, and without one."""
    for model in catalogue.models:
        if model.kind != "chat" or "llamacpp" not in model.runtimes or not model.sources:
            continue
        drafts = [draft for draft in map(catalogue.find, model.drafts) if draft is not None]
        if drafts:
            yield (model, min(drafts, key=lambda draft: draft.size))
        yield (model,)


def _larger(models: tuple[Model, ...], best: tuple[Model, ...] | None) -> bool:
    """By the target; the same one with a draft model comes first."""
    return best is None or models[0].size > best[0].size


def _is_quick(target: Shape, draft: Shape, machine: Machine, n_ctx: int) -> bool:
    if not machine.devices:
        return target.weights <= _quick_bytes(machine)
    planned = plan(Wish(target, draft, n_ctx=n_ctx), machine)
    return planned.gpu_layers == target.layers + 1 and planned.draft_gpu_layers == draft.layers + 1


def _quick_bytes(machine: Machine) -> int:
    return min(_ON_A_CPU, machine.cores * _PER_CORE)


def _gain(models: tuple[Model, ...]) -> str:
    if len(models) == 1:
        return "n-grams guess for it"
    pair = next(pair for pair in models[0].pairs if pair.model_id == models[1].id)
    return pair.gain or "its draft model guesses ahead"
