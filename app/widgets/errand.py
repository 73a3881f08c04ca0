"""Work away from the screen: each piece on a thread of its own, its result as a message."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from pardec_chat.app.messages import ErrandFailed, post
from pardec_chat.backends.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.message import Message
    from textual.message_pump import MessagePump

logger = logging.getLogger(__name__)


def run(pump: MessagePump, errand: str, number: int, work: Callable[[], Message]) -> None:
    """Post what `work` returns to `pump`, or ErrandFailed.

    The thread is no worker of Textual's: the app would wait for those when it is left, and what waits for a network can
    take longer than anybody who leaves.
    """

    def go() -> None:
        try:
            message = work()
        except Exception as error:  # shown to the user; there is nobody else to catch it
            if not isinstance(error, UserError):
                logger.exception("%s failed", errand)
            post(pump, ErrandFailed(errand, number, error))
        else:
            post(pump, message)

    threading.Thread(target=go, name=errand, daemon=True).start()
