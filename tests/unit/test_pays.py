"""What is said about costs and right guesses: exact sentences and figures, from explanations and from a real controller."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from pardec_chat.app import lines, pays, svg
from pardec_chat.app.palette import LIGHT
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.backends.base import Method, Outcome
from pardec_chat.backends.decoding.explain import Explanation, Kind, explain
from pardec_chat.backends.decoding.knowledge import Knowledge
from pardec_chat.tests.explanations import CPU, GPU, NOTHING, copying, ngram, passes, rate


def shown(explanation: Explanation, draft: str | None = "d", width: int = 78) -> list[str]:
    return [lines.plain(line) for line in pays.picture(explanation, draft, width)]


def row(explanation: Explanation, label: str, number: int = 0) -> list[str]:
    """The figures of the numbered row with this label."""
    found = [line for line in shown(explanation, width=110) if line.strip().startswith(label + "  ")]
    return found[number].strip().removeprefix(label).split()


@pytest.mark.parametrize(
    ("explanation", "draft", "sentences"),
    [
        (NOTHING, "d", pays.NOTHING),
        (
            CPU,
            "d",
            "Checking 4 tokens costs 3.2 single steps here; the draft model would need 93 % right guesses to break even. "
            "With auto, plain decoding is used, n-gram where text repeats.",
        ),
        (
            GPU,
            "d",
            "Checking 4 tokens costs 1.1 single steps here; the draft model breaks even with 38 % right guesses. "
            "With auto, the draft model is used for code, plain decoding for the rest, n-gram where text repeats.",
        ),
        (
            replace(GPU, kinds=GPU.kinds[:1]),
            "d",
            "Checking 4 tokens costs 1.1 single steps here; the draft model breaks even with 38 % right guesses. "
            "With auto, the draft model is used, n-gram where text repeats.",
        ),
        (
            replace(CPU, kinds=()),
            "d",
            "Checking 4 tokens costs 3.2 single steps here; the draft model would need 93 % right guesses to break even. "
            "How often guesses are right shows with the first answers.",
        ),
        (
            replace(CPU, break_even=None, kinds=(replace(CPU.kinds[0], ngram=ngram({})),)),
            "d",
            "Checking 4 tokens costs 3.2 single steps here; the draft model cannot pay, not even with every guess right. "
            "With auto, plain decoding is used.",
        ),
        (
            replace(CPU, draft_ms=None, passes=CPU.passes[:1]),
            "d",
            "What checking several tokens costs was not measured yet; the draft model was hardly tried yet. "
            "With auto, plain decoding is used, n-gram where text repeats.",
        ),
        (
            replace(GPU, passes=passes({1: 1.0, 2: 1.0, 6: 1.4, 9: 1.9}, 7.0)),
            None,
            "Checking 2 tokens costs 1.0 single steps here; no draft model is loaded. "
            "With auto, plain decoding is used, n-gram where text repeats.",
        ),
    ],
)
def test_the_verdict(explanation: Explanation, draft: str | None, sentences: str) -> None:
    assert pays.verdict(explanation, draft) == sentences


@pytest.mark.parametrize(
    ("explanation", "draft", "sentences"),
    [
        (GPU, None, "No draft model is loaded. Copying text that repeats (n-gram) needs none."),
        (replace(GPU, draft_ms=None), "d", "The draft model was hardly tried yet."),
        (
            CPU,
            "d",
            "One guess of the draft model takes 14.2 ms, that is 0.24 single steps. "
            "It breaks even with 93 % right guesses, at the depth that suits it best.",
        ),
        (
            replace(CPU, draft_ms=118.4, break_even=None),
            "d",
            "One guess of the draft model takes 118 ms, that is 2.0 single steps. "
            "It cannot pay: with every guess right, plain decoding would be as fast.",
        ),
    ],
)
def test_what_a_guess_costs(explanation: Explanation, draft: str | None, sentences: str) -> None:
    assert pays.guess_cost(explanation, draft) == sentences


def test_nothing_measured_is_one_sentence() -> None:
    assert " ".join(shown(NOTHING)) == pays.NOTHING


def test_costs_stand_below_their_rows_and_only_measured_ones_are_shown() -> None:
    assert row(GPU, "rows") == ["1", "2", "3", "4", "5", "6", "8", "12", "16"]
    assert row(GPU, "cost") == ["1.0", "1.0", "1.1", "1.1", "1.2", "1.4", "1.7", "2.3", "3.0"]
    assert row(GPU, "seen") == ["99+"] * 9
    assert row(CPU, "cost")[-5:] == ["9.0", "10", "12", "13", "15"]
    text = " ".join(" ".join(shown(GPU)).split())
    assert "A single step takes 7.14 ms with 512 tokens in the context. Below, the rows" in text
    chart = [line for line in shown(GPU) if "███" in line]
    assert len(chart) == 4
    assert chart[0].count("███") == 1 and chart[-1].count("███") == 9


def test_a_single_step_alone_makes_no_chart() -> None:
    text = "\n".join(shown(replace(GPU, passes=GPU.passes[:1])))
    assert "Passes of more than one row were not measured yet." in " ".join(text.split())
    assert "█" not in text


def test_rates_come_with_their_uncertainty_and_number() -> None:
    assert row(GPU, "draft, place") == ["1st", "2nd", "3rd", "6th–7th"]
    assert " ".join(row(GPU, "right")) == "93 % ± 3 91 % ± 3 87 % ± 4 80 % ± 9"
    assert row(GPU, "of") == ["99", "92", "84", "20"]
    assert row(GPU, "n-gram, match") == ["1", "2", "12–15", "32+"]
    assert " ".join(row(GPU, "right", 1)) == "30 % ± 5 50 % ± 6 96 % ± 3 99 % ± 2"


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (0.84, 0.03, "84 % ± 3"),
        (0.98, 0.06, "98 % ± 6"),  # the error is not cut off where the share ends
        (0.02, 0.06, "2 % ± 6"),
        (0.999, 0.001, "99 % ± 1"),
    ],
)
def test_a_rate(mean: float, error: float, text: str) -> None:
    assert pays.right(rate(1, mean, error, 50.0)) == text


def test_expected_speed_by_depth_and_the_best_in_words() -> None:
    assert row(GPU, "draft, depth") == ["1", "2", "3", "4", "5", "6"]
    assert row(GPU, "speed-up") == ["1.5x", "1.9x", "2.2x", "2.3x", "2.3x", "2.3x"]
    assert pays.best_depth(GPU.kinds[0]) == "The draft model is best 4 deep: 2.3x plain decoding."
    assert pays.best_depth(CPU.kinds[1]) == "The draft model does not pay: 2 deep, its best, gives 0.9x plain decoding."
    assert pays.best_depth(replace(CPU.kinds[1], draft=())) == ""


@pytest.mark.parametrize(
    ("options", "seen", "text"),
    [
        ({6: (12, 9.0, 5.0)}, True, "n-gram pays behind a match of 6 or more, 12 tokens: 1.8x plain decoding."),
        ({3: (1, 1.6, 1.55)}, True, "n-gram pays behind a match of 3 or more, 1 token: 1.03x plain decoding."),
        (
            {4: (2, 2.0, 1.5), 8: (0, 1.0, 1.0), 24: (4, 4.0, 2.0)},
            True,
            "n-gram pays behind matches of 4, 6, 24 and 32, 2 tokens: 1.3x plain decoding.",
        ),
        ({}, True, "n-gram does not pay behind any match."),
        (
            {},
            False,
            "n-gram does not pay behind any match. Nothing was copied here so far: this is expected from other texts.",
        ),
    ],
)
def test_from_which_match_on_copying_pays(options: dict[int, tuple[int, float, float]], seen: bool, text: str) -> None:
    matches = (rate(1, 0.5, 0.1, 9.0),) if seen else ()
    kind = Kind("chat", (), matches, (), ngram({n: copying(*option) for n, option in options.items()}), ())
    assert pays.shortest_match(kind) == text


def test_measured_speeds_stand_beside_the_expected() -> None:
    assert row(GPU, "draft, 4 deep") == ["316", "328", "4.0", "611"]
    assert row(GPU, "plain") == ["139", "140", "1.0", "88"]
    assert row(GPU, "n-gram, 11 deep") == ["421", "–", "7.1", "60"]
    # 20 steps of 2.0 tokens at 260 tok/s and 10 of 5.0 at 320.
    assert row(GPU, "2 more") == [f"{90 / (40 / 260 + 50 / 320):.0f}", "–", "3.0", "30"]
    assert row(CPU, "plain") == ["16.8", "16.9", "1.0", "1,204"]
    assert row(CPU, "draft, 1 deep") == ["12.4", "12.7", "1.6", "12"]


def test_kinds_of_text_are_told_in_words() -> None:
    assert "chat   questions and talk" in shown(CPU)
    assert "poetry" in shown(replace(CPU, kinds=(replace(CPU.kinds[0], name="poetry"),)))
    evil = shown(replace(CPU, kinds=(replace(CPU.kinds[0], name="a\x1b[2J\nb"),)))
    assert "a␛[2J b" in evil


@pytest.mark.parametrize("width", [60, 78, 84, 118])
@pytest.mark.parametrize("explanation", [CPU, GPU, NOTHING], ids=["cpu", "gpu", "nothing"])
def test_lines_fit(explanation: Explanation, width: int) -> None:
    assert max(map(cell_len, shown(explanation, width=width))) <= width
    assert cell_len(lines.plain(pays.heading("図書館" * 20, "d" * 99, width))) <= width
    assert cell_len(lines.plain(pays.measuring(0.5, width))) <= width


@pytest.mark.parametrize("width", range(60, 90))
def test_a_figure_and_its_unit_stay_on_one_line(width: int) -> None:
    assert not [line for line in shown(CPU, width=width) if line.lstrip().startswith(("%", "ms"))]


def test_narrow_screens_get_the_rows_in_bands() -> None:
    rows = [line.split()[1:] for line in shown(CPU, width=60) if line.startswith("  rows")]
    assert [len(cells) for cells in rows] == [9, 9]
    assert [cell for cells in rows for cell in cells] == [str(cost.rows) for cost in CPU.passes]


def test_a_controller_that_learned_is_explained() -> None:
    controller = Knowledge()
    assert pays.verdict(explain(controller), "d") == pays.NOTHING
    for _ in range(3):
        for n, ms in ((1, 10.0), (2, 11.0), (4, 12.0)):
            controller.costs.observe_pass(512, n, ms)
        for n in (1, 2, 3):
            controller.costs.observe_draft(Method.DRAFT.value, n, 0, 2.0 * n)
    right = [Outcome(place, True) for place in (1, 2, 3)]
    for _ in range(60):
        controller.note(Method.DRAFT, controller.record(Method.DRAFT, "code"), right)
    explanation = explain(controller)
    assert explanation.draft_ms == pytest.approx(2.0)
    # One guess at 1.1 + 0.2 single steps: 1 + rate > 1.3 from 30 % on; deeper ones ask for no less here.
    assert explanation.break_even == pytest.approx(0.3, abs=0.02)
    share = wording.percent(explanation.break_even)
    assert pays.verdict(explanation, "d") == (
        f"Checking 4 tokens costs 1.2 single steps here; the draft model breaks even with {share} right guesses. "
        "With auto, the draft model is used, n-gram where text repeats."
    )
    for width in (60, 78, 110):
        assert max(map(cell_len, shown(explanation, width=width))) <= width


def test_columns_of_a_chart() -> None:
    assert blocks.columns([1.0, 2.0, 4.0], 2, 1) == [[" ", " ", "█"], ["▄", "█", "█"]]
    assert blocks.columns([0.001, 1.0], 1, 2) == [["▁▁", "██"]]


@pytest.mark.parametrize(("value", "text"), [(1.7, "1.7x"), (0.97, "0.97x"), (1.0, "1.00x"), (0.9, "0.9x")])
def test_speed_ups(value: float, text: str) -> None:
    assert wording.times(value) == text


@pytest.mark.parametrize(("value", "text"), [(3.214, "3.21 ms"), (59.16, "59.2 ms"), (1234.5, "1,234 ms")])
def test_milliseconds(value: float, text: str) -> None:
    assert wording.milliseconds(value) == text


def test_svg_is_text_of_ours_alone() -> None:
    from xml.etree import ElementTree

    drawn = svg.draw([pays.heading("[red]<b>&\x1b[2J", "図書", svg.WIDTH), *pays.picture(GPU, "d", svg.WIDTH)], LIGHT)
    root = ElementTree.fromstring(drawn)
    text = "".join(root.itertext()).replace("\xa0", " ")
    assert "[red]<b>&␛[2J" in text
    assert "図書" in text
    assert "93 % ± 3" in text
    assert LIGHT.background in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
