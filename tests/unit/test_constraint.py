"""A grammar in the sampler, in the loop and by llguidance: what is allowed, how it comes and goes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.grammar import Grammars
from pardec_chat.app.chat.request import Event, Failed, Finished, Grammar, Message, ModelChoice, Notice, Request
from pardec_chat.backends.base import Draft, Method
from pardec_chat.backends.decoding.constraint import Constraint, NothingAllowed
from pardec_chat.backends.decoding.depth import Controller
from pardec_chat.backends.decoding.loop import Generation, step
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.draft_model import DraftModel
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.backends.errors import BadSetting
from pardec_chat.tests.decode import GREEDY, Fixed, never
from pardec_chat.tests.fakes import FakeRuntime, ScriptedTarget, ScriptedVocabulary, TableConstraint
from pardec_chat.tests.rows import noise, script, sure

ENDS = frozenset({4, 5})
#: 0 or 1, then 2; again or the end.
TABLE = [{0: 1, 1: 1}, {2: 0}]


def table(size: int = 6) -> TableConstraint:
    return TableConstraint(TABLE, {0}, ENDS, size)


def answer(target: ScriptedTarget, constraint: Constraint, drafter: object = None, **more: object) -> Generation:
    slot = target.open()
    slot.prefill([3, 3], never)
    sampler = Sampler(GREEDY, [3, 3], ends=target.vocabulary.end_ids, constraint=constraint)
    drafters = [] if drafter is None else [drafter]
    for one in drafters:
        one.begin(slot, sampler, never)  # type: ignore[attr-defined]
    return Generation(slot, sampler, drafters, 4, **{"max_tokens": 12, **more})  # type: ignore[arg-type]


def run(target: ScriptedTarget, generation: Generation) -> list[list[int]]:
    """What was put before the target in each step."""
    controller, proposed = Controller(), []
    while generation.finish_reason is None:
        (one,) = step(target, [generation], controller)
        proposed.append(list(one.proposed))
    return proposed


# The sampler


def test_the_grammar_comes_behind_penalties_and_bias_and_before_the_temperature() -> None:
    params = SamplingParams(temperature=1.0, top_k=2, top_p=1.0, min_p=0.0, logit_bias={0: -1.0})
    sampler = Sampler(params, [], ends=ENDS, constraint=table())
    row = np.array([3.0, 1.0, 9.0, 9.0, 9.0, 0.0], np.float32)
    assert sampler.scores(row).tolist() == [2.0, 1.0, -np.inf, -np.inf, 9.0, 0.0]
    assert sampler.best(row) == 4
    found = sampler.distribution(row)
    assert found.ids is not None
    assert sorted(found.ids.tolist()) == [0, 4]


def test_the_draft_models_sampler_shares_the_grammar() -> None:
    constraint = table()
    sampler = Sampler(GREEDY, [], ends=ENDS, constraint=constraint)
    draft = sampler.for_draft([0])
    wide = np.zeros(9, np.float32)
    assert np.flatnonzero(draft.scores(wide) > -np.inf).tolist() == [1, 4, 5]
    draft.push(1)
    assert constraint.n_pushed == 1
    assert np.flatnonzero(sampler.scores(wide) > -np.inf).tolist() == [2]
    with pytest.raises(NothingAllowed):
        draft.scores(np.zeros(2, np.float32))
    draft.pop(1)
    assert constraint.n_pushed == 0


def test_a_model_that_rules_out_its_whole_grammar_still_gives_a_token() -> None:
    row = np.full(6, -np.inf, np.float32)
    row[3] = 1.0
    assert Sampler(GREEDY, [], ends=ENDS, constraint=table()).choose(row) in {0, 1, 4, 5}


# The loop


def test_a_draft_is_cut_before_its_first_illegal_token() -> None:
    text = [0, 2, 1, 2, 0, 2, 4]
    target = ScriptedTarget(script(6, text, 2), [b"%d" % i for i in range(6)], ENDS)
    drafter = Fixed([3, 3, 0, 2, 3, 2, 0, 2, 4])
    generation = answer(target, table(), drafter)
    proposed = run(target, generation)
    assert generation.token_ids == text
    # Behind 0 2 nothing legal stood in the draft: the step was plain, and only what was put before the target counts.
    assert proposed == [[0, 2], [2, 0, 2, 4]]
    assert generation.stats.draft_n == 6
    assert generation.finish_reason == "stop"


def test_a_draft_of_which_nothing_is_legal_makes_a_plain_step() -> None:
    target = ScriptedTarget(script(6, [0, 2, 4], 2), [b"%d" % i for i in range(6)], ENDS)
    generation = answer(target, table(), Fixed([3, 3, 2, 0, 3, 3]))
    (one,) = step(target, [generation], Controller())
    assert (list(one.proposed), one.source, list(one.tokens)) == ([], Method.PLAIN, [0])
    assert generation.stats.draft_n == 0


def test_drawn_drafts_are_not_cut_by_the_value_of_a_token() -> None:
    target = ScriptedTarget(script(6, [0, 2, 4], 2), [b"%d" % i for i in range(6)], ENDS)
    flat = Sampler(SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0), []).distribution(
        np.zeros(6, np.float32)
    )

    class Drawn(Fixed):
        def draft(self, n_max: int, go_on: object = None) -> Draft:
            return Draft.chain([3], Method.DRAFT, [flat])

    generation = answer(target, table(), Drawn([]))
    (one,) = step(target, [generation], Controller())
    assert (list(one.proposed), one.n_accepted, one.tokens[0] in {0, 1, 4, 5}) == ([3], 0, True)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 7])
def test_drafters_stay_in_step_with_cut_drafts(seed: int, depth: int) -> None:
    size = 6
    pieces = [b"%d" % i for i in range(size)]
    target = ScriptedTarget(noise(size, seed), pieces, ENDS)
    wanted = answer(target, table())
    run(target, wanted)
    wanted.slot.close()
    # The draft model knows four ids, so that none may be guessed where only an end may come.
    for drafter in (Ngram(min_match=1), DraftModel(ScriptedTarget(noise(4, seed + 9), pieces[:4])), Ngram(guided=True)):
        constraint = table()
        found = answer(target, constraint, drafter)
        found.depth = depth
        controller = Controller()
        while found.finish_reason is None:
            committed = len(found.token_ids)
            (one,) = step(target, [found], controller)
            assert table_of(found.token_ids[:committed]).legal(one.proposed) == len(one.proposed)
            assert constraint.n_pushed == len(found.token_ids)
        assert found.token_ids == wanted.token_ids
        found.slot.close()


def table_of(tokens: Sequence[int]) -> TableConstraint:
    made = table()
    for token in tokens:
        made.push(token)
    return made


def test_where_only_an_end_token_may_come_it_comes() -> None:
    target = ScriptedTarget(script(6, [0], 2), [b"%d" % i for i in range(6)], ENDS)
    once = TableConstraint([{0: 1}, {2: 2}, {}], (), ENDS, 6)
    generation = answer(target, once)
    run(target, generation)
    assert generation.token_ids[:2] == [0, 2]
    assert generation.token_ids[2] in ENDS
    assert generation.finish_reason == "stop"


def test_a_grammar_without_an_end_stops_at_the_limit() -> None:
    target = ScriptedTarget(script(6, [0, 2] * 9, 2), [b"x"] * 6, ENDS)
    generation = answer(target, table(), max_tokens=5)
    run(target, generation)
    assert generation.token_ids == [0, 2, 0, 2, 0]
    assert generation.finish_reason == "length"


# llguidance

# 0-2 control, 3-6 letters, 7-… JSON, a byte that is no UTF-8, two ways to spell "ab", and padding.
PIECES = [
    b"",
    b"",
    b"",
    b"a",
    b"b",
    b"ab",
    b"c",
    b"{",
    b"}",
    b'"',
    b":",
    b"1",
    b" ",
    b"\xff",
    b"\xc3",
    b"\xa9",
    b"[",
    b"]",
    b",",
    b"",
]
VOCABULARY = ScriptedVocabulary(PIECES, {1, 2}, None, None)


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(VOCABULARY)


def allowed(constraint: Constraint, n: int = len(PIECES)) -> list[int]:
    return np.flatnonzero(constraint.mask(n)).tolist()


def test_any_spelling_and_every_end_token_are_allowed(grammars: Grammars) -> None:
    constraint = grammars.constraint(Grammar("regex", "(ab)+c?"))
    assert allowed(constraint) == [3, 5]
    constraint.push(5)
    assert allowed(constraint) == [1, 2, 3, 5, 6]
    constraint.push(6)
    assert allowed(constraint) == [1, 2]
    constraint.push(2)
    constraint.pop(2)
    assert allowed(constraint) == [1, 2, 3, 5, 6]
    constraint.pop(0)
    assert allowed(constraint, 4) == [1, 2, 3]
    assert constraint.mask(40).tolist() == constraint.mask(20).tolist() + [False] * 20


def test_how_much_of_a_draft_is_legal(grammars: Grammars) -> None:
    constraint = grammars.constraint(Grammar("regex", "(ab)+c?"))
    for tokens, n in (
        ([], 0),
        ([3, 4, 5, 6], 4),
        ([3, 4, 5, 6, 2], 5),
        ([3, 4, 1, 5], 3),
        ([3, 1], 1),
        ([1], 0),
        ([3, 0], 1),
        ([3, 19], 1),
        ([3, 99], 1),
        ([3, -1], 1),
    ):
        assert constraint.legal(tokens) == n, tokens
        assert allowed(constraint) == [3, 5]
    constraint.push(5)
    constraint.push(6)
    assert constraint.legal([1, 2]) == 1  # a matcher that is through refuses its end token when asked this way
    constraint.push(1)
    assert constraint.legal([1]) == 0


@pytest.mark.parametrize("pattern", ["(ab|a)*c", "a{2,3}(b|é)?", "(a|bc)+", '"(a|b)*"', "(b|c)?é"])
def test_masks_are_what_the_pattern_says_behind_every_text(grammars: Grammars, pattern: str) -> None:
    """Against Python's own patterns: an id is allowed exactly where some continuation matches, an end where the text does."""
    letters = {i: piece for i, piece in enumerate(PIECES) if piece}
    matching = {
        "".join(text).encode()
        for n in range(7)
        for text in product('abcé"', repeat=n)
        if re.fullmatch(pattern, "".join(text))
    }
    heads = {text[:n] for text in matching for n in range(len(text) + 1)}
    only = {letter for text in matching for letter in text}
    constraint = grammars.constraint(Grammar("regex", pattern))
    rng = np.random.default_rng(0)
    path: list[int] = []
    for _ in range(400):
        text = b"".join(letters.get(i, b"") for i in path)
        ended = bool(path) and path[-1] in (1, 2)
        found = set(allowed(constraint))
        if ended:
            assert found == {1, 2}
        elif len(text) < 4:
            wanted = {i for i, piece in letters.items() if text + piece in heads}
            # The brute force knows five letters; of others it says nothing.
            assert {i for i in found - {1, 2} if set(letters[i]) <= only} == wanted
            assert bool(found & {1, 2}) == (text in matching) == ({1, 2} <= found)
        for i in range(len(PIECES)):
            assert constraint.legal([i]) == (i in found and not ended)
        if path and (ended or len(text) > 3 or rng.random() < 0.4):
            n = int(rng.integers(1, len(path) + 1))
            constraint.pop(n)
            del path[-n:]
        else:
            path.append(int(rng.choice(sorted(found))))
            constraint.push(path[-1])


@pytest.mark.parametrize(
    ("kind", "source", "reason"),
    [
        ("regex", "(ab", "unclosed group"),
        ("regex", "\ud800", "surrogates"),
        ("json_schema", '{"type":', "Expecting value"),
        ("json_schema", '{"type": "foo"}', "Invalid type: foo"),
        ("json_schema", "[1]", "object or boolean"),
        ("json_schema", '{"not": {}}', "not"),
        ("json_schema", "[" * 100_000, "recursion"),
        ("lark", "start: x", 'unknown name: "x"'),
        ("lark", "", "no start rule"),
        ("lark", 'start: "a" <|x|>', "llguidance fails"),
    ],
)
def test_a_bad_grammar_is_refused_with_the_reason_on_one_line(
    grammars: Grammars, kind: str, source: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadSetting, match=re.escape(reason)) as caught:
        grammars.constraint(Grammar(kind, source))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert len(caught.value.what) < 400
    assert capfd.readouterr() == ("", ""), "llguidance wrote onto the screen"


def test_an_answer_that_has_begun_goes_on_from_there(grammars: Grammars) -> None:
    assert allowed(grammars.constraint(Grammar("regex", "abc"), [3])) == [4]
    with pytest.raises(BadSetting, match="beginning"):
        grammars.constraint(Grammar("regex", "abc"), [4])


def test_what_cannot_go_on_ends_and_says_why(grammars: Grammars) -> None:
    constraint = grammars.constraint(Grammar("regex", "azz"))
    constraint.push(3)
    assert allowed(constraint) == [1, 2]
    assert constraint.problem
    constraint.push(1)
    constraint.pop(2)
    assert allowed(constraint) == [3]
    assert not constraint.problem


def test_a_grammar_that_cannot_go_back_is_begun_anew(grammars: Grammars) -> None:
    constraint = grammars.constraint(Grammar("lark", 'start: a "c"\na[max_tokens=2]: /a+/'))
    for _ in range(3):
        constraint.push(3)
        constraint.push(3)
        assert allowed(constraint) == [6]
        constraint.pop(1)
        assert allowed(constraint) == [3, 5, 6] or allowed(constraint) == [3, 6]
        constraint.pop(1)
        assert allowed(constraint) == [3, 5] or allowed(constraint) == [3]
    assert not constraint.problem


def test_control_tokens_are_never_allowed_inside_a_text(grammars: Grammars) -> None:
    constraint = grammars.constraint(Grammar("lark", 'start: "a" (<[0]> | "b")'))
    constraint.push(3)
    assert allowed(constraint) == [4]
    assert constraint.legal([0]) == 0


def test_space_in_json_has_an_end(grammars: Grammars) -> None:
    for grammar in (Grammar("json_object"), Grammar("json_schema", json.dumps({"type": "array"}))):
        constraint = grammars.constraint(grammar)
        first = allowed(constraint)
        assert first in ([7], [16])
        assert constraint.legal([*first, *[12] * 500]) == 65
    own = {"type": "array", "x-guidance": {"whitespace_pattern": " {1,3}"}}
    assert grammars.constraint(Grammar("json_schema", json.dumps(own))).legal([16, *[12] * 500]) == 4


def test_a_vocabulary_without_an_end_takes_no_grammar() -> None:
    with pytest.raises(BadSetting, match="no end token"):
        Grammars(ScriptedVocabulary([b"a"], (), None, None))


def test_llguidance_waits_for_the_first_grammar() -> None:
    code = "import sys, pardec_chat.app.chat.engine as _; sys.exit('llguidance' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The engine


class _Client:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._done = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Finished | Failed):
            self._done.set()

    def end(self) -> Event:
        assert self._done.wait(20)
        return self.events[-1]


def _ask(target: ScriptedTarget, **options: object) -> _Client:
    engine, client = Engine(lambda: FakeRuntime({"a": target})), _Client()
    try:
        engine.load(ModelChoice(Path("a"))).result(20)
        engine.submit(Request(sampling=GREEDY, **options), client)  # type: ignore[arg-type]
        client.end()
    finally:
        engine.close()
    return client


def _says(*ids: int, chat_template: str | None = None) -> ScriptedTarget:
    texts = [f"<{i}>" if not piece else piece.decode("latin-1") for i, piece in enumerate(PIECES)]
    texts[1] = "<|c|>"
    pieces = [*PIECES[:-1], b"<|", b"|>", b""]
    texts = [*texts[:-1], "<|", "|>", "<pad>"]

    def rows(prefix: tuple[int, ...]) -> list[float]:
        return sure(len(pieces), ids[min(len(prefix) - start, len(ids) - 1)])

    target = ScriptedTarget(rows, pieces, {1, 2}, chat_template=chat_template, texts=texts)
    start = len(target.vocabulary.encode("a", add_special=True, parse_special=True))
    return target


def test_an_end_marker_inside_the_grammars_text_does_not_end_the_answer() -> None:
    written = [9, 19, 6, 20, 9, 1]
    free = _ask(_says(*written), prompt="a").end()
    held = _ask(_says(*written), prompt="a", grammar=Grammar("regex", '"[^"]*"')).end()
    assert isinstance(free, Finished)
    assert isinstance(held, Finished)
    assert (free.text, held.text) == ('"', '"<|c|>"')
    assert held.finish_reason == "stop"


def test_an_answer_that_no_token_can_complete_ends_with_a_notice() -> None:
    client = _ask(_says(3, 4), prompt="a", grammar=Grammar("regex", "azz"))
    last = client.end()
    assert isinstance(last, Finished)
    assert (last.text, last.finish_reason) == ("a", "stop")
    assert next(e.text for e in client.events if isinstance(e, Notice)).startswith(
        "The answer ended before its grammar"
    )


def test_tools_reach_the_template_with_the_request() -> None:
    target = _says(3, 1, chat_template="{% if tools %}{% for t in tools %}{{ t.name }}{% endfor %}{% endif %}")
    _ask(target, messages=[Message("user", "c")], tools=[{"name": "abc"}], max_tokens=1)
    assert [*target.ids("prefill"), *target.ids("verify")] == [5, 6]
