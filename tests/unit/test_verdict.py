"""The sentences at the end of a race."""

from __future__ import annotations

import pytest

from pardec_chat.app.screens.verdict import Run, stopped, verdict

PLAIN = Run("plain", "the same text", 256, 22.0)
DIFFERENT = "At temperature 0.8 the texts may differ; their distribution is the same."


def auto(rate: float | None, *, name: str = "auto", text: str = PLAIN.text, tokens: int = 256) -> Run:
    return Run(name, text, tokens, rate)


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (PLAIN, auto(31.2), "auto is 1.42x as fast as plain: 31.2 against 22.0 tok/s."),
        (auto(31.2), PLAIN, "auto is 1.42x as fast as plain: 31.2 against 22.0 tok/s."),
        (PLAIN, auto(11.0), "plain is 2.00x as fast as auto: 22.0 against 11.0 tok/s."),
        (PLAIN, auto(22.1), "No difference worth mentioning: 22.0 and 22.1 tok/s (within 3 %)."),
        (auto(22.1), PLAIN, "No difference worth mentioning: 22.1 and 22.0 tok/s (within 3 %)."),
        (PLAIN, auto(22.65), "No difference worth mentioning: 22.0 and 22.6 tok/s (within 3 %)."),
        (PLAIN, auto(22.7), "auto is 1.03x as fast as plain: 22.7 against 22.0 tok/s."),
        (PLAIN, auto(1234.0), "auto is 56.09x as fast as plain: 1,234 against 22.0 tok/s."),
        (
            auto(30.0, name="draft (3 deep)"),
            auto(20.0, name="draft (8 deep)"),
            "draft (3 deep) is 1.50x as fast as draft (8 deep): 30.0 against 20.0 tok/s.",
        ),
        (PLAIN, auto(30.0, name="plain"), "plain (right) is 1.36x as fast as plain (left): 30.0 against 22.0 tok/s."),
    ],
)
def test_speed(left: Run, right: Run, said: str) -> None:
    assert verdict(left, right, 0.0) == f"{said} Both texts are the same."
    assert verdict(left, right, 0.8) == f"{said} {DIFFERENT}"


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (
            Run("plain", "a", 12, 22.0),
            Run("auto", "a", 31, 31.2),
            "Too short to tell: plain wrote 12 tokens at 22.0 tok/s, auto 31 at 31.2.",
        ),
        (
            Run("plain", "a", 31, 22.0),
            Run("auto", "a", 256, 31.2),
            "Too short to tell: plain wrote 31 tokens at 22.0 tok/s, auto 256 at 31.2.",
        ),
        (
            Run("plain", "a", 0, None),
            Run("auto", "a", 0, None),
            "Too short to tell: plain wrote 0 tokens at – tok/s, auto 0 at –.",
        ),
    ],
)
def test_a_short_race_has_no_winner(left: Run, right: Run, said: str) -> None:
    assert verdict(left, right, 0.0) == f"{said} Both texts are the same."


def test_very_different_lengths_are_told() -> None:
    said = verdict(PLAIN, auto(31.2, tokens=100), 0.8)
    assert said == (
        "auto is 1.42x as fast as plain: 31.2 against 22.0 tok/s. "
        f"The lengths are very different: 256 and 100 tokens. {DIFFERENT}"
    )
    assert "lengths" not in verdict(PLAIN, auto(31.2, tokens=128), 0.8)


@pytest.mark.parametrize(
    ("text", "place"),
    [("the same tent", "12"), ("The same text", "1"), ("the same", "9"), ("the same text.", "14"), ("日本", "1")],
)
def test_where_texts_differ_at_temperature_0(text: str, place: str) -> None:
    said = verdict(PLAIN, auto(44.0, text=text), 0.0)
    assert said == (
        "auto is 2.00x as fast as plain: 44.0 against 22.0 tok/s. "
        f"The texts differ from character {place} on: two tokens that nearly tie may do that."
    )


def test_a_stopped_race_gives_figures_and_no_verdict() -> None:
    said = stopped(PLAIN, auto(31.2, tokens=1300))
    assert said == "Stopped: plain wrote 256 tokens at 22.0 tok/s, auto 1,300 at 31.2."
    nothing = Run("plain", "", 0, None)
    assert stopped(nothing, auto(31.2, tokens=4)) == "Stopped: plain wrote 0 tokens at – tok/s, auto 4 at 31.2."
    assert stopped(nothing, auto(None, tokens=0)) == "Stopped before the first token."
    same = stopped(PLAIN, auto(21.0, name="plain"))
    assert same == "Stopped: plain (left) wrote 256 tokens at 22.0 tok/s, plain (right) 256 at 21.0."
