from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import traceback
from typing import TYPE_CHECKING

import httpx2 as httpx
import pytest
from huggingface_hub import constants

from pardec_chat.app.catalogue import HubSource
from pardec_chat.app.downloads import errors, refusals
from pardec_chat.app.downloads.hub import Hub, HubFile
from pardec_chat.app.downloads.partial import Partial
from pardec_chat.app.downloads.waiting import Patience, Stopped
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import COMMIT, FILE, REPO, Answer, FakeHub, Patient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = HubSource(REPO, FILE)
SECRET = "hf_aSecretThatMustNotBeShown"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub.running(monkeypatch) as running:
        yield running


@pytest.fixture
def partial(tmp_path: Path) -> Partial:
    return Partial(tmp_path / FILE)


def asking(hub: FakeHub, token: str | None = "", stall: float = 20.0) -> Hub:
    return Hub(endpoint=hub.endpoint, token=token, patience=Patience(tries=4, stall=stall))


def listed(hub: FakeHub, size: int | None = None) -> HubFile:
    return HubFile(SOURCE, COMMIT, len(hub.content) if size is None else size, None)


def fetch(hub: FakeHub, partial: Partial, cancel: Patient | None = None, stall: float = 20.0) -> list[int]:
    """Fetches and returns what was reported."""
    reported: list[int] = []
    asking(hub, stall=stall).fetch(listed(hub), partial, reported.append, cancel or Patient())
    return reported


def test_the_hub_tells_commit_size_and_hash(hub: FakeHub) -> None:
    file = asking(hub).resolve(HubSource(REPO, FILE, "v1/x"), Patient())
    assert (file.commit, file.size) == (COMMIT, 200_000)
    assert file.sha256 == fake_hub.model_of(hub.content).sha256
    assert hub.seen[0].path == f"/api/models/{REPO}/revision/v1%2Fx?blobs=true"


def test_bytes_come_from_the_commit_through_the_redirect(hub: FakeHub, partial: Partial) -> None:
    reported = fetch(hub, partial)
    assert partial.path.read_bytes() == hub.content
    assert reported == sorted(reported)
    assert reported[-1] == 200_000
    assert [seen.path for seen in hub.seen] == [f"/{REPO}/resolve/{COMMIT}/{FILE}", f"/signed/{FILE}"]


def test_the_token_goes_to_the_hub_and_to_no_other_host(hub: FakeHub, partial: Partial) -> None:
    asking(hub, SECRET).fetch(listed(hub), partial, lambda _: None, Patient())
    by_server = {seen.server: seen.headers.get("authorization") for seen in hub.seen}
    assert by_server == {"hub": f"Bearer {SECRET}", "cdn": None}


def test_the_users_own_token_and_endpoint_are_used(
    hub: FakeHub, partial: Partial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    Hub().resolve(SOURCE, Patient())
    assert hub.seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert hub.seen[0].headers["user-agent"] == "pardec-chat"
    assert len(hub.seen) == 1


def test_L02_resumes_by_range(hub: FakeHub, partial: Partial) -> None:
    partial.path.write_bytes(hub.content[:123_456])
    fetch(hub, partial)
    assert hub.ranges == ["bytes=123456-"]
    assert partial.path.read_bytes() == hub.content


def test_L02_a_whole_part_asks_for_nothing(hub: FakeHub, partial: Partial) -> None:
    partial.path.write_bytes(hub.content)
    fetch(hub, partial)
    assert hub.seen == []


def test_L02_a_server_without_ranges_costs_no_bytes_that_are_here(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(whole=True, stop_after=150_000), Answer()]
    partial.path.write_bytes(hub.content[:100_000])
    reported = fetch(hub, partial)
    assert min(reported) >= 100_000
    assert hub.ranges == ["bytes=100000-", "bytes=150000-"]
    assert partial.path.read_bytes() == hub.content


def test_L02_416_throws_the_part_away_once(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(status=416)]
    partial.path.write_bytes(b"x" * 1000)
    fetch(hub, partial)
    assert hub.ranges == ["bytes=1000-", ""]
    assert partial.path.read_bytes() == hub.content


def test_L02_416_for_ever_is_an_error_not_a_loop(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(status=416)] * 5
    partial.path.write_bytes(b"x" * 1000)
    with pytest.raises(errors.SourceDiffers, match="416"):
        fetch(hub, partial)
    assert len(hub.ranges) == 2


def test_L05_a_cut_connection_goes_on_where_it_was_cut(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(stop_after=50_000), Answer(stop_after=1)]
    cancel = Patient()
    fetch(hub, partial, cancel)
    assert hub.ranges == ["", "bytes=50000-", "bytes=50001-"]
    assert cancel.waits == [1.0, 2.0]
    assert partial.path.read_bytes() == hub.content


def test_a_failure_that_brought_a_mebibyte_starts_the_count_anew(hub: FakeHub, partial: Partial) -> None:
    hub.content = fake_hub.some_bytes(5 << 20)
    hub.answers = [Answer(stop_after=1 << 20)] * 4
    cancel = Patient()
    fetch(hub, partial, cancel)
    assert cancel.waits == [1.0] * 4
    assert partial.path.read_bytes() == hub.content


def test_L05_a_stall_times_out_and_is_tried_again(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(stop_after=70_000, then="stall")]
    fetch(hub, partial, stall=0.2)
    assert hub.ranges == ["", "bytes=70000-"]
    assert partial.path.read_bytes() == hub.content


def test_L05_a_stall_for_ever_names_the_host_and_keeps_what_came(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(stop_after=70_000, then="stall")] + [Answer(stop_after=0, then="stall")] * 9
    with pytest.raises(errors.HubUnreachable, match=r"127\.0\.0\.1 stopped sending"):
        fetch(hub, partial, stall=0.1)
    assert len(hub.ranges) == 4
    assert partial.path.read_bytes() == hub.content[:70_000]


def test_a_body_that_ends_early_is_asked_for_the_rest(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(stop_after=10_000, then="end")]
    fetch(hub, partial)
    assert hub.ranges == ["", "bytes=10000-"]
    assert partial.path.read_bytes() == hub.content


def test_retry_after_is_obeyed(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(status=503), Answer(status=429, headers={"Retry-After": "7"})]
    hub.api_answers = [Answer(status=429, headers={"Retry-After": "9999"})]
    cancel, told = Patient(), list[str]()
    asking(hub).resolve(SOURCE, cancel, tell=told.append)
    fetch(hub, partial, cancel)
    assert cancel.waits == [60.0, 1.0, 7.0]
    assert told == ["The Hub turns requests away: too many came from this address (429). Trying again in 60 s."]


def test_patience_ends(hub: FakeHub) -> None:
    hub.api_answers = [Answer(status=503)] * 9
    cancel = Patient()
    with pytest.raises(errors.HubUnreachable, match="503"):
        asking(hub).resolve(SOURCE, cancel)
    assert cancel.waits == [1.0, 2.0, 4.0]


def test_an_expired_cdn_address_is_asked_for_anew(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(status=403)]
    fetch(hub, partial)
    assert [seen.server for seen in hub.seen] == ["hub", "cdn", "hub", "cdn"]


def test_a_lie_about_the_size_is_caught_before_a_byte_is_kept(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(total=300_000)]
    with pytest.raises(errors.SourceDiffers, match="has 200,000 bytes, but sends 300,000"):
        fetch(hub, partial)
    assert partial.size == 0


def test_no_more_is_written_than_the_file_has(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(stop_after=200_000, then="end")]
    asking(hub).fetch(listed(hub, 150_000), partial, lambda _: None, Patient())
    assert partial.path.read_bytes() == hub.content[:150_000]


REFUSALS = [
    ("", 401, {"X-Error-Code": "RepoNotFound"}, errors.HubNeedsLogin, "hf auth login"),
    ("", 401, {"X-Error-Code": "GatedRepo"}, errors.HubNeedsLogin, f"/{REPO}"),
    (
        SECRET,
        401,
        {"X-Error-Message": "Invalid credentials in Authorization header"},
        errors.HubTokenRefused,
        "/settings/tokens",
    ),
    (SECRET, 403, {"X-Error-Code": "GatedRepo"}, errors.HubGated, f"/{REPO}"),
    (SECRET, 403, {"X-Error-Message": "token lacks scope"}, errors.HubTokenLacksScope, "read access"),
    (SECRET, 404, {"X-Error-Code": "RepoNotFound"}, errors.HubMissing, f"/{REPO}"),
    (SECRET, 404, {"X-Error-Code": "EntryNotFound"}, errors.HubMissing, f"/{REPO}"),
]


@pytest.mark.parametrize("where", ["api", "resolve"])
@pytest.mark.parametrize(("token", "status", "headers", "kind", "step"), REFUSALS)
def test_L04_each_refusal_has_its_error_and_next_step(
    hub: FakeHub,
    partial: Partial,
    where: str,
    token: str,
    status: int,
    headers: dict[str, str],
    kind: type[errors.DownloadFailed],
    step: str,
) -> None:
    answers = hub.api_answers if where == "api" else hub.resolve_answers
    answers.append(Answer(status=status, headers=headers))
    ask = asking(hub, token)
    with pytest.raises(errors.DownloadFailed) as caught:
        ask.fetch(ask.resolve(SOURCE, Patient()), partial, lambda _: None, Patient())
    assert type(caught.value) is kind
    assert str(status) in caught.value.what
    assert step in caught.value.next_step
    shown = "".join(traceback.format_exception(caught.value)) + repr(ask)
    assert SECRET not in shown


def test_L04_the_five_messages_are_distinct() -> None:
    told = {
        str(refusals.refused(status, headers, endpoint="https://hub", repo=REPO, file=FILE, token_sent=bool(token)))
        for token, status, headers, _, _ in REFUSALS
    }
    assert len(told) == len(REFUSALS)


def test_L04_a_token_that_no_header_can_hold_is_not_shown(hub: FakeHub) -> None:
    with pytest.raises(errors.HubTokenRefused) as caught:
        asking(hub, SECRET + "\u201d").resolve(SOURCE, Patient())
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert hub.seen == []


def test_a_file_that_the_repository_does_not_list_is_missing(hub: FakeHub) -> None:
    with pytest.raises(errors.HubMissing, match=r"no file other\.gguf"):
        asking(hub).resolve(HubSource(REPO, "other.gguf"), Patient())


@pytest.mark.parametrize("body", [b"<html>log in to this network</html>", b"[]", b'{"sha": "x", "siblings": [{}]}'])
def test_an_answer_that_is_no_hubs_is_named(hub: FakeHub, body: bytes) -> None:
    hub.api_body = body
    with pytest.raises(errors.HubUnreachable, match="did not answer as a Hub does"):
        asking(hub).resolve(SOURCE, Patient())


def test_X02_a_token_is_checked_and_its_account_named(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    hub.accounts = {SECRET: "alice"}
    assert asking(hub, "hf_another").check_token(f" {SECRET}\n", Patient()) == "alice"
    assert (hub.seen[0].path, hub.seen[0].headers["authorization"]) == ("/api/whoami-v2", f"Bearer {SECRET}")


@pytest.mark.parametrize(
    ("token", "answer", "kind", "says"),
    [
        (SECRET, Answer(), errors.HubTokenRefused, "mistyped, expired or revoked (401)"),
        (SECRET, Answer(status=403), errors.HubTokenRefused, "(403)"),
        (SECRET, Answer(status=404), errors.HubUnreachable, "did not answer as a Hub does"),
        (SECRET, Answer(status=200), errors.HubUnreachable, "did not answer as a Hub does"),
        (SECRET + "\u201d", Answer(), errors.HubTokenRefused, "characters that no token has"),
        ("  ", Answer(), errors.HubTokenRefused, "No token was given"),
    ],
)
def test_X02_a_token_that_will_not_do_is_not_shown(
    hub: FakeHub,
    token: str,
    answer: Answer,
    kind: type[errors.DownloadFailed],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(0)
    hub.whoami_answers = [answer]
    if answer.status == 200:  # some other site's page
        hub.accounts[SECRET] = "x"
        hub.whoami_answers = []
        hub.whoami_body = b"<html>"
    ask = asking(hub)
    with pytest.raises(errors.DownloadFailed) as caught:
        ask.check_token(token, Patient())
    assert type(caught.value) is kind
    assert says in caught.value.what
    assert caught.value.next_step
    assert SECRET not in "".join(traceback.format_exception(caught.value)) + repr(ask) + caplog.text


def test_X02_asking_for_an_account_is_patient_and_can_be_called_off(hub: FakeHub) -> None:
    hub.accounts = {SECRET: "alice"}
    hub.whoami_answers = [Answer(status=429, headers={"Retry-After": "5"}), Answer(status=503)]
    cancel = Patient()
    assert asking(hub).check_token(SECRET, cancel) == "alice"
    assert cancel.waits == [5.0, 2.0]
    hub.whoami_answers = [Answer(status=429)] * 9
    with pytest.raises(errors.HubUnreachable, match="too many tokens"):
        asking(hub).check_token(SECRET, cancel)
    cancel.set()
    with pytest.raises(Stopped):
        asking(hub).check_token(SECRET, cancel)


LOGIN = """
import logging, sys
logging.basicConfig(level=0, stream=sys.stderr)
from pardec_chat.app.downloads.hub import Hub
from pardec_chat.backends.errors import UserError
try:
    print(Hub().login(sys.stdin.read()))
    from huggingface_hub import get_token
    print(get_token() == sys.argv[1])
except UserError as error:
    print(type(error).__name__, error)
"""


def logged_in(hub: FakeHub, home: Path, **environment: str) -> str:
    """What a process says that logs in with SECRET, the Hub's library keeping its files in `home`."""
    own = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "0"}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, "-c", LOGIN, SECRET],
        input=SECRET,
        env=inherited | own | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def test_X02_a_login_is_kept_by_the_hubs_own_library(hub: FakeHub, tmp_path: Path) -> None:
    hub.accounts = {SECRET: "alice"}
    assert logged_in(hub, tmp_path).split() == ["alice", "True"]
    assert (tmp_path / "token").read_text() == SECRET
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0
    assert SECRET in (tmp_path / "stored_tokens").read_text()


def test_X02_a_token_that_cannot_be_kept_or_used_is_told(hub: FakeHub, tmp_path: Path) -> None:
    hub.accounts = {SECRET: "alice"}
    assert "HF_TOKEN is set to another token" in logged_in(hub, tmp_path, HF_TOKEN="hf_other")
    assert logged_in(hub, tmp_path, HF_TOKEN=SECRET).split() == ["alice", "True"]
    (tmp_path / "file").write_text("in the way")
    assert "could not keep it: File exists" in logged_in(hub, tmp_path / "file")
    assert not (tmp_path / "token").exists()


def test_a_stored_token_that_cannot_be_read_is_told(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path))
    with pytest.raises(errors.HubTokenRefused, match="cannot be read: Is a directory"):
        Hub(hub.endpoint, patience=Patience(stall=20)).resolve(SOURCE, Patient())


def test_L02_what_is_read_ahead_of_the_disk_is_bounded(
    hub: FakeHub, partial: Partial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes its first block only when nothing more comes off the network: a kill would lose the rest."""
    hub.content = fake_hub.some_bytes(4 << 20)
    no_room = threading.Event()

    class Watched(threading.Semaphore):
        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
            if not self._value:
                no_room.set()
            return super().acquire(blocking, timeout)

    monkeypatch.setattr(threading, "Semaphore", Watched)
    taken: list[int] = []
    real = httpx.Response.iter_raw

    def counting(response: httpx.Response, chunk_size: int | None = None) -> Iterator[bytes]:
        for block in real(response, chunk_size):
            taken.append(len(block))
            yield block

    monkeypatch.setattr(httpx.Response, "iter_raw", counting)
    lost: list[int] = []

    def report(done: int) -> None:
        if not lost:
            assert no_room.wait(20)
            lost.append(sum(taken) - done)

    asking(hub).fetch(listed(hub), partial, report, Patient())
    assert partial.path.read_bytes() == hub.content
    assert 0 < lost[0] <= 320 << 10


def test_offline_asks_nobody(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(errors.HubUnreachable, match="HF_HUB_OFFLINE"):
        asking(hub).resolve(SOURCE, Patient())
    assert hub.seen == []


@pytest.mark.parametrize(("hasty", "waits"), [(False, [1.0, 2.0, 4.0]), (True, [])])
def test_L05_a_closed_door_is_named_and_haste_tries_once(hub: FakeHub, hasty: bool, waits: list[float]) -> None:
    with socket.socket() as unused:  # bound, not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        cancel = Patient()
        nobody = Hub(f"http://127.0.0.1:{unused.getsockname()[1]}", "", Patience(tries=4, stall=20))
        with pytest.raises(errors.HubUnreachable, match=r"127\.0\.0\.1 cannot be reached"):
            nobody.resolve(SOURCE, cancel, hasty=hasty)
    assert cancel.waits == waits


@pytest.mark.parametrize(
    ("error", "says", "again"),
    [
        (
            httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"),
            "certificate of cdn is not trusted",
            False,
        ),
        (httpx.ProxyError("403 Forbidden"), "proxy refused the way to cdn", False),
        (httpx.ReadTimeout(""), "cdn stopped sending", True),
        (httpx.ConnectError("via http://me:pw@proxy:1"), "cdn cannot be reached: via http://proxy:1", True),
        (httpx.TooManyRedirects("too many"), "did not answer as a Hub does", False),
    ],
)
def test_L05_the_cause_is_shown(error: Exception, says: str, again: bool) -> None:
    problem, may_pass = refusals.unreachable(error, "cdn")
    assert says in problem.what
    assert problem.next_step
    assert may_pass is again


def test_L06_a_stop_ends_a_stalled_read_and_keeps_what_came(hub: FakeHub, partial: Partial) -> None:
    hub.answers = [Answer(stop_after=70_000, then="stall")]
    cancel = Patient()

    def report(done: int) -> None:
        if done == 70_000:
            cancel.set()

    with pytest.raises(Stopped):
        asking(hub, stall=600).fetch(listed(hub), partial, report, cancel)
    assert partial.path.read_bytes() == hub.content[:70_000]
    assert len(hub.ranges) == 1
    assert cancel.waits == []
    for thread in threading.enumerate():
        if thread.name == "download":  # its blocked read has been ended, too
            thread.join(30)
            assert not thread.is_alive()


def test_L06_a_stop_ends_a_pause(hub: FakeHub) -> None:
    hub.api_answers = [Answer(status=503)]
    cancel = Patient()
    with pytest.raises(Stopped):
        asking(hub).resolve(SOURCE, cancel, tell=lambda _: cancel.set())
    assert len(hub.seen) == 1
