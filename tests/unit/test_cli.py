"""The words of the command line, on a scripted model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pardec_chat.app.cli import check
from pardec_chat.app.cli.main import main
from pardec_chat.backends import registry
from pardec_chat.backends.base import Runtime
from pardec_chat.tests.fakes import FakeRuntime
from pardec_chat.tests.unit.test_engine import END, ids, says

TEXT = "abcabcabcabc end"
_runtimes: list[FakeRuntime] = []


def make() -> Runtime:
    """What the registry calls for the runtime `fake`."""
    return _runtimes[-1]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRuntime]:
    monkeypatch.setenv("PARDEC_CHAT_MODELS", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(registry._RUNTIMES, "fake", (__name__, "json"))
    for name in ("t.gguf", "d.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    fake = FakeRuntime({"t.gguf": lambda _o: says(*[TEXT] * 9), "d.gguf": lambda _o: says(*[TEXT] * 9)})
    _runtimes.append(fake)
    yield fake
    _runtimes.remove(fake)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def model(tmp_path: Path, *, draft: bool = False) -> list[str]:
    options = ["--runtime", "fake", "--model", str(tmp_path / "t.gguf")]
    return [*options, "--draft", str(tmp_path / "d.gguf")] if draft else options


def test_ask_prints_the_answer(runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ask", "hi", *model(tmp_path)) == (0, f"{TEXT}\n", "")


def test_ask_json_is_one_document_with_the_agreed_names(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["ask", "hi", "--json", "--method", "draft", "--depth", "3"]
    code, out, _ = run(capsys, *words, *model(tmp_path, draft=True))
    document: dict[str, Any] = json.loads(out)
    assert code == 0
    assert document["text"] == TEXT
    assert document["token_ids"] == [*ids(TEXT), END]
    assert (document["finish_reason"], document["model"], document["draft"]) == ("stop", "t", "d")
    assert (document["method"], document["depth"], document["runtime"]) == ("draft", 3, "fake")
    assert document["status"]["state"] == "active"
    timings = document["timings"]
    assert (timings["predicted_n"], timings["steps"], timings["draft_n"]) == (17, 5, 13)
    assert timings["draft_n_accepted"] == 13
    assert timings["acceptance_rate"] == 1.0
    assert timings["tokens_per_step"] == 17 / 5
    assert timings["accepted_per_position"] == [1.0, 0.8, 0.8]
    assert timings["draft_kind"] == "draft"
    expected = {"prompt_n", "prompt_ms", "predicted_ms", "predicted_per_second", "cache_n", "draft_rounds", "ttft_ms"}
    assert expected <= timings.keys()


@pytest.mark.parametrize("draft", [False, True])
def test_D14_without_a_method_it_is_auto_and_says_what_it_does(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], draft: bool
) -> None:
    code, out, _ = run(capsys, "ask", "hi", "--json", *model(tmp_path, draft=draft))
    document: dict[str, Any] = json.loads(out)
    assert (code, document["text"], document["method"]) == (0, TEXT, "auto")
    assert document["timings"]["draft_kind"] == "auto"
    assert document["status"]["state"] in {"active", "idle"}
    # Whether it still guesses at the end hangs on how fast this machine was; whether it ever did is what is told.
    assert (document["timings"]["draft_n"] > 0) == (document["status"]["state"] == "active")
    assert document["status"]["reason"]


def test_D14_depth_and_method_are_obeyed(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for depth in (1, 2, 5):
        words = ["ask", "hi", "--json", "--method", "draft", "--depth", str(depth)]
        _, out, _ = run(capsys, *words, *model(tmp_path, draft=True))
        timings = json.loads(out)["timings"]
        assert len(timings["accepted_per_position"]) == depth
    _, out, _ = run(capsys, "ask", "hi", "--json", "--method", "plain", *model(tmp_path, draft=True))
    assert json.loads(out)["timings"]["draft_n"] == 0
    words = ["ask", "hi", "--json", "--method", "ngram", "--ngram-min-match", "2"]
    timings = json.loads(run(capsys, *words, *model(tmp_path))[1])["timings"]
    assert (timings["draft_n"] > 0, timings["draft_kind"]) == (True, "ngram")


@pytest.mark.parametrize(
    ("words", "what", "next_step"),
    [
        (["ask", "hi", "--method", "eagle"], "The method eagle comes in a later version.", "Choose one of"),
        (["ask", "hi", "--method", "magic"], "The method magic is unknown.", "Choose one of"),
        (["ask", "hi", "--method", "draft"], "The method draft needs a draft model.", "Add --draft"),
        (["ask", "hi", "--depth", "-1"], "--depth is '-1'.", "Give a whole number"),
        (["ask", "hi", "--depth", "3"], "The method auto finds the depth itself.", "Leave the depth out"),
        (["ask", "hi", "--depth", "99"], "depth is 99, which is outside 0 to 32.", "Give a value"),
        (["ask", "hi", "--temperature", "-1"], "temperature is -1.0, which is outside", "Give a value"),
        (["ask", "hi", "--temperature", "nan"], "temperature is nan, which is outside", "Give a value"),
        (["ask", "hi", "--max-tokens", "0"], "max_tokens is 0.", "Give 1 or more."),
        (["ask", "  "], "The prompt is empty.", "Give one"),
        (["ask", "hi", "--runtime", "toaster"], "There is no runtime 'toaster'.", "Known ones"),
        (["ask", "hi", "--model", "nix"], "There is no model nix", "pardec-chat models"),
        (["bench", "--categories", "poetry"], "There is no prompt category 'poetry'.", "Choose from chat, code"),
        (["bench", "--categories", ","], "No prompt category is named.", "Choose from chat, code"),
        (["bench", "--prompts", "0"], "0 prompts of a category are too few.", "Give 1 or more."),
        (["check", "--prompts", "0"], "0 prompts of a category are too few.", "Give 1 or more."),
        (["bench", "--rounds", "0"], "--rounds and --max-tokens count from 1.", "Give 1 or more."),
    ],
)
def test_bad_input_is_one_clear_error(
    runtime: FakeRuntime,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    what: str,
    next_step: str,
) -> None:
    full = [words[0], *model(tmp_path), *words[1:]]
    code, out, err = run(capsys, *full)
    assert (code, out) == (1, "")
    assert what in err
    assert next_step in err
    assert "Traceback" not in err
    code, out, _ = run(capsys, *full, "--json")
    assert code == 1
    assert what in json.loads(out)["error"]["what"]


def test_options_in_front_of_a_word_are_refused_instead_of_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--model", "x", "ask", "hi"])
    assert caught.value.code == 2
    assert "ask" in capsys.readouterr().err


def test_check_finds_every_method_identical_to_the_bit(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "check", "--json", "--categories", "code", *model(tmp_path, draft=True))
    rows = json.loads(out)["rows"]
    assert code == 0
    assert {row["verdict"] for row in rows} == {"bit_identical"}
    assert {row["method"] for row in rows} == {"auto", "draft", "ngram", "lookahead"}
    assert all(row["tokens"] == 17 for row in rows)
    assert any(row["draft_n"] for row in rows)


@pytest.mark.parametrize(("gap", "verdict", "code"), [(0.25, "near_tie", 0), (3.0, "different", 1)])
def test_check_tells_a_near_tie_from_a_difference_and_goes_on_behind_it(
    runtime: FakeRuntime,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    gap: float,
    verdict: str,
    code: int,
) -> None:
    """A kernel fault is scripted: a block of several rows prefers x to b, which plain decoding rates `gap` below it."""
    from collections.abc import Callable

    from pardec_chat.backends.base import Draft, Verdict
    from pardec_chat.backends.decoding import acceptance
    from pardec_chat.backends.decoding.sampler import Sampler
    from pardec_chat.kernels.sampling.reference import Logits

    honest = acceptance.judge
    b, x = ids("bx")

    def judge(draft: Draft, row: Callable[[int], Logits], sampler: Sampler) -> Verdict:
        def bent(node: int) -> Logits:
            logits = row(node).copy()
            if logits[b] > 1:
                logits[x] = logits[b] - gap
                if len(draft):
                    logits[b] = logits[x] - 1
            return logits

        return honest(draft, bent, sampler)

    monkeypatch.setattr(acceptance, "judge", judge)
    got, out, _ = run(
        capsys,
        "check",
        "--json",
        "--methods",
        "ngram",
        "--ngram-min-match",
        "2",
        "--categories",
        "code",
        *model(tmp_path),
    )
    document = json.loads(out)
    assert got == code
    assert document["tolerance"] == check.NEAR_TIE
    row = document["rows"][0]
    assert row["verdict"] == verdict
    assert [difference["gap"] for difference in row["differences"]] == [gap] * len(row["differences"])
    assert all(d["plain"] == str(b) and d["method"] == str(x) for d in row["differences"])
    assert row["differences"]


def test_bench_rows_have_plain_as_the_baseline_of_the_same_run(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "--json", "--categories", "code,chat", "--prompts", "1", "--max-tokens", "9", "--rounds", "2"]
    code, out, _ = run(capsys, *words, *model(tmp_path, draft=True))
    assert code == 0
    document = json.loads(out)
    rows = document["rows"]
    assert [(row["category"], row["method"]) for row in rows] == [
        (category, method)
        for category in ("code", "chat")
        for method in ("plain", "auto", "draft", "ngram", "lookahead")
    ]
    assert all(row["tokens"] == 9 for row in rows)
    assert [row["speedup"] for row in rows if row["method"] == "plain"] == [1.0, 1.0]
    assert [row["tokens_per_step"] for row in rows if row["method"] == "draft"] == [3.0, 3.0]
    assert [row["acceptance_rate"] for row in rows if row["method"] == "plain"] == [None, None]
    code, out, _ = run(capsys, *words[:1], *words[2:], *model(tmp_path))
    assert "speed-up" in out.splitlines()[0]
    assert "plain: 1.00x plain on average" in out
    assert document["kernels"] == {"own": False, "variant": "", "reason": "the runtime has no others"}
    assert out.splitlines()[-1] == "Kernels for the CPU: the runtime's: the runtime has no others."


def test_doctor_names_what_is_wrong_and_the_line_that_mends_it(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_RUNTIMES", {"fake": (__name__, "json"), "gone": ("nowhere", "no_such_package")})
    for path in tmp_path.glob("*.gguf"):
        path.unlink()
    code, out, _ = run(capsys, "doctor", "--json")
    document = json.loads(out)
    assert code == 1
    assert [runtime["installed"] for runtime in document["runtimes"]] == [True, False]
    assert {problem["mend"] for problem in document["problems"]} >= {"pardec-chat models pull"}
    assert document["files"]["models"] == {"path": str(tmp_path), "exists": True}
    assert {"cpu", "cores", "features", "memory_available", "disk_free", "devices"} <= document["machine"].keys()
    assert {"term", "colours", "encoding"} <= document["terminal"].keys()


def test_doctor_passes_over_files_that_one_of_the_other_runtimes_does_not_read() -> None:
    from pardec_chat.app.chat.request import Loaded, ModelChoice
    from pardec_chat.app.cli.diagnosis import Diagnosis, _placed
    from pardec_chat.backends.errors import ModelUnreadable

    class Engine:
        def load(self, choice: ModelChoice) -> Future[Loaded]:
            future: Future[Loaded] = Future()
            if choice.model.name == "small":
                future.set_exception(ModelUnreadable("small is of another kind.", "Take another runtime."))
            else:
                future.set_result(Loaded("large", None, "mlx", 512, (), placed={"CPU": 70}, peak=90))
            return future

    entries: list[Any] = [
        SimpleNamespace(id=name, path=Path(name), size=size, state="on disk", helper=None)
        for name, size in (("large", 2), ("small", 1))
    ]
    found = Diagnosis()
    tried = _placed(found, Engine(), "mlx", entries)
    assert tried == {"model": "large", "devices": {"CPU": 70}, "peak_bytes": 90, "planned_bytes": None}
    assert not found.problems
    assert _placed(found, Engine(), "llamacpp", entries) is None
    assert "small cannot be loaded" in str(found.problems)


def test_the_prompt_can_come_from_standard_input(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("hi"))
    assert run(capsys, "ask", "-", *model(tmp_path))[1] == f"{TEXT}\n"


def test_X05_an_answer_cannot_reach_the_terminal(
    runtime: FakeRuntime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pardec_chat.tests.fakes import ScriptedTarget
    from pardec_chat.tests.rows import replies

    pieces = [b"?", b"\x1b", b"]52;c;aGk=\x07", b"\xc2\x9b", b"", b""]
    texts = ["?", "e", "o", "c", "<|reply|>", "<|end|>"]
    template = "{{ messages[0].content }}<|reply|>"
    runtime.models["t.gguf"] = ScriptedTarget(
        replies(6, 4, [1, 2, 3, 5]), pieces, {5}, chat_template=template, texts=texts
    )
    _, out, _ = run(capsys, "ask", "hi", *model(tmp_path))
    assert out == "␛]52;c;aGk=␇\ufffd\n"
    _, out, _ = run(capsys, "ask", "hi", "--json", *model(tmp_path))
    assert not any(c in out for c in "\x1b\x07\x9b")
    assert json.loads(out)["text"] == "\x1b]52;c;aGk=\x07\x9b"


def test_version_and_help_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from pardec_chat.app.cli.main import main\n"
        "try:\n    main(['--version'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'textual', 'jinja2', 'huggingface_hub', 'llama_cpp', 'httpx2'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("pardec-chat ")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--depth", "4"], "The method auto finds the depth itself."),
        (["--method", "ngram", "--depth", "99"], "depth is 99"),
        (["--ngram-min-match", "0"], "The shortest match is 0 tokens."),
    ],
)
def test_D14_the_app_refuses_what_no_request_may_ask_before_it_opens(
    options: list[str], what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("pardec_chat.app.app.run", lambda *_: pytest.fail("the screen was touched"))
    assert main(options) == 1
    assert what in capsys.readouterr().err
