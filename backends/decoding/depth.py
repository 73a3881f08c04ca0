"""How many tokens to guess in the next forward pass, and who guesses them: zero is always among the choices.

All that is compared is committed tokens over time: for a draft of n guesses, each right with the chance a_i given those
before it, E = 1 + a_1 + a_1 a_2 + …, over what drafting them and a pass of n + 1 rows take here (Leviathan et al. 2023,
theorem 3.8, with measured costs in place of the assumption that checking is free). Choices look at what was committed
before and at a draft model's confidence in its best token, never at the value of a token that was drawn.

What is not known well is tried when trying can change the choice. Trying has a budget, counted in single steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pardec_chat.backends.base import MAX_DEPTH, Draft, Drafter, GoOn, Method, Verdict
from pardec_chat.backends.decoding.costs import Curve
from pardec_chat.backends.decoding.estimates import Record, bucket
from pardec_chat.backends.decoding.knowledge import ENOUGH_DRAFTS, MOST_GUESSES, Knowledge
from pardec_chat.backends.decoding.options import PLAIN, Arm, Choice, Plan

if TYPE_CHECKING:
    from pardec_chat.backends.decoding.loop import Generation

#: Drafting has to promise this much more than plain decoding: a gain that nobody notices is not worth its noise.
_MARGIN = 1.01
#: How much more for each single step's time that guessing has lost lately in this answer, the gain that is set against
#: losses, and what is left of both from pass to pass.
_WARINESS, _MOST_CREDIT, _FORGIVING = 0.05, 1.5, 0.97
#: What is only possible has to promise more than what is known before it is tried.
_PROMISE = 1.03
#: Budget for trying, in single steps: of a new pair, of one known from before, and the most that is saved up.
_FIRST_BUDGET, _KNOWN_BUDGET, _MOST_SAVED = 1.5, 0.3, 1.0
#: The share of all time that goes into it, at most and at least, and what is left of it after a try that found nothing.
_MOST_SHARE, _LEAST_SHARE, _LESS = 0.012, 0.002, 0.93
#: What a try may take more than what is done without it, in single steps: all of its guesses may be wrong.
_MOST_RISK = 1.5
#: What a try gives back when all of its guesses were right, and what none is cheaper than.
_AGAIN, _LEAST_PRICE = 0.6, 0.02
#: Passes between two looks at what could be tried.
_LOOK_EVERY = 2
#: Passes after which what is not in use is believed less, and the observations that it still counts for at least.
_FADE_EVERY, _FADE, _LEAST_SEEN = 32, 0.7, 6.0
#: Standard errors that hope for better grows by: one more in so many passes without a look, up to a most.
_PATIENCE, _MOST_HOPE = 16, 12.0
#: Observations of an answer's own that its kind stands for.
_STANDS_FOR = 16.0
#: How fast the pace of an answer follows its steps.
_PACE = 0.05
#: What a guess of a model is supposed to take while that is not known, in single steps.
_SUPPOSED = 0.5
#: A source that turned out slower than plain decoding by so many single steps rests for some passes, longer each time.
_LOST, _REST, _LONGEST_REST = -2.0, 48, 1024


@dataclass(slots=True)
class _Source:
    """The course of one source.

    gain: worth of its tokens minus its time, in single steps, the past counting less; over `passes`. idle: passes since it
    was chosen, unseen: since it was used at all. resting: passes for which it is left out, `rest` when it happens next.
    """

    gain: float = 0.0
    passes: int = 0
    idle: int = 0
    unseen: int = 0
    resting: int = 0
    rest: int = _REST


@dataclass(frozen=True, slots=True)
class _Try:
    """What was thought to be its price, in single steps, and the best tokens a single step known then."""

    price: float
    ratio: float


class Controller:
    """Plans the passes of one loaded target and learns from them. Used on the thread that decodes."""

    def __init__(self, knowledge: Knowledge | None = None) -> None:
        self.knowledge = knowledge or Knowledge(_MOST_SHARE)
        self._budget = _FIRST_BUDGET if knowledge is None else _KNOWN_BUDGET
        self._sources: dict[Method, _Source] = {}
        self._passes = 0
        #: The try that the pass between `plan` and `learn` makes, and the last one until its effect was seen.
        self._try: _Try | None = None
        self._tried: _Try | None = None
        self._was_guessing = False

    # ---- before a pass ----

    def plan(self, live: Sequence[Generation]) -> list[Plan]:
        """A plan for each answer. Those with a depth of their own keep it; the others share the pass with them."""
        self._try = None
        plans = [_fixed(generation) for generation in live]
        free = [i for i, generation in enumerate(live) if generation.depth is None]
        curve = self.knowledge.costs.passes(max(len(generation.slot.tokens) for generation in live))
        if not free or not curve.sizes:
            return plans
        base = len(live) + sum(plan.depth for plan in plans)
        rows = curve.relative(base + MAX_DEPTH + 1)
        # Twice what was measured is as far as a guess about the time of a pass goes.
        farthest = 2 * curve.sizes[-1] - base + 1
        arms = [arm for i in free for arm in self._arms(i, live[i], curve.ms(1), farthest)]
        plain = len(live) / rows[base]
        pace = max(1.0, sum(live[i].pace for i in free) / len(free)) * len(live) / rows[base]
        best, chosen = self._exploit(arms, rows, base, len(live), pace)
        ratio = max(best, plain)
        lost = -sum(live[i].credit for i in free) / len(free)
        taken = chosen if best > plain * (_MARGIN + _WARINESS * max(0.0, lost)) else []
        self._settle(ratio, is_guessing=bool(taken))
        found = self._look(arms, curve, rows, base, len(live), ratio, taken)
        if found is not None:
            taken = [found]
        for i in free:
            if live[i].room > 1 or live[i].choice is None:  # with the last token nothing is left to choose
                live[i].choice = Choice(PLAIN)
        for arm, n in chosen:
            live[arm.index].choice = Choice(PLAIN, arm.option(n, rows, base))
        for arm, n in taken:
            go_on, depth = None, n
            if arm.drafter.method == Method.DRAFT and found is None:
                depth = min(len(arm.evidence), max(n + 2, n * 2))
                go_on = self._go_on(arm, rows, base, depth, ratio)
            plans[arm.index] = Plan(arm.drafter, depth, go_on)
            live[arm.index].choice = Choice(arm.option(n, rows, base), is_try=found is not None)
        return plans

    def _arms(self, index: int, generation: Generation, unit: float, farthest: int) -> list[Arm]:
        arms = []
        costs = self.knowledge.costs
        for drafter in generation.drafters:
            method = drafter.method
            most = min(generation.room - 1, MOST_GUESSES[method], farthest)
            if most < 1 or self._source(method).resting:
                continue
            evidence = drafter.evidence(most)
            if not evidence:
                continue
            name = method.value
            late = costs.late_ms(name, drafter.behind)
            drafting = [0.0, *((late + costs.draft_ms(name, n)) / unit for n in range(1, len(evidence) + 1))]
            # What watches the text unasked has no model to run.
            measured = name in costs.drafting and costs.drafting[name].total >= ENOUGH_DRAFTS
            is_known = measured or drafter.shows_unasked
            if not is_known:
                for n in range(1, len(drafting)):
                    supposed = _SUPPOSED * n + late / unit
                    drafting[n] = min(drafting[n], supposed) if name in costs.drafting else supposed
            arms.append(Arm(index, drafter, self._record(generation, method), evidence, drafting, is_known))
        return arms

    def _exploit(
        self, arms: Sequence[Arm], rows: Sequence[float], base: int, n_live: int, pace: float
    ) -> tuple[float, list[tuple[Arm, int]]]:
        """Most tokens a single step's time that guessing gives, and the guesses.

        A ratio of 0 stands for guesses that are not worth it, and (0, []) for nothing to guess.
        pace: tokens a single step's time lately. Tokens that one source guesses are lost to another that would guess them
        faster a little later, so what counts between sources is what they win at that pace.
        """
        # One source an answer: the one that alone would do most for the pass.
        by_answer: dict[int, tuple[float, int, Arm, list[float]]] = {}
        wins: dict[int, float] = {}
        for arm in arms:
            if not arm.is_known:
                continue  # what a model's guesses cost is found out by trying
            tokens, costs = arm.tokens(), arm.costs
            value, n = max(((n_live + tokens[n]) / (rows[base + n] + costs[n]), n) for n in range(1, len(tokens)))
            # Against what plain decoding wins (or loses) at that pace.
            win = tokens[n] - pace * (rows[base + n] + costs[n] - rows[base])
            if win > wins.get(arm.index, -math.inf):
                wins[arm.index] = win
                by_answer[arm.index] = (value, n, arm, tokens)
        if not by_answer:
            return 0.0, []
        if len(by_answer) == 1:
            ((value, n, arm, _),) = by_answer.values()
            return (value if len(arms) == 1 or wins[arm.index] > 0.0 else 0.0), [(arm, n)]
        by_answer = {index: choice for index, choice in by_answer.items() if wins[index] > 0.0}
        # Several answers share the rows of a pass: the most promising guesses of all of them first.
        guesses = sorted(
            (
                (tokens[n] - tokens[n - 1], -n, index)
                for index, (_, _, _, tokens) in by_answer.items()
                for n in range(1, len(tokens))
            ),
            reverse=True,
        )
        total, cost = float(n_live), 0.0
        best, best_count = 0.0, 0
        for count, (gain, minus_n, index) in enumerate(guesses[: len(rows) - base - 1], 1):
            costs = by_answer[index][2].costs
            total += gain
            cost += costs[-minus_n] - costs[-minus_n - 1]
            ratio = total / (rows[base + count] + cost)
            if ratio > best:
                best, best_count = ratio, count
        depths: dict[int, int] = {}
        for _, _, index in guesses[:best_count]:
            depths[index] = depths.get(index, 0) + 1
        return best, [(by_answer[index][2], n) for index, n in depths.items()]

    def _go_on(self, arm: Arm, rows: Sequence[float], base: int, depth: int, ratio: float) -> GoOn:
        """Whether another guess is worth its time, given the confidence in those so far."""
        ahead = [arm.record.mean(bucket(evidence)) for evidence in arm.evidence]
        reach = 1.0

        def go_on(n: int, confidence: float) -> bool:
            nonlocal reach
            reach *= self.knowledge.trust(arm.drafter.method, confidence)
            gain, survives = 0.0, reach
            for k in range(n, depth):
                survives *= ahead[k]
                gain += survives
                if gain > ratio * (rows[base + k + 1] - rows[base + n] + arm.costs[k + 1] - arm.costs[n]):
                    return True
            return False

        return go_on

    # ---- trying ----

    def _settle(self, ratio: float, *, is_guessing: bool) -> None:
        """Trying that finds nothing gets a smaller share of the time."""
        if self._tried is not None:
            paid = ratio > self._tried.ratio * _MARGIN
            share = _MOST_SHARE if paid else max(_LEAST_SHARE, self.knowledge.share * _LESS)
            self.knowledge.share, self._tried = share, None
        if self._was_guessing and not is_guessing:
            # What has just turned out not to pay is not tried again at once.
            self._budget = min(self._budget, 0.0)
        self._was_guessing = is_guessing

    def _look(
        self,
        arms: Sequence[Arm],
        curve: Curve,
        rows: Sequence[float],
        base: int,
        n_live: int,
        ratio: float,
        taken: Sequence[tuple[Arm, int]],
    ) -> tuple[Arm, int] | None:
        """A try that could change the choice and that the budget pays for."""
        if self._budget < _LEAST_PRICE or self._passes % _LOOK_EVERY:
            return None
        unit = curve.ms(1)
        best: tuple[float, float, Arm, int] | None = None
        for arm in arms:
            unseen = self._source(arm.drafter.method).unseen
            means = arm.tokens()
            free = arm.drafter.shows_unasked
            hopes = means if free else arm.tokens(min(_MOST_HOPE, 1.0 + unseen / _PATIENCE))
            # Guesses up to the depth in use are checked anyway.
            in_use = max((n for other, n in taken if other is arm), default=0)
            at_risk = rows[base + in_use] + arm.costs[in_use]
            value, cheapest, price_of_cheapest = math.inf, 0, math.inf
            for n in range(in_use + 1, len(hopes)):
                cost = rows[base + n] + arm.costs[n]
                if cost > at_risk + _MOST_RISK:
                    break
                price = max(_LEAST_PRICE, cost - (n_live + means[n]) / ratio)
                if price / (1.0 + means[n - 1]) < value:
                    value, cheapest, price_of_cheapest = price / (1.0 + means[n - 1]), n, price
                least = curve.least(base + n) / unit + (arm.costs[n] if arm.is_known else 0.0)
                hope = (n_live + hopes[n]) / least
                if hope <= ratio * _PROMISE or (best is not None and hope <= best[0]):
                    continue
                # The time of a pass is learned only from a pass like it; rates from any draft, cheapest from a short one.
                if arm.is_known and curve.count(base + n) < 2 and price <= self._budget:
                    tried = n
                elif free:
                    continue
                else:
                    tried, price = cheapest, price_of_cheapest
                if price <= self._budget:
                    best = (hope, price, arm, tried)
        if best is None:
            return None
        _, price, arm, n = best
        self._budget -= price
        self._try = _Try(price, ratio)
        return arm, n

    # ---- after a pass ----

    def learn(
        self,
        live: Sequence[Generation],
        drafts: Sequence[Draft],
        behind: Sequence[int],
        draft_ms: Sequence[float],
        verify_ms: float,
        verdicts: Sequence[Verdict],
    ) -> None:
        """One pass is over, and all drafters have seen their verdict. behind: what each drafter had to read first."""
        knowledge = self.knowledge
        n_rows = len(live) + sum(draft.n_rows for draft in drafts)
        n_context = max(len(generation.slot.tokens) for generation in live)
        knowledge.costs.observe_pass(n_context, n_rows, verify_ms)
        used = set()
        for draft, late, ms in zip(drafts, behind, draft_ms, strict=True):
            if len(draft):
                used.add(draft.source)
                knowledge.costs.observe_draft(draft.source.value, len(draft), late, ms)
        for generation in live:
            for drafter in generation.drafters:
                knowledge.note(drafter.method, self._record(generation, drafter.method), drafter.outcomes())
        if len(live) == 1:
            n_tokens = len(verdicts[0].tokens)
            knowledge.count(live[0].kind, drafts[0].source, len(drafts[0]), n_tokens, verify_ms + draft_ms[0])
        curve = knowledge.costs.passes(n_context)
        cost = (verify_ms + sum(draft_ms)) / curve.ms(1)
        n_tokens = sum(len(verdict.tokens) for verdict in verdicts)
        self._passes += 1
        if self._try is not None:
            # The budget pays what the try really took.
            self._budget += self._try.price - max(_LEAST_PRICE, cost - n_tokens / self._try.ratio)
            if len(live) == 1 and 0 < len(drafts[0]) == verdicts[0].n_accepted:
                # Better than could be told: look again soon.
                self._budget, knowledge.share = max(self._budget, _AGAIN), _MOST_SHARE
        self._budget = max(self._budget, min(_MOST_SAVED, self._budget + knowledge.share * cost))
        # A token is worth what a plain pass of the same answers takes for one.
        worth = n_tokens * curve.relative(len(live))[len(live)] / len(live) - cost
        gained = worth / len(live) if used and self._try is None else 0.0
        for generation, verdict in zip(live, verdicts, strict=True):
            # One answer's tokens over what a plain pass takes for one.
            speed = len(verdict.tokens) / (cost / curve.relative(len(live))[len(live)])
            generation.pace += _PACE * (speed - generation.pace)
            generation.credit = min(_MOST_CREDIT, generation.credit * _FORGIVING + gained)
        self._judge(live, used, worth)
        if self._try is not None:
            self._try, self._tried = None, self._try

    def _judge(self, live: Sequence[Generation], used: set[Method], worth: float) -> None:
        """A source that is measured slower than plain decoding rests, whatever was expected of it."""
        present = [drafter for generation in live for drafter in generation.drafters]
        unasked = {drafter.method for drafter in present if drafter.shows_unasked}
        for method in {drafter.method for drafter in present}:
            source = self._source(method)
            source.resting = max(0, source.resting - 1)
            source.unseen = 0 if method in used else source.unseen + 1
            if method in used and self._try is None:
                source.gain = source.gain * 0.95 + worth
                source.passes += 1
                source.idle = 0
                # Repetition pays by the match, not by the source: its rates say so with every token.
                if source.gain < _LOST and source.passes >= 6 and method not in unasked:
                    source.resting, source.rest = source.rest, min(_LONGEST_REST, 2 * source.rest)
                    source.gain, source.passes = 0.0, 0
                elif source.gain > -_LOST:
                    source.rest = _REST
                continue
            source.idle += 1
            if source.idle % _FADE_EVERY == 0 and method not in unasked:
                records = [record for (of, _), record in self.knowledge.records.items() if of == method]
                records += [generation.records[method] for generation in live if method in generation.records]
                for record in records:
                    record.fade(_FADE, _LEAST_SEEN)

    def _record(self, generation: Generation, method: Method) -> Record:
        """The rates in this answer, which those of its kind stand in for at first."""
        record = generation.records.get(method)
        if record is None:
            general = self.knowledge.record(method, generation.kind)
            record = generation.records[method] = Record(None, general, _STANDS_FOR)
        return record

    def _source(self, method: Method) -> _Source:
        return self._sources.setdefault(method, _Source())

    # ---- for an answer that begins ----

    def read(self, drafter: Drafter, n: int, ms: float) -> None:
        """`drafter` read `n` ids of a prompt in `ms`."""
        if n > 0:
            self.knowledge.costs.observe_reading(drafter.method.value, n, ms)

    def expects(self, drafter: Drafter, kind: str) -> bool:
        """Whether `drafter` should read the prompt at once, since it is likely to guess, or since nothing is known yet."""
        drafting = self.knowledge.costs.drafting.get(drafter.method.value)
        passes = self.knowledge.costs.passes(1)
        if drafting is None or not passes.sizes:
            return True
        most = MOST_GUESSES[drafter.method]
        rows, unit = passes.relative(most + 1), passes.ms(1)
        record = self.knowledge.record(drafter.method, kind)
        tokens = reach = 1.0
        for n in range(1, most + 1):
            reach *= record.at_best(bucket(n))
            tokens += reach
            if tokens > rows[n + 1] + drafting.ms(n) / unit:
                return True
        return False


def _fixed(generation: Generation) -> Plan:
    """What an answer with a depth of its own does."""
    if generation.depth is None or not generation.drafters:
        return Plan()
    # A full acceptance emits one token more than was drafted.
    depth = min(generation.depth, generation.room - 1)
    return Plan(generation.drafters[0], depth) if depth > 0 else Plan()
