"""The methods in words, and how far each of them may guess; no widget, no colour."""

from __future__ import annotations

from pardec_chat.backends.base import Method

WHAT = {
    Method.AUTO: "Whatever is measured fastest here, plain decoding included. F4 shows why.",
    Method.PLAIN: "Nothing guesses: the large model writes one token a step.",
    Method.DRAFT: "A small model of the same family guesses. Good for most text.",
    Method.NGRAM: "Repeats of prompt and answer are copied. Good for edits of text and code.",
    Method.LOOKAHEAD: "The model itself guesses many places at once. For GPUs with time to spare.",
}
#: The same where there is little room.
SHORT = {
    Method.AUTO: "whatever is measured fastest here",
    Method.PLAIN: "nothing guesses",
    Method.DRAFT: "the draft model guesses",
    Method.NGRAM: "repeats are copied",
    Method.LOOKAHEAD: "the model itself looks ahead",
}
#: How far to guess at a time, from what costs next to nothing to what only long copies are worth.
DEPTHS = {Method.DRAFT: (1, 2, 3, 4, 5, 6, 8), Method.NGRAM: (3, 5, 8, 10, 15, 20, 30), Method.LOOKAHEAD: (2, 3, 4)}
