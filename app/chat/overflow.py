"""A conversation that is longer than the context: which messages go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pardec_chat.app.chat.request import Message
from pardec_chat.backends.errors import ContextFull


def fit(
    messages: Sequence[Message],
    encode: Callable[[Sequence[Message]], list[int]],
    room: int,
    n_ctx: int,
    *,
    drop: bool,
) -> tuple[list[int], int]:
    """Prompt ids of at most `room` tokens, and how many of the oldest messages were left out for that.

    System messages stay, and so does the last message. Raises ContextFull, with the counts, when that is not enough or
    nothing may be dropped.
    """
    kept = list(messages)
    dropped = 0
    while True:
        ids = encode(kept)
        if len(ids) <= room:
            return ids, dropped
        oldest = next((i for i, m in enumerate(kept[:-1]) if m.role != "system"), None)
        if not drop or oldest is None:
            raise ContextFull(
                f"The conversation has {len(ids):,} tokens; the context holds {n_ctx:,}, of which {n_ctx - room:,} are "
                "kept for the answer.",
                "Shorten the message, or load the model with a longer context (--ctx).",
            )
        del kept[oldest]
        dropped += 1
        # A turn goes as a whole: no answer stays without its question.
        while oldest < len(kept) - 1 and kept[oldest].role == "assistant":
            del kept[oldest]
            dropped += 1
