from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pardec_chat.app.catalogue import HubSource, Model
from pardec_chat.app.downloads import errors, queue
from pardec_chat.app.downloads.hub import Hub
from pardec_chat.app.downloads.partial import Progress
from pardec_chat.app.downloads.pull import Tools
from pardec_chat.app.downloads.queue import Downloads, Item
from pardec_chat.app.downloads.waiting import Patience
from pardec_chat.backends.errors import UserError
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import Answer, FakeHub, FakeRepository, model_of, some_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pardec_chat.app.downloads.pull import Pulled

REPO = "tester/three-GGUF"
CONTENT = some_bytes(300_000)
STALL = Answer(stop_after=100_000, then="stall")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub.running(monkeypatch) as running:
        running.repositories[REPO] = FakeRepository({f"{name}.gguf": CONTENT for name in "abc"})
        yield running


def model(name: str) -> Model:
    return model_of(CONTENT, HubSource(REPO, f"{name}.gguf"), model_id=name)


A, B, C = model("a"), model("b"), model("c")


class Watched:
    """Downloads that a test can wait for; what `changed` is called for is looked at by the test's own thread."""

    def __init__(self, hub: FakeHub, folder: Path, *, at_once: int = 2, free: int = 1 << 40) -> None:
        self._news = threading.Condition()
        tools = Tools(hub=Hub(hub.endpoint, "", Patience(tries=2, stall=20.0)), free_bytes=lambda _: free)
        self.downloads = Downloads(folder, tools=tools, at_once=at_once, changed=self._changed)

    def _changed(self) -> None:
        with self._news:
            self._news.notify_all()

    def until(self, reached: Callable[[dict[str, Item]], bool]) -> dict[str, Item]:
        """Waits until the items are as `reached` wants them, and returns them by id.

        Flowing bytes are not told one by one, so it also looks by itself.
        """
        end = time.monotonic() + 20
        with self._news:
            while not reached(items := self.items):
                assert time.monotonic() < end, items
                self._news.wait(0.02)
        return items

    @property
    def items(self) -> dict[str, Item]:
        return {item.model.id: item for item in self.downloads.items()}

    @property
    def states(self) -> dict[str, str]:
        return {model_id: item.state for model_id, item in self.items.items()}


@pytest.fixture
def watched(hub: FakeHub, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(hub, tmp_path / "models")
    yield watched
    watched.downloads.close(20)
    assert not any(thread.name.startswith("pull ") for thread in threading.enumerate())


def all_done(items: dict[str, Item]) -> bool:
    return all(item.state == "done" for item in items.values())


def has(name: str, count: int) -> Callable[[dict[str, Item]], bool]:
    return lambda items: items[name].have == count


def test_all_are_fetched_at_most_two_at_once(hub: FakeHub, watched: Watched, tmp_path: Path) -> None:
    hub.answers_for = {f"{name}.gguf": [STALL] for name in "ab"}
    watched.downloads.start([A, B, C])
    items = watched.until(lambda items: items["a"].have == items["b"].have == 100_000)
    assert [item.state for item in items.values()] == ["downloading", "downloading", "waiting"]
    assert items["a"].percent == 33
    watched.downloads.pause("a")
    watched.until(lambda items: items["c"].state == "done")
    watched.downloads.pause("b")
    watched.downloads.start([A, B, C])
    assert list(watched.until(all_done)) == ["a", "b", "c"]
    for name in "abc":
        assert (tmp_path / "models" / f"{name}.gguf").read_bytes() == CONTENT


def test_one_that_runs_is_left_alone(hub: FakeHub, watched: Watched) -> None:
    hub.answers_for = {"a.gguf": [STALL]}
    watched.downloads.start([A])
    watched.until(has("a", 100_000))
    watched.downloads.start([A])
    assert watched.states == {"a": "downloading"}
    assert len(hub.ranges) == 1


@pytest.mark.parametrize("how", ["pause", "cancel"])
def test_L06_the_chosen_one_stops_at_once_and_the_other_goes_on(
    hub: FakeHub, watched: Watched, tmp_path: Path, how: str
) -> None:
    hub.answers_for = {"a.gguf": [STALL], "b.gguf": [replace(STALL, then="cut")]}
    watched.downloads.start([A, B])
    watched.until(has("a", 100_000))
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "pull a")
    began = time.monotonic()
    getattr(watched.downloads, how)("a")
    thread.join(20)
    assert time.monotonic() - began < 1.5
    assert watched.states.get("a") == ("paused" if how == "pause" else None)
    watched.until(lambda items: items["b"].state == "done")
    assert (tmp_path / "models" / "b.gguf").read_bytes() == CONTENT
    assert (tmp_path / "models" / "a.gguf.part").read_bytes() == CONTENT[:100_000]
    assert not (tmp_path / "models" / "a.gguf").exists()
    watched.downloads.start([A])
    watched.until(all_done)
    assert "bytes=100000-" in hub.ranges
    assert (tmp_path / "models" / "a.gguf").read_bytes() == CONTENT


def test_L06_going_on_while_the_old_pull_still_winds_down_waits_for_it(hub: FakeHub, watched: Watched) -> None:
    hub.answers_for = {"a.gguf": [STALL]}
    watched.downloads.start([A])
    watched.until(has("a", 100_000))
    for _ in range(3):
        watched.downloads.pause("a")
        watched.downloads.start([A])
        watched.downloads.cancel("a")
        watched.downloads.start([A])
    assert watched.until(all_done)["a"].error is None


def test_L06_quitting_is_prompt_and_keeps_what_came(hub: FakeHub, tmp_path: Path) -> None:
    hub.answers_for = {f"{name}.gguf": [STALL] for name in "ab"}
    watched = Watched(hub, tmp_path)
    watched.downloads.start([A, B, C])
    watched.until(lambda items: items["a"].have == items["b"].have == 100_000)
    began = time.monotonic()
    watched.downloads.close(20)
    watched.downloads.close(20)
    assert time.monotonic() - began < 1.5
    assert set(watched.states.values()) == {"paused"}
    assert (tmp_path / "a.gguf.part").stat().st_size == 100_000
    watched.downloads.start([A])
    assert watched.states["a"] == "paused"


def test_a_failed_one_keeps_its_error_and_can_be_started_again(hub: FakeHub, watched: Watched) -> None:
    hub.resolve_answers = [Answer(status=403, headers={"X-Error-Code": "GatedRepo"})]
    watched.downloads.start([A])
    failed = watched.until(lambda items: items["a"].state == "failed")["a"]
    assert type(failed.error) is errors.HubGated
    watched.downloads.pause("a")
    assert watched.states == {"a": "failed"}
    watched.downloads.start([A])
    assert watched.until(all_done)["a"].error is None


def test_what_an_earlier_run_left_is_listed_as_paused(hub: FakeHub, watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.gguf.part").write_bytes(CONTENT[:30_000])
    (tmp_path / "models" / "c.gguf").write_bytes(CONTENT)
    watched.downloads.keep([A, B, C])
    assert [(item.state, item.have, item.percent) for item in watched.downloads.items()] == [
        ("paused", 30_000, 10),
        ("paused", 0, 0),
        ("done", 300_000, 100),
    ]
    watched.downloads.start([A])
    watched.downloads.keep([A])
    watched.until(lambda items: items["a"].state == "done")
    assert hub.ranges == ["bytes=30000-"]


def test_a_retry_is_told_in_the_note(hub: FakeHub, watched: Watched) -> None:
    hub.answers_for = {"a.gguf": [Answer(status=503)]}
    watched.downloads.start([A])
    assert "Trying again in 1 s." in watched.until(lambda items: bool(items["a"].note))["a"].note


def test_L01_what_another_download_still_needs_is_not_free(hub: FakeHub, tmp_path: Path) -> None:
    hub.answers_for = {"a.gguf": [STALL]}
    watched = Watched(hub, tmp_path, free=400_000)
    watched.downloads.start([A])
    watched.until(has("a", 100_000))
    watched.downloads.start([B])
    failed = watched.until(lambda items: items["b"].state == "failed")["b"]
    assert type(failed.error) is errors.DiskTooSmall
    assert "beside 200,000 that other downloads still need" in failed.error.what
    assert failed.error.next_step.startswith("Free 100,000 bytes")
    watched.downloads.close(20)


def test_no_fault_escapes_a_thread(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> Pulled:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(queue, "pull", broken)
    watched.downloads.start([A])
    error = watched.until(lambda items: items["a"].state == "failed")["a"].error
    assert type(error) is UserError
    assert "ZeroDivisionError: oops" in error.what
    assert error.next_step
    assert "the download of a broke" in caplog.text


def test_a_watcher_that_breaks_ends_no_download(hub: FakeHub, tmp_path: Path) -> None:
    seen = threading.Event()

    def broken() -> None:
        if all(item.state == "done" for item in downloads.items()):
            seen.set()
        raise ZeroDivisionError

    tools = Tools(hub=Hub(hub.endpoint, ""), free_bytes=lambda _: 1 << 40)
    downloads = Downloads(tmp_path, tools=tools, changed=broken)
    downloads.start([A])
    assert seen.wait(20)
    downloads.close(20)
    assert (tmp_path / "a.gguf").read_bytes() == CONTENT


# ---- figures, with a clock and a pull of the test's own ----


class Scripted:
    """Stands for `pull`: reports what the test says, at the times it says, and looks at the item after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(queue, "pull", self._pull)
        self.now, self.calls = 0.0, 0
        self.steps: list[tuple[float, Progress]] = []
        self.seen: list[Item] = []
        self.over = threading.Event()
        self.downloads = Downloads(tmp_path, changed=self._changed, clock=lambda: self.now)

    def _changed(self) -> None:
        self.calls += 1
        if self.downloads.items()[0].state in ("done", "failed"):
            self.over.set()

    def _pull(self, _: Model, __: Path, *, report: Callable[[Progress], None], **___: object) -> None:
        for now, progress in self.steps:
            self.now = now
            report(progress)
            self.seen += self.downloads.items()

    def play(self, *steps: tuple[float, Progress]) -> list[Item]:
        self.steps = list(steps)
        self.downloads.start([Model("m", "M", 10_000, "", "", "", ())])
        assert self.over.wait(20)
        return self.seen


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scripted:
    return Scripted(monkeypatch, tmp_path)


def flowing(done: int) -> Progress:
    return Progress("downloading", done, 10_000)


def test_speed_is_that_of_the_last_seconds(scripted: Scripted) -> None:
    seen = scripted.play(
        (0.0, Progress("asking", 1_000, 10_000)),
        *((float(second), flowing(1_000 + 100 * second)) for second in range(1, 6)),
        *((float(second), flowing(1_500 + 500 * (second - 5))) for second in range(6, 10)),
    )
    assert (seen[0].speed, seen[1].speed) == (None, None)  # what was kept is no speed
    assert (seen[3].speed, seen[3].seconds_left) == (100.0, 87.0)
    assert seen[-1].speed == 500.0
    assert seen[-1].seconds_left == (10_000 - 3_500) / 500


def test_a_stall_shows_as_no_speed(scripted: Scripted) -> None:
    seen = scripted.play((0.0, flowing(0)), (1.0, flowing(1_000)), (2.0, flowing(2_000)))
    assert seen[-1].speed == 1_000.0
    job = next(iter(scripted.downloads._jobs.values()))
    job.samples.extend([(0.0, 0), (2.0, 2_000)])
    assert job.item(4.0).speed is None  # done by now
    job.state = "downloading"
    assert job.item(4.0).speed == 500.0
    assert job.item(5.0).speed is None
    assert job.item(5.0).seconds_left is None


def test_a_part_that_is_thrown_away_starts_the_speed_anew(scripted: Scripted) -> None:
    seen = scripted.play((0.0, flowing(8_000)), (1.0, flowing(9_000)), (1.5, flowing(0)), (2.0, flowing(500)))
    assert seen[2].speed is None
    assert seen[3].speed == 1_000.0


def test_while_a_hash_is_taken_all_is_here(scripted: Scripted) -> None:
    seen = scripted.play(
        (0.0, flowing(10_000)), (1.0, Progress("verifying", 0, 10_000)), (2.0, Progress("verifying", 5_000, 10_000))
    )
    assert [(item.state, item.have, item.speed) for item in seen[1:]] == [("verifying", 10_000, None)] * 2
    assert seen[2].seconds_left == 1.0


def test_flowing_bytes_are_told_a_few_times_a_second(scripted: Scripted) -> None:
    scripted.play(*((n / 1_000, flowing(n)) for n in range(2_000)))
    assert 15 < scripted.calls < 30
    assert len(scripted.downloads._jobs["m"].samples) < 40
