"""The engine with scripted models: turns, stops, the queue, loading, what is shown."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pardec_chat.app.chat.engine import Engine
from pardec_chat.app.chat.request import (
    Delta,
    Event,
    Failed,
    Finished,
    Message,
    ModelChoice,
    Notice,
    Piece,
    Prefilling,
    Queued,
    Request,
    Status,
    Thinking,
)
from pardec_chat.backends import memory
from pardec_chat.backends.base import Kernels, Method
from pardec_chat.backends.decoding.params import SamplingParams
from pardec_chat.backends.errors import (
    BadSetting,
    ContextFull,
    DoesNotFit,
    LoadGivenUp,
    MethodUnavailable,
    ModelUnreadable,
    OutOfMemory,
    PairImpossible,
    QueueFull,
    UserError,
)
from pardec_chat.backends.machine import Machine
from pardec_chat.backends.memory import Shape
from pardec_chat.tests.fakes import FakeRuntime, ScriptedTarget
from pardec_chat.tests.rows import Rows, replies

# Ids: 0 anything else, 1-26 letters, 27 space, 28 opens a reply, 29 end of turn, 30 end of text.
PIECES = [b"?", *(bytes([c]) for c in range(ord("a"), ord("z") + 1)), b" ", b"", b"", b""]
TEXTS = ["?", *(chr(c) for c in range(ord("a"), ord("z") + 1)), " ", "<|reply|>", "<|end|>", "</s>"]
REPLY, END, EOS = 28, 29, 30
TEMPLATE = "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% else %}<|reply|>{% endif %}{% endfor %}"
GREEDY = SamplingParams(temperature=0.0)


def ids(text: str) -> list[int]:
    return [27 if c == " " else ord(c) - 96 for c in text]


def model(rows: Rows, **options: object) -> ScriptedTarget:
    options.setdefault("n_ctx", 256)
    return ScriptedTarget(rows, PIECES, {END, EOS}, chat_template=TEMPLATE, texts=TEXTS, **options)  # type: ignore[arg-type]


def says(*answers: str, **options: object) -> ScriptedTarget:
    return model(replies(len(PIECES), REPLY, *([*ids(answer), END] for answer in answers)), **options)


class Client:
    """Collects the events of one request."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._done = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Finished | Failed):
            self._done.set()

    def finished(self) -> Finished:
        assert self._done.wait(20)
        last = self.events[-1]
        assert isinstance(last, Finished), last
        return last

    def error(self) -> UserError:
        assert self._done.wait(20)
        last = self.events[-1]
        assert isinstance(last, Failed), last
        return last.error

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


Start = Callable[..., Engine]


@pytest.fixture
def start() -> Iterator[Start]:
    engines: list[Engine] = []

    def make(runtime: FakeRuntime, choice: ModelChoice | None = None, **options: int) -> Engine:
        engine = Engine(lambda: runtime, **options)  # type: ignore[arg-type]  # the whole numbers alone
        engines.append(engine)
        if choice is not None:
            engine.load(choice).result(20)
        return engine

    yield make
    for engine in engines:
        engine.close()


A = ModelChoice(Path("a"))


def ask(engine: Engine, text: str, **options: object) -> Finished:
    client = Client()
    options.setdefault("sampling", GREEDY)
    engine.submit(Request(messages=[Message("user", text)], **options), client)  # type: ignore[arg-type]
    return client.finished()


@pytest.mark.parametrize("method", [Method.PLAIN, Method.NGRAM, Method.DRAFT])
@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_every_method_gives_the_same_answer(start: Start, method: Method, depth: int) -> None:
    text = "abcabcabc abcabcabc xyz"
    engine = start(
        FakeRuntime({"a": says(text), "d": says(text[:12] + "q" + text[13:])}), ModelChoice(Path("a"), Path("d"))
    )
    finished = ask(engine, "hi", method=method, depth=depth, ngram_min_match=2)
    assert finished.text == text
    assert list(finished.token_ids) == [*ids(text), END]
    assert finished.finish_reason == "stop"
    if method is not Method.PLAIN:
        assert finished.figures.draft_n > 0  # D14
        assert finished.figures.status.state == "active"


@pytest.mark.parametrize("draft", [None, Path("d")])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_auto_gives_the_same_answer_from_the_first_to_the_third_time(
    start: Start, draft: Path | None, temperature: float
) -> None:
    text = "abcabcabc abcabcabc xyz"
    engine = start(
        FakeRuntime({"a": says(text), "d": says(text[:12] + "q" + text[13:])}), ModelChoice(Path("a"), draft)
    )
    for _ in range(3):
        finished = ask(engine, "hi", method=Method.AUTO, sampling=SamplingParams(temperature=temperature))
        assert (finished.text, finished.finish_reason) == (text, "stop")
        figures = finished.figures
        assert 0 <= figures.draft_n_accepted <= figures.draft_n
        assert figures.predicted_n == len(text) + 1
        assert figures.status.state in {"active", "idle"}


def test_D14_auto_begins_by_measuring_plain_decoding_and_says_so(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abcabcabc"), "d": says("abcabcabc")}), ModelChoice(Path("a"), Path("d")))
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY, method=Method.AUTO), client)
    client.finished()
    first = client.of(Delta)[0]
    assert isinstance(first, Delta)
    figures = first.figures
    assert (figures.method, figures.using, figures.depth, figures.draft_n) == (Method.AUTO, Method.PLAIN, 0, 0)
    assert figures.status == Status("idle", "the first step measures plain decoding")
    # That one step is the measure of plain decoding; the time for planning it comes on top.
    assert figures.plain_per_second is not None
    assert figures.plain_per_second * figures.predicted_ms >= 1e3
    assert figures.speedup == pytest.approx(1e3 / figures.predicted_ms / figures.plain_per_second)


def test_D14_auto_has_no_depth_to_be_given() -> None:
    with pytest.raises(BadSetting, match="finds the depth itself"):
        Request(prompt="hi", method=Method.AUTO, depth=3)


@pytest.mark.parametrize(
    ("method", "using", "depth"), [(Method.PLAIN, Method.PLAIN, 0), (Method.DRAFT, Method.DRAFT, 3)]
)
def test_E07_figures_say_what_is_used(start: Start, method: Method, using: Method, depth: int) -> None:
    engine = start(FakeRuntime({"a": says("abcdef"), "d": says("abcdef")}), ModelChoice(Path("a"), Path("d")))
    figures = ask(engine, "hi", method=method).figures
    assert (figures.method, figures.using, figures.depth) == (method, using, depth)


def test_D14_status_says_off_idle_or_active_and_why(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abcdef")}), A)
    plain = ask(engine, "hi")
    assert (plain.figures.status.state, plain.figures.status.reason) == ("off", "plain decoding was chosen")
    idle = ask(engine, "hi", method=Method.NGRAM)
    assert (idle.figures.status.state, idle.figures.status.reason) == ("idle", "no repeated text to copy so far")
    nothing = ask(engine, "hi", method=Method.NGRAM, depth=0)
    assert nothing.figures.status.state == "off"
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], method=Method.DRAFT), client)
    assert isinstance(client.error(), MethodUnavailable)


def test_D14_a_memory_that_cannot_be_rewound_decodes_plainly_and_says_so(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("ababababab", rewind="none")}), A)
    for method in (Method.NGRAM, Method.AUTO):
        finished = ask(engine, "hi", method=method, ngram_min_match=1)
        assert finished.text == "ababababab"
        assert finished.figures.status == Status("off", "this model's memory cannot be rewound on this runtime")


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("stop", ["d", "cde", "hij", "a"])
def test_S04_a_stop_inside_a_block_cuts_text_ids_logprobs_counts_and_cache_at_one_place(
    start: Start, depth: int, stop: str
) -> None:
    text = "abcdefghij"
    target = says(text, text)
    engine = start(FakeRuntime({"a": target, "d": says(text, text)}), ModelChoice(Path("a"), Path("d")))
    sampling = SamplingParams(temperature=0.0, logprobs=2)
    finished = ask(engine, "hi", stop=[stop], method=Method.DRAFT, depth=depth, sampling=sampling)
    kept = text[: text.index(stop)]
    assert finished.text == kept
    assert list(finished.token_ids) == ids(kept)
    assert len(finished.logprobs) == len(kept)
    assert finished.finish_reason == "stop"
    assert finished.figures.predicted_n == len(kept) == finished.timings["predicted_n"]
    assert 0 <= finished.figures.draft_n_accepted <= min(finished.figures.draft_n, len(kept))
    assert finished.figures.context_used == len(ids("hi")) + 1 + len(kept)
    (slot,) = target.live
    assert slot.cells == [*ids("hi"), REPLY, *ids(kept)][:-1]


def test_S02_the_stream_equals_the_answer(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abc stop it xyz")}), A)
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY, stop=["stop now", "it x"]), client)
    finished = client.finished()
    streamed = "".join(event.text for event in client.events if isinstance(event, Delta)) + finished.tail
    assert streamed == finished.text == "abc stop "


def test_T04_every_end_token_ends_and_no_marker_is_shown(start: Start) -> None:
    for end in (END, EOS):
        target = model(replies(len(PIECES), REPLY, [*ids("abc"), end, *ids("more")]))
        finished = ask(start(FakeRuntime({"a": target}), A), "hi")
        assert finished.text == "abc"
        assert list(finished.token_ids) == [*ids("abc"), end]


def test_T04_an_end_marker_written_in_pieces_ends_the_answer(start: Start) -> None:
    pieces = [b"?", b"a", b"<|", b"en", b"d|>", b"", b""]
    texts = ["?", "a", "<|", "en", "d|>", "<|reply|>", "<|end|>"]
    rows = replies(7, 5, [1, 2, 3, 4, 1, 1, 6])
    target = ScriptedTarget(rows, pieces, {6}, chat_template=TEMPLATE, texts=texts)
    finished = ask(start(FakeRuntime({"a": target}), A), "a")
    assert finished.text == "a"
    assert list(finished.token_ids) == [1]


def test_the_second_turn_evaluates_only_what_is_new(start: Start) -> None:
    target = says("first answer", "second one", n_ctx=4096)
    engine = start(FakeRuntime({"a": target}), A)
    question = "abcdefghij" * 100
    first = ask(engine, question)
    assert (first.figures.cache_n, first.figures.prompt_n) == (0, 1000)
    target.evaluations.clear()
    client = Client()
    talk = [Message("user", question), Message("assistant", first.text), Message("user", "next")]
    engine.submit(Request(messages=talk, sampling=GREEDY), client)
    second = client.finished()
    assert second.text == "second one"
    # The end token was the last of the first answer, so it is not in the cache yet.
    assert target.ids("prefill") == [END, *ids("next")]
    assert (second.figures.cache_n, second.figures.prompt_n) == (1013, 5)


def test_K07_the_oldest_turns_are_left_out_with_a_notice(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("ok", "ok", "ok", n_ctx=128)}), A)
    client = Client()
    talk = [Message("user", "a" * 60), Message("assistant", "b" * 30), Message("user", "c" * 40)]
    engine.submit(Request(messages=talk, sampling=GREEDY), client)
    assert client.finished().text == "ok"
    assert client.of(Notice) == [Notice("The oldest 2 messages no longer fit the context and were left out.")]
    engine.submit(Request(messages=talk, sampling=GREEDY, overflow="refuse"), refused := Client())
    assert isinstance(refused.error(), ContextFull)
    assert "133 tokens; the context holds 128" in refused.error().what


@pytest.mark.parametrize("length", range(90, 96))
def test_K07_drafts_never_reach_past_the_contexts_edge(start: Start, length: int) -> None:
    text = "z" * 200
    engine = start(
        FakeRuntime({"a": says(text, n_ctx=128), "d": says(text, n_ctx=128)}), ModelChoice(Path("a"), Path("d"))
    )
    finished = ask(engine, "a" * length, method=Method.DRAFT, depth=8)
    assert finished.finish_reason == "length"
    assert finished.figures.context_used == 128
    assert finished.text == "z" * (128 - length - 1)


def test_K05_two_conversations_share_nothing_and_warm_equals_cold(start: Start) -> None:
    def rows(prefix: tuple[int, ...]) -> Sequence[float]:
        row = [0.0] * len(PIECES)
        behind = len(prefix) - prefix.index(REPLY)
        row[prefix[0] if behind < 6 else END] = 30.0  # repeats its own prompt's first letter
        return row

    engine = start(
        FakeRuntime({"a": lambda options: model(rows, max_slots=options.slots)}), ModelChoice(Path("a"), slots=2)
    )
    clients = [Client() for _ in range(6)]
    for client, letter in zip(clients, "abcabc", strict=True):
        engine.submit(Request(messages=[Message("user", letter * 3)], sampling=GREEDY), client)
    assert [client.finished().text for client in clients] == [c * 5 for c in "abcabc"]


def test_H05_fifty_requests_at_once_queue_fairly_and_past_the_bound_are_refused(start: Start) -> None:
    gate = threading.Event()
    target = says(*["ok"] * 60)
    target.on_pass = lambda _kind: (gate.wait(20), None)[1]
    engine = start(FakeRuntime({"a": target}), A, queue_limit=50)
    order: queue.SimpleQueue[int] = queue.SimpleQueue()
    clients = []
    errors = []

    def submit(number: int) -> None:
        client = Client()

        def sink(event: Event) -> None:
            client(event)
            if isinstance(event, Finished):
                order.put(number)

        try:
            engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), sink)
            clients.append(client)
        except QueueFull as error:
            errors.append(error)

    for number in range(52):
        submit(number)
    # One may have left the queue for the model already; the rest waits.
    assert len(clients) in (50, 51)
    assert len(errors) == 52 - len(clients)
    assert errors[0].next_step
    gate.set()
    texts = [client.finished().text for client in clients]
    assert texts == ["ok"] * len(clients)
    assert [order.get() for _ in clients] == list(range(len(clients)))
    assert any(isinstance(event, Queued) and event.ahead > 1 for event in clients[-1].events)
    assert engine.n_waiting == 0


def test_cancel_takes_effect_within_one_step(start: Start) -> None:
    target = says("a" * 200)
    engine = start(FakeRuntime({"a": target}), A)
    client = Client()
    tickets: queue.SimpleQueue[object] = queue.SimpleQueue()

    def sink(event: Event) -> None:
        client(event)
        if isinstance(event, Delta) and event.figures.predicted_n == 3:
            tickets.get().cancel()  # type: ignore[attr-defined]

    tickets.put(engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), sink))
    finished = client.finished()
    assert (finished.finish_reason, finished.text) == ("cancelled", "aaa")
    assert ask(engine, "hi", max_tokens=4).text == "aaaa"


def test_cancel_takes_effect_within_one_chunk_of_the_prompt(start: Start) -> None:
    target = says("ok", "ok", n_ctx=4096, chunk=8)
    engine = start(FakeRuntime({"a": target}), A)
    client = Client()
    tickets: queue.SimpleQueue[object] = queue.SimpleQueue()

    def sink(event: Event) -> None:
        client(event)
        if isinstance(event, Prefilling) and event.done == 16:
            tickets.get().cancel()  # type: ignore[attr-defined]

    tickets.put(engine.submit(Request(messages=[Message("user", "a" * 400)], sampling=GREEDY), sink))
    assert client.finished().finish_reason == "cancelled"
    assert len(target.ids("prefill")) == 16
    assert ask(engine, "a" * 400).text == "ok"
    assert len(target.ids("prefill")) == 400  # the stopped prompt goes on where it was


def test_M03_prompt_time_first_token_and_decoding_are_apart_and_timed_in_the_engine(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abcdef")}), A)
    client = Client()
    slow = threading.Event()

    def sink(event: Event) -> None:
        client(event)
        slow.wait(0.01)  # a consumer that takes its time between two steps

    engine.submit(Request(messages=[Message("user", "hello there")], sampling=GREEDY), sink)
    finished = client.finished()
    timings = finished.timings
    assert timings["prompt_n"] == 11
    assert timings["ttft_ms"] >= timings["prompt_ms"] > 0  # type: ignore[operator]
    assert timings["total_ms"] >= 6 * 10  # type: ignore[operator]
    assert timings["predicted_ms"] < 6 * 10  # type: ignore[operator]
    assert timings["predicted_per_second"] == pytest.approx(7 / timings["predicted_ms"] * 1e3, rel=1e-3)  # type: ignore[operator]


def test_K03_a_draft_that_does_not_fit_is_left_out_and_the_chat_goes_on(start: Start) -> None:
    runtime = FakeRuntime({"a": says("abc"), "d": says("abc")})
    runtime.failures["d"] = OutOfMemory("d does not fit into memory: 3 GB asked for.", "Take a smaller one.")
    engine = start(runtime)
    loaded = engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    assert loaded.draft is None
    assert loaded.notices == (
        "The draft model does not fit into memory and was left out: d does not fit into memory: 3 GB asked for.",
    )
    finished = ask(engine, "hi", method=Method.DRAFT)
    assert finished.text == "abc"
    assert finished.figures.status.state == "off"
    assert "could not be loaded" in finished.figures.status.reason


def test_K03_a_failing_target_leaves_an_engine_that_loads_another(start: Start) -> None:
    runtime = FakeRuntime({"a": says("abc"), "b": says("xyz")})
    runtime.failures["b"] = OutOfMemory("b does not fit.", "Take a smaller one.")
    engine = start(runtime, A)
    with pytest.raises(OutOfMemory):
        engine.load(ModelChoice(Path("b"))).result(20)
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")]), client)
    assert client.error().what == "No model is loaded."
    engine.load(A).result(20)
    assert ask(engine, "hi").text == "abc"


GB = 10**9


def small_machine(free: int) -> Machine:
    """Two cores and so many bytes."""
    return Machine("test", "test", 2, (), 2 * free, free)


@pytest.fixture
def planned() -> Iterator[Callable[[FakeRuntime, int], Engine]]:
    """An engine on a machine with so many free bytes."""
    engines: list[Engine] = []

    def make(runtime: FakeRuntime, free: int) -> Engine:
        engines.append(Engine(lambda: runtime, machine=lambda: small_machine(free)))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def sized() -> FakeRuntime:
    """A target of 3 GB, a draft of 1 GB, and caches of 100 kB a token for the one, of 50 for the other."""
    runtime = FakeRuntime({"a": says("abc"), "d": says("abc"), "s": says("s")})
    runtime.shapes["a"] = Shape("a", 3 * GB, 10, 100_000, 31, context=8192, head=64)
    runtime.shapes["d"] = Shape("d", 1 * GB, 4, 50_000, 31, context=8192, head=64)
    return runtime


def test_K03_the_draft_goes_first_and_the_notice_says_what_would_keep_it(
    planned: Callable[[FakeRuntime, int], Engine],
) -> None:
    # 3 + 1 GB of weights, 0.41 + 0.2 of cache at 4,096 tokens: 0.2 GB too much for both.
    runtime = sized()
    engine = planned(runtime, int(4.4 * GB) + memory._HOST_RESERVE)
    loaded = engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    assert [options.path.name for options in runtime.loaded] == ["a"]
    assert loaded.draft is None
    assert loaded.plan is not None
    assert not loaded.plan.has_draft
    (notice,) = loaded.notices
    assert notice.startswith("The draft model does not fit beside the target: 2")
    assert " MB are missing. " in notice
    assert "With an 8-bit cache there is room for it." in notice
    finished = ask(engine, "hi", method=Method.DRAFT)
    assert (finished.text, finished.figures.status.state) == ("abc", "off")
    assert "does not fit beside the target" in finished.figures.status.reason


def test_K03_what_does_not_fit_is_told_before_anything_is_loaded_and_the_session_lives(
    planned: Callable[[FakeRuntime, int], Engine],
) -> None:
    runtime = sized()
    engine = planned(runtime, int(3.3 * GB) + memory._HOST_RESERVE)
    engine.load(ModelChoice(Path("s"))).result(20)
    with pytest.raises(DoesNotFit) as caught:
        engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    assert [options.path.name for options in runtime.loaded] == ["s"]
    ways = caught.value.alternatives
    assert [(way.wish.draft, way.wish.cache_type, way.wish.n_ctx) for way in ways] == [
        (None, "q8_0", None),
        (None, "f16", 2048),
    ]
    assert all(way.plan.fits for way in ways)
    assert not caught.value.plan.fits
    assert "8-bit cache" in caught.value.next_step
    assert ask(engine, "hi").text == "s"
    again = engine.load(ModelChoice(Path("a"), n_ctx=2048)).result(20)
    assert (again.n_ctx, runtime.loaded[-1].n_ctx) == (again.n_ctx, 2048)


def test_K03_the_user_may_insist(planned: Callable[[FakeRuntime, int], Engine]) -> None:
    runtime = sized()
    engine = planned(runtime, GB)
    assert engine.load(ModelChoice(Path("a"), unchecked=True)).result(20).model
    with pytest.raises(DoesNotFit) as caught:
        engine.load(ModelChoice(Path("a"), n_ctx=4096)).result(20)
    assert not caught.value.alternatives
    assert "smaller model" in caught.value.next_step


def test_H02_what_the_loaded_model_gives_back_counts_as_free(planned: Callable[[FakeRuntime, int], Engine]) -> None:
    """Caches and buffers are the program's own until it closes them; pages of the file count as free already."""
    runtime = sized()
    runtime.models["b"] = says("b")
    runtime.shapes["b"] = replace(runtime.shapes["a"], name="b")
    engine = planned(runtime, int(3.6 * GB) + memory._HOST_RESERVE)
    engine.load(A).result(20)
    with pytest.raises(DoesNotFit):
        engine.load(ModelChoice(Path("b"), n_ctx=12_288)).result(20)  # 4.2 GB, and 4.0 are there
    assert engine.load(ModelChoice(Path("b"), n_ctx=8192)).result(20).model


def test_a_context_beyond_what_the_model_was_trained_for_is_told(planned: Callable[[FakeRuntime, int], Engine]) -> None:
    engine = planned(sized(), 20 * GB)
    assert engine.load(ModelChoice(Path("a"), n_ctx=8192)).result(20).notices == ()
    (notice,) = engine.load(ModelChoice(Path("a"), n_ctx=8193)).result(20).notices
    assert notice == "a was trained for 8,192 tokens; beyond them its answers get worse."


def test_whose_kernels_are_wanted_reaches_both_models_and_the_plan(
    planned: Callable[[FakeRuntime, int], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = sized()
    monkeypatch.setattr(runtime, "kernels", lambda choice, gpu_layers: Kernels(own=choice == "auto"))
    engine = planned(runtime, 20 * GB)
    own = engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    stock = engine.load(ModelChoice(Path("a"), Path("d"), kernels="stock")).result(20)
    assert [options.kernels for options in runtime.loaded] == ["auto", "auto", "stock", "stock"]
    for loaded, mapped in ((own, False), (stock, True)):
        assert loaded.plan is not None
        assert {part.mapped for part in loaded.plan.parts if part.what == "weights"} == {mapped}


def test_the_cache_type_reaches_both_models(planned: Callable[[FakeRuntime, int], Engine]) -> None:
    runtime = sized()
    engine = planned(runtime, 20 * GB)
    engine.load(ModelChoice(Path("a"), Path("d"), cache_type="q8_0")).result(20)
    assert [options.cache_type for options in runtime.loaded] == ["q8_0", "q8_0"]
    assert [options.gpu_layers for options in runtime.loaded] == [0, 0]


def test_D10_an_impossible_pair_is_refused_before_anything_changes(start: Start) -> None:
    other = ScriptedTarget(lambda _prefix: [0.0] * 31, PIECES, {END}, texts=[*TEXTS[:5], "f", "e", *TEXTS[7:]])
    runtime = FakeRuntime({"a": says("abc", "abc"), "d": other})
    engine = start(runtime, A)
    with pytest.raises(PairImpossible, match=r"2 of 31 common ids .* Id 5 is 'e' in the target, 'f' in the draft"):
        engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    assert [options.path.name for options in runtime.loaded] == ["a"]
    assert ask(engine, "hi").text == "abc"


def test_D11_masked_ids_are_never_drafted(start: Start) -> None:
    padded = ScriptedTarget(
        replies(33, REPLY, [*ids("ab"), 32, 32, END]), [*PIECES, b"p", b"q"], {END}, n_ctx=256, texts=[*TEXTS, "p", "q"]
    )
    engine = start(FakeRuntime({"a": says("abcd"), "d": padded}))
    loaded = engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    assert "Padded differently (31 and 33 ids)" in loaded.notices[0]
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY, method=Method.DRAFT, depth=3), client)
    assert client.finished().text == "abcd"
    proposed = [token for event in client.events if isinstance(event, Delta) for token in event.step.proposed]
    assert proposed
    assert max(proposed) < 31


def test_the_target_stays_loaded_when_only_the_draft_changes(start: Start) -> None:
    runtime = FakeRuntime({"a": says("abc"), "d": says("abc"), "e": says("abc")})
    engine = start(runtime, A)
    engine.load(ModelChoice(Path("a"), Path("d"))).result(20)
    engine.load(ModelChoice(Path("a"), Path("e"))).result(20)
    engine.load(A).result(20)
    assert [options.path.name for options in runtime.loaded] == ["a", "d", "e"]
    assert [target.closed for target in runtime.targets] == [False, True, True]


def test_H02_a_switch_during_an_answer_closes_the_old_model(start: Start) -> None:
    runtime = FakeRuntime({"a": says("a" * 200), "b": says("xyz")})
    engine = start(runtime, A)
    client = Client()
    started, asked = threading.Event(), threading.Event()

    def sink(event: Event) -> None:
        client(event)
        if isinstance(event, Delta):
            started.set()
            asked.wait(20)

    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), sink)
    assert started.wait(20)
    loading = engine.load(ModelChoice(Path("b")))
    asked.set()
    loading.result(20)
    assert client.finished().finish_reason == "cancelled"
    assert runtime.targets[0].closed
    assert ask(engine, "hi").text == "xyz"


def test_U04_close_ends_a_running_and_a_waiting_answer_and_the_thread(start: Start) -> None:
    target = says("a" * 5000, n_ctx=8192)
    engine = start(FakeRuntime({"a": target}), A)
    client = Client()
    started = threading.Event()
    target.on_pass = lambda _kind: started.set()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
    assert started.wait(20)
    waiting = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), waiting)
    engine.close()
    engine.close()
    assert not engine._thread.is_alive()
    assert target.closed
    assert client.finished().finish_reason == "cancelled"
    assert waiting.error().what == "The engine was closed."
    with pytest.raises(UserError, match="closed"):
        engine.submit(Request(messages=[Message("user", "hi")]), Client())
    with pytest.raises(UserError, match="closed"):
        engine.load(A)


def test_a_fault_of_ours_becomes_one_line_and_the_engine_lives_on(start: Start) -> None:
    target = says("abc", "abc")
    target.failures.append(ZeroDivisionError("oops"))
    engine = start(FakeRuntime({"a": target}), A)
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
    assert client.error().what == "A fault of this program: ZeroDivisionError."
    assert ask(engine, "hi").text == "abc"


def test_a_missing_model_is_a_typed_error(start: Start) -> None:
    with pytest.raises(ModelUnreadable, match="No such file"):
        start(FakeRuntime({})).load(A).result(20)


def test_raw_prompts_skip_the_template(start: Start) -> None:
    target = says("abc")
    engine = start(FakeRuntime({"a": target}), A)
    client = Client()
    engine.submit(Request(prompt="hello", sampling=GREEDY, max_tokens=1), client)
    client.finished()
    assert target.ids("prefill") + target.ids("verify") == ids("hello")


def test_answer_ids_are_given_and_what_follows_is_asked_for(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abcdef")}), A)
    assert ask(engine, "hi", answer_ids=ids("abc")).text == "def"


# Measuring and explaining


def test_without_a_model_there_is_nothing_to_explain_or_measure(start: Start) -> None:
    engine = start(FakeRuntime({}))
    for asked in (engine.explain(), engine.calibrate(lambda _: True)):
        with pytest.raises(UserError, match="No model is loaded"):
            asked.result(20)


def test_calibration_measures_what_an_explanation_shows_and_leaves_answers_as_they_were(start: Start) -> None:
    target, draft = says("abc", "abc", n_ctx=512), says("abc", "abc", n_ctx=512)
    engine = start(FakeRuntime({"a": target, "d": draft}), ModelChoice(Path("a"), Path("d")))
    assert ask(engine, "hi").text == "abc"
    found = engine.calibrate(lambda _: True, seconds=1e-3).result(20)
    assert {1, 2, 4, 8, 16, 32} <= {cost.rows for cost in found.passes}
    assert found.draft_ms is not None
    assert engine.explain().result(20) == found
    assert (len(target.live), len(draft.live)) == (0, 0), "all places were given back"
    assert ask(engine, "hi", method=Method.AUTO).text == "abc"


def test_calibration_ends_early_with_what_was_measured_so_far(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abc", n_ctx=512)}), A)
    found = engine.calibrate(lambda _: False).result(20)
    assert [cost.rows for cost in found.passes] == [1]


def test_an_answer_that_is_being_written_waits_for_a_calibration(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("a" * 20, n_ctx=512)}), A)
    client = Client()
    started, asked = threading.Event(), threading.Event()

    def sink(event: Event) -> None:
        client(event)
        if isinstance(event, Delta):
            started.set()
            asked.wait(20)

    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), sink)
    assert started.wait(20)
    calibration = engine.calibrate(lambda _: True, seconds=1e-3)
    asked.set()
    assert calibration.result(20).passes
    assert client.finished().text == "a" * 20


def test_before_a_model_is_loaded_requests_start_one_at_a_time_and_say_what_is_missing(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("ok", "ok")}))
    clients = [Client() for _ in range(3)]
    for client in clients:
        engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
    assert [client.error().what for client in clients] == ["No model is loaded."] * 3
    engine.load(A).result(20)
    assert ask(engine, "hi").text == "ok"


def test_the_choice_says_how_many_answers_go_at_the_same_time(start: Start) -> None:
    runtime = FakeRuntime({"a": lambda options: says("a" * 40, max_slots=options.slots)})
    engine = start(runtime, ModelChoice(Path("a"), slots=2))
    assert runtime.loaded[0].slots == 2
    clients = [Client() for _ in range(3)]
    gate = threading.Event()
    runtime.targets[0].on_pass = lambda _kind: (gate.wait(20), None)[1]
    for client in clients:
        engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
    gate.set()
    assert [client.finished().text for client in clients] == ["a" * 40] * 3
    # The first may have begun before the others came; of the rest no more than two go through one pass.
    assert len(runtime.targets[0].live) == 2
    engine.load(A).result(20)
    assert [options.slots for options in runtime.loaded] == [2, 1], "another number of places is another cache"


def test_room_for_several_answers_is_made_behind_the_one_that_is_written(start: Start) -> None:
    runtime = FakeRuntime({"a": lambda _options: says(*["abcdefgh"] * 4)})
    engine = start(runtime, A)
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
    room = engine.make_room(3)
    assert room.result(20).draft is None
    assert client.finished().text == "abcdefgh"  # not cut off by the reload
    assert [options.slots for options in runtime.loaded] == [1, 3]
    assert engine.pieces([1, 2, END]).result(20) == [b"a", b"b", b""]
    for token in (-1, 31):
        with pytest.raises(BadSetting, match=f"no token {token}"):
            engine.pieces([1, token]).result(20)


def test_without_memory_for_several_answers_nothing_changes(planned: Callable[[FakeRuntime, int], Engine]) -> None:
    runtime = sized()
    engine = planned(runtime, int(3.6 * GB) + memory._HOST_RESERVE)
    engine.load(A).result(20)
    with pytest.raises(DoesNotFit):
        engine.make_room(4).result(20)
    assert len(runtime.loaded) == 1
    assert ask(engine, "hi").text == "abc"


def test_E01_who_leaves_the_queue_keeps_nobody_out(start: Start) -> None:
    release = threading.Event()
    target = says(*["a"] * 40)
    target.on_pass = lambda _kind: assert_true(release.wait(20))
    engine = start(FakeRuntime({"a": target}), A, queue_limit=2)
    first = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), first)
    wait_until(lambda: engine.n_waiting == 0)
    waiting = [engine.submit(Request(messages=[Message("user", "hi")]), Client()) for _ in range(2)]
    with pytest.raises(QueueFull):
        engine.submit(Request(messages=[Message("user", "hi")]), Client())
    waiting[0].cancel()
    assert engine.n_waiting == 1
    last = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), last)
    release.set()
    assert last.finished().text == "a"
    assert engine.n_waiting == 0


def test_E01_those_who_come_only_to_leave_are_bounded(start: Start) -> None:
    release = threading.Event()
    target = says(*["a"] * 40)
    target.on_pass = lambda _kind: assert_true(release.wait(20))
    engine = start(FakeRuntime({"a": target}), A, queue_limit=2)
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), Client())
    wait_until(lambda: engine.n_waiting == 0)
    with pytest.raises(QueueFull):
        for _ in range(100):
            engine.submit(Request(messages=[Message("user", "hi")]), Client()).cancel()
    release.set()


def assert_true(value: bool) -> None:
    assert value


def wait_until(true: Callable[[], bool]) -> None:
    """Until another thread has come so far."""
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        os.sched_yield()


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("stop", ["", "hij", "cde", "dx"])
def test_M04_each_token_is_told_with_what_guessed_it(start: Start, depth: int, stop: str) -> None:
    text, guesses = "abcdefghij", "abcdqfghiz"  # wrong at the places 4 and 9
    engine = start(FakeRuntime({"a": says(text), "d": says(guesses)}), ModelChoice(Path("a"), Path("d")))
    client = Client()
    engine.submit(
        Request(
            messages=[Message("user", "hi")],
            sampling=GREEDY,
            method=Method.DRAFT,
            depth=depth,
            stop=[stop] if stop else [],
        ),
        client,
    )
    finished = client.finished()
    steps = client.of(Delta)
    told: list[Piece] = []
    for step in steps:
        assert isinstance(step, Delta)
        assert "".join(text for text, _ in step.pieces) == step.text
        told += step.pieces
    told += finished.pieces
    origins = [origin for step in steps for origin in step.step.origins]  # type: ignore[union-attr]
    shown = "".join(text for text, _ in told)
    assert shown == finished.text == (text[: text.index(stop)] if stop in text and stop else text)
    # Each letter is a token; the end token has no text and comes last, where it is reached.
    assert [origin for text, origin in told if text] == origins[: len(shown)]
    assert all(origins[place] is Method.PLAIN for place in (4, 9) if place < len(shown))
    assert Method.DRAFT in origins


@pytest.mark.parametrize("cuts", [(1, 2), (1, 1, 2), (4,), (2, 2), (3, 1)])
def test_M04_a_character_over_several_tokens_is_told_with_the_last_of_them(start: Start, cuts: tuple[int, ...]) -> None:
    emoji, pieces, at = "🙂".encode(), list(PIECES), 0
    for token, size in enumerate(cuts):
        pieces[token + 1] = emoji[at : at + size]
        at += size
    pieces[len(cuts)] = emoji[at - cuts[-1] :]
    answer = [*range(1, len(cuts) + 1), 20, END]
    rows = replies(len(pieces), REPLY, answer)
    target = ScriptedTarget(rows, pieces, {END, EOS}, chat_template=TEMPLATE, texts=TEXTS, n_ctx=256)
    engine = start(FakeRuntime({"a": target}), A)
    client = Client()
    engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
    client.finished()
    told = [piece for delta in client.of(Delta) for piece in delta.pieces]  # type: ignore[union-attr]
    texts = [text for text, _ in told]
    assert texts == [*[""] * (len(cuts) - 1), "🙂", "t", ""]


def test_a_template_that_opens_the_reasoning_is_told(start: Start) -> None:
    opened = ScriptedTarget(
        replies(len(PIECES), REPLY, [*ids("abc"), END]),
        PIECES,
        {END, EOS},
        chat_template=TEMPLATE + "<think>\n",
        texts=[*TEXTS],
        n_ctx=256,
    )
    engine = start(FakeRuntime({"a": opened, "b": says("abc")}), A)
    for path, told in (("a", 1), ("b", 0)):
        engine.load(ModelChoice(Path(path))).result(20)
        client = Client()
        engine.submit(Request(messages=[Message("user", "hi")], sampling=GREEDY), client)
        client.finished()
        assert len(client.of(Thinking)) == told


@pytest.mark.parametrize("at", [0.5, 1.0])
@pytest.mark.parametrize("part", [0, 1])
def test_a_load_can_be_given_up_and_the_engine_loads_another(start: Start, at: float, part: int) -> None:
    engine = start(FakeRuntime({"a": says("abc"), "b": says("xyz"), "d": says("abc")}), A)
    seen: list[float] = []

    def progress(done: float) -> bool:
        seen.append(done)
        return not (done == at and seen.count(at) == part + 1)

    with pytest.raises(LoadGivenUp):
        engine.load(ModelChoice(Path("b"), Path("d")), progress).result(20)
    engine.load(A).result(20)
    assert ask(engine, "hi").text == "abc"


def test_the_tokens_of_a_text_are_counted_by_the_loaded_model(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abc")}))
    with pytest.raises(UserError, match="No model"):
        engine.count("abc").result(20)
    engine.load(A).result(20)
    assert engine.count("abc def").result(20) == 7


def test_reading_a_prompt_tells_its_time(start: Start) -> None:
    engine = start(FakeRuntime({"a": says("abc")}), A)
    client = Client()
    engine.submit(Request(messages=[Message("user", "a" * 100)], sampling=GREEDY), client)
    client.finished()
    times = [event.ms for event in client.of(Prefilling)]  # type: ignore[union-attr]
    assert times == sorted(times) and all(ms >= 0 for ms in times)
