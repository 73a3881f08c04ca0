"""`models why`, `models pairs` and `doctor` on files in a folder, and what the command line says when memory is short."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pardec_chat.app.cli import diagnosis
from pardec_chat.app.cli.diagnosis import Diagnosis
from pardec_chat.app.cli.main import main
from pardec_chat.backends.machine import Device, Machine
from pardec_chat.backends.memory import Shape
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.fakes import FakeRuntime
from pardec_chat.tests.tiny_models import VOCABULARY
from pardec_chat.tests.unit.test_cli import model, run, runtime

__all__ = ["runtime"]

GB = 10**9


@pytest.fixture
def folder(tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target, drafts of three kinds, a projector, and a file that is none."""
    monkeypatch.setenv("PARDEC_CHAT_MODELS", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copy(tiny("gemma3"), tmp_path / "target.gguf")
    shutil.copy(tiny("llama", 1), tmp_path / "good.gguf")
    shutil.copy(tiny("llama", 1, VOCABULARY.padded(2)), tmp_path / "padded.gguf")
    shutil.copy(tiny("llama", 1, VOCABULARY.swapped(262, 263)), tmp_path / "swapped.gguf")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" + bytes(20))
    projector = tmp_path / "mmproj-x.gguf"
    import gguf

    writer = gguf.GGUFWriter(projector, "clip")
    writer.add_string("general.type", "mmproj")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_L08_why_has_the_agreed_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = document(capsys, "models", "why", "target", "good")
    assert exact == {
        "target": "target",
        "draft": "good",
        "method": "draft",
        "verdict": "exact",
        "reasons": exact["reasons"],
        "masked_ids": [],
        "first_difference": None,
    }
    assert exact["reasons"][0] == f"Both have the same {len(VOCABULARY)} ids."
    padded = document(capsys, "models", "why", "target", "padded")
    assert (padded["verdict"], padded["masked_ids"]) == ("tolerable", [len(VOCABULARY), len(VOCABULARY) + 1])
    swapped = document(capsys, "models", "why", "target", "swapped")
    assert swapped["verdict"] == "impossible"
    assert swapped["first_difference"] == {"id": 262, "target": "a", "draft": "b"}
    projector = document(capsys, "models", "why", "target", "mmproj-x")
    assert "vision projector" in projector["reasons"][0]


def test_why_in_words_tells_what_the_pair_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "models", "why", "target", "padded")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "tolerable  target + padded  (method draft)"
    assert "  Padded differently" in lines[1]
    assert any("Never drafted: ids" in line for line in lines)
    assert "It fits" in out
    assert main(["models", "why", "target", "nothing"]) == 1
    assert "There is no model nothing" in capsys.readouterr().err


def test_L08_verdicts_follow_the_files(folder: Path, tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "models", "why", "target", "swapped")["verdict"] == "impossible"
    shutil.copy(tiny("llama", 1), folder / "swapped.gguf")
    assert document(capsys, "models", "why", "target", "swapped")["verdict"] == "exact"
    shutil.copy(tiny("llama", 1, VOCABULARY.swapped(262, 263)), folder / "swapped.gguf")
    assert document(capsys, "models", "why", "target", "swapped")["verdict"] == "impossible"


def test_L08_every_candidate_is_listed_with_its_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = document(capsys, "models", "pairs", "target")["targets"]
    verdicts = {pair["draft"]: pair["verdict"] for pair in found["pairs"]}
    assert verdicts == {
        "good": "exact",
        "padded": "tolerable",
        "swapped": "impossible",
        "damaged": "impossible",
        "mmproj-x": "impossible",
    }
    assert list(verdicts)[:2] == ["good", "padded"]
    assert found["fetchable"] == []
    code, out, _ = run(capsys, "models", "pairs")
    assert code == 0
    assert "✓ good" in out
    assert "✗ swapped" in out


def test_what_could_be_fetched_is_listed(folder: Path, capsys: pytest.CaptureFixture[str], tiny: Tiny) -> None:
    name = "qwen2.5-coder-1.5b-instruct-q4_k_m"
    shutil.copy(tiny("llama"), folder / f"{name}.gguf")
    with (folder / f"{name}.gguf").open("r+b") as file:
        file.truncate(1_117_320_768)  # a hole of the right size
    (found,) = document(capsys, "models", "pairs", name)["targets"]
    assert [(other["id"], other["method"]) for other in found["fetchable"]] == [
        ("qwen2.5-coder-0.5b-instruct-q4_k_m", "draft")
    ]
    assert found["fetchable"][0]["bytes"] == 491_400_064


def test_K03_the_command_line_says_which_flags_make_it_fit(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Machine("test", "test", 2, (), 8 * GB, int(3.6 * GB))
    monkeypatch.setattr("pardec_chat.app.chat.engine.inspect", lambda: small)
    runtime.shapes["t.gguf"] = Shape("t", 3 * GB, 10, 150_000, 31, context=8192, head=64)
    code, out, err = run(capsys, "ask", "hi", *model(tmp_path))
    assert (code, out) == (1, "")
    assert "t needs" in err
    assert "It fits with --cache-type q8_0, or with --ctx 2048." in err
    assert "--no-memory-check" in err
    assert not runtime.loaded
    assert run(capsys, "ask", "hi", "--no-memory-check", *model(tmp_path))[0] == 0
    assert run(capsys, "ask", "hi", "--cache-type", "q8_0", *model(tmp_path))[0] == 0
    assert [(options.cache_type, options.n_ctx) for options in runtime.loaded] == [("f16", None), ("q8_0", None)]


@pytest.mark.parametrize("kinds", [frozenset(), frozenset({"cuda"})])
def test_H03_a_cpu_only_build_beside_a_gpu_is_called_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kinds: frozenset[str], runtime: FakeRuntime
) -> None:
    monkeypatch.setattr(diagnosis, "_BASE", "fake")
    monkeypatch.setattr("pardec_chat.backends.llamacpp.build.device_kinds", lambda: kinds)
    here = Machine("Linux", "CPU", 8, (), 64 * GB, 60 * GB, (Device("RTX 4090", "cuda", 24 * GB, 23 * GB),))
    found = Diagnosis()
    facts = diagnosis._runtime(found, "fake", here, [])
    told = [problem for problem in found.problems if "RTX 4090" in problem.what]
    assert facts["devices"] == sorted(kinds)
    assert bool(told) == (not kinds)
    for problem in told:
        assert "-DGGML_CUDA=on" in problem.mend


def test_doctor_names_damaged_and_half_fetched_files(folder: Path) -> None:
    (folder / "smollm2-135m-instruct-q4_1.gguf.part").write_bytes(b"GGUF" + bytes(1000))
    found = Diagnosis()
    diagnosis._models(found)
    mends = {problem.mend for problem in found.problems}
    assert mends == {"pardec-chat models remove damaged", "pardec-chat models pull smollm2-135m-instruct-q4_1"}
    helpers = {entry["id"]: entry["helper"] for entry in found.facts["models"]}
    assert helpers["mmproj-x"] == "vision projector"
    assert helpers["good"] is None


def test_doctor_survives_a_broken_catalogue_of_the_users(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "config" / "models.toml"
    own.parent.mkdir()
    own.write_text('[[models]]\nid = "X"\n')
    monkeypatch.setattr("pardec_chat.app.locations.user_catalogue", lambda: own)
    found = Diagnosis()
    assert diagnosis._models(found) == []
    (problem,) = found.problems
    assert "line 1: model 'X'" in problem.what
    assert str(own.name) in problem.what
