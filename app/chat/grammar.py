"""Grammars by llguidance: what an answer must look like, as a `Constraint` on its ids."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pardec_chat.app.chat.request import Grammar
from pardec_chat.app.plain_text import visible_line
from pardec_chat.backends.base import Vocabulary
from pardec_chat.backends.decoding.constraint import Allowed, Constraint
from pardec_chat.backends.errors import BadSetting

# Most sessions never ask for a grammar, so it is imported by the first one.
if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

#: Without it the only spelling of a forced text that is left is its usual one; so a drafted other one would be legal for the
#: grammar and yet impossible, and the model's own probabilities would not decide between spellings.
_OPTIONS = '%llguidance {"no_forcing": true}'
#: Space between the parts of a JSON document. Small models write it for ever where there is no end to it.
_SPACE = r"[ \t\r\n]{1,64}"
_MOST_OF_A_REASON = 300
#: Where llguidance goes on with the lines of the grammar, the state of its parser, or the place in its own program.
_DETAIL = re.compile(r"\n +\d+ \| |\n<(?:state|backtrace)>")
_PLACE = re.compile(r"^at \d+\(\d+\): ")
_NEXT_STEP = "Correct the grammar."


class Grammars:
    """Makes constraints for one vocabulary. The first grammar of a vocabulary takes most of a second for 150,000 ids.

    Raises BadSetting where the vocabulary has no end token.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        if not vocabulary.end_ids:
            raise BadSetting("This model has no end token, so no grammar can end its answer.", "Ask without a grammar.")
        import llguidance

        self._library = llguidance
        pieces = [vocabulary.piece(i) for i in range(vocabulary.size)]
        for end in vocabulary.end_ids:
            pieces[end] = b""
        self._ends = sorted(vocabulary.end_ids)
        # Control tokens and padding write nothing: inside a text they are never meant.
        self._usable = np.array([bool(piece) for piece in pieces])
        self._usable[self._ends] = True
        self._tokenizer: LLTokenizer = llguidance.LLTokenizer(_Pieces(pieces, self), eos_token=self._ends)  # type: ignore[arg-type]

    def constraint(self, grammar: Grammar, begun: Sequence[int] = ()) -> Constraint:
        """The state behind an answer's first ids `begun`. Raises BadSetting with llguidance's reason."""
        try:
            matcher = self._library.LLMatcher(self._tokenizer, self._source(grammar), log_level=0)
        except (ValueError, RecursionError) as error:  # no JSON, no Unicode, or JSON without end
            raise _bad(grammar, str(error)) from error
        if matcher.is_error():
            raise _bad(grammar, matcher.get_error())
        constraint = _Matched(matcher, self._usable, self._ends)
        if constraint.legal(begun) < len(begun):
            raise BadSetting(
                "The given beginning of the answer is none that its grammar allows.", "Change one of them."
            )
        for token in begun:
            constraint.push(token)
        return constraint

    def spelled(self, text: str) -> list[int]:
        """`text` in the longest pieces, for grammars that choose to force their usual spelling."""
        return self._tokenizer.greedy_tokenize(text)

    def _source(self, grammar: Grammar) -> str:
        if grammar.kind == "lark":
            return grammar.source if "%llguidance" in grammar.source else f"{grammar.source}\n{_OPTIONS}\n"
        if grammar.kind == "regex":
            document = json.loads(self._library.LLMatcher.grammar_from_regex(grammar.source))
            document["grammars"][0]["lark_grammar"] += f"\n{_OPTIONS}\n"
            return json.dumps(document)
        schema: object = {"type": "object"} if grammar.kind == "json_object" else json.loads(grammar.source)
        if isinstance(schema, dict):
            own = schema.get("x-guidance")
            schema = {**schema, "x-guidance": {"whitespace_pattern": _SPACE, **(own if isinstance(own, dict) else {})}}
        return f"start: %json {json.dumps(schema)}\n{_OPTIONS}\n"


class _Pieces:
    """The vocabulary as llguidance reads it."""

    is_tokenizer_wrapper = True
    bos_token_id = None
    special_token_ids: tuple[int, ...] = ()

    def __init__(self, pieces: Sequence[bytes], grammars: Grammars) -> None:
        self.tokens = pieces
        self.eos_token_id = grammars._ends[0]
        self._grammars = grammars

    def __call__(self, text: str) -> list[int]:
        return self._grammars.spelled(text)


class _Matched:
    """See `Constraint`.

    matcher: at the beginning of the answer. usable: ids that may be allowed at all, shape [V]. ends: end tokens.
    """

    def __init__(self, matcher: LLMatcher, usable: Allowed, ends: Sequence[int]) -> None:
        self._beginning = matcher
        self._matcher = matcher.deep_copy()
        self._usable = usable
        self._ends = ends
        self._tokens: list[int] = []
        # End tokens behind them, which the matcher never sees: it goes too far back when one is taken back (1.9.1).
        self._n_ends = 0

    @property
    def problem(self) -> str:
        """See `Constraint`."""
        matcher = self._matcher
        return _reason(matcher.get_error()) if matcher.is_error() else ""

    def mask(self, n: int) -> Allowed:
        """See `Constraint`."""
        size = len(self._usable)
        if self._n_ends:
            return self._only_ends(n)
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, count=size, bitorder="little").view(np.bool_)
        allowed &= self._usable
        if not allowed.any():
            return self._only_ends(n)
        if n <= size:
            return allowed[:n]
        return np.concatenate([allowed, np.zeros(n - size, np.bool_)])

    def _only_ends(self, n: int) -> Allowed:
        allowed = np.zeros(n, np.bool_)
        allowed[[end for end in self._ends if end < n]] = True
        return allowed

    def push(self, token: int) -> None:
        """See `Constraint`."""
        if self._n_ends or token in self._ends:
            self._n_ends += 1
        else:
            self._tokens.append(token)
            self._matcher.consume_token(token)

    def pop(self, n: int) -> None:
        """See `Constraint`."""
        ends = min(n, self._n_ends)
        self._n_ends -= ends
        n -= ends
        if n == 0:
            return
        del self._tokens[-n:]
        if not self._matcher.rollback(n):
            # Some grammars cannot go back, and none can out of an error.
            self._matcher = self._beginning.deep_copy()
            self._matcher.consume_tokens(self._tokens)

    def legal(self, tokens: Sequence[int]) -> int:
        """See `Constraint`."""
        if self._n_ends:
            return 0
        inside = 0
        for token in tokens:
            if token in self._ends or not 0 <= token < len(self._usable) or not self._usable[token]:
                break
            inside += 1
        n = self._matcher.validate_tokens([int(token) for token in tokens[:inside]])
        if n < inside or n == len(tokens) or tokens[n] not in self._ends:
            return n
        # A matcher that is through says no to its end token when it is asked like this; so it is gone to.
        ahead = self._matcher.deep_copy()
        ahead.consume_tokens([int(token) for token in tokens[:n]])
        return n + ahead.is_accepting()


def _bad(grammar: Grammar, error: str) -> BadSetting:
    kind = {"json_object": "JSON", "json_schema": "JSON schema", "regex": "pattern", "lark": "grammar"}[grammar.kind]
    return BadSetting(f"The {kind} for the answer cannot be used: {_reason(error)}.", _NEXT_STEP)


def _reason(error: str) -> str:
    """llguidance's words on one line, without the lines of the grammar and the insides of its parser."""
    if error.startswith("panic"):
        return "llguidance fails on it"
    reason = visible_line(_PLACE.sub("", _DETAIL.split(error)[0])).rstrip(".")
    reason = reason.removeprefix("failed to compile JSON schema: ")
    return reason if len(reason) <= _MOST_OF_A_REASON else f"{reason[: _MOST_OF_A_REASON - 1]}…"
