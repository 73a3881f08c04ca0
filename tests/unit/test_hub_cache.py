from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import constants, hf_hub_download

from pardec_chat.app.catalogue import Catalogue, HubSource, Model
from pardec_chat.app.downloads import errors, hub_cache
from pardec_chat.app.downloads.hub import Hub
from pardec_chat.app.downloads.library import Entry, Library
from pardec_chat.app.downloads.partial import Progress
from pardec_chat.app.downloads.pull import Pulled, Tools, pull
from pardec_chat.app.downloads.waiting import Patience
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import COMMIT, FILE, REPO, FakeHub, Patient, model_of, some_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = some_bytes(200_000)
MODEL = model_of(CONTENT, HubSource(REPO, FILE, COMMIT))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub.running(monkeypatch) as running:
        yield running


@pytest.fixture
def cache(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def put(cache: Path, repo: str, file: str, content: bytes, commit: str = COMMIT) -> Path:
    """Lays a file into the cache as the Hub's library does: a blob, a link to it in the commit's snapshot, a ref."""
    home = cache / f"models--{repo.replace('/', '--')}"
    blob = home / "blobs" / f"blob-of-{file.replace('/', '-')}-{commit[:4]}"
    link = home / "snapshots" / commit / file
    for path in (blob, link, home / "refs" / "main"):
        path.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    link.symlink_to(os.path.relpath(blob, link.parent))
    (home / "refs" / "main").write_text(commit)
    return link


def tools_for(hub: FakeHub, free: int = 1 << 40) -> Tools:
    return Tools(hub=Hub(hub.endpoint, "", Patience(tries=2, stall=20)), free_bytes=lambda _: free)


def bring(hub: FakeHub, folder: Path, model: Model = MODEL, free: int = 1 << 40) -> tuple[Pulled, list[Progress]]:
    told: list[Progress] = []
    pulled = pull(model, folder, report=told.append, cancel=Patient(), tools=tools_for(hub, free))
    return pulled, told


def test_what_the_hubs_own_library_has_downloaded_is_found(hub: FakeHub, cache: Path, folder: Path) -> None:
    hub.content = CONTENT
    hub.repositories["o/n"] = fake_hub.FakeRepository({"sub/Other.gguf": CONTENT})
    for repo, file in ((REPO, FILE), ("o/n", "sub/Other.gguf")):
        hf_hub_download(repo, file, revision=COMMIT, cache_dir=cache, endpoint=hub.endpoint, token=False)
    hub.seen.clear()
    assert bring(hub, folder)[0].source == "cache"
    assert hub.seen == []
    assert (folder / "tiny.gguf").read_bytes() == CONTENT
    (other,) = Library(folder, Catalogue((MODEL,))).cached()
    assert (other.id, other.path.read_bytes()) == ("other", CONTENT)


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_a_file_in_the_cache_is_verified_and_linked_not_copied(
    hub: FakeHub, cache: Path, folder: Path, revision: str | None
) -> None:
    cached = put(cache, REPO, FILE, CONTENT)
    (folder / "tiny.gguf.part").write_bytes(CONTENT[:50_000])
    pulled, told = bring(hub, folder, replace(MODEL, sources=(HubSource(REPO, FILE, revision),)), free=0)
    assert pulled == Pulled("tiny", folder / "tiny.gguf", 200_000, already=False, source="cache")
    assert pulled.path.is_symlink()
    assert pulled.path.readlink() == cached
    assert {(progress.stage, progress.source) for progress in told} == {("verifying", "cache")}
    assert told[-1].done == 200_000
    assert {path.name for path in folder.iterdir()} == {"tiny.gguf"}
    assert hub.seen == []
    assert bring(hub, folder)[0].already


def test_removing_takes_the_link_only(hub: FakeHub, cache: Path, folder: Path) -> None:
    cached = put(cache, REPO, FILE, CONTENT)
    bring(hub, folder)
    library = Library(folder, Catalogue((MODEL,)))
    assert library.entries() == [Entry("tiny", folder / "tiny.gguf", 200_000, 200_000, "on disk", MODEL, (MODEL,))]
    assert library.remove("tiny").have == 0  # nothing became free
    assert cached.read_bytes() == CONTENT
    assert list(folder.iterdir()) == []
    assert library.entries()[0].state == "not here"


def test_a_cache_that_was_emptied_leaves_no_model_and_pulling_brings_it_back(
    hub: FakeHub, cache: Path, folder: Path
) -> None:
    cached = put(cache, REPO, FILE, CONTENT)
    bring(hub, folder)
    cached.unlink()
    library = Library(folder, Catalogue((MODEL,)))
    assert library.entries()[0].state == "not here"
    pulled, _ = bring(hub, folder)
    assert not pulled.path.is_symlink()
    assert pulled.path.read_bytes() == CONTENT
    pulled.path.unlink()
    pulled.path.symlink_to(cached)
    library.remove("tiny")  # takes a dangling link, too
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "commit", "told_of_damage"),
    [
        (CONTENT[:-1] + b"x", COMMIT, True),
        (CONTENT + b"x", COMMIT, False),
        (CONTENT, "f" * 40, False),
    ],
    ids=["damaged", "of another size", "of another commit"],
)
def test_L02_what_is_not_the_very_file_is_fetched_anew(
    hub: FakeHub, cache: Path, folder: Path, content: bytes, commit: str, told_of_damage: bool
) -> None:
    cached = put(cache, REPO, FILE, content, commit)
    pulled, told = bring(hub, folder)
    assert pulled.source == "hub"
    assert pulled.path.read_bytes() == CONTENT
    assert not pulled.path.is_symlink()
    assert cached.read_bytes() == content
    assert ("The Hub's cache holds a damaged file, so it is fetched anew." in {p.note for p in told}) is told_of_damage
    assert {path.name for path in folder.iterdir()} == {"tiny.gguf"}


def test_the_hub_is_asked_for_a_hash_that_the_catalogue_does_not_know(hub: FakeHub, cache: Path, folder: Path) -> None:
    put(cache, REPO, FILE, CONTENT)
    short = replace(MODEL, sha256=MODEL.sha256[:8])
    assert bring(hub, folder, short)[0].source == "cache"
    assert [seen.server for seen in hub.seen] == ["hub"]
    assert hub.ranges == []


def test_offline_a_file_in_the_cache_will_do_if_its_hash_is_known(
    hub: FakeHub, cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, REPO, FILE, CONTENT)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(errors.HubUnreachable, match="HF_HUB_OFFLINE"):
        bring(hub, folder, replace(MODEL, sha256=""))
    assert list(folder.iterdir()) == []
    assert bring(hub, folder)[0].source == "cache"
    assert hub.seen == []


def test_where_links_cannot_be_made_it_is_fetched_as_usual(
    hub: FakeHub, cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, REPO, FILE, CONTENT)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "symlink_to", refused)
    pulled, told = bring(hub, folder)
    assert (pulled.source, pulled.path.is_symlink()) == ("hub", False)
    assert "cache" not in {progress.source for progress in told}


def test_L06_a_stop_while_the_cached_file_is_verified_leaves_nothing(hub: FakeHub, cache: Path, folder: Path) -> None:
    content = some_bytes(3 << 20)
    put(cache, REPO, FILE, content)
    model, cancel = model_of(content, HubSource(REPO, FILE, COMMIT)), Patient()
    with pytest.raises(errors.PullStopped):
        pull(model, folder, report=lambda _: cancel.set(), cancel=cancel, tools=tools_for(hub))
    assert list(folder.iterdir()) == []


# ---- other files in the cache ----


@pytest.fixture
def library(cache: Path, folder: Path) -> Library:
    return Library(folder, Catalogue((MODEL,)))


def test_other_files_are_listed_and_can_be_used(cache: Path, library: Library) -> None:
    other = put(cache, "o/Other-GGUF", "Q4/Other Q4.gguf", CONTENT)
    put(cache, "o/Other-GGUF", "config.json", b"{}")
    put(cache, REPO, FILE, CONTENT)  # the catalogue's, which a pull would take from here
    assert library.cached() == [Entry("other-q4", other, 200_000, 200_000, "on disk")]
    assert library.resolve("other-q4") == other
    assert [entry.id for entry in library.entries()] == ["tiny"]
    with pytest.raises(errors.ModelNotHere, match="Hub's own cache"):
        library.remove("other-q4")
    with pytest.raises(errors.ModelUnknown, match="Did you mean other-q4"):
        library.resolve("other")


def test_a_file_of_a_known_name_gets_another_id(cache: Path, library: Library) -> None:
    first = put(cache, "a/x", "tiny.gguf", b"GGUF 1")
    second = put(cache, "b/x", "TINY.gguf", b"GGUF 2")
    assert [(entry.id, entry.path) for entry in library.cached()] == [("tiny-2", first), ("tiny-3", second)]


def test_a_file_that_is_listed_already_is_not_listed_twice(cache: Path, library: Library) -> None:
    added = put(cache, "a/x", "added.gguf", CONTENT)
    linked = put(cache, "a/x", "linked.gguf", CONTENT)
    library.add(added)
    (library.folder / "mine.gguf").symlink_to(linked)
    assert library.cached() == []
    assert [entry.id for entry in library.entries()] == ["tiny", "added", "mine"]


def test_of_several_commits_the_newest_counts(cache: Path, library: Library) -> None:
    put(cache, "a/x", "x.gguf", b"GGUF old", "1" * 40)
    newer = put(cache, "a/x", "x.gguf", b"GGUF newer", "2" * 40)
    assert [entry.path for entry in library.cached()] == [newer]


def test_L08_split_files_are_one_and_helpers_are_none(cache: Path, library: Library) -> None:
    first, _ = (put(cache, "a/x", f"Big-0000{n}-of-00002.gguf", CONTENT) for n in (1, 2))
    half = put(cache, "a/x", "Half-00002-of-00002.gguf", CONTENT)
    put(cache, "a/x", "mmproj-Big.gguf", CONTENT)
    by_id = {entry.id: entry for entry in library.cached()}
    assert by_id["big"] == Entry("big", first, 400_000, 400_000, "on disk")
    assert (by_id["half"].state, by_id["half"].path) == ("partial", half.with_name("Half-00001-of-00002.gguf"))
    assert by_id["mmproj-big"].helper == "vision projector"
    with pytest.raises(errors.ModelNotHere, match="part 1 of 2 is missing"):
        library.resolve("half")
    with pytest.raises(errors.HelperFile, match="vision projector"):
        library.resolve("mmproj-big")


def break_cache(cache: Path, how: str) -> None:
    if how == "missing":
        cache.rmdir()
    elif how == "a file":
        cache.rmdir()
        cache.write_text("x")
    elif how == "foreign":
        (cache / "notes.txt").write_text("x")
        (cache / "models--a--b").mkdir()
    else:
        put(cache, "a/x", "x.gguf", CONTENT)
        (cache / "models--a--x" / "blobs" / f"blob-of-x.gguf-{COMMIT[:4]}").unlink()


@pytest.mark.parametrize("how", ["missing", "a file", "foreign", "a lost blob"])
def test_a_broken_cache_is_an_empty_one(hub: FakeHub, cache: Path, library: Library, how: str) -> None:
    break_cache(cache, how)
    assert library.cached() == []
    with pytest.raises(errors.ModelUnknown):
        library.resolve("x")
    assert bring(hub, library.folder)[0].source == "hub"


def test_a_file_name_that_no_repository_has_is_not_looked_for(cache: Path) -> None:
    assert hub_cache.find(HubSource("a/x", "../../../etc/passwd"), 1) is None
