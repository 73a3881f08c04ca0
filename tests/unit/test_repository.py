from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from huggingface_hub import constants

from pardec_chat.app.catalogue import HubSource
from pardec_chat.app.downloads import errors, fetched
from pardec_chat.app.downloads.hub import Hub
from pardec_chat.app.downloads.pull import Tools, pull
from pardec_chat.app.downloads.repository import Offer, OfferedFile, Repository, helper, look, models, part_of
from pardec_chat.app.downloads.waiting import Patience, Stopped
from pardec_chat.tests.unit import fake_hub
from pardec_chat.tests.unit.fake_hub import COMMIT, Answer, FakeHub, FakeRepository, Patient, model_of, some_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPO = "Some-Owner/Big-1.5B-GGUF"
SECRET = "hf_aSecretThatMustNotBeShown"
BIG = some_bytes(30_000)
SPLIT = {f"Q8_0/Big-1.5B-Q8_0-0000{n}-of-00003.gguf": BIG[(n - 1) * 10_000 : n * 10_000] for n in (1, 2, 3)}
FILES = {
    ".gitattributes": b"x",
    "README.md": b"# Big",
    "Big-1.5B-Q4_K_M.gguf": some_bytes(2_000),
    "Big-1.5B-Q2_K.gguf": some_bytes(1_000),
    "mmproj-Big-1.5B-F16.gguf": some_bytes(500),
    "imatrix_big.dat": some_bytes(300),
    "mtp-Big-1.5B-Q8_0.gguf": some_bytes(700),
    "MTP/Big-1.5B-Q4_0.gguf": some_bytes(600),
    "Big-1.5B-speculator.eagle3-F16.gguf": some_bytes(800),
    **SPLIT,
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub.running(monkeypatch) as running:
        running.repositories[REPO] = FakeRepository(dict(FILES), gated="manual", licence="apache-2.0")
        yield running


def asking(hub: FakeHub, token: str = "") -> Hub:
    return Hub(hub.endpoint, token, Patience(tries=3, stall=20.0))


def seen(hub: FakeHub, files: dict[str, bytes], **about: str) -> Repository:
    hub.repositories["o/n"] = FakeRepository(files, **about)  # type: ignore[arg-type]
    return look("o/n", asking(hub), Patient())


def offer_of(repository: Repository, name: str) -> Offer:
    (offer,) = (offer for offer in repository.offers if offer.name == name)
    return offer


def test_L08_a_repository_is_listed_by_what_its_files_are(hub: FakeHub) -> None:
    repository = look(REPO, asking(hub), Patient())
    assert (repository.repo, repository.commit, repository.gated, repository.licence) == (
        REPO,
        COMMIT,
        True,
        "apache-2.0",
    )
    assert [(offer.kind, offer.name, offer.size) for offer in repository.offers] == [
        ("model", "Big-1.5B-Q2_K.gguf", 1_000),
        ("model", "Big-1.5B-Q4_K_M.gguf", 2_000),
        ("model", "Q8_0/Big-1.5B-Q8_0.gguf", 30_000),
        ("draft", "MTP/Big-1.5B-Q4_0.gguf", 600),
        ("draft", "mtp-Big-1.5B-Q8_0.gguf", 700),
        ("draft", "Big-1.5B-speculator.eagle3-F16.gguf", 800),
        ("helper", "imatrix_big.dat", 300),
        ("helper", "mmproj-Big-1.5B-F16.gguf", 500),
    ]
    assert [bool(offer.use) for offer in repository.offers] == [False] * 3 + [True] * 5
    assert "by MTP, a method that this version does not have" in offer_of(repository, "mtp-Big-1.5B-Q8_0.gguf").use
    assert "by EAGLE-3" in offer_of(repository, "Big-1.5B-speculator.eagle3-F16.gguf").use
    assert offer_of(repository, "imatrix_big.dat").use == "is an importance matrix, not a model to chat with"
    assert offer_of(repository, "mmproj-Big-1.5B-F16.gguf").use == "is a vision projector, not a model to chat with"
    split = offer_of(repository, "Q8_0/Big-1.5B-Q8_0.gguf")
    assert [file.file for file in split.files] == list(SPLIT)
    assert [file.sha256 for file in split.files] == [hashlib.sha256(part).hexdigest() for part in SPLIT.values()]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("mmproj-model-f16.gguf", "vision projector"),
        ("gemma-3-4b-it-mmproj-f16.gguf", "vision projector"),
        ("mmproj.gguf", "vision projector"),
        ("mmproj/F16.gguf", "vision projector"),
        ("imatrix.dat", "importance matrix"),
        ("imatrix_unsloth.gguf", "importance matrix"),
        ("Big.imatrix", "importance matrix"),
        ("Big-7B-imatrix-Q4_K_M.gguf", ""),
        ("MTP/Big-Q4_0.gguf", "MTP head"),
        ("dspark-Qwen3-8B-Q8_0.gguf", "DSpark head"),
        ("Qwen3-8B-DFlash.Q8_0.gguf", "DFlash head"),
        ("eagle3-gpt-oss-20b-BF16.gguf", "EAGLE-3 head"),
        ("Qwen3.5-9B-MTP-Q4_K_M.gguf", ""),
        ("Q4_K_M/Big-Q4_K_M.gguf", ""),
    ],
)
def test_L08_helpers_are_told_by_name(file: str, kind: str) -> None:
    assert helper(file) == kind


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ([2], "part 2 of 3 is missing from the repository"),
        ([1, 3], "parts 1, 3 of 3 are missing from the repository"),
    ],
)
def test_a_set_with_a_missing_part_says_which(hub: FakeHub, missing: list[int], says: str) -> None:
    repository = seen(hub, {file: part for n, (file, part) in enumerate(SPLIT.items(), 1) if n not in missing})
    (offer,) = repository.offers
    assert offer.use == says
    with pytest.raises(errors.OfferUnusable, match=says):
        models(repository, offer, [])


def test_parts_of_two_sets_are_no_model(hub: FakeHub) -> None:
    names = ("x-00001-of-00002.gguf", "x-00001-of-00003.gguf", "x-00002-of-00002.gguf")
    (offer,) = seen(hub, dict.fromkeys(names, b"GGUF")).offers
    assert offer.use == "its parts are of two different sets"


@pytest.mark.parametrize("name", ["x-00004-of-00003.gguf", "x-00000-of-00003.gguf", "x-1-of-3.gguf", "-of-.gguf"])
def test_what_only_looks_like_a_part_is_whole(name: str) -> None:
    assert part_of(name) is None


@pytest.mark.parametrize(
    ("about", "needs"),
    [
        ({"library": "mlx"}, "needs the MLX runtime, which this version does not have"),
        ({}, "needs a runtime for safetensors, such as MLX or PyTorch, which this version does not have"),
    ],
)
def test_mlx_weights_are_one_offer(hub: FakeHub, about: dict[str, str], needs: str) -> None:
    names = ("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "tokenizer.json")
    repository = seen(hub, dict.fromkeys((*names, "README.md", "x.gguf"), b"12345"), **about)
    assert [(offer.kind, offer.name, offer.use) for offer in repository.offers] == [
        ("model", "x.gguf", ""),
        ("mlx", "n", needs),
    ]
    assert repository.offers[1].size == 20
    assert repository.licence == "see the Hub"


def test_files_that_cannot_be_verified_or_shown_are_not_offered(hub: FakeHub) -> None:
    hub.repositories["o/n"] = FakeRepository(
        {"small.gguf": b"GGUF", "../up.gguf": b"GGUF", "a\x1b[2J.gguf": b"GGUF"}, unhashed=frozenset({"small.gguf"})
    )
    (offer,) = look("o/n", asking(hub), Patient()).offers
    assert (offer.name, offer.use) == ("small.gguf", "the Hub gives no SHA-256 for it, so it could not be verified")


def test_an_empty_repository_offers_nothing(hub: FakeHub) -> None:
    assert seen(hub, {"README.md": b"soon"}).offers == ()


# ---- what is asked for ----


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (REPO, f"{REPO}/revision/main"),
        (f" {REPO}/ ", f"{REPO}/revision/main"),
        (f"https://huggingface.co/{REPO}", f"{REPO}/revision/main"),
        (f"huggingface.co/{REPO}/", f"{REPO}/revision/main"),
        (f"https://hf.co/{REPO}?library=llama.cpp#top", f"{REPO}/revision/main"),
        (f"https://huggingface.co/{REPO}/tree/main/Q8_0", f"{REPO}/revision/main"),
        (f"https://huggingface.co/{REPO}/blob/v2/Big-1.5B-Q2_K.gguf", f"{REPO}/revision/v2"),
        (f"https://huggingface.co/{REPO}/tree/refs%2Fpr%2F1", f"{REPO}/revision/refs%2Fpr%2F1"),
        (f"{{hub}}/{REPO}", f"{REPO}/revision/main"),
    ],
)
def test_a_name_or_the_address_of_a_page_will_do(hub: FakeHub, text: str, path: str) -> None:
    assert look(text.replace("{hub}", hub.endpoint), asking(hub), Patient()).repo == REPO
    assert hub.seen[0].path == f"/api/models/{path}?blobs=true"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpt2",
        "a/b/c",
        "a/..",
        "a b/c",
        "-a/b",
        "a/b--c",
        "owner/name:Q4_K_M",
        "https://huggingface.co",
        "https://huggingface.co/owner",
        "https://huggingface.co/datasets/owner/name",
        "https://example.com/owner/name",
        "https://huggingface.co.example.com/owner/name",
        "https://[/owner/name",
    ],
)
def test_L04_a_badly_formed_name_is_told_before_anything_is_asked(hub: FakeHub, text: str) -> None:
    with pytest.raises(errors.RepoNameWrong, match="Give OWNER/NAME"):
        look(text, asking(hub), Patient())
    assert hub.seen == []


REFUSALS = [
    ("", 401, {"X-Error-Code": "RepoNotFound"}, errors.HubNeedsLogin, "hf auth login"),
    (SECRET, 401, {"X-Error-Message": "Invalid credentials"}, errors.HubTokenRefused, "/settings/tokens"),
    (SECRET, 403, {"X-Error-Code": "GatedRepo"}, errors.HubGated, f"/{REPO}"),
    (SECRET, 403, {"X-Error-Message": "token lacks scope"}, errors.HubTokenLacksScope, "read access"),
    (SECRET, 404, {"X-Error-Code": "RepoNotFound"}, errors.HubMissing, f"/{REPO}"),
]


def test_L04_five_refusals_are_told_apart(hub: FakeHub) -> None:
    told = set()
    for token, status, headers, kind, step in REFUSALS:
        hub.api_answers = [Answer(status=status, headers=headers)]
        with pytest.raises(errors.DownloadFailed) as caught:
            look(REPO, asking(hub, token), Patient())
        assert type(caught.value) is kind
        assert step in caught.value.next_step
        assert SECRET not in str(caught.value)
        told.add(caught.value.what)
    assert len(told) == len(REFUSALS)
    assert not any("file  in" in what for what in told)


def test_L05_what_may_pass_is_tried_again(hub: FakeHub) -> None:
    hub.api_answers = [Answer(status=503), Answer(status=429, headers={"Retry-After": "7"})]
    cancel = Patient()
    assert look(REPO, asking(hub), cancel).offers
    assert cancel.waits == [1.0, 7.0]


def test_L06_a_look_can_be_called_off(hub: FakeHub) -> None:
    cancel = Patient()
    cancel.set()
    with pytest.raises(Stopped):
        look(REPO, asking(hub), cancel)


def test_the_users_own_hub_is_asked_unless_he_is_offline(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    assert look(REPO, Hub(token=""), Patient()).offers
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(errors.HubUnreachable, match="HF_HUB_OFFLINE"):
        look(REPO, Hub(token=""), Patient())
    assert len(hub.seen) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"sha": "../x", "siblings": []}', b'{"sha": "x"}'])
def test_an_answer_that_is_no_hubs_is_named(hub: FakeHub, body: bytes) -> None:
    hub.api_body = body
    with pytest.raises(errors.HubUnreachable, match="did not answer as a Hub does"):
        look(REPO, asking(hub), Patient())


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ({"license": ["mit", "apache-2.0"]}, "mit, apache-2.0"),
        ({"license": "other", "license_name": "qwen-research"}, "qwen-research"),
        ({"license": "other"}, "other"),
        (None, "see the Hub"),
    ],
)
def test_the_licence_is_what_the_card_says(hub: FakeHub, card: object, licence: str) -> None:
    hub.api_body = json.dumps({"sha": COMMIT, "siblings": [], "cardData": card}).encode()
    assert look(REPO, asking(hub), Patient()).licence == licence


# ---- models of an offer ----


def test_a_file_becomes_a_model_at_the_commit_that_was_seen(hub: FakeHub) -> None:
    repository = look(REPO, asking(hub), Patient())
    (model,) = models(repository, offer_of(repository, "Big-1.5B-Q4_K_M.gguf"), [])
    assert model == replace(
        model_of(FILES["Big-1.5B-Q4_K_M.gguf"], HubSource(REPO, "Big-1.5B-Q4_K_M.gguf", COMMIT)),
        id="big-1.5b-q4_k_m",
        name="Big 1.5B Q4_K_M",
        licence="apache-2.0",
        description=f"Big-1.5B-Q4_K_M.gguf of {REPO} on the Hub.",
    )


def test_parts_keep_the_names_that_llama_cpp_looks_for(hub: FakeHub, tmp_path: Path) -> None:
    repository = look(REPO, asking(hub), Patient())
    made = models(repository, offer_of(repository, "Q8_0/Big-1.5B-Q8_0.gguf"), [])
    assert [model.file_name for model in made] == [f"big-1.5b-q8_0-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    assert [model.name for model in made] == [f"Big 1.5B Q8_0, part {n} of 3" for n in (1, 2, 3)]
    for model, part in zip(made, SPLIT.values(), strict=True):
        assert pull(model, tmp_path, tools=Tools(hub=asking(hub))).path.read_bytes() == part


def test_a_long_name_is_cut_before_the_number_of_the_part() -> None:
    offer = Offer(
        "x", "model", tuple(OfferedFile(f"{'Long' * 40}-0000{n}-of-00002.gguf", 5, "00" * 32) for n in (1, 2))
    )
    first, second = models(Repository(REPO, COMMIT, False, "MIT", (offer,)), offer, [])
    assert len(first.id) == 96
    assert first.id.endswith("-00001-of-00002")
    assert second.id == first.id.replace("-00001-of", "-00002-of")


def test_an_id_that_means_another_file_gets_the_owner_and_then_more(hub: FakeHub) -> None:
    repository = look(REPO, asking(hub), Patient())
    offer = offer_of(repository, "Big-1.5B-Q4_K_M.gguf")
    (plain,) = models(repository, offer, [])
    assert models(repository, offer, [plain]) == (plain,)
    assert models(repository, offer, [replace(plain, sha256=plain.sha256[:8])]) == (plain,)
    known = [replace(plain, sha256="0" * 64)]
    for wanted in ("some-owner-", "some-owner-big-1.5b-gguf-", "some-owner-big-1.5b-gguf-2-"):
        (model,) = models(repository, offer, known)
        assert model.id == wanted + plain.id
        known.append(replace(model, size=1))


def test_parts_get_the_longer_id_together(hub: FakeHub) -> None:
    repository = look(REPO, asking(hub), Patient())
    offer = offer_of(repository, "Q8_0/Big-1.5B-Q8_0.gguf")
    first, second, third = models(repository, offer, [])
    for other in (replace(second, size=1), replace(first, id="big-1.5b-q8_0")):
        made = models(repository, offer, [other])
        assert [model.id for model in made] == [f"some-owner-{part.id}" for part in (first, second, third)]
    assert not fetched.clash(first, second)
    assert fetched.clash(first, replace(first, id="big-1.5b-q8_0-00001-of-00002"))


def test_by_default_the_programs_own_catalogue_is_spared(hub: FakeHub) -> None:
    from pardec_chat.app import catalogue

    known = catalogue.load().models[0]
    repository = seen(hub, {f"{known.id.upper()}.gguf": b"GGUF, but another"})
    (model,) = models(repository, repository.offers[0])
    assert model.id == f"o-{known.id}"
