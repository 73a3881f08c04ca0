"""`bench --explain`, `--calibrate` and `--svg`, on a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pardec_chat.tests.fakes import FakeRuntime
from pardec_chat.tests.unit.test_cli import model, run, runtime

__all__ = ["runtime"]  # the fixture

PROMPTS = ("--categories", "code", "--prompts", "1", "--max-tokens", "9")


def test_explain_prints_the_picture_behind_the_rows(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "bench", "--explain", *PROMPTS, *model(tmp_path, draft=True))
    assert (code, err) == (0, "")
    rows, picture = out.split("Does it pay here?")
    assert "speed-up" in rows
    (auto,) = [line.split() for line in rows.splitlines() if " auto " in line]
    assert auto[3] == "auto"
    assert "What checking costs" in picture
    assert "code   programs" in picture
    assert "\x1b" not in out


def test_explain_json_is_part_of_the_one_document(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "--json", "--explain", *PROMPTS]
    _, out, _ = run(capsys, *words, *model(tmp_path, draft=True))
    document: dict[str, Any] = json.loads(out)
    depths = {row["method"]: row["depth"] for row in document["rows"]}
    assert depths["auto"] is None
    assert depths["plain"] == 0
    explanation = document["explanation"]
    assert explanation["single_step_ms"] > 0
    assert explanation["passes"][0]["rows"] == 1
    assert explanation["passes"][0]["single_steps"] == 1.0
    (code,) = [kind for kind in explanation["kinds"] if kind["kind"] == "code"]
    assert [rate["place"] for rate in code["draft"]["by_place"]][:2] == [1, 2]
    assert {"depth", "tokens_per_step", "single_steps", "speedup"} == code["draft"]["by_depth"][0].keys()
    assert {"plain", "draft"} <= {speed["method"] for speed in code["measured"]}
    assert all(speed["tokens_per_second"] > 0 for speed in code["measured"])
    _, out, _ = run(capsys, "bench", "--json", *PROMPTS, *model(tmp_path))
    assert "explanation" not in json.loads(out)


def test_a_depth_is_meant_for_the_methods_beside_auto(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "bench", "--json", "--depth", "2", *PROMPTS, *model(tmp_path, draft=True))
    depths = {row["method"]: row["depth"] for row in json.loads(out)["rows"]}
    assert depths == {"auto": None, "plain": 0, "draft": 2, "ngram": 2, "lookahead": 2}


def test_calibrate_measures_without_a_prompt(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "bench", "--calibrate", *model(tmp_path, draft=True))
    assert (code, err) == (0, "")
    assert out.startswith("Does it pay here?")
    assert "How often guesses are right shows with the first" in " ".join(out.split())
    code, out, err = run(capsys, "bench", "--calibrate", "--json", "--explain", *model(tmp_path, draft=True))
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert (document["model"], document["draft"], document["runtime"]) == ("t", "d", "fake")
    assert {1, 2, 3, 4} <= {cost["rows"] for cost in document["explanation"]["passes"]}
    assert document["explanation"]["draft_guess_ms"] > 0
    assert document["explanation"]["kinds"] == []
    assert "rows" not in document


def test_calibrate_shows_progress_on_a_terminal_alone(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    _, out, err = run(capsys, "bench", "--calibrate", "--json", *model(tmp_path))
    json.loads(out)
    assert "measuring passes and guesses: 100 %" in err
    assert err.endswith("\r\x1b[K")


def test_svg(runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pays.svg"
    code, _, err = run(capsys, "bench", "--calibrate", "--svg", str(path), *model(tmp_path))
    assert (code, err) == (0, f"pardec-chat: Saved as {path}\n")
    assert "What&#160;checking&#160;costs" in path.read_text(encoding="utf-8")


def test_svg_that_cannot_be_written_loses_nothing(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pardec_chat.app.downloads.files.write_atomically", full)
    words = ["bench", "--calibrate", "--json", "--svg", str(tmp_path / "x.svg")]
    code, out, err = run(capsys, *words, *model(tmp_path))
    assert code == 1
    assert "explanation" in json.loads(out)
    assert err == (
        f"pardec-chat: {tmp_path / 'x.svg'} could not be written: No space left on device.\n"
        "  Choose another folder, or make room.\n"
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--svg", "x.svg"], "--svg saves what --explain or --calibrate finds."),
        (["--explain", "--svg", "/nowhere/x.svg"], "--svg: there is no folder /nowhere."),
        (["--calibrate", "--svg", "/"], "--svg names the folder /."),
        (["--calibrate", "--categories", "code"], "--calibrate runs no prompts, so --categories means nothing."),
        (["--calibrate", "--prompts", "1"], "--calibrate runs no prompts, so --prompts means nothing."),
        (["--calibrate", "--methods", "draft"], "--calibrate runs no prompts, so --methods means nothing."),
        (["--calibrate", "--max-tokens", "9"], "--calibrate runs no prompts, so --max-tokens means nothing."),
        (["--calibrate", "--rounds", "2"], "--calibrate runs no prompts, so --rounds means nothing."),
        (["--calibrate", "--depth", "2"], "--calibrate runs no prompts, so --depth means nothing."),
        (
            ["--calibrate", "--ngram-min-match", "2"],
            "--calibrate runs no prompts, so --ngram-min-match means nothing.",
        ),
    ],
)
def test_nonsense_is_refused(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], what: str
) -> None:
    code, out, err = run(capsys, "bench", *words, *model(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith(f"pardec-chat: {what}\n")
    code, out, _ = run(capsys, "bench", *words, *model(tmp_path), "--json")
    assert json.loads(out)["error"]["kind"] == "BadSetting"
