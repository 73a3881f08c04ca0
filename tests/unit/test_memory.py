"""What a model takes and where, before it is loaded; what to give up when that is too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pardec_chat.backends import memory
from pardec_chat.backends.base import LEAVES, MAX_NODES
from pardec_chat.backends.machine import Device, Machine
from pardec_chat.backends.memory import HOST, Shape, Wish, alternatives, plan

GB = 10**9
TARGET = Shape("t", 4 * GB, 31, 100_000, 50_000, context=32_768, width=10_000, head=128)
DRAFT = Shape("d", GB // 2, 15, 20_000, 50_000, context=32_768, width=5_000, head=64)


def machine(free: int, *devices: Device) -> Machine:
    return Machine("test", "test", 2, (), free * 2, free + memory._HOST_RESERVE, devices)


def gpu(free: int, *, shared: bool = False) -> Device:
    return Device("GPU", "metal" if shared else "cuda", free, free, shared)


def test_every_part_is_told() -> None:
    wish = Wish(replace(TARGET, repacked=GB), DRAFT, n_ctx=8192, slots=2)
    planned = plan(wish, machine(10 * GB), program=70_000_000)
    taken = {(part.of, part.what, part.mapped): part.bytes for part in planned.parts if part.what != "buffers"}
    assert taken == {
        ("program", "program", False): 70_000_000,
        ("target", "weights", True): 4 * GB,
        ("target", "weights", False): GB,
        ("target", "cache", False): 8192 * 2 * 100_000,
        ("draft", "weights", True): GB // 2,
        ("draft", "cache", False): 8192 * 2 * 20_000,
    }
    buffers = sum(part.bytes for part in planned.parts if part.what == "buffers" and part.of == "target")
    logits = 2 * (2 + MAX_NODES + LEAVES) * 50_000 * 4  # trees, and what is looked at beside them
    assert buffers == 2 * logits + 128 * 10_000 * 4 * 3 + 50_000 * 170 + (10 << 20)
    assert planned.need() == sum(taken.values()) + sum(part.bytes for part in planned.parts if part.what == "buffers")
    assert planned.free == {HOST: 10 * GB + 70_000_000}
    assert (planned.n_ctx, planned.gpu_layers, planned.draft_gpu_layers) == (8192, 0, 0)


@pytest.mark.parametrize(
    ("asked", "trained", "n_ctx"), [(None, 32_768, 4096), (None, 2048, 2048), (None, 0, 4096), (999, 512, 999)]
)
def test_the_context_that_is_planned_is_the_one_that_is_loaded(asked: int | None, trained: int, n_ctx: int) -> None:
    assert plan(Wish(replace(TARGET, context=trained), n_ctx=asked), machine(GB)).n_ctx == n_ctx


def test_an_8_bit_cache_is_a_little_more_than_half() -> None:
    half, whole = (
        next(
            part.bytes
            for part in plan(Wish(TARGET, n_ctx=4096, cache_type=kind), machine(GB)).parts
            if part.what == "cache"
        )
        for kind in ("q8_0", "f16")
    )
    assert half == whole * 34 // 64


def test_D01_a_window_keeps_no_more_than_itself_and_the_draft_keeps_all() -> None:
    windowed = replace(TARGET, cache_per_token=10, window=512, window_per_token=1000)

    def cache(n_ctx: int, *, draft: bool = False) -> int:
        wish = Wish(windowed, windowed if draft else None, n_ctx=n_ctx)
        of = "draft" if draft else "target"
        return next(part.bytes for part in plan(wish, machine(GB)).parts if (part.of, part.what) == (of, "cache"))

    assert cache(256) == 256 * 1010
    assert cache(8192) == 8192 * 10 + 768 * 1000  # 512 and a chunk of 128, in steps of 256
    assert cache(8192, draft=True) == 8192 * 1010


def test_K01_the_running_state_is_kept_for_each_conversation() -> None:
    stateful = replace(TARGET, cache_per_token=0, state=5_000)
    (cache,) = [part.bytes for part in plan(Wish(stateful, slots=3), machine(GB)).parts if part.what == "cache"]
    assert cache == 15_000


def test_H04_the_draft_is_placed_on_the_gpu_first() -> None:
    """16 GB: a target of 40 GB is split, its draft of 1 GB is whole on the faster device."""
    target = replace(TARGET, weights=40 * GB, layers=79)
    draft = replace(DRAFT, weights=GB)
    planned = plan(Wish(target, draft, n_ctx=4096), machine(64 * GB, gpu(16 * GB)))
    assert planned.draft_gpu_layers == draft.layers + 1
    assert 0 < planned.gpu_layers < 80
    assert planned.fits
    on_gpu = planned.need("GPU")
    one = (40 * GB + 4096 * 100_000) / 80
    assert 16 * GB - memory._GPU_RESERVE - one < on_gpu <= 16 * GB - memory._GPU_RESERVE
    without = plan(Wish(target, n_ctx=4096), machine(64 * GB, gpu(16 * GB)))
    assert without.gpu_layers > planned.gpu_layers


def test_all_layers_go_on_a_gpu_with_room() -> None:
    planned = plan(Wish(TARGET, DRAFT), machine(8 * GB, gpu(24 * GB)))
    assert (planned.gpu_layers, planned.draft_gpu_layers) == (32, 16)
    assert not [part for part in planned.parts if part.device == HOST and part.what in ("weights", "cache")]


def test_the_larger_of_two_gpus_is_taken() -> None:
    planned = plan(Wish(TARGET), machine(8 * GB, replace(gpu(GB), name="small"), gpu(24 * GB)))
    assert set(planned.free) == {HOST, "GPU"}


def test_an_apple_gpu_shares_the_memory() -> None:
    planned = plan(Wish(TARGET), machine(6 * GB, gpu(20 * GB, shared=True)))
    assert planned.free["GPU"] == 6 * GB
    assert planned.gpu_layers == 32


def test_K03_what_is_missing_is_that_of_the_fullest_device() -> None:
    planned = plan(Wish(TARGET, n_ctx=4096), machine(3 * GB))
    assert not planned.fits
    assert planned.short == planned.need() - planned.free[HOST]
    assert plan(Wish(TARGET, n_ctx=4096), machine(3 * GB + planned.short)).fits
    assert not plan(Wish(TARGET, n_ctx=4096), machine(3 * GB + planned.short - 1)).fits


def test_H02_what_is_given_back_counts_as_free() -> None:
    held = plan(Wish(replace(TARGET, repacked=GB), n_ctx=4096), machine(10 * GB)).given_back()
    mapped = 4 * GB  # the system counts pages of a file as free
    whole = plan(Wish(replace(TARGET, repacked=GB), n_ctx=4096), machine(10 * GB))
    assert held == {HOST: whole.need_of_models() - mapped}
    assert plan(Wish(TARGET), machine(GB), reclaimed=held).free[HOST] == GB + memory.PROGRAM + held[HOST]


def test_H02_weights_that_are_no_pages_of_a_file_are_given_back() -> None:
    held = plan(Wish(replace(TARGET, mapped=False), n_ctx=4096), machine(10 * GB))
    assert held.given_back() == {HOST: held.need_of_models()}


def test_own_kernels_keep_the_weights_once_and_a_tied_table_twice() -> None:
    shape = replace(TARGET, repacked=GB, tied=GB // 4)
    packed = plan(Wish(shape, n_ctx=4096, packed=True), machine(10 * GB))
    stock = plan(Wish(shape, n_ctx=4096), machine(10 * GB))
    weights = [(part.bytes, part.mapped) for part in packed.parts if part.what == "weights"]
    assert weights == [(4 * GB, False), (GB // 4, False)]
    assert packed.need() == stock.need() - GB + GB // 4
    assert packed.given_back() == {HOST: packed.need_of_models()}  # no page of a file, which would count as free


def test_K03_what_is_given_up_goes_from_mild_to_hard() -> None:
    """The draft first, then the cache's exactness, then its length; each way once, and all of them fit."""
    wish = Wish(TARGET, DRAFT, n_ctx=32_768)
    room = plan(wish, machine(0)).need() - memory.PROGRAM
    nothing = [way.words for way in alternatives(wish, machine(room - 1000))]
    assert nothing == [
        "Without the draft model",
        "With an 8-bit cache",
        "Without the draft model and with an 8-bit cache",
        "With a context of 16,384 tokens",
        "Without the draft model and with a context of 16,384 tokens",
    ]
    tight = alternatives(wish, machine(int(4.5 * GB)))
    assert [way.words for way in tight] == ["Without the draft model and with a context of 4,096 tokens"]
    assert [(way.plan.fits, way.wish.n_ctx, way.wish.draft) for way in tight] == [(True, 4096, None)]


def test_nothing_helps_where_the_weights_alone_are_too_much() -> None:
    assert not alternatives(Wish(TARGET, DRAFT, n_ctx=4096), machine(3 * GB))


def test_keys_that_do_not_fill_blocks_of_32_stay_in_16_bits() -> None:
    wish = Wish(replace(TARGET, head=80), n_ctx=32_768)
    need = plan(wish, machine(0)).need() - memory.PROGRAM
    assert [way.wish.cache_type for way in alternatives(wish, machine(need - 1000))] == ["f16"]


def test_without_the_draft_the_plan_of_the_rest_stays() -> None:
    planned = plan(Wish(TARGET, DRAFT), machine(10 * GB))
    alone = planned.without_draft()
    assert alone.need() == plan(Wish(TARGET), machine(10 * GB)).need()
    assert not alone.has_draft
