"""What the machine is said to be, from what the system tells."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pardec_chat.backends import machine
from pardec_chat.backends.machine import Device, Machine, inspect

GIB = 1 << 30
SMALL = Machine("Linux", "Some CPU", 2, ("AVX-512 VNNI", "AVX2"), 24 * GIB, 20 * GIB)


def test_this_machine_has_what_the_system_says() -> None:
    found = inspect()
    assert found.cores >= 1
    assert 0 < found.memory_free <= found.memory_total
    assert found.system.split()[0] in ("Linux", "Darwin")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "2 cores with AVX-512 VNNI, 24 GB, no GPU"),
        ({"cores": 1, "features": ()}, "1 core, 24 GB, no GPU"),
        (
            {"devices": (Device("NVIDIA GeForce RTX 4090", "cuda", 24 * GIB, 23 * GIB),)},
            "2 cores with AVX-512 VNNI, 24 GB, NVIDIA GeForce RTX 4090 with 24 GB",
        ),
        (
            {
                "cpu": "Apple M4 Max",
                "features": (),
                "devices": (Device("Apple GPU", "metal", 20 * GIB, GIB, shared=True),),
            },
            "Apple M4 Max, 2 cores, 24 GB shared with the GPU",
        ),
    ],
)
def test_in_words(change: dict[str, object], words: str) -> None:
    assert replace(SMALL, **change).described() == words  # type: ignore[arg-type]


def test_H03_nvidia_gpus_are_asked_of_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "NVIDIA GeForce RTX 4090, 24564, 23000\nOdd, name, 8192, 100\nbroken row\n"
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(machine, "_asked", lambda *command: rows)
    assert machine._nvidia() == (
        Device("NVIDIA GeForce RTX 4090", "cuda", 24564 << 20, 23000 << 20),
        Device("Odd, name #2", "cuda", 8192 << 20, 100 << 20),
    )


def test_a_driver_that_hangs_or_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*command: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 3)

    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("subprocess.run", hang)
    assert machine._nvidia() == ()


@pytest.mark.parametrize(("total", "most"), [(36 * GIB, int(36 * GIB * 0.67)), (128 * GIB, int(128 * GIB * 0.75))])
def test_an_apple_gpu_may_take_a_part_of_the_memory(monkeypatch: pytest.MonkeyPatch, total: int, most: int) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    (device,) = machine._apple(total, total)
    assert (device.total, device.free, device.shared) == (most, most, True)
    assert machine._apple(total, GIB)[0].free == GIB


def test_a_containers_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_container_limit", lambda: (2 * GIB, GIB // 2))
    found = inspect()
    assert found.memory_total == 2 * GIB
    assert found.memory_free <= 2 * GIB - GIB // 2


def test_a_containers_limit_is_read_with_what_it_can_give_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/sys/fs/cgroup/memory.max": "4000\n",
        "/sys/fs/cgroup/memory.current": "3000\n",
        "/sys/fs/cgroup/memory.stat": "anon 500\ninactive_file 1000\n",
    }
    real = Path.read_text

    def read(self: Path, *arguments: object, **options: object) -> str:
        return texts[str(self)] if str(self) in texts else real(self)

    monkeypatch.setattr(Path, "read_text", read)
    assert machine._container_limit() == (4000, 2000)
    texts["/sys/fs/cgroup/memory.max"] = "max\n"
    assert machine._container_limit() is None or machine._container_limit() != (4000, 2000)
