"""Grammars by llguidance on real models of every runtime: the ids of plain decoding, whoever guesses."""

from __future__ import annotations

import json
import queue
import re

import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.grammar import Grammars
from pardec_chat.app.chat.request import Failed, Finished, Grammar, ModelChoice, Request
from pardec_chat.backends.base import Drafter, Method, NumberType, Runtime, Target
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.errors import BadSetting
from pardec_chat.tests.conftest import Tiny
from pardec_chat.tests.decode import Fixed, never
from pardec_chat.tests.runtimes.conftest import Load
from pardec_chat.tests.runtimes.test_contract import wrong_at
from pardec_chat.tests.tiny_models import EOS, TURN

pytestmark = pytest.mark.usefixtures("in_float32")

PROMPT = [1, 20, 30, 40, 20, 30, 41, 20, 30, 42]
GREEDY = SamplingParams(temperature=0)
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["cat", "the cat", "thing"]},
        "ages": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
    },
    "required": ["name", "kind", "ages"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}
GRAMMARS = {
    "schema": Grammar("json_schema", json.dumps(SCHEMA)),
    "regex": Grammar("regex", r"(the cat|a (cat|thing)é?)(, (in|ing|the)){4,9}\."),
}
N = 120


def begin(target: Target, grammars: Grammars, kind: str, drafter: Drafter | None, depth: int = 4) -> Generation:
    slot = target.open()
    assert slot.prefill(PROMPT, never).complete
    constraint = grammars.constraint(GRAMMARS[kind])
    sampler = Sampler(GREEDY, PROMPT, ends=target.vocabulary.end_ids, constraint=constraint)
    if drafter is not None:
        drafter.begin(slot, sampler, never)
    return Generation(slot, sampler, [] if drafter is None else [drafter], depth, N)


def finish(target: Target, generation: Generation) -> list[int]:
    controller = Controller()
    while generation.finish_reason is None:
        step(target, [generation], controller)
    generation.slot.close()
    return generation.token_ids


def text_of(target: Target, ids: list[int]) -> str:
    return b"".join(target.vocabulary.piece(token) for token in ids).decode()


def check(kind: str, text: str) -> None:
    if kind == "regex":
        assert re.fullmatch(GRAMMARS[kind].source, text), text
    else:
        found = json.loads(text)
        assert list(found) == ["name", "kind", "ages"]
        assert found["kind"] in ("cat", "the cat", "thing")


@pytest.mark.parametrize("kind", GRAMMARS)
@pytest.mark.parametrize("arch", ["llama", "mamba"])
def test_D02_every_method_gives_the_ids_of_plain_decoding_under_the_grammar(
    runtime: Runtime, load: Load, tiny: Tiny, arch: str, kind: str
) -> None:
    target = load(tiny(arch))
    grammars = Grammars(target.vocabulary)
    generation = begin(target, grammars, kind, None)
    wanted = finish(target, generation)
    assert generation.finish_reason == "stop"
    assert wanted[-1] in (EOS, TURN)
    check(kind, text_of(target, wanted))
    for depth in (1, 3, 8) if runtime.name == "mlx" else (1, 2, 3, 4, 8):
        for drafter in (
            DraftModel(load(tiny(arch), draft=True)),
            DraftModel(load(tiny(arch, seed=1), draft=True)),
            Ngram(min_match=1),
            Fixed(PROMPT + wrong_at(wanted, 3)),  # rejected, and illegal, at every third place
        ):
            found = begin(target, grammars, kind, drafter, depth)
            assert finish(target, found) == wanted
            assert found.finish_reason == "stop"
            assert found.stats.draft_n_accepted <= found.stats.draft_n
            if isinstance(drafter, DraftModel | Fixed):
                assert found.stats.draft_n > 0
            drafter.close()


def test_the_same_model_guesses_all_of_its_grammar_right(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    drafter = DraftModel(load(tiny("llama"), draft=True))
    found = begin(target, Grammars(target.vocabulary), "schema", drafter)
    finish(target, found)
    assert found.stats.acceptance_rate == 1.0


def test_drawn_answers_are_valid_too(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    drafter = DraftModel(load(tiny("llama", seed=1), draft=True))
    grammars = Grammars(target.vocabulary)
    for seed in range(4):
        slot = target.open()
        slot.prefill(PROMPT, never)
        sampler = Sampler(
            SamplingParams(temperature=1.2, seed=seed),
            PROMPT,
            ends=target.vocabulary.end_ids,
            constraint=grammars.constraint(GRAMMARS["regex"]),
        )
        drafter.begin(slot, sampler, never)
        drawn = Generation(slot, sampler, [drafter], 4, N)
        check("regex", text_of(target, finish(target, drawn)))
        assert drawn.stats.draft_n > 0


def test_two_answers_at_once_keep_their_own_grammars(load: Load, tiny: Tiny) -> None:
    alone = load(tiny("llama"))
    grammars = Grammars(alone.vocabulary)
    wanted = {kind: finish(alone, begin(alone, grammars, kind, None)) for kind in GRAMMARS}
    together = load(tiny("llama"), slots=2)
    draft = load(tiny("llama", seed=1), draft=True, slots=2)
    live = [begin(together, grammars, kind, DraftModel(draft)) for kind in GRAMMARS]
    controller = Controller()
    while going := [generation for generation in live if generation.finish_reason is None]:
        step(together, going, controller)
    assert [generation.token_ids for generation in live] == list(wanted.values())


class Client:
    """Waits for the end of one answer."""

    def __init__(self) -> None:
        self._ends: queue.SimpleQueue[Finished | Failed] = queue.SimpleQueue()

    def __call__(self, event: object) -> None:
        if isinstance(event, Finished | Failed):
            self._ends.put(event)

    def end(self) -> Finished | Failed:
        return self._ends.get(timeout=60)


def test_the_engine_takes_a_grammar_with_a_request_and_refuses_a_bad_one(runtime: Runtime, tiny: Tiny) -> None:
    engine = Engine(lambda: runtime)
    try:
        # In 16 bits near ties fall otherwise in blocks than in single steps.
        numbers: NumberType = "fp32" if runtime.name == "pytorch" else "auto"
        choice = ModelChoice(tiny("llama"), tiny("llama", 1), n_ctx=256, threads=1, slots=2, dtype=numbers)
        engine.load(choice).result(60)

        def ask(grammar: Grammar | None, **options: object) -> Client:
            client = Client()
            options = {"prompt": "the cat", "sampling": GREEDY, "max_tokens": N, **options}
            engine.submit(Request(grammar=grammar, **options), client)  # type: ignore[arg-type]
            return client

        plain = ask(GRAMMARS["schema"]).end()
        assert isinstance(plain, Finished)
        check("schema", plain.text)
        assert plain.finish_reason == "stop"
        good, bad = ask(GRAMMARS["schema"], method=Method.DRAFT), ask(Grammar("regex", "(a"), method=Method.DRAFT)
        other, failed = good.end(), bad.end()
        assert isinstance(other, Finished)
        assert list(other.token_ids) == list(plain.token_ids)
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, BadSetting)
        # An answer that has begun goes on with the same ids; one that never could begin so is refused.
        for n in (1, 7, len(plain.token_ids) - 1):
            rest = ask(GRAMMARS["schema"], answer_ids=plain.token_ids[:n], method=Method.NGRAM).end()
            assert isinstance(rest, Finished)
            assert [*plain.token_ids[:n], *rest.token_ids] == list(plain.token_ids)
        wrong = ask(GRAMMARS["schema"], answer_ids=[20]).end()
        assert isinstance(wrong, Failed)
        cut = ask(GRAMMARS["schema"], max_tokens=5).end()
        assert isinstance(cut, Finished)
        assert (cut.finish_reason, len(cut.token_ids)) == ("length", 5)
        free = ask(None, max_tokens=5).end()
        assert isinstance(free, Finished)
    finally:
        engine.close()


def test_a_grammar_for_one_runtime_reads_the_whole_vocabulary(load: Load, tiny: Tiny) -> None:
    target = load(tiny("llama"))
    constraint = Grammars(target.vocabulary).constraint(Grammar("regex", "(?s:.)*"))
    allowed = constraint.mask(target.vocabulary.size)
    for token in range(target.vocabulary.size):
        piece = target.vocabulary.piece(token)
        if token in target.vocabulary.end_ids:
            assert allowed[token]
        elif not piece:
            assert not allowed[token], target.vocabulary.text(token)
        else:
            # Bytes that can begin no character cannot come first.
            assert allowed[token] == (piece[0] < 0x80 or 0xC2 <= piece[0] <= 0xF4), piece
