"""Speculation here against llama.cpp's own llama-server: greedy, prompt by prompt, in turns.

    python -m pardec_chat.tests.benchmarks.against_llama_server LLAMA_SERVER MODEL.gguf DRAFT.gguf [--prompts 2] [--tokens 96]

Build llama-server from the sdist of the installed llama-cpp-python with the flags of the Makefile. The server is measured with
each of its settings, plain decoding included, and for each prompt the best of them counts; of ours, one fixed depth for all
prompts of a category. Tokens per second are those of decoding alone, as either side counts them. What is not measured at a
time sleeps: the server waits on its socket, and the threads here do not spin for long.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.prompts import Prompt, load_prompts
from pardec_chat.app.chat.request import ModelChoice, Request
from pardec_chat.app.cli.options import answer, names
from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.machine import physical_cores

_SERVER_DEPTHS = (1, 2, 4, 8)
_START_SECONDS = 60


def _settings(draft: Path) -> dict[str, list[str]]:
    """Name → flags of the server."""
    found: dict[str, list[str]] = {"plain": []}
    for depth in _SERVER_DEPTHS:
        flags = ["--spec-type", "draft-simple", "--model-draft", str(draft), "--spec-draft-n-max", str(depth)]
        found[f"draft {depth}"] = flags
    found["draft 8, p-min 0.75"] = [*found["draft 8"], "--spec-draft-p-min", "0.75"]
    found["ngram"] = [
        "--spec-type",
        "ngram-simple",
        "--spec-ngram-simple-size-n",
        "3",
        "--spec-ngram-simple-size-m",
        "8",
    ]
    return found


@contextmanager
def _server(program: Path, model: Path, flags: list[str]) -> Iterator[str]:
    """Its address, once it answers; ended afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "-m", model, "-c", 2048, "-np", 1, "-t", physical_cores(), "--port", port, "--no-webui", *flags]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(program.parent)}
    process = subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"llama-server did not start with {' '.join(flags)}")
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _there(address: str, prompt: Prompt, tokens: int) -> float:
    body = {
        "messages": [{"role": message.role, "content": message.content} for message in prompt.messages],
        "temperature": 0.0,
        "max_tokens": tokens,
        "cache_prompt": False,
    }
    request = urllib.request.Request(  # a fixed address of this machine
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        return float(json.load(reply)["timings"]["predicted_per_second"])


def _here(engine: Engine, prompt: Prompt, tokens: int, depth: int) -> float:
    request = Request(
        messages=prompt.messages,
        sampling=SamplingParams(temperature=0.0),
        max_tokens=tokens,
        method=Method.DRAFT if depth else Method.PLAIN,
        depth=depth or None,
    )
    rate = answer(engine, request).figures.tokens_per_second
    assert rate is not None
    return rate


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--categories", default="code,chat")
    parser.add_argument("--prompts", type=int, default=2, help="of each category")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--depths", default="0,2,3,4,5,6,8", help="of ours; 0 is plain decoding")
    arguments = parser.parse_args()
    prompts = load_prompts(names(arguments.categories), arguments.prompts)
    depths = [int(word) for word in arguments.depths.split(",")]
    settings = _settings(arguments.draft)
    there: dict[str, list[float]] = {}
    here: dict[int, list[float]] = {}
    engine = Engine()
    try:
        loaded = engine.load(ModelChoice(arguments.model, arguments.draft)).result()
        print(f"kernels here: {loaded.kernels.described()}; load of the machine {os.getloadavg()[0]:.1f}")
        _here(engine, prompts[0], 8, depths[-1])
        waiting = list(depths)
        for name, flags in settings.items():
            with _server(arguments.server, arguments.model, flags) as address:
                _there(address, prompts[0], 8)
                mine = [waiting.pop(0)] if waiting else []
                there[name] = []
                for prompt in prompts:
                    there[name].append(_there(address, prompt, arguments.tokens))
                    for depth in mine:
                        here.setdefault(depth, []).append(_here(engine, prompt, arguments.tokens, depth))
            print(f"server, {name}: {_row(there[name])}" + "".join(f"; here, {d} deep: {_row(here[d])}" for d in mine))
        for depth in waiting:
            here[depth] = [_here(engine, prompt, arguments.tokens, depth) for prompt in prompts]
            print(f"here, {depth} deep: {_row(here[depth])}")
    finally:
        engine.close()
    for category in dict.fromkeys(prompt.category for prompt in prompts):
        of = [i for i, prompt in enumerate(prompts) if prompt.category == category]
        best = [max(rates[i] for rates in there.values()) for i in of]
        ratios = {d: geometric_mean(rates[i] / b for i, b in zip(of, best, strict=True)) for d, rates in here.items()}
        depth = max(ratios, key=lambda d: ratios[d])
        print(f"{category}: {ratios[depth]:.2f}x the server's best of each prompt, {depth} deep")


def _row(rates: list[float]) -> str:
    return " ".join(f"{rate:.1f}" for rate in rates)


if __name__ == "__main__":
    main()
