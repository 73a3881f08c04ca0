"""The machine as a plan needs it: cores, memory, and devices with memory of their own."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import psutil

#: CPU flags that decide how fast products are, best first → how they are called.
_FLAGS: Final = {
    "avx512_vnni": "AVX-512 VNNI",
    "avx512f": "AVX-512",
    "avx_vnni": "AVX-VNNI",
    "avx2": "AVX2",
    "avx": "AVX",
    "i8mm": "i8mm",
    "asimddp": "dot products",
    "asimd": "NEON",
}
#: Part of an Apple machine's memory that its GPU may take: two thirds, more where there is plenty.
_SHARED, _SHARED_LARGE, _LARGE = 0.67, 0.75, 64 << 30
#: A driver that hangs must not keep anybody waiting; seconds.
_PATIENCE: Final = 3.0


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
        cores = f"{self.cores} core{'s' if self.cores != 1 else ''}"
        if self.cpu.startswith("Apple"):
            cores = f"{self.cpu}, {cores}"
        with_ = f" with {self.features[0]}" if self.features else ""
        gpus = [device for device in self.devices if not device.shared]
        gpu = ", ".join(f"{device.name} with {device.total / 2**30:.0f} GB" for device in gpus)
        memory = f"{self.memory_total / 2**30:.0f} GB"
        if any(device.shared for device in self.devices):
            return f"{cores}{with_}, {memory} shared with the GPU"
        return f"{cores}{with_}, {memory}, {gpu or 'no GPU'}"


def inspect() -> Machine:
    """Look at this machine; takes up to a second where a GPU's driver has to be asked."""
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    limit = _container_limit()
    if limit is not None and limit[0] < total:
        total, free = limit[0], min(free, limit[0] - limit[1])
    cpu, features = _cpu()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=cpu,
        cores=physical_cores(),
        features=features,
        memory_total=total,
        memory_free=max(0, free),
        devices=_nvidia() or _apple(total, free),
    )


def own_memory() -> int:
    """Bytes of memory that this process takes now."""
    return int(psutil.Process().memory_info().rss)


def usable_cpus() -> int:
    """Threads that can run at the same time for this process, hyper-threads included."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def physical_cores() -> int:
    """Cores this process may use; hyper-threads share one unit for the arithmetic that counts here."""
    usable = usable_cpus()
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def _cpu() -> tuple[str, tuple[str, ...]]:
    if platform.system() == "Darwin":
        return _asked("sysctl", "-n", "machdep.cpu.brand_string").strip(), ()
    name, flags = platform.processor(), set[str]()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags |= set(value.split())
                break
    return name, tuple(called for flag, called in _FLAGS.items() if flag in flags)


def _container_limit() -> tuple[int, int] | None:
    """(limit, used) in bytes of the control group this process lives in; None where there is none."""
    for limit, used, kept in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            "/sys/fs/cgroup/memory/memory.stat",
        ),
    ):
        try:
            # Pages of files are counted as used, but are given up when somebody wants the room.
            files = next(
                (
                    int(line.split()[1])
                    for line in Path(kept).read_text().splitlines()
                    if line.startswith("inactive_file ")
                ),
                0,
            )
            return int(Path(limit).read_text()), max(0, int(Path(used).read_text()) - files)
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return None


def _nvidia() -> tuple[Device, ...]:
    if shutil.which("nvidia-smi") is None:
        return ()
    rows = _asked("nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits")
    devices = []
    for number, row in enumerate(rows.splitlines()):
        with contextlib.suppress(ValueError):
            name, total, free = (cell.strip() for cell in row.rsplit(",", 2))
            name = name if number == 0 else f"{name} #{number + 1}"
            devices.append(Device(name, "cuda", int(total) << 20, int(free) << 20))
    return tuple(devices)


def _apple(total: int, free: int) -> tuple[Device, ...]:
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return ()
    most = int(total * (_SHARED_LARGE if total >= _LARGE else _SHARED))
    return (Device("Apple GPU", "metal", most, min(most, free), shared=True),)


def _asked(*command: str) -> str:
    """What a system's own tool prints; empty when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
