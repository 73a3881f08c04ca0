"""What is kept of an answer beside its text: its figures, the origin of each token, and its last steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pardec_chat.backends.base import Method
from pardec_chat.backends.decoding.stats import Rates

#: A token of an answer: how many characters of the text it completed (0 in the middle of one), and what guessed it;
#: `plain` is the large model's own.
Origin = tuple[int, Method]

#: Steps that are kept of an answer, the last ones.
MOST_STEPS = 64


@dataclass(frozen=True, slots=True)
class AnswerRecord(Rates):
    """Raw counters of one answer, rates are derived; times in milliseconds. See `Stats` for their meaning.

    model, draft: names as they were shown. using: what guessed last, where the method is auto.
    state, reason: what speculation was doing at the end. plain_per_second: of plain decoding in its place, if known.
    finish_reason: stop, length or cancelled; empty while it is written.
    """

    model: str
    draft: str | None
    runtime: str
    method: Method
    temperature: float
    depth: int = 0
    using: Method = Method.PLAIN
    state: str = ""
    reason: str = ""
    predicted_n: int = 0
    predicted_ms: float = 0.0
    steps: int = 0
    draft_n: int = 0
    draft_n_accepted: int = 0
    accepted_per_position: tuple[float, ...] = ()
    prompt_n: int = 0
    cache_n: int = 0
    prompt_ms: float = 0.0
    ttft_ms: float = 0.0
    total_ms: float = 0.0
    plain_per_second: float | None = None
    context_used: int = 0
    context_size: int = 0
    finish_reason: str = ""

    @property
    def speedup(self) -> float | None:
        """Measured speed over that of plain decoding on this machine; None while either is not known."""
        rate, plain = self.tokens_per_second, self.plain_per_second
        return rate / plain if rate is not None and plain else None

    def dump(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)

    @staticmethod
    def load(document: object) -> AnswerRecord | None:
        """What `dump` wrote; None for anything else, as from another version."""
        if not isinstance(document, Mapping) or not isinstance(document.get("model"), str):
            return None
        try:
            fields = {key: document[key] for key in AnswerRecord.__dataclass_fields__}
            fields["method"], fields["using"] = Method(fields["method"]), Method(fields["using"])
            fields["accepted_per_position"] = tuple(map(float, fields["accepted_per_position"]))
            record = AnswerRecord(**fields)
            record.acceptance_rate, record.tokens_per_step, record.speedup  # noqa: B018  # numbers, or they raise
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return record


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One forward pass, in texts.

    proposed: what was guessed, empty where nothing was. n_accepted: how many of them the target agreed with.
    own: the token that the target wrote itself behind them; empty where the answer was cut before it.
    source: what guessed. n_tokens: tokens that the step added. Times in milliseconds.
    """

    number: int
    proposed: tuple[str, ...]
    n_accepted: int
    own: str
    source: Method
    n_tokens: int
    draft_ms: float
    verify_ms: float

    def dump(self) -> list[object]:
        """As JSON has it."""
        return [
            self.number,
            list(self.proposed),
            self.n_accepted,
            self.own,
            self.source.value,
            self.n_tokens,
            round(self.draft_ms, 3),
            round(self.verify_ms, 3),
        ]

    @staticmethod
    def load(document: Sequence[object]) -> StepRecord:
        """What `dump` wrote. Raises ValueError or TypeError for anything else."""
        number, proposed, n_accepted, own, source, n_tokens, draft_ms, verify_ms = document
        if not (
            isinstance(number, int)
            and isinstance(proposed, list)
            and isinstance(n_accepted, int)
            and isinstance(own, str)
            and isinstance(source, str)
            and isinstance(n_tokens, int)
            and isinstance(draft_ms, int | float)
            and isinstance(verify_ms, int | float)
        ):
            raise TypeError("not a step")
        return StepRecord(
            number, tuple(map(str, proposed)), n_accepted, own, Method(source), n_tokens, draft_ms, verify_ms
        )
