"""What every runtime must do, on tiny models of every kind of cache: attention, sliding window, running state, both."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pardec_chat.backends.base import Draft, Drafter, Method, Runtime, Slot, Target
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import Fixed, begin, finish, generate
from pardec_chat.tests.runtimes.conftest import Far, Load
from pardec_chat.tests.tiny_models import EOS, TURN

pytestmark = pytest.mark.usefixtures("in_float32")

ARCHS = ["llama", "gemma3", "mamba", "jamba"]
#: Greedy, without the end tokens that random weights would say at random.
ON = SamplingParams(temperature=0, logit_bias={EOS: -100.0, TURN: -100.0})
PROMPT = [1, 20, 30, 40, 20, 30, 41, 20, 30, 42]
N = 32


@pytest.fixture(autouse=True)
def fewer_depths(runtime: Runtime, request: pytest.FixtureRequest) -> None:
    """On MLX's CPU build each operation of a tiny model takes as long as one of a large model's."""
    callspec = getattr(request.node, "callspec", None)
    if runtime.name == "mlx" and callspec is not None and callspec.params.get("depth") in (2, 4, 5, 6, 7):
        import mlx.core as mx

        if not mx.metal.is_available():
            pytest.skip("the depths around it are tried")


@pytest.fixture(params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def plain(target: Target, prompt: Sequence[int] = PROMPT, n: int = N, params: SamplingParams = ON) -> list[int]:
    ids = generate(target, prompt, params=params, max_tokens=n).ids
    assert len(ids) == n
    return ids


def wrong_at(ids: Sequence[int], every: int) -> list[int]:
    """With another id at each `every`-th place: a draft that is rejected there."""
    return [5 + (token + 1) % 100 if i % every == every - 1 else token for i, token in enumerate(ids)]


# The same text as plain decoding, whoever guesses


@pytest.mark.parametrize("depth", range(1, 9))
def test_D02_draft_model_gives_the_ids_of_plain_decoding(load: Load, tiny: Tiny, arch: str, depth: int) -> None:
    target = load(tiny(arch))
    wanted = plain(target)
    same = generate(
        target, PROMPT, params=ON, max_tokens=N, depth=depth, drafter=DraftModel(load(tiny(arch), draft=True))
    )
    assert same.ids == wanted
    assert same.generation.stats.acceptance_rate == 1.0
    other = generate(
        target, PROMPT, params=ON, max_tokens=N, depth=depth, drafter=DraftModel(load(tiny(arch, seed=1), draft=True))
    )
    assert other.ids == wanted
    assert other.generation.stats.draft_n > 0


@pytest.mark.parametrize("depth", range(1, 9))
def test_D02_repetition_gives_the_ids_of_plain_decoding(load: Load, tiny: Tiny, arch: str, depth: int) -> None:
    target = load(tiny(arch))
    # The prompt holds the answer, so that guesses are right now and then.
    prompt = [*PROMPT, *plain(target), *PROMPT]
    wanted = plain(target, prompt)
    found = generate(target, prompt, params=ON, max_tokens=N, depth=depth, drafter=Ngram(min_match=1))
    assert found.ids == wanted
    assert found.generation.stats.draft_n > 0


@pytest.mark.parametrize("depth", range(1, 9))
def test_D02_every_block_boundary(load: Load, tiny: Tiny, arch: str, depth: int) -> None:
    target = load(tiny(arch))
    wanted = plain(target)
    for every in range(1, depth + 2):
        drafter = Fixed(PROMPT + wrong_at(wanted, every))
        found = generate(target, PROMPT, params=ON, max_tokens=N, depth=depth, drafter=drafter)
        assert found.ids == wanted
        assert {one.n_accepted for one in found.steps} <= set(range(depth + 1))


@pytest.mark.parametrize("depth", [1, 4, 8])
def test_D01_a_text_longer_than_the_window_and_its_cache(
    load: Load, tiny: Tiny, far: Far, arch: str, depth: int
) -> None:
    n, n_ctx = far.answer, far.n_ctx
    target = load(tiny(arch), n_ctx=n_ctx)
    wanted = plain(target, far.prompt, n)
    other = DraftModel(load(tiny(arch, seed=1), n_ctx=n_ctx, draft=True))
    for drafter in (Fixed(far.prompt + wrong_at(wanted, 3)), other):
        assert generate(target, far.prompt, params=ON, max_tokens=n, depth=depth, drafter=drafter).ids == wanted
    draft = DraftModel(load(tiny(arch), n_ctx=n_ctx, draft=True))
    same = generate(target, far.prompt, params=ON, max_tokens=n, depth=depth, drafter=draft)
    assert same.ids == wanted
    assert same.generation.stats.acceptance_rate == 1.0


def test_D08_drawn_drafts_of_the_same_model_are_all_accepted(load: Load, tiny: Tiny, arch: str) -> None:
    params = SamplingParams(temperature=1.0, top_k=20, repeat_penalty=1.2, seed=3, logit_bias=ON.logit_bias)
    drafter = DraftModel(load(tiny(arch), draft=True))
    found = generate(load(tiny(arch)), PROMPT, params=params, max_tokens=N, drafter=drafter)
    assert found.generation.stats.acceptance_rate == 1.0
    assert found.generation.stats.draft_n >= 24


def test_D08_same_seed_same_text(load: Load, tiny: Tiny, arch: str) -> None:
    params = SamplingParams(temperature=0.9, seed=3, logit_bias=ON.logit_bias)
    target = load(tiny(arch))
    wanted = plain(target, params=params)
    assert plain(target, params=params) == wanted
    drafter = Fixed(PROMPT + wrong_at(wanted, 3))
    found = generate(target, PROMPT, params=params, max_tokens=N, drafter=drafter, depth=5)
    assert found.ids == wanted
    assert found.generation.stats.draft_n_accepted > 0


@pytest.mark.parametrize("method", [Method.PLAIN, Method.DRAFT, Method.NGRAM])
def test_D14_every_method_that_guesses_drafts(load: Load, tiny: Tiny, arch: str, method: Method) -> None:
    drafter: Drafter | None = {
        Method.PLAIN: None,
        Method.DRAFT: DraftModel(load(tiny(arch, seed=1), draft=True)),
        Method.NGRAM: Ngram(min_match=2),
    }[method]
    stats = generate(load(tiny(arch)), PROMPT * 3, params=ON, max_tokens=20, drafter=drafter).generation.stats
    assert stats.draft_kind == method
    assert (stats.draft_n > 0) == (stats.draft_rounds > 0) == (method != Method.PLAIN)


@pytest.mark.parametrize("room", range(1, 10))
def test_K07_drafts_are_clipped_at_the_contexts_edge(load: Load, tiny: Tiny, arch: str, room: int) -> None:
    target = load(tiny(arch), n_ctx=len(PROMPT) + 20)
    wanted = plain(target, n=20)
    prompt = PROMPT + wanted[: 20 - room]
    for drafter in (
        None,
        Fixed(prompt + wanted[20 - room :] + [9] * 20),
        DraftModel(load(tiny(arch, 1), n_ctx=16, draft=True)),
    ):
        found = generate(target, prompt, params=ON, drafter=drafter, depth=8)
        assert found.ids == wanted[20 - room :]
        assert found.generation.finish_reason == "length"


def test_D05_nothing_is_kept_behind_an_end_token(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch))
    wanted = plain(target)
    for position in range(6):
        slot = target.open()
        generation = begin(target, PROMPT, params=ON, drafter=Fixed(PROMPT + wanted), depth=5, slot=slot)
        generation.sampler.ends = frozenset({wanted[position]})
        answer = finish(target, generation)
        kept = wanted[: wanted.index(wanted[position]) + 1]
        assert (answer.ids, generation.finish_reason) == (kept, "stop")
        assert list(slot.tokens) == PROMPT + kept
        again = generate(target, slot.tokens, params=ON, max_tokens=N - len(kept), slot=slot)
        assert again.ids == wanted[len(kept) :]
        slot.close()


# Several conversations


@pytest.mark.parametrize("depth", [1, 4])
def test_K05_answers_in_one_pass_equal_each_alone(load: Load, tiny: Tiny, arch: str, depth: int) -> None:
    prompts = [PROMPT, [1, 77], [1, *range(50, 90)], [1, 5, 5, 5]]
    alone = [plain(load(tiny(arch)), prompt) for prompt in prompts]
    target = load(tiny(arch), slots=4)
    drafters = [
        Fixed(prompts[0] + wrong_at(alone[0], 2)),
        DraftModel(load(tiny(arch, seed=1), draft=True)),
        None,
        Fixed(prompts[3] + wrong_at(alone[3], 3)),
    ]
    together = [
        begin(target, p, params=ON, drafter=d, depth=depth, max_tokens=N)
        for p, d in zip(prompts, drafters, strict=True)
    ]
    controller = Controller()
    while live := [g for g in together if g.finish_reason is None]:
        step(target, live, controller)
    assert [g.token_ids for g in together] == alone


def test_K05_a_warm_slot_answers_as_a_cold_one(load: Load, tiny: Tiny, arch: str) -> None:
    a, b = [*PROMPT, 60, 61], [*PROMPT[:5], *range(100, 130)]
    target = load(tiny(arch))
    cold = {tuple(p): plain(target, p) for p in (a, b)}
    slot = target.open()
    for prompt in (a, b, a, [*b[:20], 7], a):
        answer = generate(target, prompt, params=ON, max_tokens=N, slot=slot, drafter=Ngram(min_match=1))
        assert answer.ids == cold.get(tuple(prompt), answer.ids)


def test_fork_gives_two_conversations_with_one_past(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch), slots=2)
    wanted, other = plain(target), plain(target, [*PROMPT, 99])
    slot = target.open()
    slot.prefill(PROMPT, lambda: False)
    twin = slot.fork()
    assert list(twin.tokens) == PROMPT
    drafted = generate(
        target, [*PROMPT, 99], params=ON, max_tokens=N, slot=twin, drafter=Fixed([*PROMPT, 99, *wrong_at(other, 3)])
    )
    assert drafted.ids == other
    twin.close()
    assert generate(target, PROMPT, params=ON, max_tokens=N, slot=slot).ids == wanted


def test_D01_fork_of_a_long_conversation(load: Load, tiny: Tiny, far: Far, arch: str) -> None:
    target = load(tiny(arch), slots=3, n_ctx=far.n_ctx)
    n = far.longer
    wanted = plain(target, far.prompt, n + 80)
    slot = target.open()
    generate(target, far.prompt, params=ON, max_tokens=n, slot=slot)
    twin = slot.fork()
    for one in (slot, twin):
        assert generate(target, list(one.tokens), params=ON, max_tokens=80, slot=one).ids == wanted[n:]


# Trees


TREES = {
    "two leaves": (-1, -1),
    "three leaves": (-1, -1, -1),
    "late fork": (-1, 0, 1, 1),
    "bushy": (-1, -1, 0, 0, 1, 4),
    "crossed": (-1, -1, 1, 0, 2, 3),
}


def growing(parents: Sequence[int], right: int, text: Sequence[int], at: int) -> Draft:
    """A tree whose path to node `right` is what the text says from `at` on; all other nodes are wrong."""
    path = [right]
    while parents[path[0]] != -1:
        path.insert(0, parents[path[0]])
    tokens = []
    depth = [0] * len(parents)
    for node, parent in enumerate(parents):
        depth[node] = 0 if parent == -1 else depth[parent] + 1
        correct = text[at + depth[node]]
        tokens.append(correct if node in path else 5 + (correct + 1 + node) % 250)
    return Draft(tokens, parents, Method.DRAFT)


@pytest.mark.parametrize("shape", TREES)
def test_D03_the_right_branch_of_a_tree_is_accepted_wherever_it_is(
    load: Load, tiny: Tiny, arch: str, shape: str
) -> None:
    target = load(tiny(arch), branches=3)
    if not target.capabilities.tree:
        pytest.skip("this model's cache cannot branch here, and says so")
    parents = TREES[shape]
    wanted = plain(target)
    for right in range(len(parents)):
        slot = target.open()
        slot.prefill(PROMPT, lambda: False)
        sampler = Sampler(ON, PROMPT)
        ids: list[int] = []
        while len(ids) < N - 10:
            draft = growing(parents, right, wanted, len(ids))
            (verdict,) = target.verify([(slot, draft, sampler)])
            assert verdict.path[-1] == right
            assert list(verdict.tokens) == wanted[len(ids) : len(ids) + len(verdict.path) + 1]
            ids += verdict.tokens
            assert list(slot.tokens) == PROMPT + ids
        # The cache is right too: going on without drafts says the same as ever.
        rest = generate(target, list(slot.tokens), params=ON, max_tokens=N - len(ids), slot=slot)
        assert ids + rest.ids == wanted
        slot.close()


def test_D03_trees_of_two_conversations_in_one_pass(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch), slots=2, branches=4)
    if not target.capabilities.tree:
        pytest.skip("this model's cache cannot branch here, and says so")
    prompts = [PROMPT, [1, *range(60, 80)]]
    wanted = [plain(target, p) for p in prompts]
    slots = [target.open() for _ in prompts]
    for slot, prompt in zip(slots, prompts, strict=True):
        slot.prefill(prompt, lambda: False)
    samplers = [Sampler(ON, p) for p in prompts]
    parents = (-1, -1, 0, 1)
    for round_ in range(6):
        items: list[tuple[Slot, Draft, Sampler]] = []
        for i, slot in enumerate(slots):
            at = len(slot.tokens) - len(prompts[i])
            items.append((slot, growing(parents, 2 + (round_ + i) % 2, wanted[i], at), samplers[i]))
        assert [len(verdict.path) for verdict in target.verify(items)] == [2, 2]
    for i, slot in enumerate(slots):
        at = len(slot.tokens) - len(prompts[i])
        rest = generate(target, list(slot.tokens), params=ON, max_tokens=N - at, slot=slot)
        assert [*slot.tokens[len(prompts[i]) :]] == wanted[i]
        assert rest.ids == wanted[i][at:]


def test_D01_trees_in_a_text_longer_than_the_windows_cache(load: Load, tiny: Tiny, far: Far, arch: str) -> None:
    target = load(tiny(arch), branches=3, n_ctx=far.n_ctx)
    if not target.capabilities.tree:
        pytest.skip("this model's cache cannot branch here, and says so")
    wanted = plain(target, far.prompt, far.longer)
    slot = target.open()
    slot.prefill(far.prompt, lambda: False)
    sampler = Sampler(ON, far.prompt)
    parents = TREES["bushy"]
    ids: list[int] = []
    while len(ids) < far.longer - 10:
        (verdict,) = target.verify([(slot, growing(parents, len(ids) % 6, wanted, len(ids)), sampler)])
        ids += verdict.tokens
    assert ids == wanted[: len(ids)]


# The cache


@pytest.mark.parametrize("length", [1, 3, len(PROMPT), len(PROMPT) + 1, 25, len(PROMPT) + N - 1, len(PROMPT) + N])
def test_rewind_is_absolute_and_twice_is_harmless(load: Load, tiny: Tiny, arch: str, length: int) -> None:
    target = load(tiny(arch))
    slot = target.open()
    text = PROMPT + generate(target, PROMPT, params=ON, max_tokens=N, slot=slot, drafter=Ngram(min_match=1)).ids
    for _ in range(2):
        slot.rewind(length)
        assert list(slot.tokens) == text[:length]
    wanted = plain(load(tiny(arch)), text[:length])
    generation = Generation(slot, Sampler(ON, text[:length]), [], 0, max_tokens=N)
    assert finish(target, generation).ids == wanted


def test_rewind_of_a_long_text(load: Load, tiny: Tiny, far: Far, arch: str) -> None:
    target = load(tiny(arch), n_ctx=far.n_ctx)
    n = far.answer
    wanted = plain(target, far.prompt, n)
    slot = target.open()
    generate(target, far.prompt, params=ON, max_tokens=n, slot=slot)
    for kept in (n - 1, n - 10, n * 3 // 4, n // 2, 12, 0):
        slot.rewind(len(far.prompt) + kept)
        generation = Generation(slot, Sampler(ON, far.prompt), [], 0, max_tokens=20)
        assert finish(target, generation).ids[: n - kept] == wanted[kept : kept + 20]


def test_S04_a_cut_leaves_a_cache_that_goes_on(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch))
    wanted = plain(target)
    for kept in range(8):
        slot = target.open()
        answer = generate(target, PROMPT, params=ON, max_tokens=8, depth=5, drafter=Fixed(PROMPT + wanted), slot=slot)
        answer.generation.cut(kept)
        assert list(slot.tokens) == PROMPT + wanted[:kept]
        again = generate(target, PROMPT + wanted[:kept], params=ON, max_tokens=5, slot=slot)
        assert again.ids == wanted[kept : kept + 5]
        slot.close()


def test_prefill_evaluates_only_what_is_new(load: Load, tiny: Tiny, arch: str) -> None:
    target = load(tiny(arch))
    slot = target.open()
    first = slot.prefill(PROMPT, lambda: False)
    assert (first.n_cached, first.n_evaluated, first.complete) == (0, len(PROMPT) - 1, True)
    again = slot.prefill(PROMPT, lambda: False)
    assert (again.n_cached, again.n_evaluated, again.complete) == (len(PROMPT) - 1, 0, True)
    longer = slot.prefill([*PROMPT, 70, 71, 72], lambda: False)
    assert (longer.n_cached, longer.n_evaluated) == (len(PROMPT) - 1, 3)
    other = slot.prefill([*PROMPT[:4], 80, 81, 82], lambda: False)
    assert other.n_cached + other.n_evaluated == 6
    assert other.n_cached == (4 if target.capabilities.rewind == "trim" else 0)
    one = slot.prefill([9], lambda: False)
    assert (one.n_cached, one.n_evaluated, list(slot.tokens)) == (0, 0, [9])


def test_E01_prefill_can_be_stopped_and_resumed(load: Load, tiny: Tiny, arch: str) -> None:
    prompt = [1] + [5 + (i * i) % 250 for i in range(399)]
    target = load(tiny(arch), n_ctx=512)
    wanted = plain(target, prompt)
    for stop_after in range(4):
        slot = target.open()
        answers = iter([False] * stop_after + [True])
        stopped = slot.prefill(prompt, answers.__next__)
        assert not stopped.complete
        assert stopped.n_evaluated < len(prompt) - 1
        assert (stopped.n_evaluated > 0) == (stop_after > 0)
        assert list(slot.tokens) == prompt[: stopped.n_evaluated + 1]
        resumed = slot.prefill(prompt, lambda: False)
        assert (resumed.n_cached, resumed.complete) == (stopped.n_evaluated, True)
        assert resumed.n_cached + resumed.n_evaluated == len(prompt) - 1
        assert generate(target, prompt, params=ON, max_tokens=N, slot=slot).ids == wanted
        slot.close()


def test_E01_a_stopped_slot_is_usable_as_it_is(load: Load, tiny: Tiny, arch: str) -> None:
    prompt = [1] + [5 + (i * i) % 250 for i in range(399)]
    target = load(tiny(arch), n_ctx=512)
    slot = target.open()
    slot.prefill(prompt, iter([False, True]).__next__)
    head = list(slot.tokens)
    generation = Generation(slot, Sampler(ON, head), [], 0, max_tokens=N)
    assert finish(target, generation).ids == plain(load(tiny(arch), n_ctx=512), head)


def test_a_draft_model_proposes_without_committing(load: Load, tiny: Tiny, arch: str) -> None:
    model = load(tiny(arch), draft=True)
    wanted = plain(load(tiny(arch)))
    slot = model.open()
    sampler = Sampler(ON, PROMPT).for_draft([])
    for n in (4, 4, 8, 1):
        draft = model.propose(slot, PROMPT, n, sampler)
        assert list(draft.tokens) == wanted[:n]
        assert (draft.is_chain, draft.source, draft.probabilities) == (True, Method.DRAFT, None)
        assert list(slot.tokens) == PROMPT
    # Ahead by a few, then on another branch, then back.
    assert list(model.propose(slot, PROMPT + wanted[:10], 4, sampler).tokens) == wanted[10:14]
    assert (
        list(model.propose(slot, [*PROMPT[:4], 99], 3, sampler).tokens)
        == plain(load(tiny(arch)), [*PROMPT[:4], 99])[:3]
    )
    assert list(model.propose(slot, PROMPT, 4, sampler).tokens) == wanted[:4]


@pytest.mark.parametrize("length", [127, 128, 129, 130, 256, 257, 258, 400])
def test_D15_a_draft_model_that_was_left_behind(load: Load, tiny: Tiny, arch: str, length: int) -> None:
    model = load(tiny(arch), draft=True, n_ctx=512)
    text = [1] + [5 + (i * i) % 250 for i in range(length - 1)]
    slot = model.open()
    sampler = Sampler(ON, text).for_draft([])
    wanted = plain(load(tiny(arch), n_ctx=512), text, 10)
    assert list(model.propose(slot, text, 8, sampler).tokens) == wanted[:8]
    assert list(model.propose(slot, text + wanted[:2], 8, sampler).tokens) == wanted[2:10]
