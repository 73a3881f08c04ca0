"""Log-probabilities of tokens, given out with the text they belong to and never before it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pardec_chat.app.chat.detokenizer import Detokenizer
from pardec_chat.app.endpoint.replies import ChatLogprobs, CompletionLogprobs, TokenLogprob, TopLogprob
from pardec_chat.backends.base import TokenLogprobs

#: What the API writes for a probability of 0.
_NEVER = -9999.0


@dataclass(frozen=True, slots=True)
class TokenPiece:
    """One token of an answer: its bytes, its log-probability, and those of the most probable ones, bytes with them.

    start: characters of the answer before it.
    """

    data: bytes
    logprob: float
    top: Sequence[tuple[bytes, float]]
    start: int


class Releaser:
    """Holds tokens back while their text is held back: what a stop string cuts was never given out."""

    def __init__(self) -> None:
        self._pieces: Mapping[int, bytes] = {}
        self._detokenizer = Detokenizer(lambda token: self._pieces[token])
        self._length = 0
        self._waiting: list[tuple[TokenPiece, int]] = []
        self._released = 0

    def push(
        self, tokens: Sequence[int], logprobs: Sequence[TokenLogprobs], pieces: Mapping[int, bytes], shown: int
    ) -> list[TokenPiece]:
        """Take tokens over; gives those whose text is among the `shown` characters of the answer so far."""
        self._pieces = pieces
        for token, one in zip(tokens, logprobs, strict=False):
            data = pieces[token]
            top = [(pieces[other], _finite(logprob)) for other, logprob in one.top]
            start = self._length
            self._length += len(self._detokenizer.push(token))
            self._waiting.append((TokenPiece(data, _finite(one.logprob), top, start), self._length))
        # A token that completes no character belongs to the one that does.
        n = max((i + 1 for i, (one, end) in enumerate(self._waiting) if one.start < end <= shown), default=0)
        return self._release(n)

    def finish(self, total: int) -> list[TokenPiece]:
        """The rest, up to so many tokens in all."""
        return self._release(max(0, total - self._released))

    def _release(self, n: int) -> list[TokenPiece]:
        ready = [one for one, _ in self._waiting[:n]]
        del self._waiting[:n]
        self._released += len(ready)
        return ready


def chat(pieces: Iterable[TokenPiece]) -> ChatLogprobs:
    """The form of chats."""
    return ChatLogprobs(
        content=[
            TokenLogprob(
                token=_text(one.data),
                logprob=one.logprob,
                bytes=list(one.data),
                top_logprobs=[TopLogprob(token=_text(d), logprob=p, bytes=list(d)) for d, p in one.top],
            )
            for one in pieces
        ]
    )


def legacy(pieces: Sequence[TokenPiece]) -> CompletionLogprobs:
    """The form of completions; a token that is no whole character is shown by its bytes."""
    return CompletionLogprobs(
        tokens=[_name(one.data) for one in pieces],
        token_logprobs=[one.logprob for one in pieces],
        top_logprobs=[{**{_name(d): p for d, p in one.top}, _name(one.data): one.logprob} for one in pieces],
        text_offset=[one.start for one in pieces],
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _name(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else _NEVER
