"""Figures as people read them; no widget, no colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.units import size as size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pardec_chat.app.chat.request import Figures
    from pardec_chat.app.conversations.conversation import Attachment
    from pardec_chat.app.conversations.record import AnswerRecord

NONE = "–"


def rate(tokens_per_second: float | None) -> str:
    """Tokens per second, three figures of them."""
    if tokens_per_second is None:
        return NONE
    return f"{tokens_per_second:.1f}" if tokens_per_second < 99.95 else f"{tokens_per_second:,.0f}"


def ratio(value: float | None) -> str:
    """One decimal, as for tokens a step."""
    return NONE if value is None else f"{value:.1f}"


def percent(share: float | None) -> str:
    """A share of 1 as whole percent; 100 only when it is all, 0 only when it is nothing."""
    if share is None:
        return NONE
    whole = round(share * 100)
    if whole == 100 and share < 1:
        whole = 99
    if whole == 0 and share > 0:
        whole = 1
    return f"{whole} %"


def seconds(milliseconds: float) -> str:
    """A duration: 0.42 s, 12.3 s, 2 min 05 s."""
    value = milliseconds / 1e3
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes:,} min {rest:02} s"


def milliseconds(ms: float) -> str:
    """Three figures of a short time."""
    return f"{ms:.2f} ms" if ms < 9.995 else f"{ms:.1f} ms" if ms < 99.95 else f"{ms:,.0f} ms"


def times(speedup: float) -> str:
    """A speed-up: 1.7x; what is a little faster or slower must not look like neither: 0.97x."""
    short = f"{speedup:.1f}x"
    return f"{speedup:.2f}x" if short == "1.0x" else short


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …, 21st."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def method(name: str, depth: int, using: str = "") -> str:
    """A method and how far it guesses; using: what it has chosen, where it chooses."""
    if using and using != name:
        return f"{name} → {using}, {depth}" if depth else f"{name} → {using}"
    return f"{name}, {depth} deep" if depth else name


def answer(figures: AnswerRecord) -> tuple[str, ...]:
    """What is worth knowing about an answer, in words and figures."""
    parts = []
    if figures.finish_reason == "cancelled":
        parts.append("stopped")
    elif figures.finish_reason == "length":
        parts.append("cut at the token limit")
    if figures.predicted_n:
        parts.append(f"{rate(figures.tokens_per_second)} tok/s")
        if figures.method != "plain" and figures.speedup is not None:
            parts.append(f"{times(figures.speedup)} plain")
        parts.append(f"{ratio(figures.tokens_per_step)} a step")
    if figures.draft_n:
        parts.append(f"{percent(figures.acceptance_rate)} of {figures.draft_n:,} accepted")
    if figures.predicted_n:
        parts.append(f"first token {seconds(figures.ttft_ms)}")
    # What auto used last says little about the whole answer.
    parts.append(figures.method if figures.method == "auto" else method(figures.method, figures.depth))
    if figures.draft is not None and figures.method in ("draft", "auto"):
        parts.append(f"with {figures.draft}")
    if figures.state != "active" and figures.method not in ("plain", "auto"):
        parts.append(f"{figures.state}: {figures.reason}")
    return tuple(parts)


def attachment(file: Attachment) -> str:
    """How large a file is for the model; in bytes while nobody counted."""
    return size(len(file.text.encode("utf-8", "replace"))) if file.n_tokens is None else f"{file.n_tokens:,} tokens"


def attached(files: Sequence[Attachment], *, editing: bool) -> str:
    """What goes with the next message, and how to take it away."""
    parts = ["esc leaves the message as it was"] if editing else []
    parts += [f"{visible_line(file.name)} {attachment(file)}" for file in files]
    if files:
        parts.append("backspace takes the last one away")
    return " · ".join(parts)


def prompt_line(figures: Figures) -> str:
    """What reading the prompt took: evaluated ids and their time."""
    return f"{figures.prompt_n:,} in {seconds(figures.prompt_ms)}"


def fit(text: str, width: int) -> str:
    """`text` on at most `width` terminal cells; an ellipsis says that some is missing."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def spread(left: str, right: str, width: int) -> str:
    """`left` and `right` at the two ends of `width` cells; the left one gives way."""
    left = fit(left, width - cell_len(right) - 1)
    return left + " " * max(1, width - cell_len(left) - cell_len(right)) + right
