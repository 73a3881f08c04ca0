"""What was learned is kept for the pair it is about, and for nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pardec_chat.app import locations
from pardec_chat.app.chat import learned
from pardec_chat.app.chat.learned import Learned
from pardec_chat.app.chat.request import ModelChoice
from pardec_chat.backends.base import Method, Outcome
from pardec_chat.backends.decoding.knowledge import Knowledge

BUILD = {"version": "1", "features": "AVX2"}


@pytest.fixture
def choice(tmp_path: Path) -> ModelChoice:
    for name in ("target.gguf", "draft.gguf"):
        (tmp_path / name).write_bytes(b"weights")
    return ModelChoice(tmp_path / "target.gguf", tmp_path / "draft.gguf", threads=4)


def knowing() -> Knowledge:
    knowledge = Knowledge(0.01)
    for _ in range(5):
        knowledge.costs.observe_pass(100, 1, 20.0)
        knowledge.costs.observe_pass(100, 4, 30.0)
        knowledge.costs.observe_draft("draft", 3, 0, 6.0)
    knowledge.note(
        Method.DRAFT, knowledge.record(Method.DRAFT, "code"), [Outcome(1, True, 0.95), Outcome(2, False, 0.55)]
    )
    knowledge.count("code", Method.DRAFT, 3, 2, 36.0)
    return knowledge


def test_what_was_learned_is_there_at_the_next_start(choice: ModelChoice) -> None:
    Learned.of(choice, "llamacpp", BUILD).save(knowing())
    known = Learned.of(choice, "llamacpp", BUILD).restore()
    assert known is not None
    assert known.dump() == knowing().dump()
    assert known.plain_ms(100) == pytest.approx(20.0)
    assert known.record(Method.DRAFT, "code").mean(0) == knowing().record(Method.DRAFT, "code").mean(0)
    assert known.trust(Method.DRAFT, 0.95) == knowing().trust(Method.DRAFT, 0.95)


@pytest.mark.parametrize("changed", ["runtime", "build", "target", "draft", "threads", "no draft"])
def test_L08_a_change_of_anything_leaves_it_behind(choice: ModelChoice, changed: str) -> None:
    Learned.of(choice, "llamacpp", BUILD).save(knowing())
    runtime, build, now = "llamacpp", BUILD, choice
    assert choice.draft is not None
    match changed:
        case "runtime":
            runtime = "pytorch"
        case "build":
            build = {**BUILD, "features": "AVX512"}
        case "target":
            choice.model.write_bytes(b"other weights")
        case "draft":
            os.utime(choice.draft, ns=(1, 1))
        case "threads":
            now = ModelChoice(choice.model, choice.draft, threads=2)
        case _:
            now = ModelChoice(choice.model, threads=4)
    assert Learned.of(now, runtime, build).restore() is None


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"key": 1}', b"NaN"])
def test_a_broken_file_is_left_behind(choice: ModelChoice, raw: bytes) -> None:
    place = Learned.of(choice, "llamacpp", BUILD)
    place.path.parent.mkdir(parents=True)
    place.path.write_bytes(raw)
    assert place.restore() is None


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("share", 7),
        ("share", "x"),
        ("costs", None),
        ("records", [["draft", "code", [[2, 1]]]]),
        ("records", [["nobody", "code", []]]),
        ("confidence", {"draft": [[1, 1]]}),
        ("confidence", {"draft": [[float("nan"), 1.0]] * 10}),
        ("measured", [["code", "draft", 3, 0, 0, 0]]),
        ("measured", [["code", "draft", 3, 1, 2, float("inf")]]),
    ],
)
def test_a_file_with_impossible_figures_is_left_behind(choice: ModelChoice, part: str, value: object) -> None:
    place = Learned.of(choice, "llamacpp", BUILD)
    place.save(knowing())
    document = json.loads(place.path.read_text())
    document["learned"][part] = value
    place.path.write_text(json.dumps(document))
    assert place.restore() is None


def test_nothing_half_written_stays(choice: ModelChoice, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Learned.of(choice, "llamacpp", BUILD)
    place.save(knowing())
    before = place.path.read_bytes()

    def full(self: Path, target: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    place.save(Knowledge(0.01))
    assert place.path.read_bytes() == before
    assert [path.name for path in place.path.parent.iterdir()] == [place.path.name]


def test_a_folder_that_cannot_be_made_costs_nothing_else(choice: ModelChoice, tmp_path: Path) -> None:
    locations.learned().parent.mkdir(parents=True, exist_ok=True)
    locations.learned().write_text("a file where the folder should be")
    place = Learned.of(choice, "llamacpp", BUILD)
    place.save(knowing())
    assert place.restore() is None


def test_the_pairs_not_used_for_longest_go_first(
    choice: ModelChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned, "_MOST_FILES", 2)
    places = [Learned.of(ModelChoice(tmp_path / f"{i}.gguf"), "llamacpp", BUILD) for i in range(3)]
    for i, place in enumerate(places):
        place.save(knowing())
        if i < 2:  # the newest keeps its own time
            os.utime(place.path, (i, i))
    assert [place.path.exists() for place in places] == [False, True, True]
