"""The kernels for Arm, compiled with a cross compiler and run in an emulator, where both are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pardec_chat.app import locations
from pardec_chat.kernels.quant_matmul import reference
from pardec_chat.kernels.quant_matmul.reference import BlockType
from pardec_chat.tests.kernels.test_quant_matmul import random_blocks, same_bits

_COMPILER, _EMULATOR = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")

pytestmark = pytest.mark.skipif(
    not (_COMPILER and _EMULATOR),
    reason="needs the Debian packages g++-aarch64-linux-gnu and qemu-user",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("arm") / "products"
    folder = locations.ROOT / "kernels" / "quant_matmul"
    sources = [folder / name for name in ("kernels.cpp", "pack.cpp", "dispatch.cpp")]
    sources.append(locations.ROOT / "tests" / "kernels" / "products.cpp")
    flags = ["-std=c++20", "-O1", "-static", "-ffp-contract=off", "-march=armv8.2-a+dotprod+fp16", "-DPARDEC_NEON"]
    subprocess.run([str(_COMPILER), *flags, *map(str, sources), "-o", str(out)], check=True, timeout=300)
    return out


@pytest.mark.parametrize("block_type", BlockType)
def test_the_kernels_for_arm_are_the_reference_to_the_last_bit(block_type: BlockType, program: Path) -> None:
    blocks = random_blocks(block_type, 37, 512)
    rows = np.random.default_rng(5).normal(size=(5, 512)).astype(np.float32)
    words = [str(int(block_type)), "512", "37", "5", str(blocks.shape[1])]
    done = subprocess.run(
        [str(_EMULATOR), "-cpu", "max", str(program), *words],
        input=blocks.tobytes() + rows.tobytes(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    got = np.frombuffer(done.stdout, np.float32).reshape(5, 37)
    assert same_bits(got, reference.matmul(blocks, block_type, rows))
