"""What a key does with one message: copy, edit, answer again, compare, look at its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.picker import Choice, Picker
from pardec_chat.app.widgets.reply import Reply

if TYPE_CHECKING:
    from pardec_chat.app.conversations.conversation import Node
    from pardec_chat.app.screens.talk import Talk
    from pardec_chat.app.widgets.message import Message

_LINES = 3


class MessageActions:
    """Used by Talk; what waits for an answer of the user's runs in a worker of it."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def _node(self, message: Message) -> Node:
        """With all that came of it so far."""
        self._talk.dialogue.settle()
        return self._talk.dialogue.conversation.nodes[message.node_id]

    def copy(self, message: Message) -> None:
        """The whole text, as the model or the user wrote it."""
        self._copy(self._node(message).text or "")

    async def copy_code(self, message: Message) -> None:
        """A code block; which one is asked where there are several."""
        blocks = message.code_blocks if isinstance(message, Reply) else []
        if not blocks:
            self._talk.notify("There is no code in this message.", markup=False)
            return
        if len(blocks) == 1:
            self._copy(blocks[0])
            return
        choices = [
            Choice(
                str(i),
                visible_line(next(filter(str.strip, block.splitlines()), "empty")),
                detail=f"{len(block.splitlines()):,} lines",
            )
            for i, block in enumerate(blocks)
        ]
        picked = await self._talk.app.push_screen_wait(Picker("Copy which block?", choices))
        if picked is not None:
            self._copy(blocks[int(picked)])

    def _copy(self, text: str) -> None:
        # By OSC 52, which works over SSH too; what is in the text cannot end the sequence, since it travels as base64.
        self._talk.app.copy_to_clipboard(text)
        self._talk.notify(f"Copied {len(text):,} characters.", markup=False)

    def edit(self, message: Message) -> None:
        """Write a message of the user's anew; sent, it becomes a branch."""
        node = self._node(message)
        if node.role == "assistant":
            assert node.parent is not None
            node = self._talk.dialogue.conversation.nodes[node.parent]
        self._talk.edit(node)

    async def again_with(self, message: Message) -> None:
        """Another answer with another method or temperature, beside this one."""
        from pardec_chat.app.screens.again import choose_again

        talk, session = self._talk, self._talk.dialogue.session
        answer = self.answer_of(message)
        if answer is None or not talk.can_answer():
            return
        setup = await choose_again(talk.app, session.setup, session.why_not)
        if setup is not None and talk.can_answer():
            await talk.again(answer, setup)

    async def compare(self, message: Message) -> None:
        """This answer beside another one to the same message; the one that was looked at last is shown then."""
        from pardec_chat.app.screens.comparison import ComparisonScreen

        answer = self.answer_of(message)
        siblings = [] if answer is None else self._talk.dialogue.conversation.siblings(answer.id)
        if answer is None or len(siblings) < 2:
            self._talk.notify("There is one answer only: r asks for another with other settings.", markup=False)
            return
        at = siblings.index(answer)
        other = siblings[at - 1] if at else siblings[1]
        await self._talk.app.push_screen_wait(ComparisonScreen(siblings, other.id, answer.id))

    def steps(self, node: Node | None) -> None:
        """The last steps of an answer."""
        from pardec_chat.app.screens.steps import StepsScreen

        turn = self._talk.dialogue.turn
        live = turn is not None and turn.node is node and not turn.answer.over
        if node is None or not (live or node.steps):
            self._talk.notify("There are no steps to show yet.", markup=False)
            return
        title = node.record.model if node.record is not None else ""
        if live and turn is not None:
            answer = turn.answer
            self._talk.app.push_screen(StepsScreen(turn.asked.model, answer.steps, live=True))
        else:
            self._talk.app.push_screen(StepsScreen(title, lambda: node.steps, live=False))

    def answer_of(self, message: Message) -> Node | None:
        """The message itself where it is an answer, else the answer to it that is shown."""
        node = self._node(message)
        if node.role == "assistant":
            return node
        path = self._talk.dialogue.conversation.path()
        behind = path[[one.id for one in path].index(node.id) + 1 :]
        return behind[0] if behind else None
