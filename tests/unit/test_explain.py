"""What is shown of a choice's reasons: computed by hand from a known curve and known rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.estimates import N_BUCKETS, bucket
from pardec_chat.backends.decoding.explain import Explanation, PassCost, Speed, explain
from pardec_chat.backends.decoding.knowledge import MOST_GUESSES, Knowledge, Measured
from pardec_chat.backends.decoding.options import PLAIN

#: Single steps: 1, 1.5, 1.55, 1.6, 3, then 0.1 a row.
PASSES = {1: 10.0, 2: 15.0, 3: 15.5, 4: 16.0, 5: 30.0, 33: 58.0}
GUESS_MS = 1.0
#: So many observations that what was thought before does not count.
MANY = 9e5


def steps(rows: int) -> float:
    """A pass of so many rows, in single steps, by hand."""
    return PASSES[rows] / 10.0 if rows in PASSES else 3.0 + 0.1 * (rows - 5)


def rates(controller: Knowledge, method: Method, kind: str, rate: Callable[[int], float]) -> None:
    """The rate of each bucket of a kind is known to be `rate`."""
    controller.record(method, kind).restore([[MANY * rate(index), MANY] for index in range(N_BUCKETS)])


@pytest.fixture
def controller() -> Knowledge:
    """Drafting and copying are right with 0.8 in code; in chat with 0.2, and copying behind a long match alone."""
    made = Knowledge()
    for _ in range(4):
        for rows, ms in PASSES.items():
            made.costs.observe_pass(512, rows, ms)
        for n in (1, 16):
            made.costs.observe_draft("draft", n, 1, n * GUESS_MS)
        for n in (1, 32):
            made.costs.observe_draft("ngram", n, 0, 1e-9)
    for method in (Method.DRAFT, Method.NGRAM):
        rates(made, method, "code", lambda _: 0.8)
    rates(made, Method.DRAFT, "chat", lambda _: 0.2)
    rates(made, Method.NGRAM, "chat", lambda index: 0.95 if index >= bucket(8) else 0.1)
    made.measured["chat", Method.PLAIN, 0] = Measured(steps=30, tokens=30, ms=300.0)
    made.measured["code", Method.PLAIN, 0] = Measured(steps=4, tokens=4, ms=40.0)
    made.measured["code", Method.DRAFT, 3] = Measured(steps=40, tokens=118, ms=760.0)
    return made


def test_before_the_first_pass_there_is_nothing_to_explain() -> None:
    assert explain(Knowledge()) == Explanation((), None, None, None, ())


def test_passes_are_those_measured_in_milliseconds_and_single_steps(controller: Knowledge) -> None:
    found = explain(controller)
    assert found.plain_ms == pytest.approx(10.0)
    assert [(p.rows, p.n) for p in found.passes] == [(rows, 4) for rows in PASSES]
    assert [p.ms for p in found.passes] == pytest.approx(list(PASSES.values()))
    assert [p.steps for p in found.passes] == pytest.approx([ms / 10.0 for ms in PASSES.values()])
    assert isinstance(found.passes[0], PassCost)
    assert found.draft_ms == pytest.approx(GUESS_MS)


def test_passes_are_those_of_the_context_asked_for(controller: Knowledge) -> None:
    for _ in range(40):
        controller.costs.observe_pass(3000, 1, 20.0)
    plain_ms = explain(controller, 3000).plain_ms
    assert plain_ms is not None
    assert plain_ms == pytest.approx(20.0, rel=0.05)
    assert explain(controller, 512).plain_ms == pytest.approx(10.0)


def test_D16_options_of_the_draft_model_are_expected_tokens_over_measured_costs(controller: Knowledge) -> None:
    code, chat = sorted(explain(controller).kinds, key=lambda kind: kind.name, reverse=True)
    for kind, rate in ((code, 0.8), (chat, 0.2)):
        assert [(o.method, o.depth) for o in kind.draft] == [(Method.DRAFT, n) for n in range(1, 17)]
        assert [o.tokens for o in kind.draft] == pytest.approx(
            [sum(rate**k for k in range(n + 1)) for n in range(1, 17)], rel=1e-4
        )
        assert [o.cost for o in kind.draft] == pytest.approx([steps(n + 1) + 0.1 * n for n in range(1, 17)], rel=1e-4)
    # 1 + 0.8 + 0.64 + 0.512 tokens for 1.6 + 0.3 steps; one row more costs 1.4 steps.
    assert code.best_draft.depth == 3
    assert code.best_draft.speedup == pytest.approx(2.952 / 1.9, rel=1e-4)
    assert chat.best_draft == PLAIN


def test_D17_copying_pays_from_the_match_on_that_rates_and_costs_say(controller: Knowledge) -> None:
    code, chat = sorted(explain(controller).kinds, key=lambda kind: kind.name, reverse=True)
    lengths = [match.length for match in chat.ngram]
    assert lengths == sorted(set(lengths))
    assert {1, 4, 8, 32} <= set(lengths)
    for match in chat.ngram:
        if match.length < 6:  # a guess behind it is wrong, and hardly any gets to where they are right
            assert match.option == PLAIN
        if match.length >= 8:
            depth = max(range(1, 33), key=lambda n: sum(0.95**k for k in range(n + 1)) / steps(n + 1))
            assert (match.option.method, match.option.depth) == (Method.NGRAM, depth)
            assert match.option.tokens == pytest.approx(sum(0.95**k for k in range(depth + 1)), rel=1e-4)
            assert match.option.cost == pytest.approx(steps(depth + 1), rel=1e-4)
    assert chat.shortest_match is not None
    assert chat.shortest_match.length == 8
    # Right with 0.8 behind any match: three guesses at 1.6 steps, as with a draft model that costs nothing.
    assert code.shortest_match is not None
    assert (code.shortest_match.length, code.shortest_match.option.depth) == (1, 3)
    assert code.shortest_match.option.speedup == pytest.approx(2.952 / 1.6, rel=1e-4)


def test_the_length_of_a_match_counts_on_within_a_draft(controller: Knowledge) -> None:
    # Behind a match of 6 two guesses are needed to get to where they are right.
    rates(controller, Method.NGRAM, "chat", lambda index: 0.95 if index >= bucket(8) else 0.5)
    chat = next(kind for kind in explain(controller).kinds if kind.name == "chat")
    option = next(match.option for match in chat.ngram if match.length == 6)
    assert option.method == Method.NGRAM
    tail = sum(0.95**k for k in range(1, option.depth - 1))
    assert option.tokens == pytest.approx(1 + 0.5 + 0.25 + 0.25 * tail, rel=1e-4)


def test_D16_break_even_is_the_rate_from_which_the_best_depth_pays(controller: Knowledge) -> None:
    # Of 1 + r > 1.6, 1 + r + r² > 1.75 and 1 + r + r² + r³ > 1.9 the second holds first: from r = 0.5 on.
    assert [steps(n + 1) + 0.1 * n for n in (1, 2, 3)] == pytest.approx([1.6, 1.75, 1.9])
    assert explain(controller).break_even == pytest.approx(0.5, abs=1e-4)


def test_D16_where_no_rate_is_enough_there_is_no_break_even() -> None:
    dear = Knowledge()
    for _ in range(4):
        for rows, ms in {1: 10.0, 2: 20.0, 33: 330.0}.items():
            dear.costs.observe_pass(512, rows, ms)
        dear.costs.observe_draft("draft", 1, 1, 1.0)
    assert explain(dear).break_even is None
    assert explain(dear).draft_ms == pytest.approx(1.0)


def test_without_a_draft_model_nothing_is_said_of_one(controller: Knowledge) -> None:
    del controller.costs.drafting["draft"]
    found = explain(controller)
    assert (found.draft_ms, found.break_even) == (None, None)
    assert [kind.draft for kind in found.kinds] == [(), ()]
    assert [kind.best_draft for kind in found.kinds] == [PLAIN, PLAIN]


def test_rates_come_with_one_standard_error_and_only_where_something_was_seen() -> None:
    controller = Knowledge()
    controller.costs.observe_pass(512, 1, 10.0)
    for _ in range(30):
        controller.record(Method.DRAFT, "chat").observe(1, True)
        controller.record(Method.DRAFT, "chat").observe(2, True)
    controller.record(Method.NGRAM, "chat").observe(24, False)
    (chat,) = explain(controller).kinds
    assert [rate.evidence for rate in chat.places] == [1, 2]
    assert [rate.evidence for rate in chat.matches] == [24]
    record = controller.record(Method.DRAFT, "chat")
    for index, rate in enumerate(chat.places):
        assert 20.0 < rate.n <= 30.0
        assert rate.mean == record.mean(index) > 0.9
        error = math.sqrt(rate.mean * (1.0 - rate.mean) / (rate.n + 1.0))
        assert [rate.low, rate.high] == pytest.approx([rate.mean - error, min(1.0, rate.mean + error)])
    (match,) = chat.matches
    assert match.n == 1.0
    assert 0.0 <= match.low < match.mean < match.high <= 1.0


def test_known_rates_are_shown_for_every_bucket(controller: Knowledge) -> None:
    code = next(kind for kind in explain(controller).kinds if kind.name == "code")
    for found in (code.places, code.matches):
        assert len(found) == N_BUCKETS
        assert [rate.mean for rate in found] == pytest.approx([0.8] * N_BUCKETS, abs=1e-4)
        assert all(rate.n == MANY for rate in found)


def test_M01_measured_speeds_are_tokens_over_steps_and_time_the_most_used_first(controller: Knowledge) -> None:
    found = {kind.name: kind for kind in explain(controller).kinds}
    plain = Speed(Method.PLAIN, 0, 4, 1.0, 100.0)
    assert found["code"].measured == (Speed(Method.DRAFT, 3, 40, 2.95, 118 / 760.0 * 1e3), plain)
    assert found["chat"].measured == (replace(plain, steps=30),)


def test_kinds_are_listed_by_steps_and_the_record_of_all_kinds_is_not_one_of_them(controller: Knowledge) -> None:
    assert [kind.name for kind in explain(controller).kinds] == ["code", "chat"]
    controller.measured["chat", Method.NGRAM, 4] = Measured(steps=15, tokens=15, ms=1.0)
    assert [kind.name for kind in explain(controller).kinds] == ["chat", "code"]


def test_an_option_is_as_deep_as_a_source_may_guess(controller: Knowledge) -> None:
    rates(controller, Method.DRAFT, "code", lambda _: 1.0)
    code = next(kind for kind in explain(controller).kinds if kind.name == "code")
    assert len(code.draft) == MOST_GUESSES[Method.DRAFT]
    assert code.best_draft.depth == MOST_GUESSES[Method.DRAFT]
