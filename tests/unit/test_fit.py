"""What is proposed to whom, and the verdict beside every model of the list."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pardec_chat.app import catalogue as catalogues
from pardec_chat.app.catalogue import Catalogue, HubSource, Model, Pair
from pardec_chat.app.downloads.fit import Proposal, judge, propose, shape_of
from pardec_chat.backends.machine import Device, Machine
from pardec_chat.backends.memory import Shape

GB = 10**9
DISK = 400 * GB


def machine(cores: int, free: int, *devices: Device) -> Machine:
    return Machine("test", "test", cores, (), free + 4 * GB, free, devices)


GPU = Device("RTX 4090", "cuda", 25 * GB, 24 * GB)


def model(model_id: str, size: float, *pairs: Pair, **more: object) -> Model:
    made = Model(
        id=model_id,
        name=model_id.upper(),
        size=int(size * GB),
        sha256="",
        licence="MIT",
        description="A test's own.",
        sources=(HubSource("a/b", f"{model_id}.gguf"),),
        pairs=pairs,
        cache_per_token=100_000,
        context=32_768,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def listed(*models: Model) -> Catalogue:
    return Catalogue((model(catalogues.BUILT_IN, 0.1), *models))


def ids(found: tuple[Proposal, ...]) -> dict[str, list[str]]:
    return {proposal.kind: [one.id for one in proposal.models] for proposal in found}


MINI, SMALL = model("mini-q4_k_m", 0.5), model("small-q4_k_m", 1.1, Pair("draft", "mini-q4_k_m", "1.4x somewhere"))
MIDDLE = model("middle-q4_k_m", 5.0, Pair("draft", "mini-q4_k_m"))
LARGE = model("large-q4_k_m", 20.0, Pair("draft", "mini-q4_k_m"))


def test_a_small_cpu_gets_what_it_can_read_once_a_step() -> None:
    found = propose(listed(MINI, SMALL, MIDDLE, LARGE), machine(2, 20 * GB), 4096, DISK, {})
    assert ids(found) == {
        "start": [catalogues.BUILT_IN],
        "recommended": ["small-q4_k_m", "mini-q4_k_m"],
        "largest": ["middle-q4_k_m", "mini-q4_k_m"],
    }
    assert [proposal.words for proposal in found] == ["small talk, offline from then on", "1.4x somewhere", "slow here"]
    assert [proposal.fetch for proposal in found] == [GB // 10, int(1.6 * GB), int(5.5 * GB)]
    assert all(proposal.fit.fits for proposal in found)


def test_a_gpu_gets_what_it_holds_whole() -> None:
    found = propose(listed(MINI, SMALL, MIDDLE, LARGE), machine(8, 60 * GB, GPU), 4096, DISK, {})
    assert ids(found)["recommended"] == ["large-q4_k_m", "mini-q4_k_m"]
    assert "largest" not in ids(found)  # it would be the same one again
    small = propose(listed(MINI, SMALL, MIDDLE, LARGE), machine(8, 60 * GB, replace(GPU, free=8 * GB)), 4096, DISK, {})
    assert ids(small)["recommended"] == ["middle-q4_k_m", "mini-q4_k_m"]
    assert ids(small)["largest"] == ["large-q4_k_m", "mini-q4_k_m"]
    assert small[2].fit.words.startswith("fits, ")
    assert small[2].fit.words.endswith("% of it on the GPU")


def test_what_is_here_is_not_fetched_and_needs_no_disk() -> None:
    have = {"small-q4_k_m": SMALL.size, "mini-q4_k_m": 100}
    found = propose(listed(MINI, SMALL), machine(2, 20 * GB), 4096, MINI.size, have)
    assert next(proposal.fetch for proposal in found if proposal.kind == "recommended") == MINI.size - 100


def test_L01_what_the_disk_cannot_take_is_not_proposed() -> None:
    found = propose(listed(MINI, SMALL, MIDDLE), machine(2, 20 * GB), 4096, int(1.2 * GB), {})
    assert ids(found)["largest"] == ["small-q4_k_m"]  # without the draft it still goes on the disk
    assert "recommended" not in ids(found)


def test_models_of_other_runtimes_and_kinds_are_not_proposed() -> None:
    others = [replace(LARGE, kind="base"), replace(MIDDLE, kind="draft"), replace(SMALL, runtimes=("mlx",))]
    assert ids(propose(listed(*others), machine(8, 100 * GB), 4096, DISK, {})) == {"start": [catalogues.BUILT_IN]}


@pytest.mark.parametrize(
    ("free", "disk", "n_ctx", "fits", "words"),
    [
        (20 * GB, DISK, 4096, True, "fits"),
        (20 * GB, GB, 4096, False, "the disk lacks 4.0 GB"),
        (4 * GB, DISK, 4096, False, "more than the 3.8 GB that are free"),
        (GB, DISK, 4096, False, "more than the 5.0 GB here"),
        (20 * GB, DISK, 65_536, True, "fits, with the 32,768 tokens it was trained for"),
    ],
)
def test_the_verdict_in_words(free: int, disk: int, n_ctx: int, fits: bool, words: str) -> None:
    shape = Shape("x", 5 * GB, 32, 100_000, 50_000, context=32_768)
    found = judge(shape, None, machine(4, free), n_ctx, disk, 5 * GB)
    assert (found.fits, found.words) == (fits, words)


def test_the_second_copy_of_4_bit_weights_is_planned_for_on_a_cpu() -> None:
    assert shape_of(SMALL, machine(2, GB)).repacked == int(SMALL.size * 0.6)
    assert shape_of(SMALL, machine(2, GB, GPU)).repacked == 0
    assert shape_of(model("x-q8_0", 1.0), machine(2, GB)).repacked == 0


def test_own_kernels_keep_no_second_copy_but_a_small_models_table() -> None:
    free = machine(2, 20 * GB)
    small, middle = (shape_of(one, free) for one in (SMALL, MIDDLE))
    assert (small.tied, middle.tied) == (int(SMALL.size * 0.25), 0)
    for shape in (small, middle):
        packed, stock = (judge(shape, None, free, 4096, DISK, 0, packed=one).need for one in (True, False))
        assert stock - packed == shape.repacked - shape.tied
    # 8 GB hold the middle one once, and not one and a half times.
    found = [ids(propose(listed(MIDDLE), machine(8, 7 * GB), 4096, DISK, {}, packed=one)) for one in (True, False)]
    assert [one.get("largest") for one in found] == [["middle-q4_k_m"], None]


def test_where_the_catalogue_is_silent_about_the_cache_something_is_assumed() -> None:
    assert shape_of(replace(SMALL, cache_per_token=None), machine(2, GB)).cache_per_token == 33_000


def test_the_shipped_catalogue_has_a_choice_for_everybody() -> None:
    shipped = catalogues.load()
    for here in (machine(2, 20 * GB), machine(8, 12 * GB), machine(16, 60 * GB), machine(8, 60 * GB, GPU)):
        kinds = ids(propose(shipped, here, 4096, DISK, {}))
        assert kinds["start"] == [catalogues.BUILT_IN]
        assert len(kinds["recommended"]) == 2
