"""One answer on the engine's thread: steps become text, stop strings end it, events go to the sink."""

from __future__ import annotations

import re
from time import perf_counter

from pardec_chat.app.chat.detokenizer import Detokenizer
from pardec_chat.app.chat.request import Delta, Failed, Figures, Finished, Notice, Piece, Request, Sink, Status
from pardec_chat.app.chat.stop import StopStrings
from pardec_chat.backends.base import Method, TokenLogprobs, Vocabulary
from pardec_chat.backends.decoding.loop import Generation, Step
from pardec_chat.backends.decoding.options import PLAIN, Choice, Option
from pardec_chat.backends.errors import UserError

#: Steps for which the latest guess is told about.
_PATIENCE = 12
_NOTHING_TO_COPY = "no repeated text to copy so far"
#: End markers that a model may also write letter by letter; markup such as `</s>` is left alone, people write that.
_MARKER = re.compile(r"<\|[^|]+\|>|<end_of_turn>|<\uff5c[^\uff5c]+\uff5c>")


class Turn:
    """Feeds on the steps of one `Generation`.

    off: why nothing is drafted, where nothing is.
    """

    def __init__(
        self,
        request: Request,
        generation: Generation,
        vocabulary: Vocabulary,
        sink: Sink,
        submitted: float,
        off: str,
    ) -> None:
        self.generation = generation
        self._request = request
        self._sink = sink
        self._submitted = submitted
        self._off = off
        self._vocabulary = vocabulary
        self._detokenizer = Detokenizer(vocabulary.piece)
        # Letter by letter a grammar's text holds them only where they are meant, such as inside a JSON string.
        spelled = vocabulary.end_ids if request.grammar is None else ()
        markers = [text for end in spelled if _MARKER.fullmatch(text := vocabulary.text(end))]
        self._stops = StopStrings([*request.stop, *markers])
        self._shown: list[str] = []
        self._stopped = False
        # Characters of the text after each token, held-back ones included: where a cut falls in tokens.
        self._lengths: list[int] = []
        self._length = 0
        # What guessed each token; the first token and the first character that nobody was told of.
        self._origins: list[Method] = []
        self._next = self._told = 0
        self._logprobs: list[TokenLogprobs] = []
        # With auto: the latest choice to guess, and the steps since; one plain step between two says nothing new.
        self._guess: Choice | None = None
        self._steps_since = 0
        self._over = False

    def feed(self, step: Step) -> None:
        """Take one step over; sends its text. After it `generation.finish_reason` may be set by a stop string."""
        stats = self.generation.stats
        now = perf_counter()
        if not self._lengths:
            stats.ttft_ms = (now - self._submitted) * 1e3
        stats.total_ms = (now - self._submitted) * 1e3
        self._logprobs.extend(step.logprobs or ())
        choice = self.generation.choice
        if choice is not None and choice.taken.method != Method.PLAIN:
            self._guess, self._steps_since = choice, 0
        else:
            self._steps_since += 1
        shown = []
        for token, origin in zip(step.tokens, step.origins, strict=True):
            text = self._detokenizer.push(token)
            self._origins.append(origin)
            self._length += len(text)
            self._lengths.append(self._length)
            ready, end = self._stops.push(text)
            shown.append(ready)
            if end is not None:
                self._cut(end)
                self._stopped = True
                break
        text = "".join(shown)
        self._shown.append(text)
        proposed = tuple(map(self._spell, step.proposed))
        own = b"".join(map(self._spell, step.tokens[step.n_accepted :]))
        self._sink(Delta(text, step, self.figures(), self._pieces(text), proposed, own))

    def _spell(self, token: int) -> bytes:
        return self._vocabulary.piece(token) or self._vocabulary.text(token).encode()

    def _pieces(self, text: str) -> tuple[Piece, ...]:
        """`text`, which follows what was told before, cut where its tokens end."""
        pieces = []
        begin, end = self._told, self._told + len(text)
        while self._next < len(self._lengths):
            length = self._lengths[self._next]
            stop = min(length, end)
            if length <= end or stop > self._told:
                pieces.append((text[self._told - begin : stop - begin], self._origins[self._next]))
                self._told = stop
            if length > end:  # the rest of the token is held back
                break
            self._next += 1
        return tuple(pieces)

    def _cut(self, end: int) -> None:
        """The text ends at character `end`: keep the tokens that are needed for it, and no more."""
        kept = next((i + 1 for i, length in enumerate(self._lengths) if length >= end), 0) if end else 0
        self.generation.cut(kept)
        del self._lengths[kept:]
        del self._origins[kept:]
        del self._logprobs[kept:]

    def finish(self, *, cancelled: bool = False) -> None:
        """Send the end of the answer, with the text that was still held back."""
        self._over = True
        tail = ""
        if not self._stopped:
            mark = self._detokenizer.finish()
            if self._lengths:  # the mark of a character that never became whole is the last token's
                self._lengths[-1] += len(mark)
            tail = self._stops.push(mark)[0] + self._stops.finish()
            self._shown.append(tail)
        reason = self.generation.finish_reason
        assert reason is not None or cancelled
        constraint = self.generation.sampler.constraint
        if constraint is not None and constraint.problem:
            self._sink(Notice(f"The answer ended before its grammar was complete: {constraint.problem}."))
        self._sink(
            Finished(
                text="".join(self._shown),
                tail=tail,
                token_ids=list(self.generation.token_ids),
                logprobs=list(self._logprobs),
                finish_reason=reason or "cancelled",
                figures=self.figures(),
                timings=self.generation.stats.timings(),
                pieces=self._pieces(tail),
            )
        )

    def fail(self, error: UserError) -> None:
        """Send that there is no more of this answer."""
        self._sink(Failed(error))

    @property
    def alone(self) -> bool:
        """See `Request.alone`."""
        return self._request.alone

    def figures(self) -> Figures:
        """The counters as they are now."""
        generation = self.generation
        stats = generation.stats
        using, depth = self._using()
        return Figures(
            method=self._request.method,
            depth=depth,
            status=self._status(),
            using=using,
            plain_per_second=stats.plain_per_second,
            predicted_n=stats.predicted_n,
            predicted_ms=stats.predicted_ms,
            steps=stats.steps,
            draft_n=stats.draft_n,
            draft_n_accepted=stats.draft_n_accepted,
            accepted_per_position=tuple(stats.accepted_per_position),
            prompt_n=stats.prompt_n,
            cache_n=stats.cache_n,
            prompt_ms=stats.prompt_ms,
            ttft_ms=stats.ttft_ms,
            context_used=len(generation.slot.tokens),
            context_size=generation.slot.n_ctx,
        )

    def _using(self) -> tuple[Method, int]:
        generation = self.generation
        if generation.depth is not None:
            return (generation.drafters[0].method if generation.drafters else Method.PLAIN), generation.depth
        choice = self._choice()
        taken = PLAIN if choice is None else choice.taken
        return taken.method, taken.depth

    def _choice(self) -> Choice | None:
        """The choice to tell about: the latest guess for a while, then that nothing is guessed."""
        return self._guess if self._guess is not None and self._steps_since < _PATIENCE else self.generation.choice

    def _status(self) -> Status:
        generation = self.generation
        if not generation.drafters:
            return Status("off", self._off)
        stats = generation.stats
        if generation.depth is None and not (self._over and stats.draft_n):
            return _status_of(self._choice())
        if generation.depth == 0:
            return Status("off", "depth 0: nothing may be drafted")
        if stats.draft_n:
            return Status("active", f"{stats.draft_n_accepted} of {stats.draft_n} drafted tokens accepted")
        if generation.drafters[0].method == Method.NGRAM:
            return Status("idle", _NOTHING_TO_COPY)
        return Status("idle", "nothing drafted so far")


def _status_of(choice: Choice | None) -> Status:
    """What the controller does and why, from what it expects."""
    if choice is None:
        return Status("idle", "the first step measures plain decoding")
    if choice.taken.method != Method.PLAIN:
        return Status("active", ("a try: " if choice.is_try else "") + _expected(choice.taken))
    if choice.rejected is None:
        return Status("idle", _NOTHING_TO_COPY)
    return Status("idle", f"plain is fastest here: {_expected(choice.rejected)}")


def _expected(option: Option) -> str:
    guesses = "1 guess" if option.depth == 1 else f"{option.depth} guesses"
    return f"{guesses} give {option.tokens:.1f} tokens for {option.cost:.1f} steps"
