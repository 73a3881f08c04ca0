"""The conversation that is shown, with its prompt and its figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from pardec_chat.app.conversations.conversation import Conversation, Node
from pardec_chat.app.conversations.setup import Setup
from pardec_chat.app.messages import AttachmentDropped, Progressed, PromptSubmitted, TurnEvents
from pardec_chat.app.plain_text import visible_line
from pardec_chat.app.screens.answer import Answer
from pardec_chat.app.screens.dialogue import Dialogue
from pardec_chat.app.screens.message_actions import MessageActions
from pardec_chat.app.screens.session import Session
from pardec_chat.app.screens.titles import Titles
from pardec_chat.app.screens.turn import Turn
from pardec_chat.app.widgets import wording
from pardec_chat.app.widgets.body import Body
from pardec_chat.app.widgets.kept import Kept
from pardec_chat.app.widgets.message import Message, UserMessage
from pardec_chat.app.widgets.metrics import MetricsPanel
from pardec_chat.app.widgets.metrics_line import MetricsLine
from pardec_chat.app.widgets.note import Note
from pardec_chat.app.widgets.pacer import Pacer
from pardec_chat.app.widgets.prompt import Prompt
from pardec_chat.app.widgets.reply import Reply
from pardec_chat.app.widgets.transcript import Transcript
from pardec_chat.app.widgets.welcome import Welcome
from pardec_chat.backends.base import Method

Place = Literal["panel", "line", "none"]
PLACES: tuple[Place, ...] = ("panel", "line", "none")
#: How long nothing is to be done before the model makes a title.
IDLE_SECONDS = 1.5
#: Pictures for one of the figures: nobody reads them when they change more often.
FIGURES_PICTURES = 3
#: Seconds after which they are drawn again in any case.
FIGURES_SECONDS = 2.0
_GLYPH, _EDITING = "›", "✎"
_NO_MODEL = "No model is loaded: F3 chooses one, F7 gets more."


class Talk(Vertical, Kept):
    """Moves what the dialogue says into the widgets; those hold no state of their own.

    place: where the figures are. tinted: whether the tokens show what guessed them.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "message('copy')", "copy", tooltip="Copy this message", id="copy"),
        Binding("k", "message('copy_code')", "code", tooltip="Copy a code block of it", id="copy-code"),
        Binding("e", "message('edit')", "edit", tooltip="Write it anew, as a branch", id="edit"),
        Binding("r", "message('again_with')", "again…", tooltip="Another answer, with other settings", id="again-with"),
        Binding("left", "branch(-1)", "‹", key_display="←", tooltip="The branch before", id="branch-before"),
        Binding("right", "branch(1)", "›", key_display="→", tooltip="The branch behind", id="branch-behind"),
        Binding("v", "message('compare')", "compare", tooltip="Two answers side by side", id="compare"),
        Binding(
            "s", "message('steps')", "steps", tooltip="What was guessed, and what became of it", id="message-steps"
        ),
        Binding("space", "fold", "fold", tooltip="Open or fold its reasoning", id="fold"),
        Binding("enter", "prompt", "write", show=False, tooltip="Back to the prompt", id="prompt"),
        Binding("up", "walk(-1)", "Message before", show=False, tooltip="The message before", id="message-before"),
        Binding("down", "walk(1)", "Message behind", show=False, tooltip="The message behind", id="message-behind"),
    ]

    place: reactive[Place] = reactive("panel")
    tinted: reactive[bool] = reactive(False)

    def __init__(self, session: Session, state: Callable[[], str]) -> None:
        super().__init__()
        self.dialogue = Dialogue(session, self)
        self.titles = Titles(self.dialogue, self)
        self.actions = MessageActions(self)
        self._state = state
        self._pace = Pacer(self, self._draw, lambda: session.leaves_room)
        self._figures_due = 0.0
        # The answer's state that the screen around was told of last.
        self._told = ""
        self._idle: Timer | None = None
        #: For whoever wants to know more about it.
        self.last_error: BaseException | None = None

    def compose(self) -> ComposeResult:
        """The conversation beside the panel, the folded figures, what goes with the next message, the prompt."""
        yield Body()
        yield MetricsLine()
        yield Static(id="attached")
        with Horizontal(id="entry"):
            yield Static(_GLYPH, id="glyph")
            yield Prompt()

    @property
    def transcript(self) -> Transcript:
        """The messages."""
        return self.query_one(Transcript)

    @property
    def prompt(self) -> Prompt:
        """Where the user writes."""
        return self.query_one(Prompt)

    async def on_mount(self) -> None:
        """Nothing was said yet."""
        await self.transcript.add(Welcome())

    def watch_place(self) -> None:
        """Classes say where the figures are."""
        for name in PLACES:
            self.set_class(name == self.place, f"-figures-{name}")

    def watch_tinted(self) -> None:
        """All answers alike."""
        for reply in self.query(Reply):
            reply.tint = self.tinted

    # ---- what is seen ----

    def show_state(self) -> None:
        """Prompt and figures as things are now."""
        session = self.dialogue.session
        usable = session.loaded is not None or session.loading is not None or session.engine is None
        self.prompt.disabled = not usable
        self.prompt.placeholder = "" if usable else _NO_MODEL
        editing, attached = self.dialogue.editing is not None, self.dialogue.attachments
        self.query_one("#glyph", Static).update(_EDITING if editing else _GLYPH)
        line = self.query_one("#attached", Static)
        line.display = bool(attached) or editing
        line.update(wording.attached(attached, editing=editing))
        self.show_figures()

    def show_figures(self) -> None:
        """Figures and the words of an empty conversation."""
        session, turn = self.dialogue.session, self.dialogue.turn
        for welcome in self.query(Welcome):
            welcome.show(*session.names, self._state())
        self._show_readout(turn.answer if turn is not None else Answer(used=self.dialogue.used))

    def _show_readout(self, answer: Answer) -> None:
        session = self.dialogue.session
        n_ctx = session.loaded.n_ctx if session.loaded is not None else 0
        readout = answer.readout(session.method.value, session.depth, n_ctx)
        self.query_one(MetricsPanel).readout = readout
        self.query_one(MetricsLine).readout = readout

    async def note(self, note: Note) -> None:
        """A line of the program's own."""
        self.last_error = note.error or self.last_error
        await self.transcript.add(note)

    # ---- which conversation ----

    async def show(self, conversation: Conversation) -> None:
        """Show this one; what stands in the prompt stays with the one before."""
        self.dialogue.keep_unsent(self.prompt.text)
        self.dialogue.show(conversation)
        conversation = self.dialogue.conversation
        await self.transcript.show(self._makers(conversation.path()))
        self._follow_running()
        self.prompt.remember([node.text for node in conversation.path() if node.role == "user"])
        self.prompt.text = conversation.unsent
        self.prompt.move_cursor(self.prompt.document.end)
        self._tell()

    async def clear(self) -> None:
        """A new conversation."""
        self.dialogue.keep_unsent(self.prompt.text)
        self.dialogue.clear()
        self.prompt.remember([])
        self.prompt.text = ""
        await self.transcript.clear()
        await self.transcript.add(Welcome())
        self._tell()

    def _makers(self, path: Sequence[Node]) -> list[Callable[[], Widget]]:
        return [lambda node=node: self._make(node) for node in path]  # type: ignore[misc]

    def _make(self, node: Node) -> Widget:
        siblings = self.dialogue.conversation.siblings(node.id)
        message: Message
        if node.role == "user":
            files = [(one.name, wording.attachment(one)) for one in node.attachments]
            message = UserMessage(node.text, files, node_id=node.id)
        else:
            message = self._reply(node)
        message.branch = (siblings.index(node) + 1, len(siblings))
        return message

    def _reply(self, node: Node) -> Reply:
        turn = self.dialogue.turn
        if turn is not None and turn.node is node and not turn.answer.over:
            reply = Reply(turn.asked.model, node_id=node.id)
            reply.tint = self.tinted
            turn.follow(reply)
            return reply
        reply = Reply(node.record.model if node.record is not None else "Answer", node_id=node.id)
        reply.tint = self.tinted
        at = 0
        pieces = []
        for length, origin in node.origins:
            pieces.append((node.text[at : at + length], origin))
            at += length
        if rest := node.text[at:]:
            pieces.append((rest, Method.PLAIN))
        reply.write(pieces)
        if node.state == "writing":
            reply.add_note(Note("Cut off: the program ended while this was written.", next_step="^R answers again."))
        record = node.record
        if record is not None and not (record.predicted_n or record.finish_reason):
            record = None  # it came to no figures
        if node.error:
            reply.add_note(Note(node.error, error=True))
        reply.finish(() if record is None else wording.answer(record))
        return reply

    def _follow_running(self) -> None:
        if self.dialogue.busy:
            self._pace()

    def _tell(self) -> None:
        self._told = ""
        self.show_state()
        self.post_message(Progressed())

    # ---- a turn ----

    @on(PromptSubmitted)
    async def ask(self, message: PromptSubmitted) -> None:
        """Mount the message and an empty reply, hand the conversation to the engine."""
        dialogue = self.dialogue
        if not self.can_answer():
            self.prompt.give_back(message.text)
            return
        self._disturb()
        await self.query(Welcome).remove()
        if dialogue.editing is not None:
            await self._remove_from(dialogue.editing)
        turn = dialogue.ask(message.text)
        await self.transcript.add(self._make(dialogue.conversation.nodes[turn.node.parent or ""]))
        await self._begin(turn)

    @on(AttachmentDropped)
    def drop(self) -> None:
        """Take the last file away."""
        if self.dialogue.attachments:
            self.dialogue.attachments.pop()
            self.show_state()

    async def _begin(self, turn: Turn) -> Reply:
        if turn.answer.over:
            turn.follow(reply := Reply(turn.asked.model, node_id=turn.node.id))
        else:
            reply = self._reply(turn.node)
        siblings = self.dialogue.conversation.siblings(turn.node.id)
        reply.branch = (len(siblings), len(siblings))
        await self.transcript.add(reply)
        self.transcript.anchor()
        turn.draw()
        self._tell()
        return reply

    async def _remove_from(self, node_id: str) -> None:
        for message in self.query(Message):
            if message.node_id == node_id:
                await self.transcript.remove_from(message)
                return

    @on(TurnEvents)
    def take_events(self, message: TurnEvents) -> None:
        """Events of an answer; drawn soon, at the end of it at once."""
        mailbox, shown = message.mailbox, self.dialogue.turn
        if shown is not None and shown.mailbox is mailbox and self._pace.rests and not mailbox.over:
            self._pace()  # they are taken with the next picture
            return
        turn = self.dialogue.take(mailbox)
        if turn is None:
            if (named := self.titles.take(mailbox)) is not None and self.dialogue.keeper is not None:
                self.dialogue.keeper.put(named)
                self.post_message(Progressed())
            return
        if turn is not shown:
            if turn.answer.over:
                self.post_message(Progressed())
            return
        if turn.answer.over:
            self._end(turn)
        else:
            self._pace()

    async def _draw(self) -> None:
        turn = self.dialogue.turn
        if turn is None or self.dialogue.take(turn.mailbox) is None:
            return
        if turn.answer.over:
            self._end(turn)
            return
        turn.draw()
        now = monotonic()
        if now >= self._figures_due:
            self._figures_due = now + min(FIGURES_SECONDS, FIGURES_PICTURES * self._pace.pause)
            self._show_readout(turn.answer)
        else:
            self._pace()  # they must not stay behind when nothing more comes
        if self._told != turn.answer.state:
            self._told = turn.answer.state
            self.post_message(Progressed())

    def _end(self, turn: Turn) -> None:
        self._pace.drop()
        self.last_error = turn.answer.error or self.last_error
        turn.draw()
        self._tell()
        if self.titles.wanted:
            self._disturb()
            self._idle = self.set_timer(IDLE_SECONDS, self.titles.ask)

    def _disturb(self) -> None:
        """There is something to do: no titles now."""
        if self._idle is not None:
            self._idle.stop()
        self.titles.give_up()

    def stop(self) -> bool:
        """End the answer; what came of it stays. False when none is on its way."""
        if not self.dialogue.busy:
            return False
        self.dialogue.stop()
        self._pace()
        return True

    async def again(self, answer: Node, setup: Setup | None = None) -> None:
        """Another answer in the place of this one, and under the keys where that was."""
        self._disturb()
        had_keys = self.focused_message is not None
        await self._remove_from(answer.id)
        reply = await self._begin(self.dialogue.again(answer, setup))
        if had_keys:
            reply.focus(scroll_visible=False)

    def can_answer(self, *, stopping: bool = False, alone: bool = False) -> bool:
        """Whether an answer can be asked for; says why not.

        stopping: the one on its way is stopped for it. alone: there may be none in another conversation either.
        """
        session, dialogue = self.dialogue.session, self.dialogue
        if dialogue.busy and not stopping:
            self.notify("An answer is being written: esc stops it.", markup=False)
        elif alone and dialogue.running:
            title = visible_line(dialogue.running[0].conversation.title)
            self.notify(f"An answer is being written in “{title}”.", markup=False)
        elif session.loaded is None or session.loading is not None:
            self.notify(f"Not yet: {self._state()}.", markup=False)
        else:
            return True
        return False

    # ---- keys of the message that has the focus ----

    @property
    def focused_message(self) -> Message | None:
        """The message that keys are meant for; None while another widget has the focus."""
        focused = self.screen.focused
        return focused if isinstance(focused, Message) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of messages are there while one has the focus."""
        if action not in {"message", "branch", "fold", "prompt", "walk"}:
            return True
        message = self.focused_message
        if message is None:
            return False
        if action == "branch":
            return message.branch[1] > 1
        if action == "fold":
            return isinstance(message, Reply) and message.has_reasoning
        if action == "message" and parameters[0] == "copy_code":
            return isinstance(message, Reply) and bool(message.code_blocks)
        return action != "message" or parameters[0] != "compare" or message.branch[1] > 1

    @work(group="message", exclusive=True)
    async def action_message(self, name: str) -> None:
        """Do it with the message that has the focus."""
        message, actions = self.focused_message, self.actions
        if message is None:
            return
        match name:
            case "copy":
                actions.copy(message)
            case "copy_code":
                await actions.copy_code(message)
            case "edit":
                actions.edit(message)
            case "again_with":
                await actions.again_with(message)
            case "compare":
                await actions.compare(message)
            case "steps":
                actions.steps(actions.answer_of(message))

    def action_branch(self, by: int) -> None:
        """The branch beside it."""
        if self.focused_message is not None:
            self.post_message(Message.BranchAsked(self.focused_message, by))

    def action_fold(self) -> None:
        """Its reasoning, open or folded."""
        if isinstance(message := self.focused_message, Reply):
            message.toggle_reasoning()

    def action_prompt(self) -> None:
        """Write."""
        self.prompt.focus()

    def action_walk(self, by: int) -> None:
        """To the message above or below; behind the last one comes the prompt."""
        messages = list(self.query(Message))
        at = next((i for i, one in enumerate(messages) if one is self.screen.focused), len(messages))
        if 0 <= at + by < len(messages):
            messages[at + by].focus()
        elif by > 0:
            self.prompt.focus()

    # ---- branches and editing ----

    @on(Message.BranchAsked)
    async def move(self, message: Message.BranchAsked) -> None:
        """The branch beside this message."""
        conversation = self.dialogue.conversation
        siblings = conversation.siblings(message.message.node_id)
        at = [node.id for node in siblings].index(message.message.node_id) + message.by
        if 0 <= at < len(siblings):
            await self.show_branch(siblings[at].id, message.message)

    async def show_branch(self, node_id: str, instead: Message) -> None:
        """Show the branch through this message, which takes the place of `instead`."""
        conversation = self.dialogue.conversation
        conversation.show(node_id)
        self.dialogue.put()
        focused = self.screen.focused is instead
        if self.dialogue.turn is not None:
            self.dialogue.turn.reply = None
        await self.transcript.remove_from(instead)
        path = conversation.path()
        behind = path[[node.id for node in path].index(node_id) :]
        widgets = [self._make(node) for node in behind]
        for widget in widgets:
            await self.transcript.add(widget)
        self._follow_running()
        if focused:
            widgets[0].focus()
        self._tell()

    def edit(self, node: Node) -> None:
        """Write this message of the user's anew; the prompt that was being written comes back afterwards."""
        self.dialogue.editing = node.id
        self.dialogue.attachments = list(node.attachments)
        self.prompt.begin_edit(node.text)
        self.prompt.focus()
        self.show_state()

    def leave_editing(self) -> bool:
        """Leave the message as it was; False when none is edited."""
        if self.dialogue.editing is None:
            return False
        self.dialogue.editing, self.dialogue.attachments = None, []
        self.prompt.end_edit()
        self.show_state()
        return True
