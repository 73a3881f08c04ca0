from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from pardec_chat.backends import registry
from pardec_chat.backends.base import LoadOptions, Runtime, Target


class Load(Protocol):
    """Load a model as the tests want it: small, on one thread, closed when the test ends."""

    def __call__(self, path: Path, **options: Any) -> Target: ...


@pytest.fixture(scope="session", params=[name for name in registry.names() if registry.installed(name)])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Every runtime that can be imported here."""
    return registry.load(request.param)


@pytest.fixture
def in_float32(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arithmetic in float32, cache and attention too, so that a text does not depend on how many rows share a pass.

    The float16 in use turns the last digit of a sum into the third of a logit, and near ties into other texts.
    """
    if runtime.name == "llamacpp":
        import llama_cpp

        def params() -> Any:
            found = defaults()
            found.type_k = found.type_v = llama_cpp.GGML_TYPE_F32
            found.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
            return found

        defaults = llama_cpp.llama_context_default_params
        monkeypatch.setattr(llama_cpp, "llama_context_default_params", params)


@pytest.fixture
def load(runtime: Runtime) -> Iterator[Load]:
    targets: list[Target] = []

    def make(path: Path, **options: Any) -> Target:
        targets.append(runtime.load(LoadOptions(path, **{"n_ctx": 256, "threads": 1, **options})))
        return targets[-1]

    yield make
    for target in targets:
        target.close()
