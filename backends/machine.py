"""The machine as a plan needs it: cores, memory, and devices with memory of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. total, free: bytes of its memory. shared: it works in the machine's own memory (Apple)."""

    name: str
    kind: Literal["cuda", "metal"]
    total: int
    free: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """What is here. memory: bytes, as far as this process may use them (a container's limit counts).

    features: what the CPU can do that matters here, such as "AVX-512".
    """

    system: str
    cpu: str
    cores: int
    features: tuple[str, ...]
    memory_total: int
    memory_free: int
    devices: tuple[Device, ...] = ()

    def described(self) -> str:
        """In words: "2 cores with AVX-512, 24 GB, no GPU"."""
        raise NotImplementedError


def inspect() -> Machine:
    """Look at this machine; takes up to a second where a GPU's driver has to be asked."""
    raise NotImplementedError
