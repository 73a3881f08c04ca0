"""The kernels compiled for GPUs that are not here, and the report."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the pytorch runtime is not installed")
pytest.importorskip("triton", reason="Triton is not installed")


def test_every_kernel_compiles_without_spills_and_is_right() -> None:
    # A process of its own: this one may have imported the kernels for the interpreter.
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "pardec_chat.kernels"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    checked = [line for line in lines if line.endswith("  ok")]
    assert len(checked) >= 26
    for operation in ("quant_matmul", "tree_attention", "kv_compact", "verify_accept"):
        assert any(operation in line for line in checked)
        compiled = [line for line in lines if operation in line and "sm_89" in line]
        assert compiled
        assert all("sm_90" in line and line.count("no spills") == 2 for line in compiled)
    registers = [int(n) for line in lines for n in re.findall(r"(\d+) registers", line)]
    assert 0 < min(registers) <= max(registers) <= 255
