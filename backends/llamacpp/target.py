"""A model on llama.cpp behind the contract: slots in one context, a block checked in one decode call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pardec_chat.backends.base import (
    Capabilities,
    Draft,
    GoOn,
    LoadOptions,
    Slot,
    Target,
    Verdict,
    depths,
    leaves,
)
from pardec_chat.backends.cells import check_options, check_room
from pardec_chat.backends.decoding import acceptance
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, ModelUnreadable, QueueFull
from pardec_chat.backends.llamacpp import library
from pardec_chat.backends.llamacpp.accelerator import loading
from pardec_chat.backends.llamacpp.context import Context
from pardec_chat.backends.llamacpp.model import Model
from pardec_chat.backends.llamacpp.slot import LlamaCppSlot
from pardec_chat.backends.llamacpp.vocabulary import LlamaCppVocabulary
from pardec_chat.backends.memory import DEFAULT_CTX
from pardec_chat.kernels.sampling.reference import Logits


class LlamaCppTarget(Target):
    """See `Target`. Raises ModelUnreadable, OutOfMemory or BadSetting, and leaves nothing behind then."""

    def __init__(self, options: LoadOptions) -> None:
        self.path: Path = options.path
        check_options(options)
        if options.dtype != "auto":
            raise BadSetting(
                "llama.cpp keeps weights as their file has them.", "Leave --dtype out, or --runtime pytorch."
            )
        library.placed()
        self.kernels = loading.kernels(options.kernels, options.gpu_layers)
        own = self.kernels.own
        self._model = Model(options.path, gpu_layers=options.gpu_layers, progress=options.progress, own_kernels=own)
        try:
            if not self._model.generates_text:
                raise ModelUnreadable(f"{options.path.name} is no left-to-right text model.", "Choose a chat model.")
            n_ctx = options.n_ctx or min(DEFAULT_CTX, self._model.n_ctx_train)
            self.n_window = self._model.n_window
            stateful = self._model.has_state
            self.context = Context(
                self._model,
                n_ctx=n_ctx,
                slots=options.slots,
                branches=0 if stateful else options.branches,
                threads=options.threads,
                # A draft chain moves the window further in single steps than it can be taken back; a block does not.
                # The branches of a tree share cells, and shared ones never leave a cache of the window alone.
                full_window=options.draft or options.branches > 0,
                cache_type=options.cache_type,
                own_kernels=own,
            )
        except BaseException:
            self._model.close()
            raise
        self.placed = library.placed()
        if own and "CPU_Mapped" in self.placed:
            # The span of the file that stays mapped holds the places of packed weights, too, which were given back.
            kept = max(0, self.placed["CPU_Mapped"] - self.placed.get("CPU_TILES", 0))
            self.placed = {**self.placed, "CPU_Mapped": kept}
        self.vocabulary = LlamaCppVocabulary(self._model)
        self.capabilities = Capabilities(
            rewind="snapshot" if stateful else "trim",
            tree=options.branches > 0 and not stateful,
            max_slots=options.slots,
            n_ctx=n_ctx,
        )
        if options.draft or options.branches > 0:
            self.n_window = 0
        self.chat_template = self._model.chat_template
        self.name = self._model.name
        self._free = list(range(options.slots))
        self._branches = list(range(options.slots, self.context.n_sequences))

    def open(self) -> LlamaCppSlot:
        """See `Target`."""
        if not self._free:
            raise QueueFull(f"All {self.capabilities.max_slots} places of the model are taken.", "Wait for one.")
        return LlamaCppSlot(self, self._free.pop(0))

    def release(self, slot: LlamaCppSlot) -> None:
        """Take a slot's cells away and its sequence back."""
        if self.context.handle:
            self.context.remove(slot.sequence, 0)
            slot.cells.clear()
            self._free.append(slot.sequence)

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        for slot, draft, _sampler in items:
            check_room(slot, draft)
        self.context.batch.clear()
        free_branches = list(self._branches)
        placed = []
        try:
            for slot, draft, _sampler in items:
                assert isinstance(slot, LlamaCppSlot)
                if len(draft):
                    slot.save()
                placed.append(self._place(slot, draft, free_branches))
            self.context.decode()
        except BaseException:
            for sequence in self._branches:
                self.context.remove(sequence, 0)
            raise
        rows = self.context.rows()
        verdicts = []
        first = 0
        for _slot, draft, sampler in items:
            verdicts.append(acceptance.judge(draft, partial(_row_after, rows[first:]), sampler))
            first += 1 + len(draft) + len(draft.probes.leaves)
        # Committing may evaluate ids again, which overwrites the rows: all of them are judged before.
        for (slot, draft, _sampler), verdict, through in zip(items, verdicts, placed, strict=True):
            self._commit(cast(LlamaCppSlot, slot), draft, verdict, through)
        return verdicts

    def _place(self, slot: LlamaCppSlot, draft: Draft, free_branches: list[int]) -> dict[int, list[int]]:
        """Rows for the last committed token, the draft and its probes; gives each node's sequences, those of all in a chain.

        A branch is a sequence of its own that shares the cells of the conversation; one for each leaf, probes included:

            tokens      last   a    b    c        parents  -1 0 0
            position    p      p+1  p+2  p+2
            sequences   s t    s t  s    t        s the slot's own, t a copy of it up to p
        """
        start = len(slot.cells)
        batch = self.context.batch
        if draft.is_chain and not draft.probes:
            batch.extend([slot.tokens[-1], *draft.tokens], start, slot.sequence, wanted=True)
            return {-1: [slot.sequence]}
        tokens, parents = [*draft.tokens, *draft.probes.tokens], draft.all_parents
        ends = leaves(parents)
        sequences = [slot.sequence]
        for _ in ends[1:]:
            if not free_branches:
                raise BadSetting("The draft tree has more leaves than were asked for at load.", "Draft chains instead.")
            sequences.append(free_branches.pop(0))
            self.context.copy(slot.sequence, sequences[-1])
        through: dict[int, list[int]] = {-1: sequences}
        for leaf, sequence in zip(ends, sequences, strict=True):
            node = leaf
            while node != -1:
                through.setdefault(node, []).append(sequence)
                node = parents[node]
        asked = {*range(len(draft)), *ends}
        batch.add(slot.tokens[-1], start, sequences, wanted=True)
        for node, (token, depth) in enumerate(zip(tokens, depths(parents), strict=True)):
            batch.add(token, start + depth, through[node], wanted=node in asked)
        return through

    def _commit(self, slot: LlamaCppSlot, draft: Draft, verdict: Verdict, through: dict[int, list[int]]) -> None:
        start = len(slot.cells)
        others = through[-1][1:]
        if others:
            winner = through[verdict.path[-1]][0] if verdict.path else slot.sequence
            if winner != slot.sequence:
                self.context.remove(slot.sequence, start + 1)
                self.context.copy(winner, slot.sequence, start + 1)
            for sequence in others:
                self.context.remove(sequence, 0)
        # A branch's cells count as the accepted path here; what is behind it goes with the trim of `settle`.
        slot.cells.append(slot.tokens[-1])
        if others or draft.probes:
            slot.cells.extend(verdict.tokens[: verdict.n_accepted])
            self.context.remove(slot.sequence, len(slot.cells))
        else:
            slot.cells.extend(draft.tokens)
        slot.committed.extend(verdict.tokens)
        slot.settle()

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        assert isinstance(slot, LlamaCppSlot)
        context = self.context
        slot.follow(ids)

        def next_row(token: int | None) -> Logits:
            missing = ids[len(slot.cells) :] if token is None else [token]
            context.batch.clear()
            context.batch.extend(missing[:-1], len(slot.cells), slot.sequence, wanted=False)
            context.batch.extend(missing[-1:], len(slot.cells) + len(missing) - 1, slot.sequence, wanted=True)
            context.decode()
            slot.cells.extend(missing)
            if token is None:
                slot.save()
            row: Logits = context.rows()[0]
            return row

        return acceptance.propose(next_row, n, sampler, go_on)

    def close(self) -> None:
        """See `Target`."""
        self.context.close()
        self._model.close()


def _row_after(rows: NDArray[np.float32], node: int) -> Logits:
    row: Logits = rows[node + 1]
    return row
