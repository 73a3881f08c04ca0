"""The Hugging Face Hub as a source: asks what a repository holds, then fetches files by ranges.

huggingface_hub gives the session (proxies, certificates, HF_ENDPOINT, HF_HUB_OFFLINE) and keeps the token. It starts
over after a kill and does not check contents, so the bytes are fetched here.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx2 as httpx
from huggingface_hub import constants, get_session
from huggingface_hub.errors import OfflineModeIsEnabled

from pardec_chat.app.catalogue import HubSource
from pardec_chat.app.downloads import hub_cache, refusals, waiting
from pardec_chat.app.downloads.errors import (
    DownloadFailed,
    HubMissing,
    HubTokenRefused,
    HubUnreachable,
    SourceDiffers,
    TokenNotStored,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pardec_chat.app.downloads.partial import Partial
    from pardec_chat.app.downloads.waiting import Cancel

T = TypeVar("T")

_MIB = 1 << 20
_AHEAD = 4  # blocks read and not yet written: what a kill loses is fetched twice
_BLOCK = 64 << 10
_TO_KEEP_A_TOKEN = 30.0  # seconds
_MAX_WAIT = 60.0  # seconds; a longer Retry-After is asked again after this
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_COMMIT = re.compile(r"[A-Za-z0-9._-]+")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as the Hub describes it at one commit; `sha256` None for a file outside its large-file store."""

    source: HubSource
    commit: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository as the Hub describes it at one commit.

    `gated`: somebody has to accept its licence first. `licence` and `library` (such as "mlx") are empty where the Hub
    knows none.
    """

    repo: str
    commit: str
    gated: bool
    licence: str
    library: str
    files: tuple[HubFile, ...]


class _TryAgain(Exception):
    """A failure that may pass: the error to raise when patience ends, and seconds the server asked to wait."""

    def __init__(self, problem: DownloadFailed, wait: float = 0.0, *, answered: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.wait, self.answered = problem, wait, answered


class _RangeRefused(Exception):
    """416: the server has nothing behind the bytes that are here."""


@dataclass(slots=True)
class _Answer:
    """What the receiving thread learns before the first block: `first` is the file offset where the body begins."""

    response: httpx.Response | None = None
    first: int = 0

    def hang_up(self) -> None:
        """Ends a read that the thread is blocked in; closing the response from here would wait for it."""
        if self.response is None:
            return
        with contextlib.suppress(OSError, KeyError, AttributeError, ValueError):
            self.response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class _Deadline:
    """A cancel flag that also counts as set from a moment (of time.monotonic) on."""

    cancel: Cancel
    end: float

    def is_set(self) -> bool:
        return self.cancel.is_set() or time.monotonic() >= self.end

    def wait(self, timeout: float | None = None) -> bool:
        left = max(0.0, self.end - time.monotonic())
        return self.cancel.wait(left if timeout is None else min(timeout, left)) or self.is_set()


@dataclass(frozen=True, slots=True)
class Hub:
    """Where the Hub is and how to ask it. `endpoint` None is HF_ENDPOINT; `token` None is the user's own, "" is none."""

    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)
    patience: waiting.Patience = field(default_factory=waiting.Patience)

    @property
    def address(self) -> str:
        """The Hub's address without a slash at its end."""
        return (self.endpoint or constants.ENDPOINT).rstrip("/")

    def repository(
        self,
        repo: str,
        cancel: Cancel,
        *,
        revision: str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> HubRepository:
        """What the Hub says about OWNER/NAME; `revision` None is its main branch, `tell` gets a line before each new try.

        Raises a DownloadFailed, or waiting.Stopped.
        """
        return self._patiently(lambda: self._describe(repo, revision), cancel, tell)

    def resolve(
        self, source: HubSource, cancel: Cancel, *, hasty: bool = False, tell: Callable[[str], None] = lambda _: None
    ) -> HubFile:
        """What the Hub says about one file; `tell` as above.

        `hasty` gives up at the first request without an answer, for when another source can help.

        Raises a DownloadFailed, or waiting.Stopped.
        """
        found = self._patiently(
            lambda: self._describe(source.repo, source.revision, source.file), cancel, tell, hasty=hasty
        )
        for file in found.files:
            if file.source.file == source.file:
                return file
        raise HubMissing(
            f"The Hub has no file {source.file} in {source.repo}.",
            f"It may have been renamed or removed: look at {self.address}/{source.repo}.",
        )

    def check_token(self, token: str, cancel: Cancel) -> str:
        """Name of the account that `token` belongs to.

        Raises a DownloadFailed (HubTokenRefused when the Hub does not know it), or waiting.Stopped.
        """
        token = token.strip()
        if not token:
            raise HubTokenRefused("No token was given.", f"Make one at {self.address}/settings/tokens.")
        asking = replace(self, token=token)
        return asking._patiently(asking._account, cancel, lambda _: None)

    def login(self, token: str, cancel: Cancel | None = None) -> str:
        """Checks `token` and has the Hub's own library keep it, where its other programs find it, too.

        Returns the account's name. Raises what `check_token` does, or TokenNotStored.
        """
        cancel = cancel or threading.Event()
        name = self.check_token(token, cancel)
        try:
            # The library asks the Hub once more, and would wait for ever.
            within = _Deadline(cancel, time.monotonic() + _TO_KEEP_A_TOKEN)
            waiting.result(lambda: hub_cache.keep_token(token.strip()), within)
        except waiting.Stopped:
            waiting.check(cancel)
            raise TokenNotStored("The token is right, but the Hub stopped answering.", "Try once more.") from None
        return name

    def fetch(
        self,
        file: HubFile,
        partial: Partial,
        report: Callable[[int], None],
        cancel: Cancel,
        *,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Appends to `partial` until it has the file's size; `report` gets the bytes that are there, `tell` as above.

        Raises a DownloadFailed, waiting.Stopped, or OSError from the disk. In each case what came stays in `partial`.
        """
        failures, thrown_away = 0, False
        while (before := partial.size) < file.size:
            try:
                self._receive(file, partial, report, cancel)
                failure = _TryAgain(HubUnreachable("The Hub ended the file early.", "Try again."))
            except _RangeRefused:
                if thrown_away:
                    raise SourceDiffers(
                        f"The Hub refuses to send {file.source.file} from its first byte (416).", "Try again later."
                    ) from None
                partial.discard()
                thrown_away = True
                continue
            except _TryAgain as error:
                failure = error
            if (after := partial.size) >= file.size:
                return
            failures = 1 if after - before >= _MIB else failures + 1
            if failures >= self.patience.tries:
                raise failure.problem from None
            self._pause(failure, failures, cancel, tell)

    def _patiently(
        self, ask: Callable[[], T], cancel: Cancel, tell: Callable[[str], None], *, hasty: bool = False
    ) -> T:
        for failures in itertools.count(1):
            try:
                return waiting.result(ask, cancel)
            except _TryAgain as failure:
                if failures >= self.patience.tries or (hasty and not failure.answered):
                    raise failure.problem from None
                self._pause(failure, failures, cancel, tell)
        raise AssertionError("unreachable")

    def _pause(self, failure: _TryAgain, failures: int, cancel: Cancel, tell: Callable[[str], None]) -> None:
        seconds = max(failure.wait, self.patience.pause(failures))
        tell(f"{failure.problem.what} Trying again in {seconds:.0f} s.")
        waiting.pause(seconds, cancel)

    def _receive(self, file: HubFile, partial: Partial, report: Callable[[int], None], cancel: Cancel) -> None:
        """One request: writes what it brings, behind what is there."""
        done = start = partial.size
        answer, room = _Answer(), threading.Semaphore(_AHEAD)

        def body(send: Callable[[bytes], None]) -> None:
            with contextlib.closing(self._body(file, start, answer)) as received:
                for block in received:
                    room.acquire()
                    send(block)

        def hang_up() -> None:
            room.release(_AHEAD)
            answer.hang_up()

        skip: int | None = None
        with (
            contextlib.closing(waiting.stream(body, cancel, hang_up)) as blocks,
            partial.appending() as append,
        ):
            for block in blocks:
                # A server that ignores ranges begins at 0: what is here already is passed over, not thrown away.
                skip = start - answer.first if skip is None else skip
                fresh = block[skip:][: file.size - done]
                skip = max(0, skip - len(block))
                append(fresh)
                room.release()
                done += len(fresh)
                report(done)

    def _body(self, file: HubFile, start: int, answer: _Answer) -> Generator[bytes, None, None]:
        source = file.source
        url = f"{self.address}/{source.repo}/resolve/{quote(file.commit, safe='')}/{quote(source.file)}"
        ours = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        # Redirects leave for a CDN; the session drops the token there, as tests check.
        with (
            self._translating(),
            get_session().stream(
                "GET", url, headers=self._headers() | ours, timeout=self._timeout(), follow_redirects=True
            ) as response,
        ):
            answer.response = response
            if response.status_code == 416:
                raise _RangeRefused
            self._judge(response, source.repo, source.file)
            answer.first = _first_byte(response, file, start)
            for received in response.iter_raw():
                for begin in range(0, len(received), _BLOCK):
                    yield received[begin : begin + _BLOCK]

    def _describe(self, repo: str, revision: str | None, file: str = "") -> HubRepository:
        """One request; `file` is only for the words of a refusal."""
        response = self._get(f"/api/models/{repo}/revision/{quote(revision or 'main', safe='')}", blobs="true")
        self._judge(response, repo, file)
        with self._expecting_a_hub():
            return _described(repo, revision, response.json())

    def _account(self) -> str:
        response = self._get("/api/whoami-v2")
        if response.status_code >= 400:
            problem = refusals.not_logged_in(response.status_code, endpoint=self.address)
            if refusals.is_transient(response.status_code):
                raise _TryAgain(problem, _wait_asked_for(response))
            raise problem
        with self._expecting_a_hub():
            return str(response.json()["name"])

    def _get(self, path: str, **query: str) -> httpx.Response:
        with self._translating():
            return get_session().get(
                self.address + path,
                params=query,
                headers=self._headers(),
                timeout=self._timeout(),
                follow_redirects=True,
            )

    @contextlib.contextmanager
    def _expecting_a_hub(self) -> Iterator[None]:
        """Around the reading of an answer that may be some log-in page's instead."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HubUnreachable(
                f"{self._host()} did not answer as a Hub does.",
                "Check HF_ENDPOINT, and whether the network wants a log-in page to be passed first.",
            ) from error

    def _host(self) -> str:
        return urlsplit(self.address).hostname or self.address

    def _timeout(self) -> httpx.Timeout:
        return httpx.Timeout(self.patience.stall or float(constants.HF_HUB_DOWNLOAD_TIMEOUT))

    def _headers(self) -> dict[str, str]:
        """Ours, not build_hf_headers': that one asks the Hub about the user's environment first."""
        token = self.token
        if token is None and not constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
            token = hub_cache.token()
        if not token:
            return {"User-Agent": "pardec-chat"}
        if not (token.isascii() and token.isprintable()):
            raise HubTokenRefused(
                "Your Hub token contains characters that no token has.", "Run `hf auth login`, or set HF_TOKEN anew."
            )
        return {"User-Agent": "pardec-chat", "Authorization": f"Bearer {token}"}

    def _judge(self, response: httpx.Response, repo: str, file: str) -> None:
        """Raises the error for an answer of 400 and more."""
        status, url = response.status_code, response.request.url
        if status < 400:
            return
        problem = refusals.refused(
            status,
            response.headers,
            endpoint=self.address,
            repo=repo,
            file=file,
            token_sent="Authorization" in response.request.headers,
        )
        if refusals.is_transient(status):
            raise _TryAgain(problem, _wait_asked_for(response))
        if url.netloc != httpx.URL(self.address).netloc:
            # A CDN's signed address ran out, or its host is down: the Hub gives a new address on the next try.
            raise _TryAgain(
                HubUnreachable(f"{url.host}, where the Hub keeps the file, answered {status}.", "Try again later.")
            )
        raise problem

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        """Turns what the HTTP library raises into errors with a next step."""
        try:
            yield
        except OfflineModeIsEnabled:
            raise HubUnreachable("HF_HUB_OFFLINE is set, so the Hub is not asked.", "Unset it to download.") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            request = getattr(error, "_request", None)
            problem, again = refusals.unreachable(error, request.url.host if request else self._host())
            if not again:
                raise problem from None
            raise _TryAgain(problem, answered=False) from None


def _described(repo: str, revision: str | None, answer: Any) -> HubRepository:
    """The answer about a repository as data; raises what reading some other answer raises."""
    commit = str(answer["sha"])
    if not _COMMIT.fullmatch(commit):
        raise ValueError(commit)
    files = []
    for entry in answer["siblings"]:
        lfs = entry.get("lfs") or {}
        sha256 = str(lfs.get("sha256", "")).lower()
        source = HubSource(repo, str(entry["rfilename"]), revision)
        size = int(lfs.get("size") or entry["size"])
        files.append(HubFile(source, commit, size, sha256 if _SHA256.fullmatch(sha256) else None))
    card = answer.get("cardData") or {}
    licences = card.get("license") or ""
    licence = ", ".join(map(str, licences)) if isinstance(licences, list) else str(licences)
    if licence == "other":
        licence = str(card.get("license_name") or licence)
    library = str(answer.get("library_name") or card.get("library_name") or "")
    return HubRepository(repo, commit, bool(answer.get("gated")), licence, library, tuple(files))


def _first_byte(response: httpx.Response, file: HubFile, start: int) -> int:
    """Offset at which the answer's body begins. Raises SourceDiffers when the answer speaks of another file."""
    if response.status_code == 206:
        match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        first, total = (int(match[1]), match[2]) if match else (-1, "*")
        if not 0 <= first <= start:
            raise SourceDiffers(
                f"The Hub sent another part of {file.source.file} than was asked for.", "Try again later."
            )
    else:
        first, total = 0, response.headers.get("Content-Length", "*")
    if total.isdigit() and int(total) != file.size:
        raise SourceDiffers(
            f"The Hub says that {file.source.file} has {file.size:,} bytes, but sends {int(total):,}.",
            "Try again later.",
        )
    return first


def _wait_asked_for(response: httpx.Response) -> float:
    """Seconds the server asked us to wait; 0 when it did not say."""
    asked = response.headers.get("Retry-After", "")
    return min(float(asked), _MAX_WAIT) if asked.isascii() and asked.isdigit() else 0.0
