"""A model on MLX behind the contract: a block is one forward pass of mlx-lm's model, and acceptance the shared one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, cast

import mlx.core as mx
import numpy as np

from pardec_chat.backends.base import (
    MAX_NODES,
    NO_DRAFT,
    Capabilities,
    Draft,
    GoOn,
    LoadOptions,
    Method,
    Slot,
    Target,
    Verdict,
)
from pardec_chat.backends.cells import CHUNK, check_leaves, check_options, check_room
from pardec_chat.backends.decoding import acceptance, tree
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, QueueFull
from pardec_chat.backends.memory import DEFAULT_CTX
from pardec_chat.backends.mlx import attention, branches, device, memory, passes
from pardec_chat.backends.mlx.memory import Memory
from pardec_chat.backends.mlx.model import open_model, read_weights
from pardec_chat.backends.mlx.slot import Ahead, Chosen, MlxSlot
from pardec_chat.kernels.sampling.reference import Logits

#: Tokens evaluated at once in a prefill on a GPU.
_CHUNK_ON_METAL: Final = 512
#: Plain steps after which, though somebody guesses, the next pass is begun before this one's token is known: a draft that
#: comes then finds its first row evaluated apart from the others, which costs as much as a pass.
_AHEAD_AFTER: Final = 8


class MlxTarget(Target):
    """See `Target`. Raises ModelUnreadable, OutOfMemory, LoadGivenUp or BadSetting, and leaves nothing behind then.

    Each conversation has caches of its own. Several of them share a pass, except where mlx-lm's attention is not replaced
    by ours: there each has one of its own, and they are computed together.
    """

    def __init__(self, options: LoadOptions) -> None:
        self.path: Path = options.path
        check_options(options)
        if options.cache_type != "f16":
            raise BadSetting(
                "The mlx runtime keeps its cache in the numbers of its weights.", "Leave --cache-type out."
            )
        dtype = device.number_type(options.dtype)
        device.keep_resident()
        mx.reset_peak_memory()
        self._model: Any = None
        try:
            found = open_model(options.path)
            with device.memory_errors(options.path):
                weights = read_weights(found.model, dtype, options.progress)
        except BaseException:
            device.give_back()
            raise
        self._model = found.model
        self.vocabulary = found.vocabulary
        self.chat_template = found.chat_template
        self.name = found.name
        self.placed = {device.name(): weights}
        self.peak = int(mx.get_peak_memory())
        self.chunk = _CHUNK_ON_METAL if device.on_metal() else CHUNK
        remembers = Memory(self._model)
        if remembers.branches:
            attention.prepare(self._model)
        self._leaves = options.branches if remembers.branches else 0
        self.capabilities = Capabilities(
            rewind=remembers.rewind,
            tree=self._leaves > 0,
            max_slots=options.slots,
            n_ctx=options.n_ctx or min(DEFAULT_CTX, found.context or DEFAULT_CTX),
        )
        self._open: list[MlxSlot] = []

    @property
    def model(self) -> Any:
        """mlx-lm's; there is none after `close`."""
        assert self._model is not None, "the model is closed"
        return self._model

    def open(self) -> MlxSlot:
        """See `Target`."""
        if len(self._open) >= self.capabilities.max_slots:
            raise QueueFull(f"All {self.capabilities.max_slots} places of the model are taken.", "Wait for one.")
        self._open.append(MlxSlot(self, Memory(self.model)))
        return self._open[-1]

    def release(self, slot: MlxSlot) -> None:
        """Take a slot's place back."""
        if slot in self._open:
            self._open.remove(slot)
        slot.ahead = slot.chosen = None
        slot.cells.clear()
        slot.memory.close()

    def evaluate(self, slot: MlxSlot, ids: Sequence[int]) -> None:
        """Add cells for `ids` (at most `chunk`), without logits."""
        with device.memory_errors(self.path):
            slot.forward(ids, idle=True)
            mx.eval(slot.memory.arrays())

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self._check_drafts(items)
        slots = [cast(MlxSlot, slot) for slot, _, _ in items]
        drafts = [draft for _, draft, _ in items]
        try:
            with device.memory_errors(self.path):
                for slot in slots:
                    slot.catch_up()
                starts = [len(slot.cells) for slot in slots]
                if all(self._may_run_ahead(*item) for item in items):
                    return self._step_ahead(slots, [sampler for _, _, sampler in items])
                begun = perf_counter()
                found = passes.rows(slots, drafts)
                best: list[Any] = [
                    mx.argmax(logits, axis=-1) if acceptance.takes_the_best(sampler) else None
                    for logits, (_, _, sampler) in zip(found, items, strict=True)
                ]
                wanted = [found, [ids for ids in best if ids is not None]]
                passes.begin(wanted)
                # Meanwhile …
                drafting = passes.drafting(drafts, begun)
                for slot, draft in zip(slots, drafts, strict=True):
                    slot.cells += [*slot.committed[len(slot.cells) :], *draft.tokens, *draft.probes.tokens]
                # … up to the one synchronisation of the step.
                mx.eval(wanted)
        except BaseException:
            for slot in slots:
                slot.abandon()
            raise
        verdicts = []
        for (_, draft, sampler), logits, ids, ms in zip(items, found, best, drafting, strict=True):
            verdict = acceptance.judge(draft, _rows_of(logits), sampler, None if ids is None else ids.tolist())
            verdicts.append(replace(verdict, drafting_ms=ms) if ms else verdict)
        for slot, draft, start, verdict in zip(slots, drafts, starts, verdicts, strict=True):
            slot.plain_steps = 0 if draft.n_rows else slot.plain_steps + 1
            if not passes.is_chain(draft):
                # The last committed token is the first row, unless it was evaluated ahead.
                last = [0] if start < len(slot.committed) else []
                slot.keep(start, [*last, *(node + len(last) for node in verdict.path)])
            slot.committed.extend(verdict.tokens)
            slot.settle()
        return verdicts

    def _may_run_ahead(self, slot: Slot, draft: Draft, sampler: Sampler) -> bool:
        """Whether the next pass can be begun without waiting for this one's token: what comes is the best of a bare row."""
        assert isinstance(slot, MlxSlot)
        plain = not draft.n_rows and (not slot.guessed_for or slot.plain_steps >= _AHEAD_AFTER)
        return plain and acceptance.takes_the_best(sampler)

    def _step_ahead(self, slots: Sequence[MlxSlot], samplers: Sequence[Sampler]) -> list[Verdict]:
        """A plain step whose tokens stay on the device until the pass behind them has been begun, as mlx-lm decodes."""
        late = [slot for slot in slots if slot.ahead is None]
        rows = memory.forward([(slot.memory, slot.missing(NO_DRAFT), None) for slot in late], idle=True)
        for slot, one in zip(late, rows, strict=True):
            slot.cells += slot.committed[len(slot.cells) :]
            slot.ahead = passes.begun(one[-1])
        now = [cast(Ahead, slot.ahead) for slot in slots]
        for slot in slots:
            slot.memory.save()
        rows = memory.forward(
            [(slot.memory, one.best.reshape(1, 1), None) for slot, one in zip(slots, now, strict=True)]
        )
        for slot, row in zip(slots, rows, strict=True):
            slot.ahead = passes.begun(row[0])
        tokens: list[int] = [one.best.item() for one in now]
        for slot, sampler, token in zip(slots, samplers, tokens, strict=True):
            slot.cells.append(token)
            slot.committed.append(token)
            slot.plain_steps += 1
            sampler.push(token)
        return [Verdict((token,), ()) for token in tokens]

    def _check_drafts(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> None:
        for slot, draft, _sampler in items:
            check_room(slot, draft)
            if len(draft) and self.capabilities.rewind == "none":
                raise BadSetting("This model's memory cannot be rewound on MLX.", "Decode without drafts.")
            if not passes.is_chain(draft) and not self.capabilities.tree:
                raise BadSetting("This model's memory cannot branch here.", "Draft chains instead.")
        check_leaves(items, self._leaves)

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        assert isinstance(slot, MlxSlot)
        slot.follow(ids)
        if go_on is None and sampler.bare and not sampler.draws_drafts:
            return self._choose(slot, ids, n)

        def next_row(token: int | None) -> Logits:
            row = self._next(slot, ids[len(slot.cells) :] if token is None else [token])
            if token is None:
                slot.memory.save()
            return row

        return acceptance.propose(next_row, n, sampler, go_on)

    def _choose(self, slot: MlxSlot, ids: Sequence[int], n: int) -> Draft:
        """A chain of the most probable tokens, found where the logits are; it may go on behind an end token.

        Nothing waits for the host to know a token: each pass is begun while the one before is computed, and the target's, if
        it is of this runtime, while the last of them is.
        """
        if n < 1:
            return NO_DRAFT
        chosen: list[Any] = []
        with device.memory_errors(self.path):
            row = slot.forward(ids[len(slot.cells) :], idle=True)[-1]
            slot.memory.save()
            try:
                while True:
                    chosen.append(passes.begun(row).best)
                    if len(chosen) == n:
                        break
                    row = slot.memory.forward(chosen[-1].reshape(1, 1))[0]
                array = mx.stack(chosen).astype(mx.int32)
                passes.begin(array)
            except BaseException:
                slot.memory.trim(len(slot.cells))
                raise
        slot.chosen = Chosen(array)
        return Draft.chain(slot.chosen, Method.DRAFT)

    def propose_tree(self, slot: Slot, ids: Sequence[int], depth: int, nodes: int, sampler: Sampler) -> Draft:
        """See `Target`. The nodes lie behind the cells while it grows, and are forgotten with it."""
        assert isinstance(slot, MlxSlot)
        if not slot.memory.branches:
            return super().propose_tree(slot, ids, depth, nodes, sampler)
        slot.follow(ids)
        first = self._next(slot, ids[len(slot.cells) :])
        parents: list[int] = []

        def evaluate(tokens: Sequence[int], behind: Sequence[int], _level: int) -> list[Logits]:
            parents.extend(behind)
            with device.memory_errors(self.path):
                shape = branches.level(parents, len(tokens))
                logits = slot.memory.forward(mx.array([list(tokens)], mx.int32), shape, idle=True)
                return list(np.array(logits, copy=False))

        try:
            return tree.grow(first, evaluate, sampler, nodes=min(nodes, MAX_NODES), depth=depth)
        finally:
            slot.memory.trim(len(slot.cells))

    def _next(self, slot: MlxSlot, missing: Sequence[int]) -> Logits:
        """Evaluate `missing` behind the cells; the logits after the last of them."""
        with device.memory_errors(self.path):
            row: Logits = np.array(slot.forward(missing, idle=True)[-1], copy=False)
        return row

    def close(self) -> None:
        """See `Target`."""
        self._model = None
        for slot in self._open:
            slot.memory.close()
            slot.ahead = None
        self._open = []
        device.give_back()


def _rows_of(logits: Any) -> Callable[[int], Logits]:
    """The row after each node of a draft, see `acceptance.judge`; they come to the host when the first one is asked for."""
    rows: Logits | None = None

    def row(node: int) -> Logits:
        nonlocal rows
        if rows is None:
            rows = np.array(logits, copy=False)
        found: Logits = rows[node + 1]
        return found

    return row
