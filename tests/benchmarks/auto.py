"""`auto` against plain decoding and against the best fixed method and depth of each prompt.

    python -m pardec_chat.tests.benchmarks.auto TARGET.gguf DRAFT.gguf [--rounds N] [--categories C,…] [--json FILE]

Greedy, over the benchmark's prompts, plain and auto in turn; each round goes over all prompts, so that what the first one
learns is known in the later ones. The best fixed choice is searched exhaustively (n-gram and draft model at every depth):
with the answer known, what each would have proposed and how much of it would have been accepted is known too, and its
passes are counted at the times that were measured for them in this run. So are auto's own steps, those of the last round.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.prompts import Prompt, load_prompts
from pardec_chat.app.chat.request import Delta, Event, Finished, ModelChoice, Request
from pardec_chat.app.cli.options import answer, names
from pardec_chat.backends import registry
from pardec_chat.backends.base import MAX_DEPTH, LoadOptions, Method, Target, Verdict
from pardec_chat.backends.decoding.costs import Costs
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.drafters.ngram import Ngram
from pardec_chat.tests.machines import SimulatedSlot

_GREEDY = SamplingParams(temperature=0.0)
_DEEPEST_DRAFT = 16


@dataclass(slots=True)
class Case:
    """One prompt: ids, tokens per second by method and round, auto's steps as (method, drafted)."""

    prompt: Prompt
    prompt_ids: list[int]
    answer_ids: list[int]
    speeds: dict[Method, list[float]]
    steps: list[tuple[Method, int]]

    def ratios(self) -> list[float]:
        """Auto over plain, round by round."""
        return [a / p for a, p in zip(self.speeds[Method.AUTO], self.speeds[Method.PLAIN], strict=True)]


def _round(engine: Engine, case: Case, max_tokens: int) -> None:
    """Plain, then auto."""
    for method in (Method.PLAIN, Method.AUTO):
        steps: list[tuple[Method, int]] = []

        def note(event: Event, to: list[tuple[Method, int]] = steps) -> None:
            if isinstance(event, Delta):
                to.append((event.step.source, len(event.step.proposed)))

        request = Request(case.prompt.messages, sampling=_GREEDY, max_tokens=max_tokens, method=method)
        finished: Finished = answer(engine, request, note)
        rate = finished.figures.tokens_per_second
        assert rate is not None
        case.speeds[method].append(rate)
        if method == Method.PLAIN:
            case.answer_ids = list(finished.token_ids)
        else:
            case.steps = steps


def _taught(draft: Target, case: Case) -> list[int]:
    """What the draft model would say at each place of the answer, given all that stands before it."""
    slot = draft.open()
    said: list[int] = []
    ids = case.prompt_ids + case.answer_ids
    try:
        slot.prefill(case.prompt_ids, lambda: False)
        sampler = Sampler(_GREEDY, case.prompt_ids)
        places = range(len(case.prompt_ids), len(ids))
        said.extend(draft.propose(slot, ids[:place], 1, sampler).tokens[0] for place in places)
    finally:
        slot.close()
    return said


def _draft_ms(costs: Costs, case: Case, said: Sequence[int], depth: int, n_context: int) -> float:
    """Time of the answer with the draft model at a fixed depth."""
    right = [a == b for a, b in zip(said, case.answer_ids, strict=True)]
    curve, total, at, n = costs.passes(n_context), 0.0, 0, len(right)
    while at < n:
        drafted = min(depth, n - at - 1)
        accepted = next((i for i in range(drafted) if not right[at + i]), drafted)
        total += curve.ms(1 + drafted) + (costs.draft_ms(Method.DRAFT.value, drafted) if drafted else 0.0)
        at += accepted + 1
    return total


def _ngram_ms(costs: Costs, case: Case, depth: int, n_context: int) -> float:
    """Time of the answer with repetition guesses at a fixed depth, by the drafter itself."""
    curve, total, at, n = costs.passes(n_context), 0.0, 0, len(case.answer_ids)
    slot = SimulatedSlot(1 << 30)
    slot.ids = list(case.prompt_ids)
    drafter = Ngram()
    drafter.begin(slot, Sampler(_GREEDY, slot.ids), lambda: False)
    while at < n:
        most = min(depth, n - at - 1)
        drafted = list(drafter.draft(most).tokens) if most else []
        accepted = next((i for i, t in enumerate(drafted) if t != case.answer_ids[at + i]), len(drafted))
        total += curve.ms(1 + len(drafted))
        tokens = case.answer_ids[at : at + accepted + 1]
        slot.ids += tokens
        drafter.accept(Verdict(tokens, range(accepted)))
        at += accepted + 1
    return total


def _auto_ms(costs: Costs, case: Case, n_context: int) -> float:
    curve = costs.passes(n_context)
    drafting = sum(costs.draft_ms(m.value, n) for m, n in case.steps if m == Method.DRAFT)
    return drafting + sum(curve.ms(1 + n) for _, n in case.steps)


def main() -> None:
    """Print a line for each prompt, and the means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--categories")
    parser.add_argument("--prompts", type=int)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    prompts = load_prompts(names(arguments.categories), arguments.prompts)
    engine = Engine()
    cases = []
    try:
        engine.load(ModelChoice(arguments.target, arguments.draft)).result()
        models = engine._models
        assert models is not None
        for prompt in prompts:
            ids = models.encode(Request(prompt.messages), lambda event: None)
            cases.append(Case(prompt, ids, [], {Method.PLAIN: [], Method.AUTO: []}, []))
        for number in range(1, arguments.rounds + 1):
            for case in cases:
                _round(engine, case, arguments.max_tokens)
                name = f"{case.prompt.category:12} {case.prompt.id:18} {len(case.answer_ids):4} tokens"
                print(f"round {number}  {name}  auto {case.ratios()[-1]:.3f}", flush=True)
            ratios = [case.ratios()[-1] for case in cases]
            print(f"round {number}: mean {mean(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}", flush=True)
        costs = Costs.load(models.controller.knowledge.costs.dump())
    finally:
        engine.close()
    draft = registry.load("llamacpp").load(LoadOptions(arguments.draft, draft=True))
    rows: list[dict[str, Any]] = []
    for case in cases:
        said = _taught(draft, case)
        n_context = len(case.prompt_ids) + len(case.answer_ids) // 2
        plain_ms = costs.passes(n_context).ms(1) * len(case.answer_ids)
        fixed = [(plain_ms, Method.PLAIN, 0)]
        fixed += [(_ngram_ms(costs, case, n, n_context), Method.NGRAM, n) for n in range(1, MAX_DEPTH + 1)]
        fixed += [(_draft_ms(costs, case, said, n, n_context), Method.DRAFT, n) for n in range(1, _DEEPEST_DRAFT + 1)]
        best_ms, method, depth = min(fixed, key=lambda row: row[0])
        auto_ms = _auto_ms(costs, case, n_context)
        rows.append(
            {
                "category": case.prompt.category,
                "prompt": case.prompt.id,
                "plain": [round(speed, 2) for speed in case.speeds[Method.PLAIN]],
                "auto": [round(speed, 2) for speed in case.speeds[Method.AUTO]],
                "measured": [round(ratio, 3) for ratio in case.ratios()],
                "best": f"{method.value} {depth}",
                "best_over_plain": round(plain_ms / best_ms, 3),
                "auto_over_plain": round(plain_ms / auto_ms, 3),
                "auto_over_best": round(best_ms / auto_ms, 3),
                "right": round(mean(a == b for a, b in zip(said, case.answer_ids, strict=True)), 3),
            }
        )
        print({key: value for key, value in rows[-1].items() if key not in ("plain", "auto")}, flush=True)
    draft.close()
    shares = [row["auto_over_best"] for row in rows]
    print(f"auto over the best fixed choice, at measured times: mean {mean(shares):.3f}, least {min(shares):.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows, "costs": costs.dump()}, indent=1))


if __name__ == "__main__":
    main()
