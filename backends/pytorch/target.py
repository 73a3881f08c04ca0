"""A model on PyTorch behind the contract: slots in one static cache, blocks of all of them in one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
)
from pardec_chat.backends.cells import check_leaves, check_options, check_room
from pardec_chat.backends.decoding import acceptance, tree
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import BadSetting, QueueFull
from pardec_chat.backends.machine import physical_cores
from pardec_chat.backends.memory import DEFAULT_CTX
from pardec_chat.backends.pytorch import device as devices
from pardec_chat.backends.pytorch import on_device
from pardec_chat.backends.pytorch.cache import Block, Cache
from pardec_chat.backends.pytorch.decoder import Decoder
from pardec_chat.backends.pytorch.graphs import SIZES, Graphs, suits
from pardec_chat.backends.pytorch.linear import is_compiled
from pardec_chat.backends.pytorch.model import open_model
from pardec_chat.backends.pytorch.slot import PytorchSlot
from pardec_chat.kernels.sampling.reference import Logits


class PytorchTarget(Target):
    """See `Target`. Raises ModelUnreadable, OutOfMemory, LoadGivenUp or BadSetting, and leaves nothing behind then."""

    def __init__(self, options: LoadOptions) -> None:
        self.path: Path = options.path
        check_options(options)
        if options.cache_type != "f16":
            raise BadSetting("The pytorch runtime keeps its cache in 16 bits.", "Leave --cache-type out.")
        device = devices.choose(options.gpu_layers)
        if device.type == "cpu":
            torch.set_num_threads(options.threads or physical_cores())
        model = open_model(options.path)
        self._decoder: Decoder | None = None
        self._cache: Cache | None = None
        self._graphs: Graphs | None = None
        self._ends: dict[frozenset[int], Tensor] = {}
        self._taps: tuple[int, ...] = ()
        try:
            compiled = options.draft and is_compiled(options.dtype, device, model.weights.kinds)
            dtype = torch.float32 if compiled else devices.number_type(options.dtype, device)
            n_ctx = options.n_ctx or min(DEFAULT_CTX, model.spec.context or DEFAULT_CTX)
            with devices.memory_errors(options.path):
                self._decoder = Decoder(model.spec, model.weights, dtype, device, options.progress, compiled=compiled)
                # Rows that do not lie on the accepted path take cells too, until the pass is over.
                cells = n_ctx + 1 + MAX_NODES + MAX_PROBES
                self._cache = Cache(model.spec, options.slots, cells, dtype, device)
                if device.type == "cuda" and suits(self._decoder):
                    self._graphs = Graphs(self._decoder, self._cache)
            if device.type == "cpu":
                self._warm_up()
        except BaseException:
            self.close()
            raise
        finally:
            model.weights.close()
        #: Whether what is accepted is found where the logits are.
        self.judges_on_device = self._graphs is not None
        self.placed = devices.bytes_of(self)
        self.vocabulary = model.vocabulary
        self.chat_template = model.chat_template
        self.name = model.spec.name
        self._branches = options.branches
        self.capabilities = Capabilities(
            rewind="trim", tree=options.branches > 0, max_slots=options.slots, n_ctx=n_ctx, features=True
        )
        self._free = list(range(options.slots))

    def _warm_up(self) -> None:
        """Let the slow first passes be over before anyone measures one: code is made for them, and memory is touched."""
        for n in (1, 2):
            # No slot is open: what lies in these cells counts for nothing.
            self._forward([0] * n, range(n), [self.cache.chain(0, 0, 0, n)], range(n))

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
        for slot, draft, _sampler in items:
            check_room(slot, draft)
        check_leaves(items, self._branches)
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        firsts: list[int] = []
        for slot, draft, _sampler in items:
            assert isinstance(slot, PytorchSlot)
            first, start, n, probes = len(tokens), len(slot.cells), len(draft), draft.probes
            firsts.append(first)
            wanted += [*range(first, first + 1 + n), *(first + 1 + n + leaf for leaf in probes.leaves)]
            tokens += [slot.committed[-1], *draft.tokens, *probes.tokens]
            positions += [start, *(start + depth for depth in (*depths(draft.parents), *depths(probes.parents)))]
        logits, tapped = self._evaluate(items, firsts, tokens, positions, wanted)
        here = self.judges_on_device and not tapped
        if here and all(on_device.suits(self.cache, draft, sampler) for _, draft, sampler in items):
            return self._judge_on_device(items, logits)
        # The one synchronisation of the step.
        rows = logits.cpu().numpy()
        features = torch.cat(tapped, dim=-1) if tapped else None
        verdicts = []
        at = 0
        for (slot, draft, sampler), first in zip(items, firsts, strict=True):
            verdict = acceptance.judge(draft, partial(_row_after, rows[at:]), sampler)
            kept = [0, *(node + 1 for node in verdict.path)]
            if features is not None:
                verdict = replace(verdict, features=features[[first + row for row in kept]])
            placed = cast(PytorchSlot, slot)
            self.cache.keep(placed.index, len(placed.cells), kept)
            self._commit(placed, verdict)
            verdicts.append(verdict)
            at += 1 + len(draft) + len(draft.probes.leaves)
        return verdicts

    def _judge_on_device(self, items: Sequence[tuple[Slot, Draft, Sampler]], logits: Tensor) -> list[Verdict]:
        judged: list[on_device.Judged] = []
        at = 0
        for slot, draft, sampler in items:
            placed = cast(PytorchSlot, slot)
            n = 1 + len(draft) + len(draft.probes.leaves)
            ends = self._ends_on_device(sampler.ends)
            rows = logits[at : at + n]
            judged.append(on_device.judge(self.cache, placed.index, len(placed.cells), draft, sampler, rows, ends))
            at += n
        # The one synchronisation of the step.
        numbers: list[int] = torch.cat([one.numbers for one in judged]).tolist()
        verdicts = []
        for (slot, _, _), one in zip(items, judged, strict=True):
            n = len(one.numbers)
            verdicts.append(one.verdict(numbers[:n]))
            self._commit(cast(PytorchSlot, slot), verdicts[-1])
            del numbers[:n]
        return verdicts

    def _ends_on_device(self, ends: frozenset[int]) -> Tensor:
        if ends not in self._ends:
            table = torch.zeros(self.decoder.spec.vocabulary, dtype=torch.uint8)
            table[[end for end in ends if end < len(table)]] = 1
            self._ends[ends] = table.to(self.decoder.device)
        return self._ends[ends]

    def _evaluate(
        self,
        items: Sequence[tuple[Slot, Draft, Sampler]],
        firsts: Sequence[int],
        tokens: Sequence[int],
        positions: Sequence[int],
        wanted: Sequence[int],
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits of the wanted rows; as one graph where a single answer is decoded and nobody reads hidden states."""
        placed = [(cast(PytorchSlot, slot), draft) for slot, draft, _ in items]
        if self._graphs is not None and len(placed) == 1 and not self._taps:
            slot, draft = placed[0]
            with devices.memory_errors(self.path):
                found = self._graphs.run(slot.index, tokens, draft.all_parents, len(slot.cells))
            return (found if len(wanted) == len(found) else found[list(wanted)]), []
        blocks = [
            self.cache.tree(slot.index, len(slot.cells), first, draft)
            for (slot, draft), first in zip(placed, firsts, strict=True)
        ]
        return self._forward(tokens, positions, blocks, wanted)

    def _commit(self, slot: PytorchSlot, verdict: Verdict) -> None:
        slot.cells.append(slot.committed[-1])
        slot.cells.extend(verdict.tokens[: verdict.n_accepted])
        slot.committed.extend(verdict.tokens)
        # An accepted end token has no successor, so it is the last one: its cell is one too many.
        slot.trim(len(slot.committed) - 1)

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        assert isinstance(slot, PytorchSlot)
        slot.follow(ids)

        def next_row(token: int | None) -> Logits:
            return self._next(slot, ids[len(slot.cells) :] if token is None else [token])

        return acceptance.propose(next_row, n, sampler, go_on)

    def propose_tree(self, slot: Slot, ids: Sequence[int], depth: int, nodes: int, sampler: Sampler) -> Draft:
        """See `Target`. The nodes lie behind the cells while it grows, and are forgotten with it."""
        assert isinstance(slot, PytorchSlot)
        slot.follow(ids)
        first = self._next(slot, ids[len(slot.cells) :])
        start = len(slot.cells)
        parents: list[int] = []

        def evaluate(tokens: Sequence[int], behind: Sequence[int], level: int) -> list[Logits]:
            parents.extend(behind)
            block = self.cache.level(slot.index, start, parents, len(tokens))
            logits, _ = self._forward(tokens, [start + level - 1] * len(tokens), [block], range(len(tokens)))
            return list(logits.cpu().numpy())

        return tree.grow(first, evaluate, sampler, nodes=min(nodes, MAX_NODES), depth=depth)

    def _next(self, slot: PytorchSlot, missing: Sequence[int]) -> Logits:
        """Evaluate `missing` behind the cells; the logits after the last of them."""
        start, n = len(slot.cells), len(missing)
        if self._graphs is not None and n <= SIZES[-1] and not self._taps:
            with devices.memory_errors(self.path):
                logits = self._graphs.run(slot.index, missing, range(-1, n - 2), start)[-1:]
        else:
            block = self.cache.chain(slot.index, start, 0, n)
            logits, _ = self._forward(missing, range(start, start + n), [block], [n - 1])
        slot.cells.extend(missing)
        row: Logits = logits[0].cpu().numpy()
        return row

    def close(self) -> None:
        """See `Target`."""
        self._decoder = self._cache = self._graphs = None
        self._ends = {}
        devices.give_back()


def _row_after(rows: Logits, node: int) -> Logits:
    row: Logits = rows[node + 1]
    return row
