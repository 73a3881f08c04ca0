from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest

from pardec_chat.app import locations
from pardec_chat.app.toml_lines import Address, lines_of

ODD = '''
# [not.a.header] and not = "a key"
top = 1 # [[models]]
"quoted key" = 'a # b'   # 4
dotted . "inner" = [1, [2.5, "]"], { a = {}, b.c = "}" }]
long = """
[[models]]
fake = 1 \\""" still
"""""
literal = \'\'\'
key = [
\'\'\'
when = 1979-05-27 07:32:00

[[models]] # 15
id = "one"
[[ models . pairs ]]
with = [
  # a, [ comment
  "x",

  { y = [
    "z" ] },
]
[[models.pairs]]
[models.extra]   # 26
n = -1.5e3
[["models"]]
[[models.pairs]]
method = ""
'''


def addresses(value: object, address: Address = ()) -> Iterator[Address]:
    yield address
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from addresses(inner, (*address, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from addresses(inner, (*address, number))


@pytest.mark.parametrize("text", ["", "a = 1", ODD, locations.catalogue().read_text(encoding="utf-8")])
def test_all_that_tomllib_reads_has_a_line(text: str) -> None:
    assert set(lines_of(text)) == set(addresses(tomllib.loads(text)))


def test_lines_are_those_of_the_text() -> None:
    expected: dict[Address, int] = {
        (): 1,
        ("top",): 3,
        ("quoted key",): 4,
        ("dotted",): 5,
        ("dotted", "inner", 2, "b", "c"): 5,
        ("long",): 6,
        ("literal",): 10,
        ("when",): 13,
        ("models",): 15,
        ("models", 0): 15,
        ("models", 0, "id"): 16,
        ("models", 0, "pairs"): 17,
        ("models", 0, "pairs", 0): 17,
        ("models", 0, "pairs", 0, "with"): 18,
        ("models", 0, "pairs", 0, "with", 0): 20,
        ("models", 0, "pairs", 0, "with", 1, "y"): 22,
        ("models", 0, "pairs", 0, "with", 1, "y", 0): 23,
        ("models", 0, "pairs", 1): 25,
        ("models", 0, "extra"): 26,
        ("models", 0, "extra", "n"): 27,
        ("models", 1): 28,
        ("models", 1, "pairs", 0, "method"): 30,
    }
    lines = lines_of(ODD)
    assert {address: lines[address] for address in expected} == expected
