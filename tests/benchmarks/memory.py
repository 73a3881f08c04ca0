"""The memory that is planned for a model against what a process really takes, each in a process of its own.

    python -m pardec_chat.tests.benchmarks.memory MODEL… [--draft FILE] [--ctx 2048,8192] [--cache-type f16|q8_0]

A row a model and context: what was planned (the program included), the resident size after an answer to a prompt of 600
tokens and more, with drafts of 32 to check, and the ratio. The last line is the largest error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run a child for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--ctx", default="2048,8192")
    parser.add_argument("--cache-type", default="f16")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.models[0], arguments.draft, int(arguments.ctx), arguments.cache_type)))
        return 0
    worst = 0.0
    for model in arguments.models:
        for n_ctx in arguments.ctx.split(","):
            command = [sys.executable, "-m", "pardec_chat.tests.benchmarks.memory", str(model), "--child"]
            command += ["--ctx", n_ctx, "--cache-type", arguments.cache_type]
            command += ["--draft", str(arguments.draft)] if arguments.draft else []
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            row = json.loads(done.stdout)
            ratio = row["planned"] / row["resident"]
            worst = max(worst, abs(ratio - 1))
            print(
                f"{model.stem:<40} {int(n_ctx):>6,}  planned {row['planned'] / 1e6:7.0f} MB  "
                f"resident {row['resident'] / 1e6:7.0f} MB  {ratio:.3f}",
                flush=True,
            )
    print(f"largest error {worst:.1%}")
    return 0


def measure(model: Path, draft: Path | None, n_ctx: int, cache_type: str) -> dict[str, int]:
    """Bytes planned and bytes resident, after an answer."""
    from pardec_chat.app.chat.engine import Engine
    from pardec_chat.app.chat.request import ModelChoice, Request
    from pardec_chat.app.cli.options import answer
    from pardec_chat.backends.base import Method
    from pardec_chat.backends.decoding.params import SamplingParams
    from pardec_chat.backends.machine import own_memory

    engine = Engine()
    try:
        loaded = engine.load(
            ModelChoice(model, draft, n_ctx, cache_type="q8_0" if cache_type == "q8_0" else "f16")
        ).result()
        assert loaded.plan is not None
        prompt = "la la la la la la la la la la " * 60
        for method in (Method.NGRAM, *((Method.DRAFT,) if draft else ())):
            request = Request(
                prompt=prompt,
                sampling=SamplingParams(temperature=0.0),
                max_tokens=48,
                method=method,
                depth=32 if method == Method.NGRAM else 4,
            )
            answer(engine, request)
        return {"planned": loaded.plan.need(), "resident": own_memory()}
    finally:
        engine.close()


if __name__ == "__main__":
    sys.exit(main())
