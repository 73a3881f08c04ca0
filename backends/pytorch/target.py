"""A model on PyTorch behind the contract: slots in one static cache, blocks of all of them in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from pardec_chat.backends.base import (
    MAX_NODES,
    MAX_PROBES,
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
from pardec_chat.backends.decoding import acceptance, tree
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, ContextFull, QueueFull
from pardec_chat.backends.machine import physical_cores
from pardec_chat.backends.memory import DEFAULT_CTX
from pardec_chat.backends.pytorch import device as devices
from pardec_chat.backends.pytorch.cache import Block, Cache
from pardec_chat.backends.pytorch.decoder import Decoder
from pardec_chat.backends.pytorch.model import open_model
from pardec_chat.backends.pytorch.slot import CHUNK, PytorchSlot
from pardec_chat.kernels.sampling.reference import Logits


class PytorchTarget(Target):
    """See `Target`. Raises ModelUnreadable, OutOfMemory, LoadGivenUp or BadSetting, and leaves nothing behind then."""

    def __init__(self, options: LoadOptions) -> None:
        self.path: Path = options.path
        _check(options)
        device = devices.choose(options.gpu_layers)
        if device.type == "cpu":
            torch.set_num_threads(options.threads or physical_cores())
        model = open_model(options.path)
        self._decoder: Decoder | None = None
        self._cache: Cache | None = None
        try:
            dtype = devices.number_type(options.dtype, device)
            n_ctx = options.n_ctx or min(DEFAULT_CTX, model.spec.context or DEFAULT_CTX)
            with devices.memory_errors(options.path):
                self._decoder = Decoder(model.spec, model.weights, dtype, device, options.progress)
                # Rows that do not lie on the accepted path take cells too, until the pass is over.
                cells = n_ctx + 1 + MAX_NODES + MAX_PROBES
                self._cache = Cache(model.spec, options.slots, cells, dtype, device)
        except BaseException:
            self.close()
            raise
        finally:
            model.weights.close()
        self.placed = devices.bytes_of(self)
        self.vocabulary = model.vocabulary
        self.chat_template = model.chat_template
        self.name = model.spec.name
        self._branches = options.branches
        self.capabilities = Capabilities(
            rewind="trim", tree=options.branches > 0, max_slots=options.slots, n_ctx=n_ctx, features=True
        )
        self._free = list(range(options.slots))
        self._taps: tuple[int, ...] = ()

    @property
    def cache(self) -> Cache:
        """Of all slots; there is none after `close`."""
        assert self._cache is not None, "the model is closed"
        return self._cache

    @property
    def decoder(self) -> Decoder:
        """Weights and forward pass; there is none after `close`."""
        assert self._decoder is not None, "the model is closed"
        return self._decoder

    def read_features(self, layers: Sequence[int]) -> None:
        """See `Target`."""
        n = self.decoder.spec.layers
        if any(not 0 <= layer < n for layer in layers):
            raise BadSetting(f"The model has the layers 0 to {n - 1}, not {list(layers)}.", "Take another head.")
        self._taps = tuple(sorted(set(layers)))

    def open(self) -> PytorchSlot:
        """See `Target`."""
        if not self._free:
            raise QueueFull(f"All {self.capabilities.max_slots} places of the model are taken.", "Wait for one.")
        return PytorchSlot(self, self._free.pop(0))

    def release(self, slot: PytorchSlot) -> None:
        """Take a slot's place back."""
        slot.cells.clear()
        self._free.append(slot.index)

    def evaluate(self, slot: PytorchSlot, ids: Sequence[int]) -> object | None:
        """Add cells for `ids` (at most CHUNK), without logits; gives their features where they are read."""
        block = self.cache.chain(slot.index, len(slot.cells), 0, len(ids))
        _, tapped = self._forward(list(ids), range(len(slot.cells), len(slot.cells) + len(ids)), [block], None)
        slot.cells.extend(ids)
        return torch.cat(tapped, dim=-1) if tapped else None

    def _forward(
        self, tokens: Sequence[int], positions: Sequence[int], blocks: Sequence[Block], wanted: Sequence[int] | None
    ) -> tuple[Tensor, list[Tensor]]:
        device = self.decoder.device
        with devices.memory_errors(self.path):
            return self.decoder.forward(
                torch.tensor(tokens, device=device),
                torch.tensor(positions, device=device),
                blocks,
                self.cache,
                None if wanted is None else torch.tensor(wanted, device=device),
                self._taps,
            )

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self._check_room(items)
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        blocks: list[Block] = []
        for slot, draft, _sampler in items:
            assert isinstance(slot, PytorchSlot)
            first, start, n, probes = len(tokens), len(slot.cells), len(draft), draft.probes
            blocks.append(self.cache.tree(slot.index, start, first, draft))
            wanted += [*range(first, first + 1 + n), *(first + 1 + n + leaf for leaf in probes.leaves)]
            tokens += [slot.committed[-1], *draft.tokens, *probes.tokens]
            positions += [start, *(start + depth for depth in (*depths(draft.parents), *depths(probes.parents)))]
        logits, tapped = self._forward(tokens, positions, blocks, wanted)
        # The one synchronisation of the step.
        rows = logits.cpu().numpy()
        features = torch.cat(tapped, dim=-1) if tapped else None
        verdicts = []
        at = 0
        for (slot, draft, sampler), block in zip(items, blocks, strict=True):
            verdict = acceptance.judge(draft, partial(_row_after, rows[at:]), sampler)
            kept = [0, *(node + 1 for node in verdict.path)]
            if features is not None:
                states = features[[block.rows.start + row for row in kept]]
                verdict = Verdict(verdict.tokens, verdict.path, verdict.logprobs, verdict.probe_tokens, features=states)
            self._commit(cast(PytorchSlot, slot), block, kept, verdict)
            verdicts.append(verdict)
            at += 1 + len(draft) + len(draft.probes.leaves)
        return verdicts

    def _check_room(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> None:
        ends = 0
        for slot, draft, _sampler in items:
            if len(slot.tokens) + draft.depth > slot.n_ctx:
                raise ContextFull(
                    f"{draft.depth} drafted tokens do not fit behind {len(slot.tokens):,} of {slot.n_ctx:,}.",
                    "Start a new conversation or ask for a longer context (--ctx).",
                )
            ends += max(0, len(leaves(draft.parents)) + len(draft.probes.leaves) - 1)
        if ends > self._branches:
            raise BadSetting("The draft tree has more leaves than were asked for at load.", "Draft chains instead.")

    def _commit(self, slot: PytorchSlot, block: Block, kept: Sequence[int], verdict: Verdict) -> None:
        self.cache.keep(slot.index, block.start, kept)
        slot.cells.append(slot.committed[-1])
        slot.cells.extend(verdict.tokens[: verdict.n_accepted])
        slot.committed.extend(verdict.tokens)
        # An accepted end token has no successor, so it is the last one: its cell is one too many.
        slot.trim(len(slot.committed) - 1)

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        assert isinstance(slot, PytorchSlot)
        self._follow(slot, ids)

        def next_row(token: int | None) -> Logits:
            return self._next(slot, ids[len(slot.cells) :] if token is None else [token])

        return acceptance.propose(next_row, n, sampler, go_on)

    def propose_tree(self, slot: Slot, ids: Sequence[int], depth: int, nodes: int, sampler: Sampler) -> Draft:
        """See `Target`. The nodes lie behind the cells while it grows, and are forgotten with it."""
        assert isinstance(slot, PytorchSlot)
        self._follow(slot, ids)
        first = self._next(slot, ids[len(slot.cells) :])
        start = len(slot.cells)
        parents: list[int] = []

        def evaluate(tokens: Sequence[int], behind: Sequence[int], level: int) -> list[Logits]:
            parents.extend(behind)
            block = self.cache.level(slot.index, start, parents, len(tokens))
            logits, _ = self._forward(tokens, [start + level - 1] * len(tokens), [block], range(len(tokens)))
            return list(logits.cpu().numpy())

        return tree.grow(first, evaluate, sampler, nodes=min(nodes, MAX_NODES), depth=depth)

    def _follow(self, slot: PytorchSlot, ids: Sequence[int]) -> None:
        """Bring the cells to the committed `ids`, except for the last CHUNK of them at most."""
        kept = slot.trim(common_prefix(slot.cells, ids[:-1]))
        while len(ids) - kept > CHUNK:
            self.evaluate(slot, ids[kept : kept + CHUNK])
            kept = len(slot.cells)
        slot.committed = list(ids)

    def _next(self, slot: PytorchSlot, missing: Sequence[int]) -> Logits:
        """Evaluate `missing` behind the cells; the logits after the last of them."""
        start = len(slot.cells)
        block = self.cache.chain(slot.index, start, 0, len(missing))
        logits, _ = self._forward(missing, range(start, start + len(missing)), [block], [len(missing) - 1])
        slot.cells.extend(missing)
        row: Logits = logits[0].cpu().numpy()
        return row

    def close(self) -> None:
        """See `Target`."""
        self._decoder = self._cache = None
        devices.give_back()


def _row_after(rows: Logits, node: int) -> Logits:
    row: Logits = rows[node + 1]
    return row


def _check(options: LoadOptions) -> None:
    if options.n_ctx is not None and options.n_ctx < 16:
        raise BadSetting(f"A context of {options.n_ctx} tokens holds no conversation.", "Give --ctx 16 or more.")
    if options.threads is not None and options.threads < 1:
        raise BadSetting(f"{options.threads} threads cannot decode.", "Give --threads 1 or more.")
    if options.cache_type != "f16":
        raise BadSetting("The pytorch runtime keeps its cache in 16 bits.", "Leave --cache-type out.")
