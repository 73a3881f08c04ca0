"""A model on MLX behind the contract: a block is one forward pass of mlx-lm's model, and acceptance the shared one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
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
from pardec_chat.backends.mlx import branches, device
from pardec_chat.backends.mlx.memory import Memory
from pardec_chat.backends.mlx.model import open_model, read_weights
from pardec_chat.backends.mlx.slot import Ahead, MlxSlot
from pardec_chat.kernels.sampling.reference import Logits

#: Tokens evaluated at once in a prefill on a GPU.
_CHUNK_ON_METAL: Final = 512
#: Plain steps after which the next pass is begun before this one's token is known: a draft that comes then finds its first row
#: evaluated apart from the others, which costs as much as a pass.
_AHEAD_AFTER: Final = 8
#: Computes arrays without waiting for them. Whoever waits for one of them waits for all that were begun with it.
_begin: Any = mx.async_eval


class MlxTarget(Target):
    """See `Target`. Raises ModelUnreadable, OutOfMemory, LoadGivenUp or BadSetting, and leaves nothing behind then.

    Each conversation has caches of its own: several of them go through passes of their own, which are computed together.
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
        branches.prepare(self._model)
        memory = Memory(self._model)
        self._leaves = options.branches if memory.branches else 0
        self.capabilities = Capabilities(
            rewind=memory.rewind,
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
        slot.cells.clear()
        slot.ahead = None
        slot.memory.close()

    def evaluate(self, slot: MlxSlot, ids: Sequence[int]) -> None:
        """Add cells for `ids` (at most `chunk`), without logits."""
        with device.memory_errors(self.path):
            slot.forward(ids)
            mx.eval(slot.memory.arrays())

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self._check_drafts(items)
        if len(items) == 1 and self._may_run_ahead(*items[0]):
            return [self._step_ahead(cast(MlxSlot, items[0][0]), items[0][2])]
        starts = [len(cast(MlxSlot, slot).cells) for slot, _, _ in items]
        try:
            with device.memory_errors(self.path):
                passes = [self._pass(cast(MlxSlot, slot), draft) for slot, draft, _ in items]
                best: list[Any] = [
                    mx.argmax(logits, axis=-1) if acceptance.takes_the_best(sampler) else None
                    for logits, (_, _, sampler) in zip(passes, items, strict=True)
                ]
                # The one synchronisation of the step.
                mx.eval(passes, [ids for ids in best if ids is not None])
        except BaseException:
            for (slot, _, _), start in zip(items, starts, strict=True):
                cast(MlxSlot, slot).trim(start)
            raise
        verdicts = []
        for (_, draft, sampler), logits, ids in zip(items, passes, best, strict=True):
            row = partial(_row_after, np.array(logits, copy=False))
            verdicts.append(acceptance.judge(draft, row, sampler, None if ids is None else ids.tolist()))
        for (slot, draft, _), start, verdict in zip(items, starts, verdicts, strict=True):
            placed = cast(MlxSlot, slot)
            placed.plain_steps = 0 if draft.n_rows else placed.plain_steps + 1
            if not _is_chain(draft):
                # The last committed token is the first row, unless it was evaluated ahead.
                last = [0] if start < len(placed.committed) else []
                placed.keep(start, [*last, *(node + len(last) for node in verdict.path)])
            placed.committed.extend(verdict.tokens)
            placed.settle()
        return verdicts

    def _pass(self, slot: MlxSlot, draft: Draft) -> Any:
        """Logits of the last committed token, of the draft and of the leaves of its probes, [n, V], on their way."""
        ahead = slot.ahead
        missing = [*slot.committed[len(slot.cells) :], *draft.tokens, *draft.probes.tokens]
        if draft.n_rows:
            slot.memory.save()
        if not missing:
            assert ahead is not None, "either the last token is missing or something follows it"
            slot.ahead = None
            return ahead.row[None]
        shape = None if _is_chain(draft) else branches.behind_last(draft.all_parents, with_last=ahead is None)
        logits = slot.forward(missing, shape)
        if draft.probes:
            first = len(missing) - len(draft.probes)
            logits = logits[mx.array([*range(first), *(first + leaf for leaf in draft.probes.leaves)])]
        return logits if ahead is None else mx.concatenate([ahead.row[None], logits])

    def _may_run_ahead(self, slot: Slot, draft: Draft, sampler: Sampler) -> bool:
        """Whether the next pass can be begun without waiting for this one's token: what comes is the best of a bare row."""
        assert isinstance(slot, MlxSlot)
        plain = not draft.n_rows and slot.plain_steps >= _AHEAD_AFTER
        return plain and acceptance.takes_the_best(sampler)

    def _step_ahead(self, slot: MlxSlot, sampler: Sampler) -> Verdict:
        """A plain step whose token stays on the device until the pass behind it has been begun, as mlx-lm decodes."""
        with device.memory_errors(self.path):
            now = slot.ahead or _begun(slot.forward(slot.committed[-1:])[0])
            slot.memory.save()
            slot.ahead = _begun(slot.memory.forward(now.best.reshape(1, 1))[0])
            token: int = now.best.item()
        slot.cells.append(token)
        slot.committed.append(token)
        slot.plain_steps += 1
        sampler.push(token)
        return Verdict((token,), ())

    def _check_drafts(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> None:
        for slot, draft, _sampler in items:
            check_room(slot, draft)
            if len(draft) and self.capabilities.rewind == "none":
                raise BadSetting("This model's memory cannot be rewound on MLX.", "Decode without drafts.")
            if not _is_chain(draft) and not self.capabilities.tree:
                raise BadSetting("This model's memory cannot branch here.", "Draft chains instead.")
        check_leaves(items, self._leaves)

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        assert isinstance(slot, MlxSlot)
        slot.follow(ids)
        if go_on is None and sampler.bare and not sampler.draws_drafts:
            return self._choose(slot, ids, n, sampler)

        def next_row(token: int | None) -> Logits:
            row = self._next(slot, ids[len(slot.cells) :] if token is None else [token])
            if token is None:
                slot.memory.save()
            return row

        return acceptance.propose(next_row, n, sampler, go_on)

    def _choose(self, slot: MlxSlot, ids: Sequence[int], n: int, sampler: Sampler) -> Draft:
        """A chain of the most probable tokens, found where the logits are: no pass waits for the host to know a token."""
        if n < 1:
            return NO_DRAFT
        chosen: list[Any] = []
        with device.memory_errors(self.path):
            row = slot.forward(ids[len(slot.cells) :])[-1]
            slot.memory.save()
            while True:
                chosen.append(_begun(row).best)
                if len(chosen) == n:
                    break
                row = slot.memory.forward(chosen[-1].reshape(1, 1))[0]
            tokens = cast(list[int], mx.stack(chosen).tolist())
        slot.cells.extend(tokens[:-1])
        last = next((i for i, token in enumerate(tokens) if token in sampler.ends), n - 1)
        return Draft.chain(tokens[: last + 1], Method.DRAFT)

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
                logits = slot.memory.forward(mx.array([list(tokens)], mx.int32), branches.level(parents, len(tokens)))
                return list(np.array(logits, copy=False))

        try:
            return tree.grow(first, evaluate, sampler, nodes=min(nodes, MAX_NODES), depth=depth)
        finally:
            slot.memory.trim(len(slot.cells))

    def _next(self, slot: MlxSlot, missing: Sequence[int]) -> Logits:
        """Evaluate `missing` behind the cells; the logits after the last of them."""
        with device.memory_errors(self.path):
            row: Logits = np.array(slot.forward(missing)[-1], copy=False)
        return row

    def close(self) -> None:
        """See `Target`."""
        self._model = None
        for slot in self._open:
            slot.memory.close()
            slot.ahead = None
        self._open = []
        device.give_back()


def _begun(row: Any) -> Ahead:
    """A row of logits whose most probable id is being computed."""
    ahead = Ahead(row, mx.argmax(row))
    _begin(ahead.best, row)
    return ahead


def _is_chain(draft: Draft) -> bool:
    return draft.is_chain and not draft.probes


def _row_after(rows: Logits, node: int) -> Logits:
    row: Logits = rows[node + 1]
    return row
