"""A model on MLX behind the contract: a block is one forward pass of mlx-lm's model, and acceptance the shared one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import mlx.core as mx
import numpy as np

from pardec_chat.backends.base import Capabilities, Draft, GoOn, LoadOptions, Slot, Target, Verdict
from pardec_chat.backends.decoding import acceptance
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, ContextFull, QueueFull
from pardec_chat.backends.memory import DEFAULT_CTX
from pardec_chat.backends.mlx import device
from pardec_chat.backends.mlx.memory import Memory
from pardec_chat.backends.mlx.model import open_model, read_weights
from pardec_chat.backends.mlx.slot import MlxSlot
from pardec_chat.kernels.sampling.reference import Logits

#: Tokens evaluated at once in a prefill: the cancel flag is read between two of these.
_CHUNK, _CHUNK_ON_METAL = 128, 512
#: Plain steps after which the next pass is begun before this one's token is known: a draft that comes then finds its first row
#: evaluated apart from the others, which costs as much as a pass.
_AHEAD_AFTER: Final = 8
#: Computes arrays without waiting for them.
_begin: Any = mx.async_eval


class MlxTarget(Target):
    """See `Target`. Raises ModelUnreadable, OutOfMemory, LoadGivenUp or BadSetting, and leaves nothing behind then.

    Each conversation has caches of its own: several of them go through passes of their own, which are computed together.
    """

    def __init__(self, options: LoadOptions) -> None:
        self.path: Path = options.path
        _check(options)
        dtype = device.number_type(options.dtype)
        device.keep_resident()
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
        self.chunk = _CHUNK_ON_METAL if device.on_metal() else _CHUNK
        self.capabilities = Capabilities(
            rewind=Memory(self._model).rewind,
            tree=False,
            max_slots=options.slots,
            n_ctx=options.n_ctx or min(DEFAULT_CTX, found.context or DEFAULT_CTX),
        )
        self._open: list[MlxSlot] = []

    def open(self) -> MlxSlot:
        """See `Target`."""
        if len(self._open) >= self.capabilities.max_slots:
            raise QueueFull(f"All {self.capabilities.max_slots} places of the model are taken.", "Wait for one.")
        assert self._model is not None, "the model is closed"
        self._open.append(MlxSlot(self, Memory(self._model)))
        return self._open[-1]

    def release(self, slot: MlxSlot) -> None:
        """Take a slot's place back."""
        if slot in self._open:
            self._open.remove(slot)
        slot.cells.clear()
        slot.ahead = None
        if self._model is not None:
            slot.memory = Memory(self._model)

    def evaluate(self, slot: MlxSlot, ids: Sequence[int], *, wait: bool = True) -> None:
        """Add cells for `ids` (at most `chunk`), without logits. wait: until they are there."""
        with device.memory_errors(self.path):
            _forward(slot, ids)
            (mx.eval if wait else _begin)(slot.memory.arrays())

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self._check_drafts(items)
        if len(items) == 1 and self._may_run_ahead(*items[0]):
            return [self._step_ahead(cast(MlxSlot, items[0][0]), items[0][2])]
        passes: list[list[Any]] = []
        with device.memory_errors(self.path):
            for slot, draft, _ in items:
                passes.append(self._pass(cast(MlxSlot, slot), draft))
            # The one synchronisation of the step.
            mx.eval(passes)
        verdicts = []
        for (_, draft, sampler), parts in zip(items, passes, strict=True):
            rows = np.concatenate([np.array(part, copy=False) for part in parts])
            verdicts.append(acceptance.judge(draft, partial(_row_after, rows), sampler))
        for (slot, draft, _), verdict in zip(items, verdicts, strict=True):
            placed = cast(MlxSlot, slot)
            placed.plain_steps = 0 if len(draft) else placed.plain_steps + 1
            placed.committed.extend(verdict.tokens)
            placed.settle()
        return verdicts

    def _pass(self, slot: MlxSlot, draft: Draft) -> list[Any]:
        """Logits of the last committed token and of the draft, as [n, V] in one or two parts, on their way."""
        parts = []
        if slot.ahead is not None:
            parts.append(slot.ahead[None].astype(mx.float32))
        missing = [*slot.committed[len(slot.cells) :], *draft.tokens]
        if len(draft):
            slot.memory.save()
        if missing:
            parts.append(_forward(slot, missing).astype(mx.float32))
        slot.ahead = None
        return parts

    def _may_run_ahead(self, slot: Slot, draft: Draft, sampler: Sampler) -> bool:
        """Whether the next pass can be begun without waiting for this one's token: what comes is the best of a bare row."""
        assert isinstance(slot, MlxSlot)
        plain = not len(draft) and slot.plain_steps >= _AHEAD_AFTER
        return plain and sampler.bare and sampler.params.greedy and sampler.params.logprobs is None

    def _step_ahead(self, slot: MlxSlot, sampler: Sampler) -> Verdict:
        """A plain step whose token stays on the device until the pass behind it has been begun, as mlx-lm decodes."""
        with device.memory_errors(self.path):
            row = slot.ahead if slot.ahead is not None else _forward(slot, slot.committed[-1:])[0]
            best: Any = mx.argmax(row)
            slot.memory.save()
            slot.ahead = slot.memory.forward(best.reshape(1, 1), 1)[0]
            _begin(best, slot.ahead)
            token: int = best.item()
        slot.cells.append(token)
        slot.committed.append(token)
        slot.plain_steps += 1
        sampler.push(token)
        return Verdict((token,), ())

    def _check_drafts(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> None:
        for slot, draft, _sampler in items:
            if len(slot.tokens) + draft.depth > slot.n_ctx:
                raise ContextFull(
                    f"{draft.depth} drafted tokens do not fit behind {len(slot.tokens):,} of {slot.n_ctx:,}.",
                    "Start a new conversation or ask for a longer context (--ctx).",
                )
            if not draft.is_chain or draft.probes:
                raise BadSetting("The mlx runtime checks chains alone.", "Draft chains instead.")
            if len(draft) and self.capabilities.rewind == "none":
                raise BadSetting("This model's memory cannot be rewound on MLX.", "Decode without drafts.")

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        assert isinstance(slot, MlxSlot)
        kept = slot.trim(common_prefix(slot.cells, ids[:-1]))
        slot.ahead = None
        while len(ids) - kept > self.chunk:
            self.evaluate(slot, ids[kept : kept + self.chunk])
            kept = len(slot.cells)
        slot.committed = list(ids)

        def next_row(token: int | None) -> Logits:
            with device.memory_errors(self.path):
                logits = _forward(slot, ids[kept:] if token is None else [token])[-1]
                row: Logits = np.array(logits.astype(mx.float32), copy=False)
            if token is None:
                slot.memory.save()
            return row

        return acceptance.propose(next_row, n, sampler, go_on)

    def close(self) -> None:
        """See `Target`."""
        self._model = None
        for slot in self._open:
            slot.memory.close()
            slot.ahead = None
        self._open = []
        device.give_back()


def _forward(slot: MlxSlot, ids: Sequence[int]) -> Any:
    """Add cells for `ids`; gives their logits, [n, V], on their way."""
    logits = slot.memory.forward(mx.array([list(ids)], mx.int32), len(ids))
    slot.cells.extend(ids)
    return logits


def _row_after(rows: Logits, node: int) -> Logits:
    row: Logits = rows[node + 1]
    return row


def _check(options: LoadOptions) -> None:
    if options.n_ctx is not None and options.n_ctx < 16:
        raise BadSetting(f"A context of {options.n_ctx} tokens holds no conversation.", "Give --ctx 16 or more.")
    if options.threads is not None and options.threads < 1:
        raise BadSetting(f"{options.threads} threads cannot decode.", "Give --threads 1 or more.")
    if options.cache_type != "f16":
        raise BadSetting("The mlx runtime keeps its cache in the numbers of its weights.", "Leave --cache-type out.")
