from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from pardec_chat.backends import registry
from pardec_chat.backends.base import LoadOptions, Runtime, Target
from pardec_chat.backends.gguf.header import read

#: Tiny models with a running state.
STATEFUL = ("mamba", "jamba")
#: Tiny models that the mlx runtime reads as folders of its own, since it reads no such files: the same kinds of cache.
AS_FOLDERS = ("gemma3", *STATEFUL)


class Load(Protocol):
    """Load a model as the tests want it: small, on one thread, closed when the test ends."""

    def __call__(self, path: Path, **options: Any) -> Target: ...


@pytest.fixture(scope="session", params=[name for name in registry.names() if registry.installed(name)])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Every runtime that can be imported here."""
    loaded = registry.load(request.param)
    # What was imported need not be looked through each time a model gives its memory back.
    gc.collect()
    gc.freeze()
    return loaded


@dataclass(frozen=True)
class Far:
    """A prompt, and lengths of answers behind it that outgrow what a runtime keeps for a window of 16."""

    prompt: list[int]
    answer: int
    longer: int

    @property
    def n_ctx(self) -> int:
        """Enough for all of it."""
        return len(self.prompt) + self.longer + 100


@pytest.fixture
def far(runtime: Runtime) -> Far:
    """llama.cpp keeps some 256 cells, MLX 256 rows; there each pass takes a millisecond or more, and a prompt is one pass."""
    if runtime.name == "mlx":
        return Far([1, *(5 + (i * i) % 250 for i in range(219))], 60, 90)
    return Far([1, 20, 30, 40, 20, 30, 41, 20, 30, 42], 420, 500)


@pytest.fixture
def in_float32(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arithmetic in float32, cache and attention too, so that a text does not depend on how many rows share a pass.

    The float16 in use turns the last digit of a sum into the third of a logit, and near ties into other texts.
    """
    # The pytorch runtime is asked for it at load, see `load`.
    if runtime.name == "llamacpp":
        import llama_cpp

        def params() -> Any:
            found = defaults()
            found.type_k = found.type_v = llama_cpp.GGML_TYPE_F32
            found.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
            return found

        defaults = llama_cpp.llama_context_default_params
        monkeypatch.setattr(llama_cpp, "llama_context_default_params", params)


@pytest.fixture(scope="session")
def as_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """The MLX folder that stands for a tiny file: of the same architecture, vocabulary and seed."""
    known: dict[Path, Path] = {}

    def folder(path: Path) -> Path:
        from pardec_chat.tests import mlx_models

        arch = read(path).text("general.architecture")
        if arch not in AS_FOLDERS:
            return path
        if path not in known:
            known[path] = mlx_models.write(
                tmp_path_factory.mktemp("mlx") / path.stem, arch, int(path.stem.rpartition("-")[2]) + 1
            )
        return known[path]

    return folder


@pytest.fixture
def load(runtime: Runtime, as_folder: Callable[[Path], Path]) -> Iterator[Load]:
    targets: list[Target] = []
    numbers = {"dtype": "fp32"} if runtime.name == "pytorch" else {}

    def make(path: Path, **options: Any) -> Target:
        if runtime.name == "pytorch" and read(path).text("general.architecture") in STATEFUL:
            pytest.skip("this runtime has no running states, and says so at load")
        if runtime.name == "mlx":
            path = as_folder(path)
        targets.append(runtime.load(LoadOptions(path, **{"n_ctx": 256, "threads": 1, **numbers, **options})))
        return targets[-1]

    yield make
    for target in targets:
        target.close()
