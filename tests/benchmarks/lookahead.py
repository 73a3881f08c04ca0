"""Tokens per step of Lookahead on a category of prompts, greedy, and how much of it comes from where.

    python -m pardec_chat.tests.benchmarks.lookahead TARGET.gguf [RUNTIME [CATEGORY [TOKENS]]]

Each prompt is answered with the paper's window and pool, with copies of the text in the pool and without, and with copies
alone (a window of one column). The texts are compared with plain decoding's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean

from pardec_chat.app.chat.prompts import load_prompts
from pardec_chat.app.chat.template import Template, TemplateWorker
from pardec_chat.backends import registry
from pardec_chat.backends.base import Drafter, LoadOptions
from pardec_chat.backends.drafters.lookahead import Lookahead, branches
from pardec_chat.tests.decode import generate


def main() -> None:
    """Print one line a prompt and way."""
    path = Path(sys.argv[1])
    runtime, category, n = [*sys.argv[2:], *("llamacpp", "code", "96")[len(sys.argv) - 2 :]]
    target = registry.load(runtime).load(LoadOptions(path, n_ctx=1024, branches=branches()))
    worker = TemplateWorker()
    template = Template(target.chat_template, target.vocabulary, worker)
    ways: dict[str, Drafter | None] = {}
    rates: dict[str, list[float]] = {}
    for prompt in load_prompts([category], None):
        text = template.render(prompt.messages).text
        ids = target.vocabulary.encode(text, add_special=target.vocabulary.begins_with_bos, parse_special=True)
        ways = {
            "plain": None,
            "W15 N5 G15": Lookahead(),
            "W15 N5 G15 no copies": Lookahead(copies=False),
            "copies alone": Lookahead(window=1),
        }
        wanted: list[int] = []
        for name, drafter in ways.items():
            answer = generate(target, ids, drafter=drafter, max_tokens=int(n))
            wanted = wanted or answer.ids
            stats = answer.generation.stats
            rates.setdefault(name, []).append(stats.tokens_per_step or 0.0)
            same = "same text" if answer.ids == wanted else "other text (a near tie)"
            print(
                f"{prompt.id:14} {name:22} {stats.tokens_per_step:.2f} tokens a step, "
                f"{stats.predicted_ms / stats.steps:6.0f} ms a step, {same}"
            )
    for name, values in rates.items():
        print(f"{name:22} {mean(values):.2f} on average")
    worker.close()
    target.close()


if __name__ == "__main__":
    main()
