"""Which models this machine can hold: the three choices of a first start, and the verdict beside every other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pardec_chat.app.catalogue import Catalogue, Model
    from pardec_chat.backends.machine import Machine


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model, with its draft where one is given, can be loaded here.

    need: bytes with a context of `n_ctx` tokens. words: "fits", "fits with the disk's last 3 GB", or the reason why not.
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


def fit(model: Model, draft: Model | None, machine: Machine, n_ctx: int, disk_free: int, have: int = 0) -> Fit:
    """Judge one model. disk_free: bytes free for downloads; have: bytes of these models that are here already."""
    raise NotImplementedError


def propose(
    catalogue: Catalogue, machine: Machine, n_ctx: int, disk_free: int, here: frozenset[str]
) -> tuple[Proposal, ...]:
    """The choices, at most three and each another model. here: ids of the models on this disk."""
    raise NotImplementedError
