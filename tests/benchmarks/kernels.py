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

import numpy as np
from numpy.typing import NDArray

from pardec_chat.app import locations
from pardec_chat.app.downloads.library import Library
from pardec_chat.backends.base import KernelChoice, LoadOptions
from pardec_chat.backends.llamacpp.target import LlamaCppTarget

Rows = NDArray[np.float32]
KINDS: tuple[KernelChoice, ...] = ("auto", "stock")
_LOADS = 5
#: Prose, tables, Python and C++, so many tokens of each.
_TEXTS = ("README.md", "backends/llamacpp/target.py", "tests/machines.py", "assets/prompts/edit.toml", "setup.py")
_POSITIONS, _BLOCK = 120, 30


class Passes:
    """Forward passes of one conversation, timed."""

    def __init__(self, path: Path, kernels: KernelChoice, n_ctx: int, slots: int = 1) -> None:
        self.target = LlamaCppTarget(LoadOptions(path, n_ctx=n_ctx, slots=slots, kernels=kernels))
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

    def share(self, ids: list[int], n_ctx: int, slots: int) -> None:
        """Make the same `n_ctx` tokens so many conversations."""
        for slot in range(slots):
            self._context.remove(slot, 0)
        for slot in range(slots):
            for at in range(0, n_ctx, 128):
                self._context.batch.clear()
                self._context.batch.extend(ids[at : min(at + 128, n_ctx)], at, slot, wanted=False)
                self._context.decode()

    def together(self, blocks: dict[int, list[int]], start: int) -> tuple[float, Rows]:
        """Milliseconds and logits of a block in each of these slots, behind `start` tokens, in one pass."""
        for slot in blocks:
            self._context.remove(slot, start)
        self._context.batch.clear()
        for slot, ids in blocks.items():
            self._context.batch.extend(ids, start, slot, wanted=True)
        begun = time.perf_counter()
        self._context.decode()
        took = (time.perf_counter() - begun) * 1e3
        return took, self._context.rows()[: sum(map(len, blocks.values()))].copy()

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
    parser.add_argument("--logits", action="store_true", help="600 positions of five texts against stock kernels")
    parser.add_argument("--slots", type=int, help="so many conversations in one pass, at each context")
    parser.add_argument("--load", choices=KINDS, help="load only: seconds and peak memory, in a process of its own")
    arguments = parser.parse_args()
    path = Library().resolve(arguments.model)
    if arguments.load:
        _load(path, arguments.load)
        return
    contexts = [int(n) for n in arguments.contexts.split(",")]
    _loads(path)
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
    if arguments.slots:
        for one in both.values():
            one.target.close()
        both = {kind: Passes(path, kind, max(contexts) + 128, arguments.slots) for kind in KINDS}
        for n_ctx in contexts:
            _slots(both, ids, n_ctx, arguments.slots, 2 * arguments.repeat)
            if arguments.exact:
                _exact_slots(both["auto"], ids, n_ctx, arguments.slots)
    if arguments.logits:
        _logits(both)
    for one in both.values():
        one.target.close()


def _loads(path: Path) -> None:
    """Each in a process of its own, in turn; up to the moment when a prompt can be read."""
    found: dict[KernelChoice, list[list[float]]] = {kind: [] for kind in KINDS}
    for _ in range(_LOADS):
        for kind in KINDS:
            command = [sys.executable, "-m", __spec__.name, str(path), "--load", kind]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[kind].append([float(word) for word in done.stdout.split()])
    seconds = {kind: statistics.median(took for took, _ in found[kind]) for kind in KINDS}
    peaks = {kind: max(peak for _, peak in found[kind]) / 1e9 for kind in KINDS}
    print(
        f"load: {seconds['auto']:.2f} against {seconds['stock']:.2f} s, {seconds['auto'] / seconds['stock']:.2f}x; peak memory "
        f"{peaks['auto']:.2f} against {peaks['stock']:.2f} GB, file {path.stat().st_size / 1e9:.2f} GB"
    )


def _load(path: Path, kind: KernelChoice) -> None:
    start = time.perf_counter()
    target = LlamaCppTarget(LoadOptions(path, kernels=kind))
    took = time.perf_counter() - start
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
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


def _slots(both: dict[KernelChoice, Passes], ids: list[int], n_ctx: int, slots: int, repeat: int) -> None:
    times: dict[KernelChoice, list[float]] = {kind: [] for kind in KINDS}
    for one in both.values():
        one.share(ids, n_ctx, slots)
    for step in range(repeat):
        for kind, one in both.items():
            blocks = {slot: [ids[n_ctx + step + slot]] for slot in range(slots)}
            times[kind].append(one.together(blocks, n_ctx + step)[0])
    own, stock = (slots * 1e3 / statistics.median(times[kind]) for kind in KINDS)
    print(f"context {n_ctx:5}, {slots} slots in one pass: {own:.1f} against {stock:.1f} tokens/s, {own / stock:.2f}x")


def _exact_slots(own: Passes, ids: list[int], n_ctx: int, slots: int) -> None:
    most = 32 // slots
    own.share(ids, n_ctx, slots)
    texts = {slot: ids[n_ctx + slot * most : n_ctx + (slot + 1) * most] for slot in range(slots)}
    single = {
        slot: [own.together({slot: [token]}, n_ctx + i)[1][0] for i, token in enumerate(text)]
        for slot, text in texts.items()
    }
    wrong = []
    for n in range(1, most + 1):
        rows = own.together({slot: text[:n] for slot, text in texts.items()}, n_ctx)[1]
        if rows.tobytes() != np.concatenate([single[slot][:n] for slot in range(slots)]).tobytes():
            wrong.append(n)
    print(
        f"context {n_ctx:5}, {slots} slots with blocks of 1…{most} rows: "
        f"{f'differ: {wrong}' if wrong else 'bit-identical to single steps'}"
    )


def _exact(own: Passes, ids: list[int], n_ctx: int) -> None:
    own.read(ids[:n_ctx])
    single = np.concatenate([own.rows([ids[n_ctx + i]], n_ctx + i)[1] for i in range(32)])
    wrong = [n for n in range(1, 33) if own.rows(ids[n_ctx : n_ctx + n], n_ctx)[1].tobytes() != single[:n].tobytes()]
    print(f"context {n_ctx:5}, blocks of 1…32 rows: {f'differ: {wrong}' if wrong else 'bit-identical to single steps'}")


def _logits(both: dict[KernelChoice, Passes]) -> None:
    """How far the logits are from those of stock kernels, beside how far those are from themselves: one row or many."""
    found: dict[str, Rows] = {}
    for name, kind, size in (("own", "auto", _BLOCK), ("stock", "stock", _BLOCK), ("single", "stock", 1)):
        one = both["auto" if kind == "auto" else "stock"]
        rows = []
        for text in _TEXTS:
            ids = one.target.vocabulary.encode(
                (locations.ROOT / text).read_text(), add_special=True, parse_special=False
            )
            one.read([])
            rows += [one.rows(ids[at : at + size], at)[1] for at in range(0, _POSITIONS, size)]
        found[name] = np.concatenate(rows)
    for what, name in (("own kernels", "own"), ("stock kernels row by row", "single")):
        p, q = _log_softmax(found["stock"]), _log_softmax(found[name])
        same = p.argmax(axis=1) == q.argmax(axis=1)
        low, high = _interval(int(same.sum()), len(same))
        kl = (np.exp(p) * (p - q)).sum(axis=1).mean()
        print(
            f"{len(same)} positions, {what} against stock kernels in blocks of {_BLOCK}: same best token {same.mean():.1%} "
            f"({low:.1%} to {high:.1%}), mean KL divergence {kl:.5f}"
        )


def _interval(hits: int, n: int) -> tuple[float, float]:
    """Of a share, at 95 % (Wilson 1927)."""
    z, share = 1.96, hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5 / (1 + z * z / n)
    return centre - half, centre + half


def _log_softmax(rows: Rows) -> NDArray[np.float64]:
    x = rows.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return result


if __name__ == "__main__":
    main()
