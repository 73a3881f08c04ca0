#!/usr/bin/env bash
# Shows on one machine that the mlx runtime is right and how fast it is: the contract suite first (on an Apple GPU where there is
# one), then plain decoding, a draft model and n-gram beside mlx-lm in one process. The table at the end is for a report.
#
#     packaging/macos/check.sh [TARGET DRAFT]
#
# Without models given: on Apple silicon the catalogued pair Qwen3 1.7B and 0.6B in Q8_0 (2.5 GB, fetched if they are not there),
# elsewhere the built-in SmolLM2, which guesses for itself, slowly. PYTHON: an interpreter to use as it is, with the extras [dev];
# without it an environment is made in .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ -z "${PYTHON:-}" ]; then
    [ -x .venv/bin/python ] || "$(command -v python3.11 || command -v python3)" -m venv .venv
    PYTHON=.venv/bin/python
    "$PYTHON" -c 'import mlx_lm, pytest, gguf, pardec_chat' 2>/dev/null ||
        "$PYTHON" -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
fi

if [ "$(uname -sm)" = "Darwin arm64" ]; then
    models=("${@:-qwen3-1.7b-q8_0}")
    [ $# -gt 0 ] || models+=(qwen3-0.6b-q8_0)
    size=(--tokens 128 --rounds 5)
    steps=(--steps 48)
else
    models=("${@:-smollm2-135m-instruct-q4_1}")
    size=(--tokens 40 --rounds 3)
    steps=(--steps 8)
fi
for model in "${models[@]}"; do
    [ -e "$model" ] || "$PYTHON" -m pardec_chat.app.cli.main models pull "$model" --quiet
done

echo "== contract suite"
"$PYTHON" -m pytest tests/runtimes -k mlx --numprocesses=2
echo "== against mlx-lm"
uname -srm
"$PYTHON" -m pardec_chat.tests.benchmarks.against_mlx_lm "${models[@]}" "${size[@]}"
echo "== what a step waits for"
"$PYTHON" -m pardec_chat.tests.benchmarks.mlx_steps "${models[@]}" "${steps[@]}"
