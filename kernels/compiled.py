"""Compiles every Triton kernel ahead of time for GPUs that need not be there, and reads registers, spills and shared memory.

Run in a process without TRITON_INTERPRET: a kernel that was defined for the interpreter cannot be compiled.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pardec_chat.kernels.kv_compact import triton as kv_compact
from pardec_chat.kernels.quant_matmul import triton as quant_matmul
from pardec_chat.kernels.tree_attention import triton as tree_attention
from pardec_chat.kernels.verify_accept import triton as verify_accept

#: RTX 4090, and H100 or H200.
ARCHITECTURES: Final = (89, 90)
_BIN: Final = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel with the types of its arguments and its compile-time values. name: operation and variant."""

    name: str
    function: Any
    signature: dict[str, str]
    constants: dict[str, Any]
    warps: int
    stages: int = 2


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a GPU of `architecture` needs for a kernel. spills: bytes stored or loaded because registers ran out."""

    name: str
    architecture: int
    registers: int
    spills: int
    shared: int


def sources() -> Iterator[Source]:
    """Every kernel in the variants that decoding uses: each format, 1 to 8 and 32 rows, heads of 64, 128 and 256 values."""
    matmul = _signature(
        raw_ptr="*u8", x_ptr="*bf16", out_ptr="*bf16", n_rows="i32", n_x="i32", n_columns="i32", row_bytes="i32"
    )
    names = {2: "Q4_0", 8: "Q8_0", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K"}
    for kind, name in names.items():
        for rows in (1, 32):
            constants = quant_matmul.constants(kind, rows)
            yield _source(f"quant_matmul {name} x{rows}", quant_matmul._kernel, matmul, constants)
    partial = _signature(
        q_ptr="*bf16", k_ptr="*bf16", v_ptr="*bf16", mask_ptr="*u8", start_ptr="*i32", depths_ptr="*i32", out_ptr="*fp32",
        peak_ptr="*fp32", total_ptr="*fp32", scale="fp32", softcap="fp32", window="i32", n_rows="i32", n_stacked="i32",
        kv_stride="i32",
    )  # fmt: skip
    together = _signature(
        part_ptr="*fp32", peak_ptr="*fp32", total_ptr="*fp32", out_ptr="*bf16", n_rows="i32", n_stacked="i32"
    )
    for head in (64, 128, 256):
        shape = {"heads": 32, "groups": 4, "head": head, "splits": tree_attention.SPLITS}
        for stacked in (4, 32, 256):
            constants = shape | tree_attention.constants(stacked, head)
            name = f"tree_attention {head} x{constants['block_m']}"
            yield _source(name, tree_attention._partial, partial, constants)
        yield Source(f"tree_attention together {head}", tree_attention._together, together, shape, 2)
    compact = _signature(
        cache_ptr="*bf16", rows_ptr="*i32", n_kept_ptr="*i32", start_ptr="*i32", slot="i32", slots="i32", kv_heads="i32",
        cells="i32",
    )  # fmt: skip
    yield Source("kv_compact 128", kv_compact._kernel, compact, {"head": 128}, 1)
    chain = _signature(
        x_ptr="*fp32", p_ptr="*fp32", size="i32", temperature="fp32", top_k="i32", top_p="fp32", min_p="fp32"
    )
    block = {"block": verify_accept.BLOCK}
    yield Source("verify_accept distribution", verify_accept._distribution, chain, block, 8)
    accept = _signature(
        p_ptr="*fp32", q_ptr="*fp32", tokens_ptr="*i32", parents_ptr="*i32", ends_ptr="*u8", coins_ptr="*fp32",
        picks_ptr="*fp32", out_ptr="*i32", path_ptr="*i32", count_ptr="*i32", n_nodes="i32", size="i32",
    )  # fmt: skip
    for rule, name in enumerate(("greedy", "walk", "reject")):
        yield Source(f"verify_accept {name}", verify_accept._accept, accept, {**block, "rule": rule}, 8)


def _source(name: str, function: Any, signature: dict[str, str], chosen: dict[str, Any]) -> Source:
    """chosen: compile-time values with launch options among them."""
    constants = {key: value for key, value in chosen.items() if key not in ("num_warps", "num_stages")}
    return Source(name, function, signature, constants, chosen["num_warps"], chosen["num_stages"])


def compile_for(source: Source, architecture: int) -> Compiled:
    """Compile one kernel, and ask NVIDIA's assembler, which comes with Triton, what became of it."""
    signature = {**source.signature, **dict.fromkeys(source.constants, "constexpr")}
    ordered = {name: signature[name] for name in source.function.arg_names}
    # What Triton sees at each call: tensors of torch begin at multiples of 16, and these sizes of a model are such.
    even = ("kv_stride", "n_columns", "row_bytes")
    attributes = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(source.function.arg_names)
        if ordered[name].startswith("*") or name in even
    }
    made = triton.compile(
        ASTSource(fn=source.function, signature=ordered, constexprs=source.constants, attrs=attributes),
        target=GPUTarget("cuda", architecture, 32),
        options={"num_warps": source.warps, "num_stages": source.stages},
    )
    said = _assembler(made.asm["ptx"], architecture)
    found = {int(n) for n in re.findall(r"Used (\d+) registers", said)}
    spills = sum(int(n) for n in re.findall(r"(\d+) bytes spill", said))
    return Compiled(source.name, architecture, max(found), spills, made.metadata.shared)


def _assembler(ptx: str, architecture: int) -> str:
    name = "sm_90a" if architecture == 90 else f"sm_{architecture}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        # As Triton calls it itself, so that the figures are those of the code that runs.
        command = [str(_BIN / "ptxas"), "-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name", name]
        command += [str(path), "-o", str(path.with_suffix(".cubin"))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def _signature(**types: str) -> dict[str, str]:
    return types
