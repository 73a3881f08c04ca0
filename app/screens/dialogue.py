"""The conversation that is shown and the answers on their way, without a widget: asking, branches, keeping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pardec_chat.app.conversations.attaching import with_attachments
from pardec_chat.app.conversations.conversation import Attachment, Conversation, Node, Summary
from pardec_chat.app.conversations.record import Origin
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.conversations.title import from_words
from pardec_chat.app.messages import Mailbox
from pardec_chat.app.screens.answer import Asked
from pardec_chat.app.screens.turn import Turn
from pardec_chat.backends.base import Method
from pardec_chat.backends.errors import UserError

# The request module brings numpy, which the first paint does not wait for: it is imported where it is used.
if TYPE_CHECKING:
    from concurrent.futures import Future

    from textual.message_pump import MessagePump

    from pardec_chat.app.chat.request import Message
    from pardec_chat.app.screens.session import Session

#: Between two times that an answer on its way is written down.
_KEEP_SECONDS = 3.0


class KeeperLike(Protocol):
    """The part of `Keeper` that the screens use."""

    def summaries(self) -> Future[list[Summary]]:
        """See `Keeper.summaries`."""

    def search(self, query: str) -> Future[list[Summary]]:
        """See `Keeper.search`."""

    def read(self, id: str) -> Future[Conversation]:  # noqa: A002  # the field's own name
        """See `Keeper.read`."""

    def put(self, conversation: Conversation) -> Future[None]:
        """See `Keeper.put`."""

    def put_node(self, conversation_id: str, node: Node) -> Future[None]:
        """See `Keeper.put_node`."""

    def progress(self, node_id: str, text: str, origins: Sequence[Origin]) -> Future[None]:
        """See `Keeper.progress`."""

    def rename(self, id: str, title: str) -> Future[None]:  # noqa: A002
        """See `Keeper.rename`."""

    def pin(self, id: str, pinned: bool) -> Future[None]:  # noqa: A002
        """See `Keeper.pin`."""

    def delete(self, id: str) -> Future[None]:  # noqa: A002
        """See `Keeper.delete`."""

    def restore(self, id: str) -> Future[None]:  # noqa: A002
        """See `Keeper.restore`."""

    def close(self, timeout: float = 10.0) -> bool:
        """See `Keeper.close`."""


class Dialogue:
    """Used on the UI thread alone. TurnEvents of the answer on its way reach `pump`.

    keeper: None keeps nothing. attachments: of the next message. editing: the message that the next one replaces.
    """

    def __init__(self, session: Session, pump: MessagePump, keeper: KeeperLike | None = None) -> None:
        self.session = session
        self.keeper = keeper
        self.conversation = Conversation(setup=session.setup)
        #: Answers on their way, in the order in which they were asked for; and the last one of the conversation that is shown.
        self.running: list[Turn] = []
        self.turn: Turn | None = None
        self.attachments: list[Attachment] = []
        self.editing: str | None = None
        self._pump = pump
        self._number = 0

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way in the conversation that is shown."""
        return self.turn is not None and not self.turn.answer.over

    @property
    def last_answer(self) -> Node | None:
        """The last answer of the branch that is shown."""
        return next((node for node in reversed(self.conversation.path()) if node.role == "assistant"), None)

    @property
    def used(self) -> int:
        """Tokens of the context that the branch which is shown takes, as they were counted with its last whole answer."""
        answers = (node.record for node in reversed(self.conversation.path()) if node.record is not None)
        return next((record.context_used for record in answers if record.context_used), 0)

    # ---- which conversation ----

    def show(self, conversation: Conversation) -> None:
        """Go on with this one; answers on their way go on in theirs."""
        if self.turn is not None:
            self.turn.reply = None
        self.turn = next((turn for turn in self.running if turn.conversation.id == conversation.id), None)
        # What is on disk lags behind.
        self.conversation = conversation if self.turn is None else self.turn.conversation
        self.attachments, self.editing = [], None
        loaded = self.session.setup
        self.session.setup = replace(self.conversation.setup, model=loaded.model, draft=loaded.draft)
        if self.session.why_not(self.session.method):  # as without the draft model that it had
            self.session.method = Method.AUTO

    def clear(self) -> None:
        """A new conversation."""
        if self.keeper is None and self.turn is not None and self.busy:  # nobody could ever read it
            self._settle_early(self.turn)
        self.show(Conversation(setup=self.session.options.setup()))

    def keep_unsent(self, text: str) -> None:
        """Keep what stands in the prompt, for when this conversation is shown again."""
        if text != self.conversation.unsent:
            self.conversation.unsent = text
            self.put()

    def put(self) -> None:
        """Keep title, settings and the branch that is shown."""
        self.conversation.setup = self.session.setup
        self._put(self.conversation)

    def _put(self, conversation: Conversation) -> None:
        if self.keeper is not None and conversation.nodes:
            self.keeper.put(conversation)

    # ---- asking ----

    def ask(self, text: str) -> Turn:
        """Answer `text`, or what it makes of the message that is edited, as a branch beside it."""
        conversation = self.conversation
        parent, kept = conversation.leaf, tuple(self.attachments)
        if self.editing is not None:
            parent, self.editing = conversation.nodes[self.editing].parent, None
        node = conversation.add(Node("user", text, parent, attachments=kept))
        self.attachments = []
        conversation.unsent = ""
        if not conversation.title:
            conversation.title = from_words(text)
        self._put(conversation)
        if self.keeper is not None:
            self.keeper.put_node(conversation.id, node)
        return self._begin(node, self.session.setup)

    def again(self, answer: Node, setup: Setup | None = None) -> Turn:
        """Another answer in the place of this one, which stays beside it."""
        assert answer.parent is not None
        return self._begin(self.conversation.nodes[answer.parent], setup or self.session.setup)

    def _begin(self, question: Node, setup: Setup) -> Turn:
        session, conversation = self.session, self.conversation
        if self.turn is not None and not self.turn.answer.over:
            self._settle_early(self.turn)
        conversation.leaf = question.id
        messages = self.messages(question, setup.system)
        answer = conversation.add(Node("assistant", "", question.id, state="writing"))
        model, draft = session.names
        loaded = session.loaded
        runtime = loaded.runtime if loaded is not None else ""
        asked = Asked(model, draft, runtime, setup.method, setup.sampling.temperature)
        self._number += 1
        self.turn = turn = Turn(conversation, answer, asked, Mailbox(self._number, self._pump), self.used)
        self.running.append(turn)
        answer.record = turn.answer.record(asked)
        self.put()
        if self.keeper is not None:
            self.keeper.put_node(conversation.id, answer)
        try:
            self._submit(turn, messages, setup)
        except UserError as error:
            turn.fail(error)
            self.finish(turn)
        return turn

    def _submit(self, turn: Turn, messages: Sequence[Message], setup: Setup) -> None:
        from pardec_chat.app.chat.request import Request, default_depth

        engine = self.session.engine
        assert engine is not None
        depth = None if setup.method == Method.AUTO else setup.depth
        request = Request(
            messages=messages,
            sampling=setup.sampling,
            max_tokens=setup.max_tokens,
            method=setup.method,
            depth=default_depth(setup.method) if depth is None else depth,
            ngram_min_match=self.session.options.ngram_min_match,
        )
        turn.ticket = engine.submit(request, turn.mailbox.put)

    def messages(self, until: Node, system: str) -> list[Message]:
        """What the model is told, up to this message; answers that came to nothing are left out with their questions."""
        from pardec_chat.app.chat.request import Message

        messages = [Message("system", system)] if system else []
        path = [*self.conversation.before(until.id), until]
        for node, behind in zip(path, [*path[1:], None], strict=True):
            if node.role == "user":
                if behind is None or behind.state != "failed":
                    messages.append(Message("user", with_attachments(node.text, node.attachments)))
            elif node.text and node.state != "failed":
                messages.append(Message("assistant", node.text))
        return messages

    def stop(self) -> None:
        """End the answer that is on its way here; what came of it stays."""
        if self.turn is not None:
            self.turn.stop()

    def take(self, mailbox: Mailbox) -> Turn | None:
        """Count the events of an answer; None where they are of none on its way."""
        turn = next((turn for turn in self.running if turn.mailbox is mailbox), None)
        if turn is None:
            return None
        turn.take(mailbox.take())
        if turn.answer.over:
            self.finish(turn)
        elif self.keeper is not None and turn.wants_keeping(_KEEP_SECONDS):
            self.keeper.progress(turn.node.id, turn.answer.text, tuple(turn.answer.origins))
        return turn

    def settle(self) -> None:
        """Put what came so far of an answer on its way here into its message, for whoever reads the messages."""
        if self.turn is not None and not self.turn.answer.over:
            self.turn.settle()

    def finish(self, turn: Turn) -> None:
        """The answer is whole, or there will be none."""
        node = turn.settle()
        self.running.remove(turn)
        if self.keeper is not None:
            self.keeper.put_node(turn.conversation.id, node)
            self._put(turn.conversation)

    def close(self) -> None:
        """The app is being left: what came of the answers on their way is kept as it is."""
        for turn in list(self.running):
            self._settle_early(turn)

    def forget(self, id: str) -> None:  # noqa: A002
        """A conversation was deleted: nobody waits for its answers."""
        for turn in [turn for turn in self.running if turn.conversation.id == id]:
            self._settle_early(turn)

    def _settle_early(self, turn: Turn) -> None:
        """Nobody waits for the end of this answer: what came of it so far is what is kept."""
        turn.stop()
        node = turn.settle()
        node.state = "stopped"
        self.running.remove(turn)
        if self.keeper is not None:
            self.keeper.put_node(turn.conversation.id, node)
