from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from pardec_chat.tests import tiny_models
from pardec_chat.tests.tiny_models import VOCABULARY, TinyVocabulary

# Triton reads this when it is imported, and kernels when they are defined: tests run them without a GPU.
os.environ["TRITON_INTERPRET"] = "1"

_numbers = itertools.count()


class Tiny(Protocol):
    """Path of a tiny model file, written when it is first asked for."""

    def __call__(self, arch: str, seed: int = 0, vocabulary: TinyVocabulary = VOCABULARY) -> Path: ...


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Tiny models by architecture, seed and vocabulary, each written once a session."""
    folder = tmp_path_factory.mktemp("tiny")
    known: dict[tuple[str, int, TinyVocabulary], Path] = {}

    def path(arch: str, seed: int = 0, vocabulary: TinyVocabulary = VOCABULARY) -> Path:
        key = (arch, seed, vocabulary)
        if key not in known:
            known[key] = tiny_models.write(folder / f"{arch}-{len(known)}-{seed}.gguf", arch, seed, vocabulary)
        return known[key]

    return path


@pytest.fixture(autouse=True)
def own_log(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's log is not the tests' to write to."""
    monkeypatch.setattr(
        "pardec_chat.app.locations.log_file", lambda: tmp_path_factory.getbasetemp() / "pardec-chat.log"
    )


@pytest.fixture(autouse=True)
def own_learning(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with nothing learned, and what it learns is not the user's."""
    folder = tmp_path_factory.getbasetemp() / "learned" / str(next(_numbers))
    monkeypatch.setattr("pardec_chat.app.locations.learned", lambda: folder)
    monkeypatch.setattr("pardec_chat.app.locations.earlier", lambda: folder / "earlier")


@pytest.fixture(autouse=True)
def own_conversations(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins without conversations, and those that it keeps are not the user's."""
    file = tmp_path_factory.getbasetemp() / "conversations" / str(next(_numbers)) / "conversations.db"
    monkeypatch.setattr("pardec_chat.app.locations.conversations", lambda: file)


@pytest.fixture(autouse=True)
def no_own_catalogue(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user added to the catalogue is not there for the tests."""
    monkeypatch.setenv("PARDEC_CHAT_CONFIG", str(tmp_path_factory.getbasetemp() / "config"))
