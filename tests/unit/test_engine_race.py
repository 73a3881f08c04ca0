"""Two answers with passes of their own: the engine decodes them in turn, and neither changes the other."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.request import Event, Failed, Finished, Message, ModelChoice, Request
from pardec_chat.backends.base import Draft, Method, Slot, Verdict
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.decoding.sampler import Sampler
from pardec_chat.tests.fakes import FakeRuntime, ScriptedTarget
from pardec_chat.tests.rows import noise, replies

# Ids: 0-25 letters, 26 ends the prompt, 27 ends the answer.
PIECES = [*(bytes([c]) for c in range(ord("a"), ord("z") + 1)), b"", b""]
REPLY, END = 26, 27
ANSWER = [*(ord(c) - 97 for c in "abcabcabcabxabcabcabcabx"), END]
PROMPT = "abcabc"


class Passes(ScriptedTarget):
    """Notes which slots shared a forward pass, by the order in which they were opened."""

    def __init__(self) -> None:
        scripted = replies(len(PIECES), REPLY, ANSWER)
        # Each id has few that may follow it: drawn texts repeat, so that there is something to copy.
        drawn = noise(len(PIECES), 3, order=1, scale=9.0)
        self.drawn = False
        super().__init__(
            lambda prefix: drawn(prefix) if self.drawn else scripted(prefix),
            PIECES,
            {END},
            max_slots=2,
            texts=[*(chr(c) for c in range(ord("a"), ord("z") + 1)), "<|reply|>", "<|end|>"],
            chat_template="{{ messages[0].content }}<|reply|>",
        )
        self.together: list[tuple[int, ...]] = []
        self._slots: list[Slot] = []

    def verify(self, items: Sequence[tuple[Slot, Draft, Sampler]]) -> list[Verdict]:
        """See `Target`."""
        self._slots += [slot for slot, _, _ in items if slot not in self._slots]
        self.together.append(tuple(self._slots.index(slot) for slot, _, _ in items))
        return super().verify(items)


@pytest.fixture
def target() -> Passes:
    return Passes()


@pytest.fixture
def engine(target: Passes) -> Iterator[Engine]:
    engine = Engine(lambda: FakeRuntime({"a": target}))
    engine.load(ModelChoice(Path("a"), slots=2)).result(20)
    yield engine
    engine.close()


class Client:
    def __init__(self) -> None:
        self._done = threading.Event()
        self.last: Event | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Finished | Failed):
            self.last = event
            self._done.set()

    def finished(self) -> Finished:
        assert self._done.wait(20)
        assert isinstance(self.last, Finished), self.last
        return self.last


GREEDY = SamplingParams(temperature=0.0)
DRAWN = SamplingParams(temperature=1.0, seed=7)


def race(engine: Engine, target: Passes, *methods: Method, alone: bool, sampling: SamplingParams) -> list[Finished]:
    """Answers of `methods` at once: the engine's first pass waits until all were asked for."""
    asked, clients = threading.Event(), [Client() for _ in methods]

    def wait(kind: str) -> None:
        assert asked.wait(20)

    target.on_pass = wait
    for method, client in zip(methods, clients, strict=True):
        depth = 4 if method == Method.NGRAM else None
        request = Request(
            [Message("user", PROMPT)],
            sampling=sampling,
            max_tokens=40,
            method=method,
            depth=depth,
            ngram_min_match=1,
            alone=alone,
        )
        engine.submit(request, client)
    asked.set()
    return [client.finished() for client in clients]


# At a temperature the draws of auto depend on what it has measured, so they are not the same twice.
@pytest.mark.parametrize(
    ("other", "sampling"),
    [
        (Method.PLAIN, GREEDY),
        (Method.NGRAM, GREEDY),
        (Method.AUTO, GREEDY),
        (Method.PLAIN, DRAWN),
        (Method.NGRAM, DRAWN),
    ],
)
def test_two_alone_are_stepped_in_turn_and_answer_as_each_would(
    engine: Engine, target: Passes, other: Method, sampling: SamplingParams
) -> None:
    target.drawn = sampling is DRAWN
    by_themselves = [
        race(engine, target, method, alone=True, sampling=sampling)[0].token_ids for method in (Method.PLAIN, other)
    ]
    target.evaluations.clear()
    target.together.clear()
    plain, second = race(engine, target, Method.PLAIN, other, alone=True, sampling=sampling)

    assert [plain.token_ids, second.token_ids] == by_themselves
    assert len(plain.token_ids) > 15
    assert all(len(slots) == 1 for slots in target.together)
    slots = [slot for (slot,) in target.together]
    # In turn while both run, then whoever is left goes on.
    both = 2 * min(plain.figures.steps, second.figures.steps)
    assert all(a != b for a, b in itertools.pairwise(slots[:both]))
    assert len(set(slots[both:])) <= 1
    verified = [evaluation.tokens for evaluation in target.evaluations if evaluation.kind == "verify"]
    assert len(verified) == len(slots) == plain.figures.steps + second.figures.steps
    of_plain = [tokens for slot, tokens in zip(slots, verified, strict=True) if slot == slots[0]]
    assert all(len(tokens) == 1 for tokens in of_plain)
    if sampling is GREEDY:
        assert plain.token_ids == second.token_ids == ANSWER
    if other is Method.NGRAM:
        assert second.figures.draft_n_accepted > 0
        assert second.figures.steps < second.figures.predicted_n


def test_others_share_a_pass(engine: Engine, target: Passes) -> None:
    race(engine, target, Method.PLAIN, Method.NGRAM, alone=False, sampling=GREEDY)
    assert any(len(slots) == 2 for slots in target.together)
