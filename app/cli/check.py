"""`pardec-chat check`: is the output really that of the large model alone, on this machine?"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pardec_chat.app.cli import options
from pardec_chat.app.cli.output import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.chat.prompts import Prompt
    from pardec_chat.app.chat.request import Finished
    from pardec_chat.backends.base import Method

#: Two logits this close may change places between a block and single steps, which use other kernels with other rounding.
#: The widest gap seen to flip with 4-bit weights was 0.13; a fault of the cache or of the acceptance shows far larger ones.
NEAR_TIE = 0.5


#: What the comparison of one answer can find. bit_identical: the probabilities behind every token are the same as well, to the
#: last bit, as own kernels compute them; identical: the tokens alone are.
Verdict = Literal["bit_identical", "identical", "near_tie", "different"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A position where a method's token is not plain decoding's. gap: plain's two best logits there, in logits."""

    position: int
    plain: str
    method: str
    gap: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One prompt with one method: every position of plain's answer compared."""

    category: str
    prompt: str
    method: str
    depth: int
    n_tokens: int
    n_drafted: int
    verdict: Verdict
    differences: tuple[Difference, ...]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The word and its flags."""
    words = "compare every method with plain decoding, token by token"
    parser = subparsers.add_parser(
        "check",
        help=words,
        description=f"{words.capitalize()}, greedy; on one prompt of each category unless some are named. A near tie is a "
        f"position where the model's two best tokens are within {NEAR_TIE:g} in logits, so that rounding decides. Bit-identical "
        "means that every probability is the same as well, to the last bit. Exits with 1 when anything else differs.",
    )
    options.add_measuring_options(parser, max_tokens=96)
    options.add_model_options(parser)
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Gives 1 when a method differs by more than a near tie; raises UserError."""
    from pardec_chat.app.chat.prompts import load_prompts
    from pardec_chat.backends.base import Method

    has_draft = arguments.draft not in (None, "none")
    methods = [m for m in options.methods(arguments.methods, has_draft=has_draft) if m != Method.PLAIN]
    categories = options.names(arguments.categories)
    per_category = 1 if categories is None and arguments.prompts is None else arguments.prompts
    prompts = load_prompts(categories, per_category)
    outcomes: list[Outcome] = []
    with options.opened(arguments) as (engine, _loaded, _choice):
        for prompt in prompts:
            plain = _greedy(engine, prompt, Method.PLAIN, arguments, ())
            outcomes.extend(_compare(engine, prompt, method, arguments, plain) for method in methods)
    if arguments.json:
        print_json({"tolerance": NEAR_TIE, "rows": [_row(outcome) for outcome in outcomes]})
    else:
        _print(outcomes)
    return 1 if any(outcome.verdict == "different" for outcome in outcomes) else 0


def _greedy(
    engine: Engine, prompt: Prompt, method: Method, arguments: argparse.Namespace, given: Sequence[int]
) -> Finished:
    from pardec_chat.app.chat.request import Request
    from pardec_chat.backends.decoding.params import SamplingParams

    return options.answer(
        engine,
        Request(
            messages=prompt.messages,
            sampling=SamplingParams(temperature=0.0, logprobs=2),
            max_tokens=arguments.max_tokens - len(given),
            method=method,
            depth=None if method == "auto" else options.depth(arguments.depth),
            ngram_min_match=arguments.ngram_min_match,
            draft_tree=arguments.tree,
            answer_ids=given,
        ),
    )


def _compare(engine: Engine, prompt: Prompt, method: Method, arguments: argparse.Namespace, plain: Finished) -> Outcome:
    """Behind a difference the method goes on from plain's own token, so that every position is compared."""
    wanted = list(plain.token_ids)
    differences: list[Difference] = []
    start = drafted = depth = 0
    same_bits = True
    while start < len(wanted):
        got = _greedy(engine, prompt, method, arguments, wanted[:start])
        drafted += got.figures.draft_n
        depth = got.figures.depth
        ids = list(got.token_ids)
        here = next((i for i, (a, b) in enumerate(zip(wanted[start:], ids, strict=False)) if a != b), None)
        compared = len(ids) if here is None else here
        same_bits = same_bits and all(
            ours.top == theirs.top
            for ours, theirs in zip(plain.logprobs[start:], got.logprobs[:compared], strict=False)
        )
        if here is None:
            break
        at = start + here
        (_, first), (_, second) = plain.logprobs[at].top[:2]
        differences.append(Difference(at, str(wanted[at]), str(ids[here]), first - second))
        start = at + 1
    worst = max((difference.gap for difference in differences), default=None)
    verdict: Verdict = "different"
    if worst is None:
        verdict = "bit_identical" if same_bits else "identical"
    elif worst <= NEAR_TIE:
        verdict = "near_tie"
    return Outcome(prompt.category, prompt.id, method.value, depth, len(wanted), drafted, verdict, tuple(differences))


def _row(outcome: Outcome) -> dict[str, Any]:
    return {
        "category": outcome.category,
        "prompt": outcome.prompt,
        "method": outcome.method,
        "depth": outcome.depth,
        "tokens": outcome.n_tokens,
        "draft_n": outcome.n_drafted,
        "verdict": outcome.verdict,
        "differences": [
            {"position": d.position, "plain": d.plain, "method": d.method, "gap": round(d.gap, 4)}
            for d in outcome.differences
        ],
    }


def _print(outcomes: list[Outcome]) -> None:
    rows = []
    for outcome in outcomes:
        note = ", ".join(f"token {d.position}: gap {d.gap:.3f}" for d in outcome.differences[:4])
        rows.append(
            [
                outcome.category,
                outcome.prompt,
                outcome.method,
                str(outcome.depth),
                str(outcome.n_tokens),
                str(outcome.n_drafted),
                outcome.verdict.replace("bit_identical", "bit-identical").replace("_", " "),
                note,
            ]
        )
    print_table(("category", "prompt", "method", "depth", "tokens", "drafted", "verdict", "where"), rows, left=3)
