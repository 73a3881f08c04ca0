"""A scripted model behind the runtime contract: what comes next is a function of the prefix, all that is evaluated is noted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np

from pardec_chat.backends.base import (
    Capabilities,
    Draft,
    GoOn,
    LoadOptions,
    NumberType,
    Prefill,
    Probes,
    Runtime,
    Slot,
    Target,
    Verdict,
    Vocabulary,
)
from pardec_chat.backends.decoding import acceptance, tree
from pardec_chat.backends.decoding.constraint import Allowed
from pardec_chat.backends.decoding.pairing import TokenTable
from pardec_chat.backends.decoding.prefix import common_prefix
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.backends.errors import ContextFull, ModelUnreadable, QueueFull, UserError
from pardec_chat.backends.memory import Shape
from pardec_chat.backends.model_file import ModelFile
from pardec_chat.kernels.sampling.reference import Logits
from pardec_chat.tests.rows import Rows


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Ids of one slot in one forward pass. replay: evaluated again, since the cache could not be trimmed."""

    kind: Literal["prefill", "verify", "propose", "replay"]
    tokens: tuple[int, ...]


class ScriptedVocabulary(Vocabulary):
    """Byte pieces by id; an id with an empty piece is a control token and has only its text."""

    def __init__(
        self, pieces: Sequence[bytes], ends: Iterable[int], texts: Sequence[str] | None, bos: int | None
    ) -> None:
        self.size = len(pieces)
        self.end_ids = frozenset(ends)
        self.begins_with_bos = bos is not None
        self._pieces = list(pieces)
        self._texts = list(texts or [p.decode("utf-8", "replace") if p else f"<{i}>" for i, p in enumerate(pieces)])
        self._bos = [] if bos is None else [bos]
        self.bos = "" if bos is None else self._texts[bos]
        self.eos = self._texts[min(self.end_ids)] if self.end_ids else ""

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """See `Vocabulary`. The longest piece first; a byte that no piece starts with becomes id 0."""
        names = {t.encode(): i for i, t in enumerate(self._texts) if not self._pieces[i]} if parse_special else {}
        known = {**{piece: i for i, piece in enumerate(self._pieces) if piece}, **names}
        lengths = sorted({len(piece) for piece in known}, reverse=True)
        raw = text.encode("utf-8", "surrogatepass")
        ids = list(self._bos) if add_special else []
        while raw:
            piece = next((raw[:n] for n in lengths if raw[:n] in known), None)
            ids.append(0 if piece is None else known[piece])
            raw = raw[1 if piece is None else len(piece) :]
        return ids

    def piece(self, token: int) -> bytes:
        """See `Vocabulary`."""
        return self._pieces[token]

    def text(self, token: int) -> str:
        """See `Vocabulary`."""
        return self._texts[token]

    def table(self) -> TokenTable:
        """All names, as a file gives them."""
        special = frozenset(i for i, piece in enumerate(self._pieces) if not piece)
        return TokenTable([text.encode() for text in self._texts], special)


class ScriptedSlot(Slot):
    """`cells` is what the cache holds: rows are computed from it, so a cache that is wrong gives a text that is wrong."""

    def __init__(self, target: ScriptedTarget) -> None:
        self._target = target
        self.n_ctx = target.capabilities.n_ctx
        self.cells: list[int] = []
        self.closed = False
        self._tokens: list[int] = []
        self._snapshot: int | None = None

    @property
    def tokens(self) -> Sequence[int]:
        """See `Slot`."""
        return self._tokens

    def prefill(self, ids: Sequence[int], should_stop: Callable[[], bool]) -> Prefill:
        """See `Slot`."""
        self._target.check(self)
        assert len(ids) >= 1, "the contract asks for at least one id"
        if len(ids) > self.n_ctx:
            raise ContextFull(f"The prompt has {len(ids)} tokens, the context holds {self.n_ctx}.", "Shorten it.")
        wanted = list(ids[:-1])
        cached = position = self.trim(common_prefix(self.cells, wanted))
        self._tokens = list(ids[: position + 1])
        while position < len(wanted) and not should_stop():
            self.evaluate("prefill", wanted[position : position + self._target.chunk])
            position = len(self.cells)
            self._tokens = list(ids[: position + 1])
        return Prefill(cached, position - cached, complete=position == len(wanted))

    def rewind(self, length: int) -> None:
        """See `Slot`."""
        self._target.check(self)
        self.commit(self._tokens[:length])

    def fork(self) -> ScriptedSlot:
        """See `Slot`."""
        self._target.check(self)
        twin = self._target.open()
        twin.cells, twin._tokens, twin._snapshot = list(self.cells), list(self._tokens), self._snapshot
        return twin

    def close(self) -> None:
        """See `Slot`."""
        if not self.closed:
            self.closed = True
            self._target.live.discard(self)

    def commit(self, tokens: Sequence[int]) -> None:
        """Make `tokens` the committed ids and the cells all of them but the last."""
        wanted = list(tokens[:-1])
        kept = self.trim(common_prefix(self.cells, wanted))
        if wanted[kept:]:
            self.evaluate("replay", wanted[kept:])
        self._tokens = list(tokens)

    def follow(self, tokens: Sequence[int]) -> None:
        """Make `tokens` the committed ids, whatever the cells hold."""
        self._tokens = list(tokens)

    def evaluate(self, kind: Literal["prefill", "verify", "propose", "replay"], tokens: Sequence[int]) -> None:
        """Add cells."""
        self._target.note(kind, tokens)
        self.cells.extend(tokens)
        assert len(self.cells) <= self.n_ctx, "a cell past the context's edge"

    def save(self) -> None:
        """Remember the running state."""
        self._snapshot = len(self.cells)

    def trim(self, n: int) -> int:
        """Keep the first `n` cells, or as many as the scripted memory allows; gives how many stayed."""
        if n >= len(self.cells):
            return len(self.cells)
        rewind = self._target.capabilities.rewind
        if rewind == "none" or (rewind == "snapshot" and (self._snapshot is None or self._snapshot > n)):
            n, self._snapshot = 0, None
        elif rewind == "snapshot":
            assert self._snapshot is not None
            n = self._snapshot
        del self.cells[n:]
        return n


class ScriptedTarget(Target):
    """A model whose rows the test gives. It asserts that its callers keep the contract: one thread, live slots, room.

    rows: logits behind a prefix; asked once for each prefix, given out read-only.
    pieces: bytes of each id, empty for control tokens; `texts` their names in the file. ends: ids that end an answer.
    chunk: ids evaluated between two looks at should_stop. bos: begin token of every text.

    evaluations: what was evaluated, in order. passes: how many forward passes there were.
    failures: raised one after the other, at the next forward passes. on_pass: called before each with its kind.
    """

    def __init__(
        self,
        rows: Rows,
        pieces: Sequence[bytes],
        ends: Iterable[int] = frozenset(),
        n_ctx: int = 256,
        max_slots: int = 1,
        chat_template: str | None = None,
        texts: Sequence[str] | None = None,
        *,
        rewind: Literal["trim", "snapshot", "none"] = "trim",
        tree: bool = True,
        chunk: int = 8,
        bos: int | None = None,
        name: str = "scripted",
        path: Path = Path("scripted.gguf"),
    ) -> None:
        self.path, self.name, self.chat_template, self.chunk = path, name, chat_template, chunk
        self.vocabulary: ScriptedVocabulary = ScriptedVocabulary(pieces, ends, texts, bos)
        self.capabilities = Capabilities(rewind, tree and rewind == "trim", max_slots, n_ctx)
        self.evaluations: list[Evaluation] = []
        self.passes = 0
        self.failures: list[Exception] = []
        self.on_pass: Callable[[str], None] | None = None
        self.live: set[ScriptedSlot] = set()
        self.closed = False
        self.owner: int | None = None

        @cache
        def row(prefix: tuple[int, ...]) -> Logits:
            logits = np.array(rows(prefix), np.float32)
            assert logits.shape == (len(pieces),), "one logit for each id"
            logits.setflags(write=False)
            return logits

        self._row = row

    def ids(self, kind: str) -> list[int]:
        """All ids evaluated in passes of `kind`, in order."""
        return [token for evaluation in self.evaluations if evaluation.kind == kind for token in evaluation.tokens]

    def check(self, *slots: Slot) -> None:
        """The callers' part of the contract; the first call makes its thread the owner."""
        assert not self.closed, "the model is closed"
        self.owner = self.owner or threading.get_ident()
        assert self.owner == threading.get_ident(), "a call from another thread than the owner's"
        assert all(slot in self.live for slot in slots), "a slot that is closed or of another model"

    def note(self, kind: Literal["prefill", "verify", "propose", "replay"], tokens: Sequence[int]) -> None:
        """Write down what is evaluated, and fail if that was asked for."""
        self.passes += kind != "verify"
        if self.on_pass is not None:
            self.on_pass(kind)
        if self.failures:
            raise self.failures.pop(0)
        assert all(0 <= token < self.vocabulary.size for token in tokens), "an id outside the vocabulary"
        self.evaluations.append(Evaluation(kind, tuple(tokens)))

    def open(self) -> ScriptedSlot:
        """See `Target`."""
        self.check()
        if len(self.live) == self.capabilities.max_slots:
            raise QueueFull(f"All {self.capabilities.max_slots} places of the model are taken.", "Wait for one.")
        slot = ScriptedSlot(self)
        self.live.add(slot)
        return slot

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self.check(*(slot for slot, _, _ in items))
        self.passes += 1
        verdicts = []
        for slot, draft, sampler in items:
            assert isinstance(slot, ScriptedSlot)
            assert slot.cells == slot.tokens[:-1], "the cache holds every committed token except the last"
            assert self.capabilities.rewind != "none" or not len(draft), "a draft that could not be taken back"
            assert self.capabilities.tree or (draft.is_chain and not draft.probes), "a tree on a runtime without trees"
            if len(slot.tokens) + draft.depth > slot.n_ctx:
                raise ContextFull(f"No room for {len(draft)} tokens in {slot.n_ctx}.", "Start a new conversation.")
            if len(draft):
                slot.save()
            self.note("verify", [slot.tokens[-1], *draft.tokens, *draft.probes.tokens])
            committed = tuple(slot.tokens)
            verdict = acceptance.judge(draft, partial(self._row_after, committed, draft), sampler)
            # A chain's cells are there whether accepted or not; of a tree the accepted path stays.
            slot.cells.append(committed[-1])
            slot.cells.extend(draft.tokens if draft.is_chain else verdict.tokens[: verdict.n_accepted])
            slot.commit([*committed, *verdict.tokens])
            verdicts.append(verdict)
        return verdicts

    def _row_after(self, committed: tuple[int, ...], draft: Draft, node: int) -> Logits:
        tree: Draft | Probes = draft
        if node >= len(draft):
            tree, node = draft.probes, draft.probes.leaves[node - len(draft)]
        path: list[int] = []
        while node != -1:
            path.insert(0, tree.tokens[node])
            node = tree.parents[node]
        return self._row((*committed, *path))

    def propose(self, slot: Slot, ids: Sequence[int], n: int, sampler: Sampler, go_on: GoOn | None = None) -> Draft:
        """See `Target`."""
        self.check(slot)
        assert isinstance(slot, ScriptedSlot)
        assert n >= 1 and len(ids) + n <= slot.n_ctx + 1, "no room to propose"
        kept = slot.trim(common_prefix(slot.cells, ids[:-1]))
        slot.follow(ids)

        def next_row(token: int | None) -> Logits:
            slot.evaluate("propose", ids[kept:] if token is None else [token])
            if token is None:
                slot.save()
            return self._row(tuple(slot.cells))

        return acceptance.propose(next_row, n, sampler, go_on)

    def propose_tree(self, slot: Slot, ids: Sequence[int], depth: int, nodes: int, sampler: Sampler) -> Draft:
        """See `Target`. Nothing of the tree stays in the cells."""
        self.check(slot)
        assert isinstance(slot, ScriptedSlot)
        if not self.capabilities.tree:
            return super().propose_tree(slot, ids, depth, nodes, sampler)
        kept = slot.trim(common_prefix(slot.cells, ids[:-1]))
        slot.follow(ids)
        slot.evaluate("propose", ids[kept:])
        paths: list[tuple[int, ...]] = []

        def evaluate(tokens: Sequence[int], parents: Sequence[int], level: int) -> list[Logits]:
            self.note("propose", tokens)
            new = [(*(paths[p] if p >= 0 else ()), token) for token, p in zip(tokens, parents, strict=True)]
            paths.extend(new)
            return [self._row((*slot.cells, *path)) for path in new]

        return tree.grow(self._row(tuple(slot.cells)), evaluate, sampler, nodes=nodes, depth=depth)

    def close(self) -> None:
        """See `Target`."""
        self.closed = True
        self.live.clear()


class FakeRuntime(Runtime):
    """Models by the name of their path.

    models: what a path's name loads: makers are called with the options; a target as such can be loaded again once closed.
    shapes: what the files say of their memory, a few bytes where nothing is given. failures: what loading that name raises
    instead. loaded: options of every load that was asked for.
    """

    name = "fake"

    def __init__(self, models: Mapping[str, ScriptedTarget | Callable[[LoadOptions], ScriptedTarget]]) -> None:
        self.models = dict(models)
        self.failures: dict[str, UserError] = {}
        self.shapes: dict[str, Shape] = {}
        self.vocabulary_failures: dict[str, UserError] = {}
        self.loaded: list[LoadOptions] = []
        self.targets: list[ScriptedTarget] = []

    def read_model(self, path: Path, dtype: NumberType = "auto", *, draft: bool = False) -> ModelFile:
        """See `Runtime`."""
        if path.name in self.vocabulary_failures:
            raise self.vocabulary_failures[path.name]
        vocabulary = self._make(LoadOptions(path)).vocabulary
        shape = Shape(path.stem, 1000, 2, 64, vocabulary.size)
        return ModelFile(
            path,
            path.stem,
            "model",
            "scripted",
            0,
            self.shapes.get(path.name, shape),
            "full",
            "scripted",
            0,
            vocabulary.table,
        )

    def load(self, options: LoadOptions) -> ScriptedTarget:
        """See `Runtime`. Half-way it reports progress, and gives up where that says so."""
        self.loaded.append(options)
        if options.progress is not None and not (options.progress(0.5) and options.progress(1.0)):
            raise ModelUnreadable(f"{options.path.name} was not loaded: given up.", "Load it again.")
        if options.path.name in self.failures:
            raise self.failures[options.path.name]
        target = self._make(options)
        assert target not in self.targets or target.closed, "loaded twice at once"
        target.path, target.closed, target.owner = options.path, False, threading.get_ident()
        self.targets.append(target)
        return target

    def describe(self) -> dict[str, str]:
        """See `Runtime`."""
        return {"version": "0", "features": "scripted"}

    def _make(self, options: LoadOptions) -> ScriptedTarget:
        if options.path.name not in self.models:
            raise ModelUnreadable(f"{options.path} cannot be read: No such file.", "Check the path and its rights.")
        model = self.models[options.path.name]
        return model if isinstance(model, ScriptedTarget) else model(options)


class TableConstraint:
    """A `Constraint` from a table: state → the ids allowed there, each with the state behind it.

    accepting: states in which the text may end, with any id of `ends`. size: ids of the target's vocabulary.
    It asserts that it is only asked for what its table knows: an id that is not allowed is never pushed.
    """

    def __init__(
        self, table: Sequence[Mapping[int, int]], accepting: Iterable[int], ends: Iterable[int], size: int
    ) -> None:
        self._table, self._accepting, self._ends, self._size = table, set(accepting), frozenset(ends), size
        # The states so far; None behind an end token.
        self._states: list[int | None] = [0]
        self.problem = ""

    @property
    def n_pushed(self) -> int:
        """How many ids were pushed and not taken back."""
        return len(self._states) - 1

    def allowed(self) -> frozenset[int]:
        """What may come next."""
        state = self._states[-1]
        if state is None:
            return self._ends
        return frozenset(self._table[state]) | (self._ends if state in self._accepting else frozenset()) or self._ends

    def mask(self, n: int) -> Allowed:
        """See `Constraint`."""
        row = np.zeros(n, np.bool_)
        row[[token for token in self.allowed() if token < min(n, self._size)]] = True
        return row

    def push(self, token: int) -> None:
        """See `Constraint`."""
        assert token in self.allowed(), f"{token} is not allowed behind {self.n_pushed} ids"
        state = self._states[-1]
        self._states.append(None if token in self._ends or state is None else self._table[state][token])

    def pop(self, n: int) -> None:
        """See `Constraint`."""
        assert 0 <= n <= self.n_pushed, "more taken back than was pushed"
        del self._states[len(self._states) - n :]

    def legal(self, tokens: Sequence[int]) -> int:
        """See `Constraint`."""
        n = 0
        while n < len(tokens) and self._states[-1] is not None and tokens[n] in self.allowed():
            self.push(tokens[n])
            n += 1
        self.pop(n)
        return n
