"""Own kernels against llama.cpp's, alternating in one process: passes of n rows, prefill, exactness, and how far logits differ.

    python -m pardec_chat.tests.benchmarks.kernels MODEL [--contexts 128,3000] [--rows 1,4,8,16] [--exact] [--logits]

Times are medians in milliseconds; a quiet machine is assumed, and its load is printed with the result.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pardec_chat.app import locations
from pardec_chat.app.downloads.library import Library
from pardec_chat.backends.base import KernelChoice, LoadOptions
from pardec_chat.backends.llamacpp.target import LlamaCppTarget

Rows = NDArray[np.float32]
KINDS: tuple[KernelChoice, ...] = ("auto", "stock")


class Passes:
    """Forward passes of one conversation, timed."""

    def __init__(self, path: Path, kernels: KernelChoice, n_ctx: int) -> None:
        self.target = LlamaCppTarget(LoadOptions(path, n_ctx=n_ctx, kernels=kernels))
        self._context = self.target.context

    def read(self, ids: list[int]) -> float:
        """Make `ids` the conversation; gives seconds."""
        self._context.remove(0, 0)
        start = time.perf_counter()
        for at in range(0, len(ids), 128):
            self._pass(ids[at : at + 128], at, wanted=False)
        return time.perf_counter() - start

    def rows(self, ids: list[int], start: int) -> tuple[float, Rows]:
        """Milliseconds and logits of `ids` behind `start` tokens."""
        self._context.remove(0, start)
        begun = time.perf_counter()
        self._pass(ids, start, wanted=True)
        took = (time.perf_counter() - begun) * 1e3
        return took, self._context.rows()[: len(ids)].copy()

    def _pass(self, ids: list[int], start: int, *, wanted: bool) -> None:
        self._context.batch.clear()
        self._context.batch.extend(ids, start, 0, wanted=wanted)
        self._context.decode()


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--contexts", default="128")
    parser.add_argument("--rows", default="1,2,4,8,16,32")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--exact", action="store_true", help="blocks of 1…32 rows against single steps, to the bit")
    parser.add_argument("--logits", action="store_true", help="300 positions of text against stock kernels")
    parser.add_argument("--load", choices=KINDS, help="load only: seconds and peak memory, in a process of its own")
    arguments = parser.parse_args()
    path = Library().resolve(arguments.model)
    if arguments.load:
        _load(path, arguments.load)
        return
    contexts = [int(n) for n in arguments.contexts.split(",")]
    for kind in KINDS:
        subprocess.run([sys.executable, "-m", __spec__.name, str(path), "--load", kind], check=True)
    both = {kind: Passes(path, kind, max(contexts) + 640) for kind in KINDS}
    own = both["auto"].target.kernels
    print(
        f"{path.stem}: own kernels {own.variant or 'not used: ' + own.reason}; load of the machine {os.getloadavg()[0]:.1f}"
    )
    text = (locations.ROOT / "README.md").read_text() + (locations.ROOT / "CHANGELOG.md").read_text()
    ids = both["auto"].target.vocabulary.encode(text * 4, add_special=True, parse_special=False)
    _prefill(both, ids[:512])
    for n_ctx in contexts:
        _speed(both, ids, n_ctx, [int(n) for n in arguments.rows.split(",")], arguments.repeat)
        if arguments.exact:
            _exact(both["auto"], ids, n_ctx)
    if arguments.logits:
        _logits(both, ids[:300])
    for one in both.values():
        one.target.close()


def _load(path: Path, kind: KernelChoice) -> None:
    start = time.perf_counter()
    target = LlamaCppTarget(LoadOptions(path, kernels=kind))
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"load {kind}: {took:.2f} s, peak memory {peak / 1e9:.2f} GB, file {path.stat().st_size / 1e9:.2f} GB")
    target.close()


def _prefill(both: dict[KernelChoice, Passes], ids: list[int]) -> None:
    times: dict[KernelChoice, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(3):
        for kind, one in both.items():
            times[kind].append(one.read(ids))
    own, stock = (len(ids) / statistics.median(times[kind]) for kind in KINDS)
    print(f"prefill of {len(ids)} tokens: {own:.0f} against {stock:.0f} tokens/s, {own / stock:.2f}x")


def _speed(both: dict[KernelChoice, Passes], ids: list[int], n_ctx: int, rows: list[int], repeat: int) -> None:
    for one in both.values():
        one.read(ids[:n_ctx])
    for n in rows:
        times: dict[KernelChoice, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(repeat):
            for kind, one in both.items():
                times[kind].append(one.rows(ids[n_ctx : n_ctx + n], n_ctx)[0])
        own, stock = (statistics.median(times[kind]) for kind in KINDS)
        print(f"context {n_ctx:5}, {n:2} rows: {own:7.1f} against {stock:7.1f} ms, {own / stock:.2f}x")


def _exact(own: Passes, ids: list[int], n_ctx: int) -> None:
    own.read(ids[:n_ctx])
    single = np.concatenate([own.rows([ids[n_ctx + i]], n_ctx + i)[1] for i in range(32)])
    wrong = [n for n in range(1, 33) if own.rows(ids[n_ctx : n_ctx + n], n_ctx)[1].tobytes() != single[:n].tobytes()]
    print(f"context {n_ctx:5}, blocks of 1…32 rows: {f'differ: {wrong}' if wrong else 'bit-identical to single steps'}")


def _logits(both: dict[KernelChoice, Passes], ids: list[int]) -> None:
    rows: dict[KernelChoice, Any] = {}
    for kind, one in both.items():
        one.read([])
        rows[kind] = np.concatenate([one.rows(ids[at : at + 30], at)[1] for at in range(0, len(ids), 30)])
    p, q = (_log_softmax(rows[kind]) for kind in ("stock", "auto"))
    same = (rows["auto"].argmax(axis=1) == rows["stock"].argmax(axis=1)).mean()
    kl = (np.exp(p) * (p - q)).sum(axis=1).mean()
    print(f"{len(ids)} positions against stock kernels: same best token {same:.1%}, mean KL divergence {kl:.5f}")


def _log_softmax(rows: Rows) -> NDArray[np.float64]:
    x = rows.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return result


if __name__ == "__main__":
    main()
