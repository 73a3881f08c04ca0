"""What is the llama.cpp runtime's own: files it cannot load, memory it gives back, rows it does not copy."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from pardec_chat.backends.base import NO_DRAFT, Draft, LoadOptions, Method, Runtime, Target
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.errors import ModelUnreadable
from pardec_chat.backends.pairs import judge
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import Answer, generate, never
from pardec_chat.tests.runtimes.conftest import Load
from pardec_chat.tests.runtimes.test_contract import ON, PROMPT
from pardec_chat.tests.tiny_models import UNUSED, VOCABULARY, WINDOW

pytest.importorskip("llama_cpp")

from pardec_chat.backends.llamacpp.slot import LlamaCppSlot
from pardec_chat.backends.llamacpp.target import LlamaCppTarget


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    from pardec_chat.backends.llamacpp.runtime import make

    return make()


# Files


def broken(kind: str, good: Path, folder: Path) -> Path:
    path = folder / f"{kind}.gguf"
    raw = good.read_bytes()
    if kind == "a folder":
        path.mkdir()
    elif kind != "missing":
        changed = {
            "empty": b"",
            "three bytes": raw[:3],
            "header cut": raw[:20],
            "metadata cut": raw[:2000],
            "weights cut": raw[:-1000],
            "half": raw[: len(raw) // 2],
            "wrong magic": b"GGML" + raw[4:],
            "wrong version": raw[:4] + (99).to_bytes(4, "little") + raw[8:],
            "absurd counts": raw[:8] + (2**60).to_bytes(8, "little") * 2 + raw[24:],
            "unknown architecture": raw.replace(b"llama", b"lLaMa", 1),
            "no text": b"PK\x03\x04" + bytes(100),
        }
        path.write_bytes(changed[kind])
    return path


UNREADABLE = [
    *(
        "missing",
        "a folder",
        "empty",
        "three bytes",
        "header cut",
        "metadata cut",
        "weights cut",
        "half",
        "wrong magic",
    ),
    *("wrong version", "absurd counts", "unknown architecture", "no text"),
]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_U03_a_broken_file_is_named_and_nothing_is_printed(
    runtime: Runtime, tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    path = broken(kind, tiny("llama"), tmp_path)
    with pytest.raises(ModelUnreadable) as caught:
        runtime.load(LoadOptions(path, n_ctx=64, threads=1))
    assert path.name in caught.value.what
    assert "\n" not in str(caught.value)
    assert caught.value.next_step
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", [kind for kind in UNREADABLE if kind != "unknown architecture"])
def test_U03_reading_the_header_of_a_broken_file(
    runtime: Runtime, tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    with pytest.raises(ModelUnreadable):
        runtime.read_model(broken(kind, tiny("llama"), tmp_path))
    assert capfd.readouterr() == ("", "")


def test_U03_a_whole_answer_prints_nothing(load: Load, tiny: Tiny, capfd: pytest.CaptureFixture[str]) -> None:
    drafter = DraftModel(load(tiny("gemma3"), draft=True))
    generate(load(tiny("gemma3")), PROMPT, params=ON, max_tokens=20, drafter=drafter)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep their file names in UTF-8")
def test_a_file_name_that_is_no_text(load: Load, tiny: Tiny, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.gguf"))
    path.write_bytes(tiny("llama").read_bytes())
    assert generate(load(path), PROMPT, params=ON, max_tokens=3).ids


def test_L06_loading_can_be_given_up(runtime: Runtime, tiny: Tiny) -> None:
    with pytest.raises(ModelUnreadable):
        runtime.load(LoadOptions(tiny("llama"), n_ctx=64, threads=1, progress=lambda done: False))


def test_loading_reports_its_progress(load: Load, tiny: Tiny) -> None:
    seen: list[float] = []

    def progress(done: float) -> bool:
        seen.append(done)
        return True

    load(tiny("llama"), progress=progress)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


# Pairs


def test_D10_D11_pairs_of_files(runtime: Runtime, tiny: Tiny) -> None:
    target = runtime.read_model(tiny("llama"))

    def against(**change: object) -> str:
        (name, arguments), *_ = change.items()
        other = getattr(VOCABULARY, name)(*arguments) if isinstance(arguments, tuple) else VOCABULARY
        return judge(target, runtime.read_model(tiny("llama", 1, other))).verdict

    assert against(same=None) == "exact"
    assert against(padded=(128,)) == "tolerable"
    assert against(renamed=(UNUSED, "<other>")) == "tolerable"
    assert against(swapped=(262, 263)) == "impossible"
    found = judge(target, runtime.read_model(tiny("llama", 1, VOCABULARY.swapped(262, 263))))
    assert found.first_difference is not None
    assert (found.first_difference.id, found.first_difference.target, found.first_difference.draft) == (262, "a", "b")


# Rows


def test_K06_rows_of_logits_are_views_of_the_librarys_memory(load: Load, tiny: Tiny) -> None:
    import llama_cpp

    target = load(tiny("llama"))
    assert isinstance(target, LlamaCppTarget)
    slot = target.open()
    slot.prefill(PROMPT, never)
    target.verify([(slot, NO_DRAFT, Sampler(ON, PROMPT))])
    row = target.context.rows()[0]
    pointer = llama_cpp.llama_get_logits_ith(target.context.handle, 0)
    assert row.shape == (len(VOCABULARY),)
    assert row.dtype == np.float32
    assert not row.flags.owndata
    assert row.ctypes.data == llama_cpp.ctypes.addressof(pointer.contents)


def test_S05_log_probabilities_equal_a_softmax_of_the_row(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    assert isinstance(target, LlamaCppTarget)
    params = SamplingParams(temperature=0.9, seed=1, repeat_penalty=1.5, logprobs=5)
    slot = target.open()
    slot.prefill(PROMPT, never)
    sampler = Sampler(params, PROMPT)
    for _ in range(10):
        (verdict,) = target.verify([(slot, NO_DRAFT, sampler)])
        wide = target.context.rows()[0].astype(np.float64)
        wanted = wide - np.log(np.exp(wide - wide.max()).sum()) - wide.max()
        assert verdict.logprobs is not None
        assert verdict.logprobs[0].logprob == pytest.approx(wanted[verdict.tokens[0]], abs=1e-5)
        best = np.argsort(-wanted, kind="stable")[:5]
        assert [i for i, _ in verdict.logprobs[0].top] == best.tolist()
        assert [v for _, v in verdict.logprobs[0].top] == pytest.approx(wanted[best].tolist(), abs=1e-5)


# Sliding windows


def test_D01_the_windows_cache_forgets_and_the_text_stays(load: Load, tiny: Tiny) -> None:
    target = load(tiny("gemma3"), n_ctx=512)
    assert isinstance(target, LlamaCppTarget)
    assert target.n_window == WINDOW
    slot = target.open()
    assert isinstance(slot, LlamaCppSlot)
    generate(target, PROMPT, params=ON, max_tokens=450, slot=slot, drafter=Ngram(min_match=1))
    assert target.context.first_position(slot.sequence) > 0, "old cells left the cache"
    assert slot.trim(455) == 455, "the newest can be taken away"
    assert slot.trim(100) == 0, "what a row there would look at is gone, so all of it is evaluated again"


# Running states


def rows_of_passes(target: Target, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of every forward pass from now on."""
    assert isinstance(target, LlamaCppTarget)
    context, rows = target.context, list[int]()
    decode = context.decode

    def counted() -> None:
        rows.append(context.batch.native.n_tokens)
        decode()

    monkeypatch.setattr(context, "decode", counted)
    return rows


@pytest.mark.parametrize("accepted", range(6))
def test_K01_a_rejection_evaluates_only_the_accepted_again(
    load: Load, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, accepted: int
) -> None:
    target = load(tiny("mamba"))
    wanted = generate(target, PROMPT, params=ON, max_tokens=6).ids
    slot = target.open()
    slot.prefill(PROMPT, never)
    rows = rows_of_passes(target, monkeypatch)
    draft = Draft.chain([*wanted[:accepted], *[7] * (5 - accepted)], Method.DRAFT)
    target.verify([(slot, draft, Sampler(ON, PROMPT))])
    # The block itself; then, from the state before it, the last committed id and what was accepted.
    assert rows == ([6] if accepted == 5 else [6, 1 + accepted])


def test_K01_guesses_that_were_refused_cost_the_draft_model_no_prompt(
    load: Load, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(tiny("mamba"), draft=True)
    slot = model.open()
    sampler = Sampler(ON, PROMPT).for_draft([])
    model.propose(slot, PROMPT, 4, sampler)
    rows = rows_of_passes(model, monkeypatch)
    model.propose(slot, [*PROMPT, 77], 4, sampler)
    assert rows == [1, 1, 1, 1]


# Memory


def resident() -> int:
    # What the allocator keeps for later is no leak: it gives it back when asked.
    getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("arch", ["llama", "mamba"])
def test_H02_closing_gives_the_memory_back(runtime: Runtime, tiny: Tiny, arch: str) -> None:
    # Weights and cache have more than 5 MB each; the allocator keeps some of it for a while, but not more each time.
    options = LoadOptions(tiny(arch, 0, VOCABULARY.padded(20_000)), n_ctx=32_768, slots=2, threads=1)
    after = []
    for _ in range(12):
        target = runtime.load(options)
        generate(target, PROMPT, params=ON, max_tokens=5)
        target.close()
        after.append(resident())
    assert min(after[-4:]) - min(after[:4]) < 20_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_K03_a_context_that_does_not_fit_ends_in_a_message(tiny: Tiny) -> None:
    # In a process of its own, whose address space ends a little above what the model needs.
    code = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from pardec_chat.backends.base import LoadOptions
        from pardec_chat.backends.errors import OutOfMemory
        from pardec_chat.backends.llamacpp.runtime import make

        runtime, path = make(), Path(sys.argv[1])
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 400_000_000, used + 400_000_000))
        try:
            runtime.load(LoadOptions(path, n_ctx=16_000_000, threads=1))
        except OutOfMemory as error:
            print(error.what)
        target = runtime.load(LoadOptions(path, n_ctx=64, threads=1))
        print(target.capabilities.n_ctx)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny("llama"))], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    first, last = done.stdout.splitlines()
    assert "16,000,000" in first
    assert last == "64"


# The arithmetic in use


def near_tie_or_equal(found: Answer, wanted: Answer, tolerance: float) -> bool:
    """Whether the ids agree up to a place where plain decoding's two best tokens are within `tolerance`."""
    for i, (a, b) in enumerate(zip(found.ids, wanted.ids, strict=False)):
        if a != b:
            (_, best), (_, second) = wanted.logprobs[i].top[:2]
            return best - second < tolerance
    return len(found.ids) == len(wanted.ids)


@pytest.mark.parametrize("arch", ["llama", "gemma3", "jamba"])
def test_D02_with_a_cache_in_half_precision_only_near_ties_differ(load: Load, tiny: Tiny, arch: str) -> None:
    params = SamplingParams(temperature=0, logit_bias=ON.logit_bias, logprobs=2)
    for seed in range(4):
        target = load(tiny(arch, seed), n_ctx=128)
        wanted = generate(target, PROMPT, params=params, max_tokens=60)
        for depth in (1, 4, 8):
            for drafter in (DraftModel(load(tiny(arch, seed), n_ctx=128, draft=True)), Ngram(min_match=1)):
                found = generate(target, PROMPT, params=params, max_tokens=60, drafter=drafter, depth=depth)
                assert near_tie_or_equal(found, wanted, 5e-3)


def test_a_folder_is_for_another_runtime(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(ModelUnreadable, match="is a folder") as raised:
        runtime.read_model(tmp_path)
    assert "--runtime pytorch" in raised.value.next_step
