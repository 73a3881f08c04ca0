"""Which GGUF files MLX can keep as they are, by their headers: known without importing MLX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Final

from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.gguf.header import Header, read
from pardec_chat.backends.gguf.model import parts, stamp
from pardec_chat.backends.units import size
from pardec_chat.kernels.quant_matmul.reference import BlockType

#: Tensor types that MLX leaves as they are: floats, and blocks of `GROUP` with their bits.
_FLOATS: Final = frozenset({0, 1})
BITS: Final[dict[int, int]] = {BlockType.Q4_0: 4, BlockType.Q4_1: 4, BlockType.Q8_0: 8}
GROUP: Final = 32
#: Those that its reader expands to 16-bit floats: Q2_K to Q8_K. It refuses all others.
_EXPANDED: Final = frozenset(range(10, 16))
_NAMES: Final = {
    2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
    14: "Q6_K", 15: "Q8_K", 20: "IQ4_NL", 23: "IQ4_XS", 30: "BF16", 39: "MXFP4",
}  # fmt: skip
#: Family → module of mlx-lm.
MODULES: Final = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma3": "gemma3_text"}


def reads(path: Path) -> bool:
    """Whether the file at `path` is one that `check` lets through; it is read again only when it has changed."""
    try:
        return _reads(tuple((part, *stamp(part)) for part in parts(path)))
    except ModelUnreadable:
        return False


@lru_cache(maxsize=256)
def _reads(files: tuple[tuple[Path, int, int, int], ...]) -> bool:
    check([read(path) for path, *_ in files])
    return True


def check(headers: Sequence[Header]) -> None:
    """Raises ModelUnreadable for files whose blocks MLX would expand or cannot read, and for other families."""
    tensors = [tensor for header in headers for tensor in header.tensors]
    name = headers[0].path.name
    others = Counter(tensor.type for tensor in tensors if tensor.type not in _FLOATS and tensor.type not in BITS)
    if others:
        kinds = ", ".join(f"{n} of {_NAMES.get(kind, f'type {kind}')}" for kind, n in sorted(others.items()))
        if others.keys() <= _EXPANDED:
            now = sum(tensor.bytes for tensor in tensors)
            then = sum(2 * prod(tensor.shape) if tensor.type in _EXPANDED else tensor.bytes for tensor in tensors)
            what = f"MLX would expand to 16 bits: {size(then)} instead of {size(now)}"
        else:
            what = "MLX cannot read"
        raise ModelUnreadable(
            f"{name} has {kinds} tensors, which {what}.",
            "Take --runtime llamacpp, which keeps them as they are, or a Q4_0, Q4_1 or Q8_0 file without others.",
        )
    family = headers[0].text("general.architecture")
    if family not in MODULES:
        raise _unknown(name, family)
    if any(tensor.name == "rope_freqs.weight" for tensor in tensors):
        raise _unknown(name, "positions stretched by a table")
    if headers[0].text(f"{family}.rope.scaling.type", "none") not in ("none", "linear"):
        raise _unknown(name, f"positions scaled as {headers[0].text(f'{family}.rope.scaling.type')}")
    if headers[0].number(f"{family}.expert_count"):
        raise _unknown(name, "experts")


def _unknown(name: str, what: str) -> ModelUnreadable:
    return ModelUnreadable(
        f"{name} is of a kind that the mlx runtime reads no GGUF file of: {what}.",
        f"It reads those of {', '.join(MODULES)}; take --runtime llamacpp, or the model's MLX folder.",
    )
