from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import gguf
import pytest

from pardec_chat.app.catalogue import Catalogue, HubSource, Model
from pardec_chat.app.cli import tui
from pardec_chat.app.cli.main import main
from pardec_chat.app.downloads import errors, files
from pardec_chat.app.downloads.library import Entry, Library
from pardec_chat.app.downloads.pull import lock_path
from pardec_chat.tests import tiny_models
from pardec_chat.tests.unit.fake_hub import model_of, some_bytes

CONTENT = some_bytes(1000)
TARGET = model_of(CONTENT, model_id="big-coder-1.5b-q4")
DRAFT = model_of(CONTENT, model_id="big-coder-0.5b-q4")
CATALOGUE = Catalogue((TARGET, DRAFT))


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs have downloaded here is not the tests' matter."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "no cache"))


@pytest.fixture
def library(tmp_path: Path) -> Library:
    folder = tmp_path / "models"
    folder.mkdir()
    return Library(folder, CATALOGUE)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A GGUF file of the user's own, outside the models folder."""
    path = tmp_path / "My Model.Q8_0.gguf"
    path.write_bytes(CONTENT)
    return path


def states(library: Library) -> dict[str, str]:
    return {entry.id: entry.state for entry in library.entries()}


def entry_of(library: Library, model_id: str) -> Entry:
    (entry,) = (entry for entry in library.entries() if entry.id == model_id)
    return entry


def test_each_state_is_told_apart(library: Library) -> None:
    assert states(library) == {TARGET.id: "not here", DRAFT.id: "not here"}
    (library.folder / f"{TARGET.id}.gguf.part").write_bytes(CONTENT[:409])
    library.file(DRAFT).write_bytes(CONTENT)
    assert states(library) == {TARGET.id: "partial", DRAFT.id: "on disk"}
    assert (entry_of(library, TARGET.id).percent, entry_of(library, TARGET.id).have) == (40, 409)
    library.file(DRAFT).write_bytes(CONTENT[:-1])
    assert states(library)[DRAFT.id] == "wrong size"


def test_a_folder_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert set(states(Library(tmp_path / "none", CATALOGUE)).values()) == {"not here"}


def test_an_id_resolves_to_its_file_in_any_case(library: Library) -> None:
    library.file(TARGET).write_bytes(CONTENT)
    assert library.resolve(TARGET.id.upper()) == library.file(TARGET)


def test_a_path_works_wherever_an_id_does(library: Library, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mine.parent)
    assert library.resolve(mine.name) == mine
    monkeypatch.setenv("HOME", str(mine.parent))
    assert library.resolve(f"~/{mine.name}") == mine


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (b"", "big-coder-1.5b-q4 is not on this disk."),
        (CONTENT[:409], "big-coder-1.5b-q4 is not on this disk: only 40 % of it."),
    ],
)
def test_a_model_that_is_not_here_names_the_command(library: Library, part: bytes, what: str) -> None:
    if part:
        (library.folder / f"{TARGET.id}.gguf.part").write_bytes(part)
    with pytest.raises(errors.ModelNotHere) as caught:
        library.resolve(TARGET.id)
    assert caught.value.what == what
    assert caught.value.next_step == "Run `pardec-chat models pull big-coder-1.5b-q4`."


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("1.5b", "big-coder-1.5b-q4"),
        ("big-coder", "big-coder-1.5b-q4 or big-coder-0.5b-q4"),
        ("models/Big-Coder-0.5b-Q4.gguf", "big-coder-0.5b-q4"),
        ("bigcoder-0.5b-q4", "big-coder-0.5b-q4"),
    ],
)
def test_an_unknown_name_gets_the_nearest(library: Library, name: str, near: str) -> None:
    with pytest.raises(errors.ModelUnknown) as caught:
        library.resolve(name)
    assert name in caught.value.what
    assert f"Did you mean {near}" in caught.value.next_step


def test_a_name_like_no_other_points_to_the_list(library: Library) -> None:
    with pytest.raises(errors.ModelUnknown, match="See `pardec-chat models` for the ids"):
        library.resolve("zzzzzz")


def test_a_name_that_no_file_can_have_is_unknown(library: Library) -> None:
    for call in (library.resolve, library.pullable, library.remove, lambda name: library.add(Path(name))):
        with pytest.raises(errors.ModelUnknown):
            call("x" * 5_000)


def test_a_folder_and_a_file_of_another_kind_are_refused(library: Library, tmp_path: Path) -> None:
    with pytest.raises(errors.ModelUnknown, match="is a folder"):
        library.resolve(str(tmp_path))
    other = tmp_path / "weights.gguf"
    other.write_bytes(b"PK\3\4")
    for call in (lambda: library.resolve(str(other)), lambda: library.add(other)):
        with pytest.raises(errors.NotGguf, match="does not begin with GGUF"):
            call()


def test_an_added_file_is_listed_and_not_copied(library: Library, mine: Path) -> None:
    entry = library.add(mine)
    assert entry == Entry("my-model.q8_0", mine, 1000, 1000, "on disk")
    assert library.resolve("my-model.q8_0") == mine
    assert {path.name for path in library.folder.iterdir()} == {"added.json"}
    assert Library(library.folder, CATALOGUE).entries()[-1] == entry


def test_adding_again_changes_nothing(library: Library, mine: Path, tmp_path: Path) -> None:
    first = library.add(mine)
    (tmp_path / "link.gguf").symlink_to(mine)
    assert library.add(mine) == first
    assert library.add(tmp_path / "link.gguf") == first
    library.file(TARGET).write_bytes(CONTENT)
    assert library.add(library.file(TARGET)).id == TARGET.id
    assert len(library.entries()) == 3


def test_two_files_of_one_name_get_two_ids(library: Library, mine: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        other = tmp_path / str(number) / mine.name
        other.parent.mkdir()
        other.write_bytes(CONTENT)
        library.add(other)
    catalogued = tmp_path / f"{TARGET.id}.gguf"
    catalogued.write_bytes(CONTENT)
    library.add(catalogued)
    assert list(states(library)) == [TARGET.id, DRAFT.id, "big-coder-1.5b-q4-2", "my-model.q8_0", "my-model.q8_0-2"]


def test_a_file_laid_into_the_folder_is_listed(library: Library) -> None:
    (library.folder / "Laid In.gguf").write_bytes(CONTENT)
    assert library.resolve("laid-in") == library.folder / "Laid In.gguf"


def test_an_added_file_that_moved_is_told_so(library: Library, mine: Path) -> None:
    library.add(mine)
    mine.rename(mine.with_name("moved.gguf"))
    assert states(library)["my-model.q8_0"] == "gone"
    with pytest.raises(errors.ModelNotHere, match="is gone"):
        library.resolve("my-model.q8_0")


def test_what_does_not_exist_cannot_be_added(library: Library, tmp_path: Path) -> None:
    with pytest.raises(errors.ModelUnknown, match="does not exist"):
        library.add(tmp_path / "none.gguf")
    with pytest.raises(errors.ModelUnknown, match="is a folder"):
        library.add(tmp_path)


def test_remove_deletes_a_model_with_its_leftovers(library: Library) -> None:
    library.file(TARGET).write_bytes(CONTENT)
    for leftover in (".gguf.part", ".gguf.part.json"):
        (library.folder / f"{TARGET.id}{leftover}").write_bytes(b"x")
    scratch = library.folder / f".{TARGET.id}.gguf.wheels-abc"
    scratch.mkdir()
    (scratch / "wheel").write_bytes(b"x")
    library.file(DRAFT).write_bytes(CONTENT)
    assert library.remove(TARGET.id).have == 1000
    assert {path.name for path in library.folder.iterdir()} == {f"{DRAFT.id}.gguf"}


def test_remove_forgets_an_added_file_and_leaves_it(library: Library, mine: Path) -> None:
    library.add(mine)
    library.remove("my-model.q8_0")
    assert mine.read_bytes() == CONTENT
    assert len(library.entries()) == 2


def test_remove_refuses_what_is_not_here_or_unknown_or_being_pulled(library: Library) -> None:
    with pytest.raises(errors.ModelNotHere):
        library.remove(TARGET.id)
    with pytest.raises(errors.ModelUnknown):
        library.remove("zzzzzz")
    (library.folder / f"{TARGET.id}.gguf.part").write_bytes(b"x")
    with files.locked(lock_path(library.file(TARGET)), TARGET.id), pytest.raises(errors.AlreadyRunning):
        library.remove(TARGET.id)
    assert states(library)[TARGET.id] == "partial"


@pytest.mark.parametrize("record", [b"{", b"[]", b'{"files": [{"id": 1}]}'])
def test_a_broken_list_of_added_files_is_named_and_kept(library: Library, mine: Path, record: bytes) -> None:
    listed = library.folder / "added.json"
    listed.write_bytes(record)
    for call in (library.entries, lambda: library.add(mine)):
        with pytest.raises(errors.FolderUnusable, match=r"added\.json cannot be read"):
            call()
    assert listed.read_bytes() == record


def test_a_killed_write_leaves_the_old_list(library: Library, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.add(mine)
    before = (library.folder / "added.json").read_bytes()
    other = mine.with_name("other.gguf")
    other.write_bytes(CONTENT)

    def fail(descriptor: int) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(errors.FolderUnusable, match="input/output error"):
        library.add(other)
    assert (library.folder / "added.json").read_bytes() == before
    assert {path.name for path in library.folder.iterdir()} == {"added.json"}


def test_a_lock_that_was_waited_for_is_one_that_others_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first holder removes the file at its end: who waited on that file must not believe to hold the next one's."""
    path = tmp_path / "lock"
    waiting, real = threading.Event(), fcntl.flock
    seen: list[bool] = []

    def flock(descriptor: int, operation: int) -> None:
        waiting.set()
        real(descriptor, operation)

    def second() -> None:
        with files.locked(path, "x", wait=True):
            seen.append(path.exists())

    thread = threading.Thread(target=second)
    with files.locked(path, "x"):
        monkeypatch.setattr("pardec_chat.app.downloads.files.fcntl.flock", flock)
        thread.start()
        assert waiting.wait(30)
    thread.join(30)
    assert seen == [True]
    assert not path.exists()


# ---- models fetched by choice ----

SOURCE = HubSource("Some-Owner/Other-GGUF", "Other-Q8_0.gguf", "0123abcd")
OTHER = model_of(CONTENT, SOURCE, model_id="other-q8_0")
PARTS = tuple(
    model_of(
        CONTENT[(n - 1) * 300 : n * 300],
        HubSource("Some-Owner/Other-GGUF", f"big/Big-0000{n}-of-00003.gguf", "0123abcd"),
        model_id=f"big-0000{n}-of-00003",
    )
    for n in (1, 2, 3)
)


def lay(library: Library, model: Model, content: bytes = CONTENT, suffix: str = "") -> Path:
    path = library.file(model).with_name(model.file_name + suffix)
    path.write_bytes(content)
    return path


def again(library: Library) -> Library:
    """The library as a later start of the program sees it."""
    return Library(library.folder, library.catalogue)


def test_a_model_fetched_by_choice_is_known_after_a_restart(library: Library) -> None:
    assert library.remember((OTHER,)) == (OTHER,)
    assert {path.name for path in library.folder.iterdir()} == {"fetched.json"}
    later = again(library)
    assert list(states(later)) == [TARGET.id, DRAFT.id]  # nothing of it is here yet
    assert later.pullable("other-q8_0") == (OTHER,)
    with pytest.raises(errors.ModelNotHere, match="Run `pardec-chat models pull other-q8_0`"):
        later.resolve("other-q8_0")
    lay(library, OTHER, CONTENT[:400], ".part")
    assert later.entries()[-1] == Entry("other-q8_0", library.file(OTHER), 1000, 400, "partial", OTHER, (OTHER,))
    lay(library, OTHER)
    assert states(later)["other-q8_0"] == "on disk"
    assert later.resolve("OTHER-Q8_0") == library.file(OTHER)
    lay(library, OTHER, CONTENT[:-1])
    assert states(later)["other-q8_0"] == "partial"
    (library.folder / "other-q8_0.gguf.part").unlink()
    assert states(later)["other-q8_0"] == "wrong size"


def test_removing_a_model_fetched_by_choice_forgets_it(library: Library) -> None:
    library.remember((OTHER, *PARTS))
    lay(library, OTHER)
    assert library.remove("other-q8_0").have == 1000
    assert not library.file(OTHER).exists()
    with pytest.raises(errors.ModelUnknown):
        again(library).pullable("other-q8_0")
    assert again(library).pullable("big") == PARTS
    library.remove("big")  # of which nothing is here
    with pytest.raises(errors.ModelUnknown):
        again(library).pullable("big")
    assert {path.name for path in library.folder.iterdir()} == {"fetched.json"}


def test_what_the_catalogue_knows_is_not_remembered_and_not_overwritten(library: Library) -> None:
    same = replace(TARGET, sources=(SOURCE,))
    assert library.remember((same,)) == (same,)
    other = replace(same, sha256="0" * 64)
    (kept,) = library.remember((other,))
    assert kept == replace(other, id=f"some-owner-{TARGET.id}")
    assert json.loads((library.folder / "fetched.json").read_bytes())["models"][0]["id"] == kept.id
    later = Library(library.folder, Catalogue((TARGET, DRAFT, kept)))  # a newer catalogue knows it, too
    lay(library, kept)
    assert list(states(later)) == [TARGET.id, DRAFT.id, kept.id]


def test_two_files_of_one_name_from_two_repositories_are_kept_apart(library: Library) -> None:
    twin = replace(OTHER, size=2000, sources=(HubSource("Some-Owner/Other-MTP-GGUF", "Other-Q8_0.gguf"),))
    assert library.remember((OTHER,)) == (OTHER,)
    (second,) = library.remember((twin,))
    assert second.id == "some-owner-other-q8_0"
    assert library.remember((twin,)) == (second,)  # chosen once more, it is the same one
    third = replace(twin, size=3000)
    assert [model.id for model in library.remember((third,))] == ["some-owner-other-mtp-gguf-other-q8_0"]
    assert len(json.loads((library.folder / "fetched.json").read_bytes())["models"]) == 3


def test_a_file_of_the_users_own_is_not_overwritten_by_one_of_its_name(library: Library, tmp_path: Path) -> None:
    lay(library, OTHER, CONTENT[:-1])
    assert library.remember((OTHER,))[0].id == "some-owner-other-q8_0"
    lay(library, OTHER)  # of that very size: it is taken for the same
    added = tmp_path / "big.gguf"
    added.write_bytes(CONTENT)
    library.add(added)
    assert [model.id for model in library.remember(PARTS)] == [f"some-owner-{part.id}" for part in PARTS]


@pytest.mark.parametrize(
    "record",
    [
        b"{",
        b"[]",
        b'{"models": [{"id": "x"}]}',
        json.dumps({"models": [{"id": "../x", "bytes": 1, "sha256": "0" * 64, "revision": None}]}).encode(),
    ],
    ids=["no JSON", "a list", "half an entry", "a path as an id"],
)
def test_a_broken_list_of_fetched_models_is_named_and_kept(library: Library, record: bytes) -> None:
    listed = library.folder / "fetched.json"
    listed.write_bytes(record)
    for call in (library.entries, lambda: library.remember((OTHER,)), lambda: library.resolve("other")):
        with pytest.raises(errors.FolderUnusable, match=r"fetched\.json cannot be read"):
            call()
    assert listed.read_bytes() == record


def test_two_processes_may_remember_at_once(library: Library) -> None:
    code = (
        "import sys; from pathlib import Path; from pardec_chat.app.catalogue import Catalogue\n"
        "from pardec_chat.app.downloads.library import Library\n"
        "from pardec_chat.tests.unit.test_library import OTHER; from dataclasses import replace\n"
        "library = Library(Path(sys.argv[1]), Catalogue(()))\n"
        "for n in range(10): library.remember((replace(OTHER, id=f'{sys.argv[2]}-{n}'),))"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(library.folder), name]) for name in "ab"]
    assert [child.wait(60) for child in children] == [0, 0]
    assert len(json.loads((library.folder / "fetched.json").read_bytes())["models"]) == 20


# ---- split files ----


def test_a_split_model_is_one_whose_path_is_its_first_part(library: Library) -> None:
    library.remember(PARTS)
    for part in PARTS[:2]:
        lay(library, part, CONTENT[:300])
    lay(library, PARTS[2], CONTENT[:100], ".part")
    (entry,) = again(library).entries()[2:]
    assert (entry.id, entry.path, entry.size, entry.have, entry.state, entry.percent) == (
        "big",
        library.folder / "big-00001-of-00003.gguf",
        900,
        700,
        "partial",
        77,
    )
    assert entry.models == PARTS
    assert entry.model is not None
    assert (entry.model.id, entry.model.size, entry.model.licence) == ("big", 900, "MIT")
    with pytest.raises(errors.ModelNotHere, match="only 77 % of it"):
        library.resolve("big")
    lay(library, PARTS[2], CONTENT[:300])
    for name in ("big", "big-00002-of-00003", str(library.file(PARTS[1]))):
        assert library.resolve(name) == library.file(PARTS[0])
    with files.locked(lock_path(library.file(PARTS[1])), "x"), pytest.raises(errors.AlreadyRunning):
        library.remove("big")
    assert library.file(PARTS[0]).exists()
    assert library.remove("big").have == 900
    assert {path.name for path in library.folder.iterdir()} == {"fetched.json"}


def test_a_split_file_of_ones_own_is_one(library: Library, tmp_path: Path) -> None:
    for number in (1, 3):
        (library.folder / f"Big-0000{number}-of-00003.gguf").write_bytes(CONTENT)
    (entry,) = library.entries()[2:]
    first = library.folder / "Big-00001-of-00003.gguf"
    assert entry == Entry("big", first, 3000, 2000, "partial")
    with pytest.raises(errors.ModelNotHere, match=r"big is not whole: part 2 of 3 is missing\."):
        library.resolve("big")
    with pytest.raises(errors.ModelNotHere, match="part 2 of 3 is missing"):
        library.add(first)
    (library.folder / "Big-00002-of-00003.gguf").write_bytes(CONTENT)
    assert library.resolve("big") == first
    assert library.remove("big").have == 3000
    assert list(library.folder.iterdir()) == []


def test_adding_any_part_adds_the_whole(library: Library, tmp_path: Path) -> None:
    paths = [tmp_path / f"Mine-0000{number}-of-00002.gguf" for number in (1, 2)]
    for path in paths:
        path.write_bytes(CONTENT)
    added = library.add(paths[1])
    assert added == Entry("mine", paths[0], 2000, 2000, "on disk")
    assert library.add(paths[0]) == added
    assert again(library).entries()[-1] == added
    paths[1].unlink()
    assert states(library)["mine"] == "partial"
    library.remove("mine")
    assert paths[0].exists()


# ---- helpers ----


@pytest.mark.parametrize(
    ("name", "kind"),
    [("mmproj-Big-F16", "vision projector"), ("imatrix", "importance matrix"), ("mtp-Big-Q8_0", "MTP head")],
)
def test_L08_a_helper_is_listed_as_what_it_is_and_is_no_model(
    library: Library, tmp_path: Path, name: str, kind: str
) -> None:
    path = library.folder / f"{name}.gguf"
    path.write_bytes(CONTENT)
    entry = library.entries()[-1]
    assert (entry.helper, entry.state) == (kind, "on disk")
    for asked in (name, str(path)):
        with pytest.raises(errors.HelperFile, match=f"{kind}, not a model to chat with"):
            library.resolve(asked)
        assert library.resolve(asked, any_kind=True) == path
    library.remove(name)
    assert not path.exists()


def test_L08_what_the_folder_holds_is_looked_at_anew_each_time(library: Library) -> None:
    assert states(library)[TARGET.id] == "not here"
    lay(library, TARGET)
    (library.folder / "mmproj-x.gguf").write_bytes(CONTENT)
    assert [entry.id for entry in library.entries() if entry.state == "on disk" and not entry.helper] == [TARGET.id]
    library.file(TARGET).unlink()
    assert [entry.id for entry in library.entries() if entry.state == "on disk"] == ["mmproj-x"]


# ---- the command ----


def command(*words: str) -> int:
    return main(["models", *words])


@pytest.fixture
def product(library: Library, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setenv("PARDEC_CHAT_MODELS", str(library.folder))
    paired = Catalogue((model_of(CONTENT, model_id=TARGET.id), DRAFT))
    monkeypatch.setattr("pardec_chat.app.catalogue.load", lambda: paired)
    return library


def test_the_table_shows_size_state_licence_and_own_files(
    product: Library, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (product.folder / f"{TARGET.id}.gguf.part").write_bytes(CONTENT[:400])
    product.add(mine)
    assert command() == 0
    assert capsys.readouterr().out.splitlines() == [
        "ID                 SIZE  STATE         LICENCE  PAIRS WITH",
        "big-coder-1.5b-q4  1 MB  partial 40 %  MIT      –",
        "big-coder-0.5b-q4  1 MB  not here      MIT      –",
        f"my-model.q8_0      1 MB  on disk       –        added: {mine}",
        "",
        f"in {product.folder}",
    ]


def test_the_list_of_the_real_catalogue_names_the_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARDEC_CHAT_MODELS", str(tmp_path))
    assert command("list", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    by_id = {model["id"]: model for model in document["models"]}
    assert document["folder"] == str(tmp_path)
    assert by_id["qwen2.5-coder-1.5b-instruct-q4_k_m"] == {
        "id": "qwen2.5-coder-1.5b-instruct-q4_k_m",
        "name": "Qwen2.5 Coder 1.5B Instruct",
        "bytes": 1_117_320_768,
        "have_bytes": 0,
        "state": "not here",
        "path": str(tmp_path / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
        "kind": "chat",
        "licence": "Apache-2.0",
        "description": "The smallest real target: writes code and chats; its 0.5B sister guesses for it.",
        "drafts": ["qwen2.5-coder-0.5b-instruct-q4_k_m"],
        "pairs_with": ["qwen2.5-coder-0.5b-instruct-q4_k_m"],
        "helper": None,
        "catalogued": True,
    }
    assert "qwen2.5-coder-1.5b-instruct-q4_k_m" in by_id["qwen2.5-coder-0.5b-instruct-q4_k_m"]["pairs_with"]


def test_a_hostile_file_name_reaches_no_terminal(
    product: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = tmp_path / "a\x1b]52;c;eA==\x07\x9b2J.gguf"
    hostile.write_bytes(CONTENT)
    assert command("add", str(hostile)) == 0
    assert command("list") == 0
    assert command("list", "--json") == 0
    assert command("remove", str(hostile) + "x") == 1
    out, err = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b"} & set(out + err)


def test_add_and_remove_as_json(product: Library, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("add", str(mine), "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"id": "my-model.q8_0", "path": str(mine), "bytes": 1000}
    assert command("remove", "my-model.q8_0", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"id": "my-model.q8_0", "path": str(mine), "freed_bytes": 0}
    assert command("remove", "my-model.q8_0", "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "ModelUnknown"


def test_remove_says_what_became_free(product: Library, capsys: pytest.CaptureFixture[str]) -> None:
    product.file(TARGET).write_bytes(CONTENT)
    assert command("remove", TARGET.id) == 0
    assert capsys.readouterr().out == f"{TARGET.id} removed, 1 MB freed\n"


def test_a_file_of_ones_own_cannot_be_pulled(product: Library, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("pull", str(mine)) == 1
    assert "nothing to pull" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("pardec_chat.app.cli.models", {"huggingface_hub", "httpx2", "tomllib", "json", "subprocess", "platformdirs"}),
        ("pardec_chat.app.downloads.library", {"huggingface_hub", "httpx2", "textual"}),
    ],
)
def test_importing_stays_light(module: str, heavy: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not heavy & set(done.stdout.split())


# Folders of safetensors, which another runtime reads.


@pytest.fixture
def folder(library: Library) -> Path:
    found = library.folder / "Tiny-Llama"
    found.mkdir(parents=True)
    (found / "config.json").write_text("{}")
    (found / "model.safetensors").write_bytes(b"12345")
    (library.folder / "no-model").mkdir()
    return found


def test_folders_are_found_by_path_and_by_name(library: Library, folder: Path) -> None:
    assert library.folders() == [folder]
    assert library.find(str(folder)) == library.find("Tiny-Llama") == folder
    with pytest.raises(errors.ModelUnknown):
        library.find("no-model")


@pytest.mark.parametrize(("own", "other"), [("llamacpp", "pytorch"), ("pytorch", "llamacpp")])
def test_the_app_offers_each_file_on_each_runtime_that_is_here(
    library: Library, folder: Path, mine: Path, monkeypatch: pytest.MonkeyPatch, own: str, other: str
) -> None:
    entry = library.add(mine)
    here = {own, other}
    monkeypatch.setattr("pardec_chat.backends.registry.installed", lambda name: name in here)
    files = [(found.id, found.runtime) for found in tui._entries(library, own) if found.path.is_file()]
    assert (entry.id, None) in files and (entry.id, other) in files
    assert [runtime for _, runtime in files] == sorted(
        (runtime for _, runtime in files), key=lambda name: name is not None
    )
    (offered,) = [found for found in tui._entries(library, own) if found.path == folder]
    assert (offered.id, offered.name, offered.size_bytes) == ("tiny-llama", "Tiny-Llama", 5)
    assert offered.runtime == (None if own == "pytorch" else "pytorch")
    here.remove("pytorch")
    if own == "llamacpp":
        assert {found.runtime for found in tui._entries(library, own)} == {None}
        assert all(found.path.is_file() for found in tui._entries(library, own))


@pytest.mark.parametrize("own", ["llamacpp", "mlx"])
def test_the_app_knows_which_files_mlx_does_not_run(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.setattr("pardec_chat.backends.registry.installed", lambda name: name in ("llamacpp", "mlx"))
    for kind in ("Q4_0", "Q5_0"):
        quantised = gguf.GGMLQuantizationType[kind]
        library.add(tiny_models.write(tmp_path / f"{kind}.gguf", "llama", quantised=quantised))
    library.add(tiny_models.write(tmp_path / "state.gguf", "mamba"))
    on_mlx = ["q4_0"]
    for _ in range(2):
        offered = [(found.id, found.runtime or own) for found in tui._entries(library, own) if found.runs()]
        wanted = [(name, "llamacpp") for name in ("q4_0", "q5_0", "state")] + [(name, "mlx") for name in on_mlx]
        assert sorted(offered) == sorted(wanted)
        # A file that has changed is looked at again.
        tiny_models.write(tmp_path / "Q5_0.gguf", "llama", quantised=gguf.GGMLQuantizationType.Q8_0)
        on_mlx.append("q5_0")
