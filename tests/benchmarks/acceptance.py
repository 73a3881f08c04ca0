"""Greedy acceptance rates of a pair on four prompts.

    python -m pardec_chat.tests.benchmarks.acceptance TARGET DRAFT [DEPTH]

TARGET and DRAFT are ids or paths, as for `pardec-chat ask`, which is what runs.
"""

from __future__ import annotations

import json
import subprocess
import sys

_PROMPTS = (
    "Write a Python function that merges two sorted lists.",
    "Write a Python class for an LRU cache with get and put.",
    "Explain what a binary search tree is.",
    "Write a SQL query that finds the top 5 customers by total order value.",
)


def main() -> None:
    """Print one line for each prompt."""
    target, draft = sys.argv[1:3]
    depth = sys.argv[3] if len(sys.argv) > 3 else "3"
    pair = ["--model", target, "--draft", draft, "--method", "draft", "--depth", depth]
    common = ["--max-tokens", "96", "--system", "You are a helpful assistant.", "--temperature", "0", "--json"]
    for prompt in _PROMPTS:
        command = [sys.executable, "-m", "pardec_chat.app.cli.main", "ask", prompt, *pair, *common]
        timings = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["timings"]
        print(
            f"accepted {timings['acceptance_rate']:.2f} ({timings['draft_n_accepted']} of {timings['draft_n']}), "
            f"{timings['tokens_per_step']:.2f} tokens a step  {prompt}"
        )


if __name__ == "__main__":
    main()
