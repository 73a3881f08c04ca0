"""A conversation that is longer than the context: which messages go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pardec_chat.app.chat.request import Message
from pardec_chat.backends.errors import ContextFull

#: What follows a question and belongs to its turn.
_ANSWERS = ("assistant", "tool")


def fit(
    messages: Sequence[Message],
    encode: Callable[[Sequence[Message]], list[int]],
    room: int,
    n_ctx: int,
    *,
    drop: bool,
) -> tuple[list[int], int]:
    """Prompt ids of at most `room` tokens, and how many of the oldest messages were left out for that.

    System messages stay, and so does the last turn: a question with all that came of it, tool calls and their results.
    Raises ContextFull, with the counts, when that is not enough or nothing may be dropped.
    """
    kept = list(messages)
    dropped = 0
    while True:
        ids = encode(kept)
        if len(ids) <= room:
            return ids, dropped
        last = max((i for i, m in enumerate(kept) if m.role not in _ANSWERS), default=len(kept) - 1)
        oldest = next((i for i, m in enumerate(kept[:last]) if m.role != "system"), None)
        if not drop or oldest is None:
            raise ContextFull(
                f"The conversation has {len(ids):,} tokens; the context holds {n_ctx:,}, of which {n_ctx - room:,} are "
                "kept for the answer.",
                "Shorten the message, or load the model with a longer context (--ctx).",
            )
        # A turn goes as a whole: no answer stays without its question, and no tool's result without its call.
        end = next((i for i in range(oldest + 1, last) if kept[i].role not in _ANSWERS), last)
        del kept[oldest:end]
        dropped += end - oldest
