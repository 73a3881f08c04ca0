"""The report on the kernels: `python -m pardec_chat.kernels`.

On a GPU each kernel is checked against its reference and timed; without one the checks go through Triton's interpreter, in a
process of their own. Both compile every kernel for the GPUs that are planned for. Exits with 1 when a check fails or a kernel
spills.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any


def main() -> int:
    """Print the report; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pardec_chat.kernels", description="Check, time and compile the kernels."
    )
    parser.add_argument("--only-checks", action="store_true", help="on this device; one JSON line each")
    parser.add_argument("--no-compile", action="store_true", help="leave out what is compiled for other GPUs")
    arguments = parser.parse_args()
    missing = [name for name in ("torch", "triton") if find_spec(name) is None]
    if missing:
        print(f"The kernels need {' and '.join(missing)}: pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if arguments.only_checks:
        return _print_checks(device)
    good = True
    name = torch.cuda.get_device_name() if device == "cuda" else "Triton's interpreter: there is no GPU here"
    print(f"checks against the references, on {name}")
    for check in _checks(device):
        good &= check["passed"]
        mark = "ok" if check["passed"] else "WRONG"
        print(f"  {check['name']:40} {check['error']:9.1e} of {check['allowed']:7.0e} allowed  {mark}")
    if device == "cuda":
        _print_timings()
    if not arguments.no_compile:
        good &= _print_compiled()
    return 0 if good else 1


def _checks(device: str) -> Iterator[dict[str, Any]]:
    """In a process of its own: whether kernels are interpreted is settled when they are imported."""
    environment = dict(os.environ)
    if device == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-m", "pardec_chat.kernels", "--only-checks"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode:
        yield {"name": "the checks did not end well", "error": float("nan"), "allowed": 0.0, "passed": False}


def _print_checks(device: str) -> int:
    from pardec_chat.kernels import checks

    for check in checks.run(device):
        print(json.dumps({**asdict(check), "passed": check.passed}), flush=True)
    return 0


def _print_timings() -> None:
    from pardec_chat.kernels import timing

    copy = timing.bandwidth()
    print(f"times; a large copy moves {copy / 1e6:,.0f} GB/s, and the share is of that")
    for found in (*timing.kernels(copy), *timing.model(copy)):
        print(f"  {found.name:48} {found.ms:9.4f} ms  {found.share:6.1%}", flush=True)


def _print_compiled() -> bool:
    from pardec_chat.kernels import compiled

    good = True
    print("compiled ahead of time")
    for source in compiled.sources():
        cells: Sequence[str] = ()
        for architecture in compiled.ARCHITECTURES:
            found = compiled.compile_for(source, architecture)
            good &= found.spills == 0
            spilled = "no spills" if not found.spills else f"SPILLS {found.spills} B"
            cells = (
                *cells,
                f"sm_{architecture} {found.registers:3} registers, {found.shared / 1024:5.1f} KiB, {spilled}",
            )
        print(f"  {source.name:32} {'   '.join(cells)}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
