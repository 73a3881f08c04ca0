"""The figures that are kept of an answer, in words; no widget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pardec_chat.app.conversations.conversation import Node
from pardec_chat.app.conversations.record import AnswerRecord
from pardec_chat.app.lines import Line
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.widgets import blocks, wording
from pardec_chat.backends.base import Method

#: How an answer ended.
ENDS = {"whole": "done", "stopped": "stopped", "length": "limit", "failed": "failed", "writing": "writing"}
_LABEL = 10


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer with its figures. number: which answer of the branch it is, from 1 on."""

    number: int
    node: Node
    record: AnswerRecord


def answered(nodes: Sequence[Node]) -> list[Answered]:
    """The answers of a branch that have figures."""
    answers = [node for node in nodes if node.role == "assistant"]
    return [Answered(n, node, node.record) for n, node in enumerate(answers, start=1) if node.record is not None]


def n_accepted(record: AnswerRecord) -> int:
    """Guesses that were kept: never more than there were, whatever a file says."""
    return max(0, min(record.draft_n_accepted, record.draft_n))


def accepted(record: AnswerRecord) -> str:
    """84 % of 112; a dash where nothing was guessed."""
    if record.draft_n <= 0:
        return wording.NONE
    return f"{wording.percent(n_accepted(record) / record.draft_n)} of {record.draft_n:,}"


def speedup(record: AnswerRecord) -> str:
    """1.7x; a dash for plain decoding itself, and where its speed is not known."""
    if record.method == Method.PLAIN or record.speedup is None:
        return wording.NONE
    return wording.times(record.speedup)


def method(record: AnswerRecord) -> str:
    """auto → draft, 3."""
    return wording.method(record.method.value, record.depth, record.using.value)


def models(record: AnswerRecord) -> str:
    """The model, and the one that guessed."""
    return visible_line(record.model) + (f" + {visible_line(record.draft)}" if record.draft else "")


def prompt(record: AnswerRecord) -> str:
    """What reading the prompt took: 512 in 0.31 s."""
    return f"{record.prompt_n:,} in {wording.seconds(record.prompt_ms)}"


def totals(answers: Sequence[Answered]) -> Iterator[str]:
    """What all answers together come to; the prompts' time is apart from decoding."""
    records = [one.record for one in answers]
    n, ms = sum(one.predicted_n for one in records), sum(one.predicted_ms for one in records)
    steps, drafted = sum(one.steps for one in records), sum(one.draft_n for one in records)
    yield f"{len(records):,} {'answer' if len(records) == 1 else 'answers'}"
    yield f"{n:,} tokens in {wording.seconds(ms)} of decoding"
    yield f"{wording.rate(n / ms * 1e3 if ms > 0 else None)} tok/s"
    yield f"{wording.ratio(n / steps if steps else None)} a step"
    if drafted:
        yield f"{wording.percent(sum(map(n_accepted, records)) / drafted)} of {drafted:,} accepted"
    yield f"prompts {sum(one.prompt_n for one in records):,} in {wording.seconds(sum(one.prompt_ms for one in records))}"


def details(answer: Answered, width: int) -> list[Line]:
    """All figures of one answer, one subject a line."""
    record = answer.record
    rows = [("answer", f"{answer.number:,}: {method(record)} · temperature {record.temperature:g} · {_status(record)}")]
    rows += [("models", f"{models(record)} · {visible_line(record.runtime)}")]
    rows += [("speed", _speed(record)), ("guesses", _guesses(record))]
    rows += [("by place", _places(record, width - _LABEL))] if record.accepted_per_position else []
    end = ENDS[answer.node.state]
    first, whole = wording.seconds(record.ttft_ms), wording.seconds(record.total_ms)
    rows += [("times", f"first token after {first} · whole answer {whole} · {end}")]
    context = f"context {record.context_used:,} of {record.context_size:,}"
    rows += [("prompt", f"{prompt(record)} · {record.cache_n:,} from the cache · {context}")]
    return [((name.ljust(_LABEL), "quiet"), (wording.fit(text, width - _LABEL), "text")) for name, text in rows]


def _status(record: AnswerRecord) -> str:
    return visible_line(f"{record.state}: {record.reason}" if record.reason else record.state)


def _speed(record: AnswerRecord) -> str:
    parts = [f"{wording.rate(record.tokens_per_second)} tok/s"]
    if record.plain_per_second is not None and record.method != Method.PLAIN:
        parts.append(f"{speedup(record)} plain decoding, which has {wording.rate(record.plain_per_second)}")
    n = record.predicted_n
    parts.append(f"{n:,} {'token' if n == 1 else 'tokens'} in {wording.seconds(record.predicted_ms)}")
    return " · ".join(parts)


def _guesses(record: AnswerRecord) -> str:
    kept = f"{accepted(record)} accepted ({n_accepted(record):,})" if record.draft_n > 0 else "nothing guessed"
    steps = f"{record.steps:,} {'step' if record.steps == 1 else 'steps'}"
    return f"{kept} · {wording.ratio(record.tokens_per_step)} tokens a step in {steps}"


def _places(record: AnswerRecord, width: int) -> str:
    rates = [max(0.0, min(1.0, rate)) for rate in record.accepted_per_position]
    named = [f"{wording.ordinal(place)} {wording.percent(rate)}" for place, rate in enumerate(rates, start=1)]
    text = "   ".join(named)
    return text if len(text) <= width else f"{named[0]}  {blocks.curve(rates, 1.0)}  {named[-1]}"
